"""An agent: the model answers with calls of three typed functions, and every call's arguments are what they declare.

python examples/agent.py [MODEL]
"""

import json
import os
import sys
from collections.abc import Callable
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ninfer_vllm import OutputConstraint, ToolConstraint, embedded

STOCK = {"tea": 120, "coffee": 40, "cups": 12}
ORDERS: list[str] = []
TASK = "We are low on cups. Look up the stock, order cups, then report."


class Arguments(BaseModel):
    """Nothing but the declared parameters."""

    model_config = ConfigDict(extra="forbid")


class LookUp(Arguments):
    """How many pieces of an article there are."""

    article: Literal["tea", "coffee", "cups"]


class Order(Arguments):
    """Order more of an article."""

    article: Literal["tea", "coffee", "cups"]
    quantity: Annotated[int, Field(ge=1, le=500)]


class Remind(Arguments):
    """Set a reminder some days from now."""

    days: Annotated[int, Field(ge=0, le=31)]
    text: Annotated[str, Field(max_length=40)]


class Report(Arguments):
    """What was done."""

    done: bool
    summary: Annotated[str, Field(max_length=60)]


def look_up(call: LookUp) -> str:
    """The stock of one article."""
    return f"{STOCK[call.article]} {call.article} left"


def order(call: Order) -> str:
    """Note an order."""
    ORDERS.append(f"{call.quantity} x {call.article}")
    return f"ordered {call.quantity} {call.article}"


def remind(call: Remind) -> str:
    """The day of the reminder."""
    return f"reminder on {date(2026, 1, 1) + timedelta(days=call.days)}: {call.text}"


FUNCTIONS: dict[str, tuple[type[Arguments], Callable[[Any], str]]] = {
    "look_up": (LookUp, look_up),
    "order": (Order, order),
    "remind": (Remind, remind),
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": model.__doc__,
            "parameters": model.model_json_schema(),
            "strict": True,
        },
    }
    for name, (model, _) in FUNCTIONS.items()
]


def main() -> None:
    """Let the model call a function three times, then report."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    from vllm import LLM, SamplingParams

    from ninfer_vllm.host.chat_reading import read_chat

    model = sys.argv[1] if len(sys.argv) > 1 else str(embedded.build("smollm2"))
    llm = LLM(model, additional_config={"ninfer": {}}, max_model_len=2048, enforce_eager=True)
    messages: list[Any] = [{"role": "user", "content": TASK}]
    one_call = ToolConstraint(TOOLS, {"type": "function", "function": {"name": "look_up"}})
    any_call = ToolConstraint(TOOLS, "required")
    for tools in (one_call, any_call, any_call):
        params = SamplingParams(structured_outputs=tools, temperature=0.5, seed=1, max_tokens=200)
        (result,) = llm.chat(messages, params, tools=TOOLS, use_tqdm=False)
        (answer,) = read_chat(llm, result, tools)
        for call in answer.tool_calls[:2]:
            arguments, function = FUNCTIONS[call.name]
            told = function(arguments.model_validate_json(call.arguments))
            print(f"{call.name}({call.arguments}) -> {told}")
            said = {"type": "function", "function": {"name": call.name, "arguments": call.value}}
            messages += [
                {"role": "assistant", "content": "", "tool_calls": [said]},
                {"role": "tool", "content": told},
            ]
    report = OutputConstraint.json_schema(Report)
    params = SamplingParams(structured_outputs=report, temperature=0, max_tokens=120)
    (result,) = llm.chat(messages, params, tools=TOOLS, use_tqdm=False)
    print(json.dumps(report.parse(result.outputs[0].text).model_dump()))
    print("orders:", ORDERS)


if __name__ == "__main__":
    main()
