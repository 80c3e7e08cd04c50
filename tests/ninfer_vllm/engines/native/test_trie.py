"""The vocabulary's trie against the spellings themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.engines.native.trie import Trie, trie_of
from ninfer_vllm.vocabulary import TokenClass, Vocabulary
from tests.support.vocabularies import byte_vocabulary


def vocabulary(spellings: list[bytes], classes: list[TokenClass] | None = None) -> Vocabulary:
    return Vocabulary(tuple(spellings), bytes(classes or [TokenClass.ORDINARY] * len(spellings)), {})


def spelled(trie: Trie) -> dict[int, bytes]:
    """Token -> the bytes on the path to its node."""
    path = bytearray()
    found = {}
    for node in range(len(trie.byte)):
        if node:
            del path[trie.depth[node] - 1 :]
            path.append(trie.byte[node])
        found.update((int(token), bytes(path)) for token in trie.tokens[trie.first[node] : trie.first[node + 1]])
    return found


@pytest.mark.contract("TOK-1", "TOK-3")
@given(st.lists(st.binary(max_size=5), min_size=1, max_size=30))
def test_every_token_stands_at_the_node_that_spells_it(spellings: list[bytes]) -> None:
    trie = trie_of(vocabulary(spellings))
    assert spelled(trie) == {token: spelling for token, spelling in enumerate(spellings) if spelling}


@given(st.lists(st.binary(min_size=1, max_size=4), min_size=1, max_size=30))
def test_subtree_ends_where_depth_falls_back(spellings: list[bytes]) -> None:
    trie = trie_of(vocabulary(spellings))
    for node in range(len(trie.byte)):
        deeper = node + 1
        while deeper < len(trie.byte) and trie.depth[deeper] > trie.depth[node]:
            deeper += 1
        assert trie.end[node] == deeper


@given(st.lists(st.binary(min_size=1, max_size=2), min_size=1, max_size=30))
def test_a_mark_holds_the_one_token_of_a_node(spellings: list[bytes]) -> None:
    trie = trie_of(vocabulary(spellings))
    for node, mark in enumerate(trie.marks.tolist()):
        tokens = trie.tokens[trie.first[node] : trie.first[node + 1]].tolist()
        assert mark == (2 * tokens[0] + 1 if len(tokens) == 1 else -1 if tokens else 0)


@pytest.mark.contract("TOK-2", "TOK-3", "TOK-4")
def test_only_ordinary_tokens_with_bytes_are_in_it() -> None:
    domain = byte_vocabulary()
    ordinary = {token for token in domain.ids(TokenClass.ORDINARY) if domain.spellings[token]}
    assert set(trie_of(domain).tokens.tolist()) == ordinary


def test_vocabulary_without_ordinary_tokens_is_a_root_alone() -> None:
    trie = trie_of(vocabulary([b"a"], [TokenClass.CONTROL]))
    assert (len(trie.byte), trie.max_depth, len(trie.tokens)) == (1, 0, 0)
