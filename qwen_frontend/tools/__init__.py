"""Tool calls of the Qwen family: contract, grammar and parser, all from one parsed object (TOOL-13)."""
