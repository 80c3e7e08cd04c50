"""The grammar representation and what is common to all languages."""
