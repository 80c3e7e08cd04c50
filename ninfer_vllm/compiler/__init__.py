"""Compiled grammars: key, cache, single flight."""
