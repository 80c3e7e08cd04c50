"""`python instructor_client.py URL`: asks a server for a pydantic model through `instructor`, prints what came back.

It runs in an environment that has `instructor` and nothing of this project.
"""

import json
import sys
from typing import Literal

import instructor
import openai
from pydantic import BaseModel, ConfigDict, Field


class Order(BaseModel):
    """What is asked for."""

    model_config = ConfigDict(extra="forbid")

    item: Literal["tea", "coffee"]
    count: int = Field(ge=1, le=99)


def main() -> None:
    """Print as JSON whether the answer is an instance, and its fields."""
    client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
    patched = instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
    found = patched.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "hi"}],
        response_model=Order,
        max_tokens=120,
        max_retries=0,
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
    )
    print(json.dumps({"is_instance": isinstance(found, Order), "fields": found.model_dump()}))


if __name__ == "__main__":
    main()
