"""One lowering a constraint language."""
