"""Where the parts of the repository lie, for the tests that read it as text."""

import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("ninfer_vllm", "qwen_frontend", "kernels/ninfer_kernels", "patches/ninfer_patches")


@cache
def project() -> dict[str, Any]:
    """Return pyproject.toml as a tree."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def files() -> tuple[Path, ...]:
    """Return every file that is committed or would be, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    paths = (Path(name) for name in listing.split("\0") if name)
    return tuple(sorted(path for path in paths if (ROOT / path).is_file()))


def modules() -> tuple[Path, ...]:
    """Return every Python module of the repository, relative to the root."""
    return tuple(path for path in files() if path.suffix == ".py")
