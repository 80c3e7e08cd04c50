"""The walks over the vocabulary's trie as machine code; they hold no lock of the interpreter.

Theory of operation. The trie lies in preorder: node 0 is the root, and the tokens that end at n are
`tokens[first[n] : first[n + 1]]`. `nodes[n]` holds a node's byte, its depth, and the first node behind its subtree in
one number, so that a sibling that is passed over costs one access to memory; `marks[n]` holds the one token that most
nodes have at most, so that its bit is set without a branch. A walk keeps the automaton's state at every depth. A dead
transition skips the subtree. So does a transition that was never computed, but the walk notes the place: the caller
computes what is missing and walks those subtrees next. At a leaf nobody asks where a byte leads, only whether it has a
class. A portal, a state whose parts other automata know, is not walked through either. A stretch is a row of numbers:
first node, node behind the last one, and the state (with its offset into a fixed text) in which the first node's byte
is read.

Where most of the trie is walked, the states that are met get a dense row each, 256 numbers of dense rows, so that most
nodes cost one look. A transition that is not there yet takes the general way once and is entered, unless the state
behind it is one that the walk has to look at every time.

Import this module only through `compiled`.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ninfer_vllm.engines.native.arrays import (
    ACCEPTS,
    AT,
    BEFORE,
    COUNT,
    DEAD,
    DEPTH,
    EXITS,
    FLAGS,
    LEFT,
    LENGTH,
    MAP,
    NEEDS,
    NEXT_EXIT,
    NODE,
    NUM_DENSE,
    PORTAL,
    PORTALS,
    ROW,
    TEXT,
    UNKNOWN,
    DenseArrays,
    Found,
    Grid,
    Ints,
    Octets,
    TableArrays,
    TrieArrays,
)
from ninfer_vllm.engines.native.machine import DENSE, FOUND, GRID, I4, ONE, TABLES, TRIE, U1, compiled


@compiled(types.boolean(TABLES, GRID, I4, types.int32, types.int32, types.int32))
def note_need(
    tables: TableArrays, needs: Grid, place: Ints, state: np.int32, byte: np.int32, num_below: np.int32
) -> bool:
    """Note a missing transition as state, class of the byte, and byte, once; whether there was room.

    A state without classes has the class -1; the byte is -1 where a node with none below it asks for its classes only.
    """
    states, maps, _, _ = tables
    byte_class = np.int32(0)
    if states[state, ROW] == UNKNOWN:
        byte_class = np.int32(-1)
        if num_below == 0:
            byte = np.int32(-1)
    elif states[state, TEXT] < 0:
        byte_class = np.int32(maps[states[state, MAP] + byte])
    for at in range(place[NEEDS]):
        if needs[at, 0] == state and needs[at, 1] == byte_class and (byte_class >= 0 or needs[at, 2] == byte):
            return True
    if place[NEEDS] == needs.shape[0]:
        return False
    needs[place[NEEDS], 0], needs[place[NEEDS], 1], needs[place[NEEDS], 2] = state, byte_class, byte
    place[NEEDS] += 1
    return True


@compiled(types.int32(TABLES, DENSE, I4, types.int32))
def dense_row(tables: TableArrays, dense: DenseArrays, place: Ints, state: np.int32) -> np.int32:
    """The number of a state's dense row, made where there is room; -1 without one."""
    states, maps, pool, _ = tables
    rows, state_of, number_of = dense
    if number_of[state] >= 0:
        return np.int32(number_of[state])
    number = place[NUM_DENSE]
    if number == rows.shape[0] or states[state, ROW] == UNKNOWN or states[state, TEXT] >= 0:
        return np.int32(-1)
    place[NUM_DENSE] += 1
    number_of[state], state_of[number] = number, state
    for byte in range(256):
        is_dead = pool[states[state, ROW] + maps[states[state, MAP] + byte]] == DEAD
        rows[number, byte] = DEAD if is_dead else UNKNOWN
    return np.int32(number)


