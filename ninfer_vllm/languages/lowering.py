"""From a constraint of any kind to its grammar."""

from __future__ import annotations

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.languages.choice import lower_choice
from ninfer_vllm.languages.gbnf.lower import lower_gbnf
from ninfer_vllm.languages.json_schema import lower_json_object, lower_json_schema
from ninfer_vllm.languages.regex import lower_regex
from ninfer_vllm.vocabulary import Vocabulary


def lower(constraint: OutputConstraint, vocabulary: Vocabulary | None = None) -> Grammar:
    """The grammar of a constraint; the vocabulary, where given, checks the token ids that a grammar text names.

    Errors: ConstraintError, of the kind and at the place that the constraint's own language says.
    """
    if constraint.kind == "grammar":
        return lower_gbnf(constraint.source, vocabulary)
    if constraint.kind == "regex":
        return lower_regex(constraint.source)
    if constraint.kind == "choice":
        return lower_choice(constraint.literals)
    if constraint.kind == "json_object":
        return lower_json_object(constraint.options)
    return lower_json_schema(constraint.source, constraint.options)
