"""Chat templates of the family's models, written anew: what each does with turns, thinking and calls, and no more."""

from __future__ import annotations

TURNS = (
    "{%- for m in messages -%}"
    "{{- '<|im_start|>' + m.role + '\\n' -}}"
    "{%- if m.role == 'assistant' -%}{{- BODY -}}{%- else -%}{{- m.content -}}{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
)
HERMES_CALL = (
    "{%- for c in m.tool_calls or [] -%}"
    "{%- set f = c.function -%}"
    "{{- ('' if loop.first and not m.content else '\\n') + '<tool_call>\\n{\"name\": \"' + f.name -}}"
    '{{- \'", "arguments": \' + (f.arguments if f.arguments is string else f.arguments | tojson) -}}'
    "{{- '}\\n</tool_call>' -}}"
    "{%- endfor -%}"
)
XML_CALL = (
    "{%- for c in m.tool_calls or [] -%}"
    "{%- set f = c.function -%}"
    "{{- ('' if loop.first else '\\n') + '<tool_call>\\n<function=' + f.name + '>\\n' -}}"
    "{%- for key, value in f.arguments.items() -%}"
    "{{- '<parameter=' + key + '>\\n' + (value if value is string else value | tojson) + '\\n</parameter>\\n' -}}"
    "{%- endfor -%}"
    "{{- '</function>\\n</tool_call>' -}}"
    "{%- endfor -%}"
)
PLAIN_PROMPT = "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
HYBRID_PROMPT = (
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}"
    "{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}"
    "{%- endif -%}{%- endif -%}"
)
OPENED_PROMPT = "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n<think>\\n' -}}{%- endif -%}"
SWITCHED_PROMPT = (
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}"
    "{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}"
    "{%- else -%}{{- '<think>\\n' -}}{%- endif -%}{%- endif -%}"
)


def _template(call: str, prompt: str) -> str:
    body = "{{- m.content or '' -}}" + call
    return TURNS.replace("{{- BODY -}}", body) + prompt


QWEN25 = _template(HERMES_CALL, PLAIN_PROMPT)
"""Qwen2.5 and Qwen3-Instruct-2507: JSON calls, no thinking."""
QWEN3 = _template(HERMES_CALL, HYBRID_PROMPT)
"""Qwen3: JSON calls; the model opens its thinking itself, unless it is switched off."""
THINKING_2507 = _template(HERMES_CALL, OPENED_PROMPT)
"""Qwen3-Thinking-2507: JSON calls; every prompt opens a thinking block."""
CODER = _template(XML_CALL, PLAIN_PROMPT)
"""Qwen3-Coder: XML calls, no thinking."""
QWEN35 = _template(XML_CALL, SWITCHED_PROMPT)
"""Qwen3.5 and Qwen3.6: XML calls; the prompt opens the thinking block, unless it is switched off."""
