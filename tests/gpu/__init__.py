"""Checks and times of the kernels on a GPU."""
