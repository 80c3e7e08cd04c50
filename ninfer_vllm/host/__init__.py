"""Adapters between vLLM's types and ours: the only code of this package that imports vLLM."""
