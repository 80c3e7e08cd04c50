"""The `ninfer` command."""
