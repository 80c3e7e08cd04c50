"""The ledger of patches: `python -m ninfer_patches.ledger` prints patches/README.md."""

from __future__ import annotations

from ninfer_patches.patch import Patch
from ninfer_patches.registry import OFFER, SELECTED
from ninfer_patches.versions import SUPPORTED, recorded, supported_names

HEAD = """# Patches

Generated from `ninfer_patches/registry.py` by `python -m ninfer_patches.ledger`; a test keeps it equal.

Supported host versions: {versions}. Every definition below is compared with its recorded signature and source digest
before anything is bound; one difference stops start-up with the name of the seam, and nothing is patched. A patch
release of a supported version is accepted if every seam is as recorded.
"""


def ledger() -> str:
    """The whole text."""
    parts = [HEAD.format(versions=", ".join(supported_names()))]
    parts.append(_table("Bound in every process, so that the plugin can be selected", OFFER))
    parts.append(_table("Bound only where the plugin is selected", SELECTED))
    return "\n".join(parts)


def _table(title: str, patches: tuple[Patch, ...]) -> str:
    digests = {minor: recorded(minor) for minor in SUPPORTED}
    lines = [f"## {title}", ""]
    for patch in patches:
        seen = ", ".join(f"{minor}: `{digests[minor][patch.definition].digest}`" for minor in SUPPORTED)
        lines += [f"### `{patch.target}`", ""]
        lines += [f"- **replaced by** `{patch.replacement}`", f"- **why** {patch.why}", f"- **keeps** {patch.keeps}"]
        lines += [f"- **remove when** {patch.remove_when}", f"- **recorded** `{patch.definition}` {seen}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(ledger(), end="")  # noqa: T201 - this module is a command
