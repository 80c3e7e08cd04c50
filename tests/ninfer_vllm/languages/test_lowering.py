"""Every kind of constraint reaches the lowering of its own language."""

import pytest

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import InvalidGrammar
from ninfer_vllm.languages.choice import lower_choice
from ninfer_vllm.languages.gbnf import lower_gbnf
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.languages.regex import lower_regex
from ninfer_vllm.vocabulary import TokenClass, Vocabulary
from tests.support.oracles.recogniser import accepts


@pytest.mark.contract("CMP-2", "RGX-7")
def test_text_kinds_are_lowered_by_their_language() -> None:
    assert lower(OutputConstraint.regex("a+")) == lower_regex("a+")
    assert lower(OutputConstraint.choice(["b", "a"])) == lower_choice(["a", "b"])
    assert lower(OutputConstraint.grammar('root ::= "a"')) == lower_gbnf('root ::= "a"')


@pytest.mark.contract("GBNF-4")
def test_vocabulary_checks_the_token_ids_of_a_grammar() -> None:
    vocabulary = Vocabulary((b"a", b"</s>"), bytes([0, TokenClass.EOS]), {"</s>": 1})
    constraint = OutputConstraint.grammar("root ::= Token(1)")
    assert lower(constraint)
    with pytest.raises(InvalidGrammar, match="token 1"):
        lower(constraint, vocabulary)


def test_json_kinds_are_lowered() -> None:
    assert accepts(lower(OutputConstraint.json_object()), '{"a":[1]}')
    assert not accepts(lower(OutputConstraint.json_object()), "[1]")
    assert accepts(lower(OutputConstraint.json_schema({"type": "boolean"})), "true")
    assert not accepts(lower(OutputConstraint.json_schema({"type": "boolean"})), "1")
