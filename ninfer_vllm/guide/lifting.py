"""From bytes to tokens: which tokens an automaton takes from a state, and where they lead (GDE-3).

Theory of operation. The vocabulary is a byte trie; a state's tokens are found by one walk that steps shared prefixes
once and skips what is dead. What was found is kept for the state, sorted by id, under a byte budget: the one used
longest ago goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ninfer_vllm.automata.bytedfa import ByteDfa
from ninfer_vllm.engines.native.trie import Trie, trie_of
from ninfer_vllm.guide.kernels import UNKNOWN, compiled, legal_tokens, path_tokens
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

Ints = npt.NDArray[np.int32]

SHARED_TRIES = 2
"""Vocabularies whose trie is kept: guides over one vocabulary share it."""

ENDED = -2
"""The state behind an end-of-sequence token: nothing follows."""


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """The legal tokens of a state, by ascending id, and the state each leads to; read-only.

    Shapes: `tokens` and `states` [n]. End-of-sequence tokens lead to `ENDED`.
    """

    tokens: Ints
    states: Ints

    def __len__(self) -> int:
        return len(self.tokens)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Pairs of a token and the state it leads to."""
        return zip(self.tokens.tolist(), self.states.tolist(), strict=True)

    def __contains__(self, token: int) -> bool:
        at = int(np.searchsorted(self.tokens, token))
        return at < len(self.tokens) and int(self.tokens[at]) == token

    @property
    def nbytes(self) -> int:
        """Bytes of memory of both arrays."""
        return self.tokens.nbytes + self.states.nbytes

    def where(self, kept: npt.NDArray[np.bool_]) -> Allowed:
        """Only those tokens that are marked."""
        return Allowed(self.tokens[kept], self.states[kept])


NOTHING = Allowed(np.zeros(0, np.int32), np.zeros(0, np.int32))


class Lifting:
    """The legal tokens of the states of one automaton over one vocabulary; thread-safe."""

    def __init__(self, automaton: ByteDfa, vocabulary: Vocabulary, budget: int) -> None:
        self._automaton = automaton
        self._trie = _trie(vocabulary)
        self._eos = np.array(vocabulary.ids(TokenClass.EOS), np.int32)
        self._budget = budget
        self._lock = threading.Lock()
        self._found: OrderedDict[int, Allowed] = OrderedDict()
        self._used = 0
        size = len(self._trie.tokens) + len(self._eos)
        self._scratch = np.empty(size, np.int32), np.empty(size, np.int32)
        self._stack = np.empty(self._trie.max_depth + 1, np.int32)

    def allowed(self, state: int) -> Allowed:
        """The legal tokens of a state of the automaton."""
        with self._lock:
            found = self._found.get(state)
            if found is None:
                found = self._walk(state)
                self._keep(state, found)
            else:
                self._found.move_to_end(state)
            return found

    def counts_to_end(self) -> Ints:
        """For each state, the tokens that spell its path to acceptance; `UNKNOWN` where the vocabulary cannot."""
        automaton, trie = self._automaton, self._trie
        counts = np.empty(len(automaton), np.int32)
        order = np.argsort(automaton.distance, kind="stable").astype(np.int32)
        compiled(path_tokens)(trie.arrays, _paths(automaton), automaton.table, order, counts)
        return counts

    def _walk(self, state: int) -> Allowed:
        tokens, states = self._scratch
        count = compiled(legal_tokens)(self._trie.arrays, self._automaton.table, state, self._stack, tokens, states)
        if self._automaton.accepting[state]:
            behind = count + len(self._eos)
            tokens[count:behind], states[count:behind] = self._eos, ENDED
            count = behind
        order = np.argsort(tokens[:count], kind="stable")
        found = Allowed(tokens[:count][order], states[:count][order])
        found.tokens.flags.writeable = found.states.flags.writeable = False
        return found

    def _keep(self, state: int, found: Allowed) -> None:
        self._found[state] = found
        self._used += found.nbytes
        while self._used > self._budget and len(self._found) > 1:
            _, oldest = self._found.popitem(last=False)
            self._used -= oldest.nbytes


def _paths(automaton: ByteDfa) -> Ints:
    """The next byte of each state's path to acceptance, the least that comes nearer; -1 in accepting states."""
    # The last entry is the distance behind a dead step: never nearer.
    distance = np.append(automaton.distance, np.int32(UNKNOWN))
    following = np.full(len(automaton), -1, np.int32)
    for state in np.flatnonzero(automaton.distance):
        nearer = distance[automaton.table[state]] < automaton.distance[state]
        following[state] = np.argmax(nearer)
    return following


@lru_cache(maxsize=SHARED_TRIES)
def _trie(vocabulary: Vocabulary) -> Trie:
    return trie_of(vocabulary)
