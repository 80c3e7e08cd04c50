"""Exact sampling of constrained rows: masking, the target distribution, verification of drafts."""
