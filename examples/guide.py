"""Valid test data without a model, and a text that surely ends inside its budget: the guide as a library of its own."""

from __future__ import annotations

import json
import random

from ninfer_vllm import OutputConstraint
from ninfer_vllm.guide import ENDED, Guide, plain_vocabulary

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1, "maximum": 99_999},
        "status": {"enum": ["new", "paid", "sent"]},
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string", "minLength": 2, "maxLength": 6},
                    "count": {"type": "integer", "minimum": 1, "maximum": 9},
                },
                "required": ["sku", "count"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["id", "status", "items"],
    "additionalProperties": False,
}
PRINTABLE = range(0x20, 0x7F)
WORDS = (
    b'{"',
    b'":',
    b'",',
    b'"}',
    b"},",
    b"}]",
    b'"id"',
    b'"status"',
    b'"items"',
    b'"sku"',
    b'"count"',
    b"paid",
    b"sent",
)
SPELLINGS = (*(bytes([value]) for value in PRINTABLE), *WORDS, b"")
EOS = len(SPELLINGS) - 1


def main() -> None:
    """Draw orders freely, then inside the tightest budgets."""
    guide = Guide.of(OutputConstraint.json_schema(ORDER), plain_vocabulary(SPELLINGS, [EOS]))
    print(f"{len(guide)} states; the shortest order has {guide.distance(guide.start)} bytes")
    for seed in range(3):
        sample = guide.monkey(random.Random(seed), max_tokens=40)
        print(f"{len(sample.tokens):3} tokens  {json.loads(sample.text)}")
    least = guide.tokens_to_end(guide.start)
    assert least is not None
    for budget in (least, least + 10):
        text = within_budget(guide, random.Random(budget), budget)
        print(f"at most {budget} tokens  {json.loads(text)}")


def within_budget(guide: Guide, rng: random.Random, budget: int) -> bytes:
    """A random text of at most `budget` tokens, the end included; it is always complete."""
    state, text = guide.start, b""
    while state != ENDED:
        token, state = rng.choice(list(guide.within(state, budget)))
        budget -= 1
        text += guide.vocabulary.spellings[token]
    return text


if __name__ == "__main__":
    main()
