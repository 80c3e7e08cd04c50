"""The walks over the vocabulary's trie as machine code; they hold no lock of the interpreter.

Theory of operation. The trie lies in preorder: node 0 is the root, and the tokens that end at n are
`tokens[first[n] : first[n + 1]]`. `nodes[n]` holds a node's byte, its depth, and the first node behind its subtree in
one number, so that a sibling that is passed over costs one access to memory. A walk keeps the automaton's state at
every depth. A dead transition skips the subtree. So does a transition that was never computed, but the walk notes the
place: the caller computes what is missing and walks those subtrees next. A portal, a state whose parts other automata
know, is not walked through either. A stretch is a row of numbers: first node, node behind the last one, and the state
(with its offset into a fixed text) in which the first node's byte is read; below a portal the offset is -1.

Compiling takes seconds, once a machine: Numba's own cache keeps the code below NUMBA_CACHE_DIR, beside this file, or in
the user's cache folder. Import this module only through `compiled`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit, types

from ninfer_vllm.engines.native.arrays import (
    ACCEPTS,
    DEAD,
    DEPTH,
    PORTAL,
    UNKNOWN,
    Grid,
    Ints,
    Octets,
    TableArrays,
    TrieArrays,
    Words,
)

Function = TypeVar("Function", bound=Callable[..., Any])

Stack = tuple[Ints, Ints]
"""A state, and an offset into its fixed text, a level."""

I4, U4 = types.Array(types.int32, 1, "C"), types.Array(types.uint32, 1, "C")
U1, U2 = types.Array(types.uint8, 1, "C"), types.Array(types.uint16, 1, "C")
I8 = types.Array(types.int64, 1, "C")
TRIE = types.Tuple((I8, I4, I4))
TABLES = types.Tuple((I4, I4, U2, I4, U1, I4, I4, U1))
STACK = types.UniTuple(I4, 2)
GRID = types.Array(types.int32, 2, "C")
FOUND = types.Tuple((U4, I4, GRID, GRID))

Found = tuple[Words, Ints, Grid, Grid]
"""The row; room for exits, or none where they are not wanted; stretches left out; transitions needed for them."""


def _compiled(signature: object) -> Callable[[Function], Function]:
    def compile_function(function: Function) -> Function:
        options = {"nogil": True, "error_model": "numpy"}
        try:
            return njit(signature, cache=True, **options)(function)  # type: ignore[no-any-return]
        except (RuntimeError, OSError):
            # No folder can be written: the code is compiled for this process alone.
            return njit(signature, **options)(function)  # type: ignore[no-any-return]

    return compile_function


@_compiled(types.boolean(TABLES, GRID, I4, types.int32, types.int32))
def note_need(tables: TableArrays, needs: Grid, place: Ints, state: np.int32, byte: np.int32) -> bool:
    """Note a missing transition as state, class of the byte, and byte, once; whether there was room.

    A state without classes is noted once with the class -1.
    """
    row_of, map_of, maps, _, _, text_of, _, _ = tables
    byte_class = np.int32(0)
    if row_of[state] == UNKNOWN:
        byte_class = np.int32(-1)
    elif text_of[state] < 0:
        byte_class = np.int32(maps[map_of[state] + byte])
    for at in range(place[4]):
        if needs[at, 0] == state and needs[at, 1] == byte_class:
            return True
    if place[4] == needs.shape[0]:
        return False
    needs[place[4], 0], needs[place[4], 1], needs[place[4], 2] = state, byte_class, byte
    place[4] += 1
    return True


@_compiled(types.boolean(TRIE, TABLES, GRID, I4, STACK, FOUND, U1))
def walk(  # noqa: PLR0912, PLR0915, PLR0917 - one loop: inner calls cost more than the walk itself
    trie: TrieArrays, tables: TableArrays, stretches: Grid, place: Ints, stack: Stack, found: Found, skipped: Octets
) -> bool:
    """Set the bit of every token on the stretches that the automaton takes, and note new ones that were left out.

    `place` holds: next stretch, next node (-1 at a new one), exits found, stretches left out, transitions needed, and
    how many of those left out are below portals; the last three are 0 at first. Returns whether the walk is over; if
    not, there was no room for more. Exits are nodes with a subtree at which the automaton may end. Subtrees of nodes
    that are `skipped`, where there are any, stay as they are.
    """
    nodes, first, tokens = trie
    row_of, map_of, maps, pool, flags, text_of, length_of, texts = tables
    row, exits, missing, needs = found
    states, offsets = stack
    skips = skipped.shape[0] > 0
    at, node, num_exits, num_missing = place[0], place[1], place[2], 0
    place[5] = 0
    while at < stretches.shape[0]:
        last = stretches[at, 1]
        if node < 0:
            node = stretches[at, 0]
            level = (nodes[node] >> 8 & DEPTH) - 1
            states[level], offsets[level] = stretches[at, 2], stretches[at, 3]
        while node < last:
            behind = nodes[node] >> 32
            if skips and skipped[node]:
                node = behind
                continue
            level, byte = nodes[node] >> 8 & DEPTH, nodes[node] & 255
            state, offset = states[level - 1], offsets[level - 1]
            if text_of[state] >= 0:
                target = state
                if texts[text_of[state] + offset] != byte:
                    target = DEAD
                elif offset + 1 == length_of[state]:
                    target = pool[row_of[state]]
                offset = offset + 1 if target == state else 0
            else:
                target = row_of[state]
                if target != UNKNOWN:
                    target = pool[target + maps[map_of[state] + byte]]
                offset = 0
            if target == DEAD:
                node = behind
                continue
            is_left = target == UNKNOWN or (flags[target] & PORTAL and behind > node + 1)
            if is_left and (
                num_missing == missing.shape[0]
                or (target == UNKNOWN and not note_need(tables, needs, place, state, np.int32(byte)))
            ):
                place[0], place[1], place[2], place[3] = at, node, num_exits, num_missing
                return False
            if is_left:
                missing[num_missing, 0], missing[num_missing, 1] = node, behind
                missing[num_missing, 2], missing[num_missing, 3] = state, offsets[level - 1]
                num_missing += 1
            if target == UNKNOWN:
                node = behind
                continue
            if is_left:
                missing[num_missing - 1, 0] = node + 1
                missing[num_missing - 1, 2], missing[num_missing - 1, 3] = target, -1
                place[5] += 1
            states[level], offsets[level] = target, offset
            for index in range(first[node], first[node + 1]):
                row[tokens[index] >> 5] |= np.uint32(1) << np.uint32(tokens[index] & 31)
            if flags[target] & ACCEPTS and exits.shape[0] > 0 and behind > node + 1:
                exits[num_exits] = node
                num_exits += 1
            node = behind if is_left else node + 1
        node = -1
        at += 1
    place[0], place[1], place[2], place[3] = at, node, num_exits, num_missing
    return True


@_compiled(types.boolean(TRIE, TABLES, I4, GRID, I4, types.UniTuple(STACK, 2), FOUND))
def walk_beside(  # noqa: PLR0912, PLR0915, PLR0917 - one loop: inner calls cost more than the walk itself
    trie: TrieArrays,
    tables: TableArrays,
    other_exits: Ints,
    stretches: Grid,
    place: Ints,
    stacks: tuple[Stack, Stack],
    found: Found,
) -> bool:
    """Turn the row of another state of the same automaton into the row of this one, walking only where they part.

    Where both are in the same state the subtree stays as it is. A stretch holds this state and offset, then the other
    ones; `place` is that of `walk`, and the next exit of the other.
    """
    nodes, first, tokens = trie
    row_of, map_of, maps, pool, flags, text_of, length_of, texts = tables
    row, exits, missing, needs = found
    at, node, num_exits, num_missing, next_exit = place[0], place[1], place[2], 0, place[5]
    ours, our_offsets = stacks[0]
    theirs, their_offsets = stacks[1]
    while at < stretches.shape[0]:
        last = stretches[at, 1]
        if node < 0:
            node = stretches[at, 0]
            level = (nodes[node] >> 8 & DEPTH) - 1
            ours[level], our_offsets[level] = stretches[at, 2], stretches[at, 3]
            theirs[level], their_offsets[level] = stretches[at, 4], stretches[at, 5]
            next_exit = np.searchsorted(other_exits, node)
        while node < last:
            level, byte, behind = nodes[node] >> 8 & DEPTH, nodes[node] & 255, nodes[node] >> 32
            target = beside = DEAD
            offset = other_offset = 0
            for states, offsets, is_other in ((ours, our_offsets, False), (theirs, their_offsets, True)):
                state = states[level - 1]
                found_state, found_offset = DEAD, 0
                if state >= 0 and text_of[state] >= 0:
                    found_offset = offsets[level - 1] + 1
                    if texts[text_of[state] + found_offset - 1] == byte:
                        found_state = state
                        if found_offset == length_of[state]:
                            found_state, found_offset = pool[row_of[state]], 0
                elif state >= 0:
                    found_state = row_of[state]
                    if found_state != UNKNOWN:
                        found_state = pool[found_state + maps[map_of[state] + byte]]
                if is_other:
                    beside, other_offset = found_state, found_offset
                else:
                    target, offset = found_state, found_offset
            is_known = num_missing < missing.shape[0]
            if target == UNKNOWN and is_known:
                is_known = note_need(tables, needs, place, ours[level - 1], np.int32(byte))
            if beside == UNKNOWN and is_known:
                is_known = note_need(tables, needs, place, theirs[level - 1], np.int32(byte))
            if UNKNOWN in (target, beside):
                if not is_known:
                    place[0], place[1], place[2], place[3], place[5] = at, node, num_exits, num_missing, next_exit
                    return False
                missing[num_missing, 0], missing[num_missing, 1] = node, behind
                missing[num_missing, 2], missing[num_missing, 3] = ours[level - 1], our_offsets[level - 1]
                missing[num_missing, 4], missing[num_missing, 5] = theirs[level - 1], their_offsets[level - 1]
                num_missing += 1
                node = behind
                continue
            while next_exit < other_exits.shape[0] and other_exits[next_exit] < node:
                next_exit += 1
            if target == beside and (target == DEAD or offset == other_offset):
                while next_exit < other_exits.shape[0] and other_exits[next_exit] < behind:
                    exits[num_exits] = other_exits[next_exit]
                    num_exits += 1
                    next_exit += 1
                node = behind
                continue
            if target == DEAD:
                for index in range(first[node], first[behind]):
                    row[tokens[index] >> 5] &= ~(np.uint32(1) << np.uint32(tokens[index] & 31))
                node = behind
                continue
            ours[level], our_offsets[level] = target, offset
            theirs[level], their_offsets[level] = beside, other_offset
            for index in range(first[node], first[node + 1]):
                row[tokens[index] >> 5] |= np.uint32(1) << np.uint32(tokens[index] & 31)
            if flags[target] & ACCEPTS and exits.shape[0] > 0 and behind > node + 1:
                exits[num_exits] = node
                num_exits += 1
            node += 1
        node = -1
        at += 1
    place[0], place[1], place[2], place[3], place[5] = at, node, num_exits, num_missing, next_exit
    return True


@_compiled(GRID(I4, I4))
def stretches_below(end: Ints, nodes: Ints) -> Grid:
    """The stretches below some nodes, in no state yet."""
    found = np.zeros((nodes.shape[0], 4), np.int32)
    for at in range(nodes.shape[0]):
        found[at, 0], found[at, 1] = nodes[at] + 1, end[nodes[at]]
    return found


@_compiled(GRID(GRID, types.int32))
def stretches_in_state(ranges: Grid, state: int) -> Grid:
    """The same stretches, all in one state."""
    found = np.zeros((ranges.shape[0], 4), np.int32)
    for at in range(ranges.shape[0]):
        found[at, 0], found[at, 1], found[at, 2] = ranges[at, 0], ranges[at, 1], state
    return found


@_compiled(U1(TRIE, U4))
def full_below(trie: TrieArrays, row: Words) -> Octets:
    """For each node, whether the row has every token of its subtree."""
    nodes, first, tokens = trie
    lacking = np.zeros(tokens.shape[0] + 1, np.int32)
    for index in range(tokens.shape[0]):
        lacking[index + 1] = lacking[index] + 1 - np.int32(row[tokens[index] >> 5] >> np.uint32(tokens[index] & 31) & 1)
    found = np.zeros(nodes.shape[0], np.uint8)
    for node in range(nodes.shape[0]):
        found[node] = lacking[first[nodes[node] >> 32]] == lacking[first[node]]
    return found


@_compiled(types.void(TRIE, U1, U4))
def clear_outside(trie: TrieArrays, skipped: Octets, row: Words) -> None:
    """Remove the tokens of the nodes that are not below a skipped one."""
    nodes, first, tokens = trie
    node = 0
    while node < nodes.shape[0]:
        if skipped[node]:
            node = nodes[node] >> 32
            continue
        for index in range(first[node], first[node + 1]):
            row[tokens[index] >> 5] &= ~(np.uint32(1) << np.uint32(tokens[index] & 31))
        node += 1


@_compiled(I4(I4))
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


@_compiled(types.uint64(U4))
def digest(row: Words) -> np.uint64:
    """A number that equal rows have in common; 0 for the empty row alone."""
    total = np.uint64(0)
    for word in row:
        total += np.uint64(word)
    return total


@_compiled(types.void(I4, I4))
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
