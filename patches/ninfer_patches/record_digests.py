"""Record the seams of a host version: `python -m ninfer_patches.record_digests MINOR PACKAGE_FOLDER`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from ninfer_patches.registry import ALL
from ninfer_patches.sources import fingerprint


def main() -> None:
    """Write digests/MINOR.json next to this file from the host package in PACKAGE_FOLDER."""
    minor, folder = sys.argv[1], Path(sys.argv[2])
    facts = {definition: asdict(fingerprint(definition, folder)) for definition in sorted({p.definition for p in ALL})}
    target = Path(__file__).parent / "digests" / f"{minor}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
