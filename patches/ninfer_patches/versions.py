"""The host versions this plugin knows, and their recorded seams."""

from __future__ import annotations

import json
from importlib.resources import files

from ninfer_patches.sources import Fingerprint

SUPPORTED = ("0.32", "0.33")
"""Minor versions; a patch release is accepted if every seam is as recorded."""


def minor_of(version: str) -> str:
    """The minor version of "0.32.0+cpu": "0.32"."""
    return ".".join(version.split("+", maxsplit=1)[0].split(".")[:2])


def supported_names() -> tuple[str, ...]:
    """Supported versions as a person writes them."""
    return tuple(f"{minor}.x" for minor in SUPPORTED)


def recorded(minor: str) -> dict[str, Fingerprint]:
    """The recorded fingerprints of one minor version, by definition."""
    text = files("ninfer_patches").joinpath("digests", f"{minor}.json").read_text(encoding="utf-8")
    return {path: Fingerprint(**facts) for path, facts in json.loads(text).items()}
