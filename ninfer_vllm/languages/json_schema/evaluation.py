"""What unevaluatedProperties and unevaluatedItems say where the evaluators are known (JSX-9)."""

from __future__ import annotations

from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import UnsupportedSchema
from ninfer_vllm.languages.json_schema.names import ANY_VALUE, derived, place
from ninfer_vllm.languages.json_schema.schema import Node, Schema

ESCAPED_SLASH = "~2"
"""No pointer holds it: there, ~ stands before 0 and 1 only."""


def closing_node(schema: Schema, node: Node, evaluators: tuple[str, ...]) -> str:
    """The node that applies the unevaluated keywords of `node` to what none of the evaluators evaluates.

    Errors: UnsupportedSchema where `contains` evaluates some of the items.
    """
    facts = [schema.nodes[name] for name in evaluators]
    spend(sum(1 + len(fact.fields) + len(fact.patterned) for fact in facts))
    prefix, tail = _items(node, facts)
    closes_members = node.unevaluated_properties is not None and all(fact.additional is None for fact in facts)
    name = derived(f"closed({'|'.join(evaluators).replace('/', ESCAPED_SLASH)})", node.pointer)
    schema.nodes[name] = Node(
        name,
        prefix=prefix,
        tail=tail,
        fields={field: ANY_VALUE for fact in facts for field in fact.fields} if closes_members else {},
        patterned=tuple((pattern, ANY_VALUE) for fact in facts for pattern, _ in fact.patterned),
        additional=node.unevaluated_properties if closes_members else None,
    )
    return name


def _items(node: Node, facts: list[Node]) -> tuple[tuple[str, ...], str | None]:
    if node.unevaluated_items is None or any(fact.tail is not None for fact in facts):
        return (), None
    for fact in facts:
        if fact.contains:
            reason = (
                "unevaluatedItems beside contains is not supported, which evaluates items by their values: "
                "state what holds for the other items with items"
            )
            raise UnsupportedSchema(place(node.unevaluated_items), "unevaluatedItems", reason)
    return (ANY_VALUE,) * max((len(fact.prefix) for fact in facts), default=0), node.unevaluated_items