@compiled(types.boolean(TRIE, TABLES, GRID, I4, GRID, FOUND, U1, DENSE))
def walk(  # noqa: PLR0912, PLR0915, PLR0917 - one loop: inner calls cost more than the walk itself
    trie: TrieArrays,
    tables: TableArrays,
    stretches: Grid,
    place: Ints,
    stack: Grid,
    found: Found,
    skipped: Octets,
    dense: DenseArrays,
) -> bool:
    """Set the bit of every token on the stretches that the automaton takes, and note those that were left out.

    Returns whether the walk is over; if not, there was no room for more. A level of `stack` holds the number of the
    state's dense row, or -1 less the state, and an offset. Exits are nodes with a subtree at which the automaton may
    end. Subtrees of nodes that are `skipped`, where there are any, stay as they are.
    """
    nodes, first, tokens, marks = trie
    states, maps, pool, texts = tables
    row, exits, missing, portals, needs = found
    rows, state_of, number_of = dense
    skips, wants_exits, is_wide = skipped.shape[0] > 0, exits.shape[0] > 0, rows.shape[0] > 0
    if place[NODE] == BEFORE:
        place[AT], place[NODE], place[LEFT] = 0, -1, 0
    at, node, num_exits, num_missing, num_portals = place[AT], place[NODE], place[EXITS], place[LEFT], place[PORTALS]
    plain = np.int32(0 if wants_exits else ACCEPTS)
    is_over = True
    while at < place[COUNT] and is_over:
        last = stretches[at, 1]
        if node < 0:
            node = stretches[at, 0]
            level = np.uint32(nodes[node] >> 8 & DEPTH) - ONE
            stack[level, 0], stack[level, 1] = ~stretches[at, 2], stretches[at, 3]
            if is_wide and dense_row(tables, dense, place, stretches[at, 2]) >= 0:
                stack[level, 0] = number_of[stretches[at, 2]]
        while node < last:
            packed = nodes[np.uint32(node)]
            level, byte = np.uint32(packed >> 8 & DEPTH), np.uint32(packed & 255)
            if skips and skipped[np.uint32(node)]:
                node = np.int32(packed >> 32)
                continue
            here = stack[level - ONE, 0]
            state = ~here
            if here >= 0:
                number = rows[np.uint32(here), byte]
                if number >= 0 and marks[np.uint32(node)] >= 0:
                    mark = np.uint32(marks[np.uint32(node)])
                    row[mark >> np.uint32(6)] |= (mark & ONE) << (mark >> ONE & np.uint32(31))
                    stack[level, 0] = number
                    node += 1
                    continue
                if number == DEAD:
                    node = np.int32(packed >> 32)
                    continue
                state = state_of[here]
            behind = np.int32(packed >> 32)
            is_leaf = behind == node + 1
            offset = np.int32(0)
            transitions = states[np.uint32(state), ROW]
            if states[np.uint32(state), TEXT] >= 0:
                offset = stack[level - ONE, 1]
                target = np.int32(state)
                if texts[np.uint32(states[np.uint32(state), TEXT] + offset)] != byte:
                    target = np.int32(DEAD)
                elif offset + 1 == states[np.uint32(state), LENGTH]:
                    target = pool[np.uint32(transitions)]
                offset = offset + np.int32(1) if target == state else np.int32(0)
            else:
                target = transitions
                if target != UNKNOWN:
                    target = pool[np.uint32(transitions + maps[np.uint32(states[np.uint32(state), MAP]) + byte])]
            if target == DEAD:
                node = behind
                continue
            if target == UNKNOWN and not (is_leaf and transitions != UNKNOWN):
                if num_missing == missing.shape[0] or not note_need(
                    tables, needs, place, state, np.int32(byte), np.int32(behind - node - 1)
                ):
                    is_over = False
                    break
                missing[num_missing, 0], missing[num_missing, 1] = node, behind
                missing[num_missing, 2], missing[num_missing, 3] = state, stack[level - ONE, 1]
                num_missing += 1
                node = behind
                continue
            flags = np.int32(0) if target == UNKNOWN else states[np.uint32(target), FLAGS]
            is_portal = not is_leaf and flags & PORTAL != 0
            if is_portal and num_portals == portals.shape[0]:
                is_over = False
                break
            for index in range(first[node], first[node + 1]):
                row[tokens[index] >> 5] |= ONE << np.uint32(tokens[index] & 31)
            number = np.int32(-1)
            if is_wide and target != UNKNOWN and flags | plain == plain:
                number = dense_row(tables, dense, place, target)
                if number >= 0 and here >= 0:
                    rows[np.uint32(here), byte] = number
            if is_portal:
                portals[num_portals, 0], portals[num_portals, 1] = node + 1, behind
                portals[num_portals, 2], portals[num_portals, 3] = target, 0
                num_portals += 1
            if flags & ACCEPTS and wants_exits and not is_leaf:
                exits[num_exits] = node
                num_exits += 1
            stack[level, 0], stack[level, 1] = number if number >= 0 else ~target, offset
            node = behind if is_portal else node + 1
        if is_over:
            node = -1
            at += 1
    place[AT], place[NODE], place[EXITS], place[LEFT], place[PORTALS] = at, node, num_exits, num_missing, num_portals
    return is_over


