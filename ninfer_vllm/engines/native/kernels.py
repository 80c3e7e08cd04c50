"""The walks over the vocabulary's trie as machine code; they hold no lock of the interpreter.

Theory of operation. The trie lies in preorder: node 0 is the root, `end[n]` is the first node behind the subtree of n,
and the tokens that end at n are `tokens[first[n] : first[n + 1]]`. A walk keeps the automaton's state at every depth. A
dead transition skips the subtree. A transition that was never computed stops the walk: it returns the place, the
caller computes it and calls again.

Compiling takes seconds, once a machine: Numba's own cache keeps the code below NUMBA_CACHE_DIR, beside this file, or in
the user's cache folder. Import this module only through `compiled`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit, types

from ninfer_vllm.engines.native.arrays import ACCEPTS, DEAD, UNKNOWN, Ints, TableArrays, TrieArrays, Words

Function = TypeVar("Function", bound=Callable[..., Any])

Stack = tuple[Ints, Ints]
"""A state, and an offset into its fixed text, a level."""

I4, U4 = types.Array(types.int32, 1, "C"), types.Array(types.uint32, 1, "C")
U1, U2 = types.Array(types.uint8, 1, "C"), types.Array(types.uint16, 1, "C")
TRIE = types.Tuple((U1, I4, I4, I4, I4))
TABLES = types.Tuple((I4, I4, U2, I4, U1, I4, I4, U1))
STACK = types.UniTuple(I4, 2)
FOUND = types.Tuple((U4, I4))


def _compiled(signature: object) -> Callable[[Function], Function]:
    def compile_function(function: Function) -> Function:
        options = {"nogil": True, "error_model": "numpy"}
        try:
            return njit(signature, cache=True, **options)(function)  # type: ignore[no-any-return]
        except (RuntimeError, OSError):
            # No folder can be written: the code is compiled for this process alone.
            return njit(signature, **options)(function)  # type: ignore[no-any-return]

    return compile_function


@_compiled(types.boolean(TRIE, TABLES, I4, I4, STACK, FOUND))
def walk(
    trie: TrieArrays, tables: TableArrays, starts: Ints, place: Ints, stack: Stack, found: tuple[Words, Ints]
) -> bool:
    """Set the bit of every token below the start nodes that the automaton takes, all starts in the same state.

    `place` holds: next start, next node (-1 at a start), state of the starts, exits found; on return also the state
    and byte of a missing transition. Returns whether the walk is over. `found` is the row, and room for the nodes with
    a subtree at which the automaton may end, or none at all where they are not wanted.
    """
    byte, depth, end, first, tokens = trie
    row_of, map_of, maps, pool, flags, text_of, length_of, texts = tables
    row, exits = found
    states, offsets = stack
    at, node, num_exits = place[0], place[1], place[3]
    while at < starts.shape[0]:
        begin = starts[at]
        if node < 0:
            node = begin + 1
            states[depth[begin]], offsets[depth[begin]] = place[2], 0
        while node < end[begin]:
            level = depth[node]
            state, offset = states[level - 1], offsets[level - 1]
            if text_of[state] >= 0:
                target = state
                if texts[text_of[state] + offset] != byte[node]:
                    target = DEAD
                elif offset + 1 == length_of[state]:
                    target = pool[row_of[state]]
                offset = offset + 1 if target == state else 0
            else:
                target = row_of[state]
                if target != UNKNOWN:
                    target = pool[target + maps[map_of[state] + byte[node]]]
                offset = 0
            if target == UNKNOWN:
                place[0], place[1], place[3], place[4], place[5] = at, node, num_exits, state, byte[node]
                return False
            if target == DEAD:
                node = end[node]
                continue
            states[level], offsets[level] = target, offset
            for index in range(first[node], first[node + 1]):
                row[tokens[index] >> 5] |= np.uint32(1) << np.uint32(tokens[index] & 31)
            if flags[target] & ACCEPTS and exits.shape[0] > 0 and end[node] > node + 1:
                exits[num_exits] = node
                num_exits += 1
            node += 1
        node = -1
        at += 1
    place[0], place[3] = at, num_exits
    return True


@_compiled(types.boolean(TRIE, TABLES, I4, I4, types.UniTuple(STACK, 2), FOUND))
def walk_beside(  # noqa: PLR0912, PLR0915 - one loop: inner calls cost more than the walk itself
    trie: TrieArrays,
    tables: TableArrays,
    other_exits: Ints,
    place: Ints,
    stacks: tuple[Stack, Stack],
    found: tuple[Words, Ints],
) -> bool:
    """Turn the row of another state of the same automaton into the row of this one, walking only where they part.

    Where both are in the same state the subtree stays as it is. `place` holds: next node, state, other state, exits
    found, next exit of the other; the missing transition comes back in places 5 and 6.
    """
    byte, depth, end, first, tokens = trie
    row_of, map_of, maps, pool, flags, text_of, length_of, texts = tables
    row, exits = found
    node, num_exits, next_exit = place[0], place[3], place[4]
    ours, our_offsets = stacks[0]
    theirs, their_offsets = stacks[1]
    ours[0], our_offsets[0], theirs[0], their_offsets[0] = place[1], 0, place[2], 0
    while node < end[0]:
        level = depth[node]
        target = beside = DEAD
        offset = other_offset = 0
        missing = DEAD
        for states, offsets, is_other in ((ours, our_offsets, False), (theirs, their_offsets, True)):
            state = states[level - 1]
            found_state, found_offset = DEAD, 0
            if state >= 0 and text_of[state] >= 0:
                found_offset = offsets[level - 1] + 1
                if texts[text_of[state] + found_offset - 1] == byte[node]:
                    found_state = state
                    if found_offset == length_of[state]:
                        found_state, found_offset = pool[row_of[state]], 0
            elif state >= 0:
                found_state = row_of[state]
                if found_state != UNKNOWN:
                    found_state = pool[found_state + maps[map_of[state] + byte[node]]]
            if found_state == UNKNOWN:
                missing = state
            if is_other:
                beside, other_offset = found_state, found_offset
            else:
                target, offset = found_state, found_offset
        if missing >= 0:
            place[0], place[3], place[4], place[5], place[6] = node, num_exits, next_exit, missing, byte[node]
            return False
        while next_exit < other_exits.shape[0] and other_exits[next_exit] < node:
            next_exit += 1
        if target == beside and (target == DEAD or offset == other_offset):
            while next_exit < other_exits.shape[0] and other_exits[next_exit] < end[node]:
                exits[num_exits] = other_exits[next_exit]
                num_exits += 1
                next_exit += 1
            node = end[node]
            continue
        if target == DEAD:
            for index in range(first[node], first[end[node]]):
                row[tokens[index] >> 5] &= ~(np.uint32(1) << np.uint32(tokens[index] & 31))
            node = end[node]
            continue
        ours[level], our_offsets[level] = target, offset
        theirs[level], their_offsets[level] = beside, other_offset
        for index in range(first[node], first[node + 1]):
            row[tokens[index] >> 5] |= np.uint32(1) << np.uint32(tokens[index] & 31)
        if flags[target] & ACCEPTS and exits.shape[0] > 0 and end[node] > node + 1:
            exits[num_exits] = node
            num_exits += 1
        node += 1
    place[0], place[3] = node, num_exits
    return True


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
