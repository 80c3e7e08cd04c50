"""Engines that run a grammar over a vocabulary."""
