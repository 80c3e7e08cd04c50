"""Rows, classes and the trie's own arrays as machine code. Import this module only through `compiled`."""

from __future__ import annotations

import numpy as np
from numba import types

from ninfer_vllm.engines.native.arrays import DEAD, Grid, Ints, Octets, Shorts, TrieArrays, Words
from ninfer_vllm.engines.native.machine import GRID, I4, KEPT, TRIE, U1, U2, U4, compiled


@compiled(GRID(I4, I4))
def stretches_below(end: Ints, nodes: Ints) -> Grid:
    """The stretches below some nodes, in no state yet."""
    found = np.zeros((nodes.shape[0], 4), np.int32)
    for at in range(nodes.shape[0]):
        found[at, 0], found[at, 1] = nodes[at] + 1, end[nodes[at]]
    return found


@compiled(U1(TRIE, U4))
def full_below(trie: TrieArrays, row: Words) -> Octets:
    """For each node, whether the row has every token of its subtree."""
    nodes, first, tokens, _ = trie
    lacking = np.zeros(tokens.shape[0] + 1, np.int32)
    for index in range(tokens.shape[0]):
        lacking[index + 1] = lacking[index] + 1 - np.int32(row[tokens[index] >> 5] >> np.uint32(tokens[index] & 31) & 1)
    found = np.zeros(nodes.shape[0], np.uint8)
    for node in range(nodes.shape[0]):
        found[node] = lacking[first[nodes[node] >> 32]] == lacking[first[node]]
    return found


@compiled(types.void(TRIE, U1, U4))
def clear_outside(trie: TrieArrays, skipped: Octets, row: Words) -> None:
    """Remove the tokens of the nodes that are not below a skipped one."""
    nodes, first, tokens, _ = trie
    node = 0
    while node < nodes.shape[0]:
        if skipped[node]:
            node = nodes[node] >> 32
            continue
        for index in range(first[node], first[node + 1]):
            row[tokens[index] >> 5] &= ~(np.uint32(1) << np.uint32(tokens[index] & 31))
        node += 1


@compiled(I4(I4))
def deepest_below(depth: Ints) -> Ints:
    """For each node, the depth of the deepest one of its subtree."""
    found = depth.copy()
    below = np.zeros(np.max(depth) + 2, np.int32)
    for node in range(depth.shape[0] - 1, -1, -1):
        level = depth[node]
        found[node] = max(level, below[level + 1])
        below[level + 1] = 0
        below[level] = max(below[level], found[node])
    return found


@compiled(types.int32(I4, U2, I4))
def classified(targets: Ints, classes: Shorts, found: Ints) -> int:
    """Give bytes with equal targets one class, from 1 on, and dead ones class 0; how many classes `found` holds now."""
    count = 0
    for byte in range(256):
        index = 0
        while index < count and found[index] != targets[byte]:
            index += 1
        if targets[byte] == DEAD:
            classes[byte] = 0
            continue
        found[index] = targets[byte]
        classes[byte] = index + 1
        count = max(count, index + 1)
    return count


@compiled(types.uint64(U4))
def digest(row: Words) -> np.uint64:
    """A number that equal rows have in common; 0 for the empty row alone."""
    total = np.uint64(0)
    for word in row:
        total += np.uint64(word)
    return total


@compiled(types.boolean(KEPT, U4))
def is_equal(row: Words, other: Words) -> bool:
    """Whether two rows of one length are equal."""
    difference = np.uint32(0)
    for index in range(row.shape[0]):
        difference |= row[index] ^ other[index]
    return bool(difference == 0)


@compiled(types.void(I4, I4))
def subtree_ends(depth: Ints, end: Ints) -> None:
    """The first node behind each node's subtree, from the depths in preorder."""
    size = depth.shape[0]
    open_at = np.zeros(np.max(depth) + 1, np.int32)
    previous = -1
    for node in range(size):
        for level in range(depth[node], previous + 1):
            end[open_at[level]] = node
        open_at[depth[node]] = node
        previous = depth[node]
    for level in range(previous + 1):
        end[open_at[level]] = size
