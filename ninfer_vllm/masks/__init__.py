"""Token bitmasks and row states."""
