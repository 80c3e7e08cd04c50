"""The state of one constrained sample."""
