"""A tokenizer out of a folder, and the facts that lie beside it, for code that runs without the host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ninfer_vllm.errors import UnsupportedTokenizer


def load_tokenizer(folder: Path) -> Any:
    """The Hugging Face tokenizer of a folder.

    Errors: UnsupportedTokenizer if the folder holds none that loads.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        # Damaged files show as errors of many kinds, some of them plain `Exception`.
        raise UnsupportedTokenizer(str(folder), f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def columns_of(folder: Path) -> int:
    """The columns of the model's logits, by `config.json`; 0 where nothing says so."""
    config = _read(folder / "config.json")
    nested = config.get("text_config")
    return int((nested if isinstance(nested, dict) else config).get("vocab_size", 0))


def listed_ends(folder: Path) -> list[int]:
    """The end tokens that `generation_config.json` lists."""
    listed = _read(folder / "generation_config.json").get("eos_token_id")
    return listed if isinstance(listed, list) else [] if listed is None else [listed]


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnsupportedTokenizer(str(path), f"not JSON: {error}") from None
    return found if isinstance(found, dict) else {}
