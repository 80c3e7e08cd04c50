"""The tests, laid out as the source by import name."""
