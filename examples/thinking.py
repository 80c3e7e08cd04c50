"""A thinking model with a JSON answer: it reasons freely, up to a budget, and what follows is valid.

python examples/thinking.py [MODEL]
"""

import os
import sys
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ninfer_vllm import OutputConstraint, embedded

QUESTION = "Is 91 a prime number? Think first, then answer as JSON."
BUDGET = 60


class Verdict(BaseModel):
    """The answer, and how sure the model is."""

    model_config = ConfigDict(extra="forbid")

    answer: Literal["prime", "not prime"]
    because: Annotated[str, Field(max_length=60)]


def main() -> None:
    """Print reasoning, verdict and record."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    from vllm import LLM, SamplingParams

    from ninfer_vllm.host.chat_reading import read_chat

    model = sys.argv[1] if len(sys.argv) > 1 else str(embedded.build("smollm2"))
    llm = LLM(model, additional_config={"ninfer": {}}, max_model_len=1024, enforce_eager=True)
    constraint = OutputConstraint.json_schema(Verdict)
    params = SamplingParams(
        structured_outputs=constraint, thinking_token_budget=BUDGET, temperature=0.7, seed=3, max_tokens=300
    )
    chat = [{"role": "user", "content": QUESTION}]
    (result,) = llm.chat([chat], params, use_tqdm=False, chat_template_kwargs={"enable_thinking": True})
    (message,) = read_chat(llm, result)
    verdict: Verdict = constraint.parse(message.content or "")
    record = result.outputs[0].constraint
    print("reasoning:", message.reasoning)
    print("verdict:", verdict.model_dump_json())
    print("reasoning tokens:", record.reasoning_tokens, "complete:", record.complete)


if __name__ == "__main__":
    main()
