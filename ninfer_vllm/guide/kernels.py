"""The walks of a complete automaton over the vocabulary's trie, compiled; they hold no lock of the interpreter.

The trie is that of `engines.native.trie`: preorder arrays, node 0 the root; `nodes[n]` holds its byte, its depth and
the first node behind its subtree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ninfer_vllm.engines.native.arrays import DEPTH

UNKNOWN = 1 << 30
"""More tokens than any text is made of."""


def legal_tokens(trie, table, state, stack, found, targets):  # type: ignore[no-untyped-def]
    """Write each token that the automaton takes from a state, and the state it leads to; returns how many.

    `stack` has room for the automaton's state at every depth of the trie.
    """
    nodes, first, tokens, _ = trie
    stack[0] = state
    count = 0
    node = 1
    while node < nodes[0] >> 32:
        depth = nodes[node] >> 8 & DEPTH
        target = table[stack[depth - 1], nodes[node] & 255]
        if target < 0:
            node = nodes[node] >> 32
            continue
        stack[depth] = target
        for index in range(first[node], first[node + 1]):
            found[count] = tokens[index]
            targets[count] = target
            count += 1
        node += 1
    return count


def path_tokens(trie, following, table, order, counts):  # type: ignore[no-untyped-def]
    """Set the least number of tokens that spell each state's path to acceptance, `UNKNOWN` where they cannot.

    `following` is the next byte of a state's path, -1 where it ends; `order` names the states, those nearer to
    acceptance first.
    """
    nodes, first, _, _ = trie
    for state in order:
        if following[state] < 0:
            counts[state] = 0
            continue
        best = UNKNOWN
        node = 0
        at = state
        while following[at] >= 0:
            child = node + 1
            behind = nodes[node] >> 32
            while child < behind and nodes[child] & 255 != following[at]:
                child = nodes[child] >> 32
            if child >= behind:
                break
            node = child
            at = table[at, following[at]]
            if first[node + 1] > first[node]:
                best = min(best, counts[at] + 1)
        counts[state] = best


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The machine code of a function of this module; Numba compiles it on the first call or finds it in its cache."""
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:
        # No folder can be written: the code is compiled for this process alone.
        return njit(nogil=True)(function)  # type: ignore[no-any-return]
