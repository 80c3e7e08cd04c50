"""Grammar texts in the dialect of llama.cpp's GBNF and xgrammar's EBNF."""

from ninfer_vllm.languages.gbnf.lower import lower_gbnf

__all__ = ["lower_gbnf"]
