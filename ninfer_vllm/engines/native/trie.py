"""The vocabulary as a byte trie in preorder arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ninfer_vllm.engines.native.arrays import Ints, Nodes, TrieArrays
from ninfer_vllm.engines.native.compiled import compiled_row_kernels
from ninfer_vllm.engines.native.stored import content_key, store_arrays, stored_arrays
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

STORED_TOKENS = 4096
"""Tokens from which on a trie is kept on disk: smaller ones are built faster than found."""


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """The spellings of all ordinary tokens.

    Shapes: with N nodes in preorder, node 0 the root: `byte`, `depth` and `end` [N], `first` [N + 1], `tokens` one
    entry a token. The subtree of n ends before `end[n]`; tokens spelled by the path to n are
    `tokens[first[n] : first[n + 1]]`, those of its subtree `tokens[first[n] : first[end[n]]]`.
    """

    byte: npt.NDArray[np.uint8]
    depth: Ints
    end: Ints
    first: Ints
    tokens: Ints
    deepest: Ints = field(init=False)
    """The depth of the deepest node of each subtree."""
    nodes: Nodes = field(init=False)
    """`byte`, `depth` and `end` of a node in one number, from bits 0, 8 and 32 on: a walk reads all three at once."""
    marks: Ints = field(init=False)
    """For each node twice the token that ends there, and 1 more; 0 without a token, -1 where several end."""
    max_depth: int = field(init=False)
    """Bytes of the longest token."""
    rooms: dict[tuple[int, int], list[Any]] = field(init=False, default_factory=dict)
    """What walks that are over leave for later ones to use again, by its sizes."""
    branches: list[int] = field(init=False)
    """For each byte, and 256, the first node below the root that reads it or a greater one; N without such."""

    def __post_init__(self) -> None:
        packed = self.end.astype(np.int64) << 32 | self.depth.astype(np.int64) << 8 | self.byte
        below_root = np.flatnonzero(self.depth == 1)
        at = np.searchsorted(self.byte[below_root], np.arange(257))
        object.__setattr__(self, "deepest", compiled_row_kernels().deepest_below(self.depth))
        object.__setattr__(self, "nodes", packed)
        object.__setattr__(self, "max_depth", int(self.depth.max()))
        object.__setattr__(self, "marks", self._marked())
        object.__setattr__(self, "branches", np.append(below_root, len(self.byte))[at].tolist())

    def _marked(self) -> Ints:
        num_tokens = np.diff(self.first)
        marks: Ints = np.where(num_tokens > 1, np.int32(-1), np.int32(0))
        marks[num_tokens == 1] = self.tokens[self.first[:-1][num_tokens == 1]] * 2 + 1
        return marks

    @property
    def arrays(self) -> TrieArrays:
        """What the walks read, in the order the kernels take it."""
        return self.nodes, self.first, self.tokens, self.marks


def trie_of(vocabulary: Vocabulary) -> Trie:
    """The trie of the ordinary tokens that have bytes, from disk where one process has built it before."""
    if len(vocabulary) < STORED_TOKENS:
        return built_trie(vocabulary)
    key = content_key(vocabulary)
    arrays = stored_arrays(key)
    if arrays is not None:
        return Trie(*arrays)
    trie = built_trie(vocabulary)
    store_arrays(key, (trie.byte, trie.depth, trie.end, trie.first, trie.tokens))
    return trie


def built_trie(vocabulary: Vocabulary) -> Trie:
    """The trie of the ordinary tokens that have bytes; tokens of one spelling share a node."""
    spellings = vocabulary.spellings
    ordinary = [token for token in vocabulary.ids(TokenClass.ORDINARY) if spellings[token]]
    ordinary.sort(key=spellings.__getitem__)
    lengths = np.fromiter((len(spellings[token]) for token in ordinary), np.int64, len(ordinary))
    text = np.frombuffer(b"".join(spellings[token] for token in ordinary), np.uint8)
    shared = _shared_prefixes(text, lengths)
    grown = lengths - shared
    total = int(grown.sum())
    # Node k of a token's own tail is byte `shared + k` of its spelling.
    within = np.arange(total) - np.repeat(np.cumsum(grown) - grown, grown)
    at = np.repeat(np.cumsum(lengths) - lengths + shared, grown) + within
    byte = np.zeros(total + 1, np.uint8)
    byte[1:] = text[at]
    depth = np.zeros(total + 1, np.int32)
    depth[1:] = np.repeat(shared, grown) + within + 1
    end = np.empty(total + 1, np.int32)
    compiled_row_kernels().subtree_ends(depth, end)
    return Trie(byte, depth, end, _first_tokens(grown, total + 1), np.array(ordinary, np.int32))


def _shared_prefixes(text: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many first bytes each spelling has in common with the one before it."""
    starts = np.cumsum(lengths) - lengths
    shared = np.zeros(len(lengths), np.int64)
    limit = np.minimum(lengths[1:], lengths[:-1])
    agreeing = np.arange(1, len(lengths))
    for offset in range(int(limit.max(initial=0))):
        agreeing = agreeing[limit[agreeing - 1] > offset]
        agreeing = agreeing[text[starts[agreeing] + offset] == text[starts[agreeing - 1] + offset]]
        shared[agreeing] += 1
    return shared


def _first_tokens(grown: npt.NDArray[np.int64], size: int) -> Ints:
    """For each node the tokens before it: a token stands at the last node it has added, or at one that was there."""
    last_node = np.cumsum(grown)
    first = np.searchsorted(last_node, np.arange(size), side="left")
    return np.append(first, len(grown)).astype(np.int32)