@compiled(types.boolean(TRIE, TABLES, I4, GRID, I4, GRID, FOUND))
def walk_beside(  # noqa: PLR0912, PLR0915, PLR0917 - one loop: inner calls cost more than the walk itself
    trie: TrieArrays,
    tables: TableArrays,
    other_exits: Ints,
    stretches: Grid,
    place: Ints,
    stack: Grid,
    found: Found,
) -> bool:
    """Turn the row of another state of the same automaton into the row of this one, walking only where they part.

    Where both are in the same state the subtree stays as it is. A stretch, and a level of the stack, holds this state
    and offset, then the other ones.
    """
    nodes, first, tokens, _ = trie
    states, maps, pool, texts = tables
    row, exits, missing, _, needs = found
    if place[NODE] == BEFORE:
        place[AT], place[NODE], place[LEFT] = 0, -1, 0
    at, node, num_exits, num_missing, next_exit = place[AT], place[NODE], place[EXITS], place[LEFT], place[NEXT_EXIT]
    is_over = True
    while at < place[COUNT] and is_over:
        last = stretches[at, 1]
        if node < 0:
            node = stretches[at, 0]
            level = (nodes[node] >> 8 & DEPTH) - 1
            for column in range(4):
                stack[level, column] = stretches[at, column + 2]
            next_exit = np.searchsorted(other_exits, node)
        while node < last:
            level, byte, behind = nodes[node] >> 8 & DEPTH, nodes[node] & 255, nodes[node] >> 32
            is_leaf = behind == node + 1
            target = beside = DEAD
            offset = other_offset = 0
            is_known = num_missing < missing.shape[0]
            for column in range(0, 4, 2):
                state = stack[level - 1, column]
                found_state, found_offset = DEAD, 0
                if state >= 0 and states[state, TEXT] >= 0:
                    found_offset = stack[level - 1, column + 1] + 1
                    if texts[states[state, TEXT] + found_offset - 1] == byte:
                        found_state = state
                        if found_offset == states[state, LENGTH]:
                            found_state, found_offset = pool[states[state, ROW]], 0
                elif state >= 0:
                    found_state = states[state, ROW]
                    if found_state != UNKNOWN:
                        found_state = pool[found_state + maps[states[state, MAP] + byte]]
                if found_state == UNKNOWN and is_leaf and states[state, ROW] != UNKNOWN:
                    found_state = state
                if found_state == UNKNOWN and is_known:
                    is_known = note_need(tables, needs, place, state, np.int32(byte), np.int32(behind - node - 1))
                if column:
                    beside, other_offset = found_state, found_offset
                else:
                    target, offset = found_state, found_offset
            if UNKNOWN in (target, beside):
                if not is_known:
                    is_over = False
                    break
                missing[num_missing, 0], missing[num_missing, 1] = node, behind
                for column in range(4):
                    missing[num_missing, column + 2] = stack[level - 1, column]
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
            stack[level, 0], stack[level, 1], stack[level, 2], stack[level, 3] = target, offset, beside, other_offset
            for index in range(first[node], first[node + 1]):
                row[tokens[index] >> 5] |= np.uint32(1) << np.uint32(tokens[index] & 31)
            if states[target, FLAGS] & ACCEPTS and exits.shape[0] > 0 and not is_leaf:
                exits[num_exits] = node
                num_exits += 1
            node += 1
        if is_over:
            node = -1
            at += 1
    place[AT], place[NODE], place[EXITS], place[LEFT], place[NEXT_EXIT] = at, node, num_exits, num_missing, next_exit
    return is_over
