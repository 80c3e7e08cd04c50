"""The native engine: a lazily determinised pushdown automaton over bytes, masks by walking the vocabulary."""
