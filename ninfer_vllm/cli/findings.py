"""The parts of an installation and what is found of each."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, requires, version
from pathlib import Path
from typing import Any

from ninfer_vllm.cli.inputs import UnusableInput, model_of
from ninfer_vllm.cli.seams import host_fault, inspect_seams
from ninfer_vllm.errors import NInferError

GENERAL_PLUGINS = "vllm.general_plugins"
TOKENIZER_FILES = ["*.json", "*.jinja", "*.txt", "*.model"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One part: whether it is as it must be, in a line, with the lines and facts behind it."""

    part: str
    ok: bool
    summary: str
    details: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)


def finding_of(part: str, inspect: Callable[[], Finding]) -> Callable[[], Finding]:
    """The same inspection, but what is missing or refused is a finding too."""

    def found() -> Finding:
        try:
            return inspect()
        except ModuleNotFoundError as error:
            return Finding(part, False, f"{error.name} is not installed")
        except PackageNotFoundError as error:
            return Finding(part, False, f"{error.name} is not installed")
        except (NInferError, UnusableInput) as error:
            return Finding(part, False, str(error))

    return found


def host_findings() -> Iterator[tuple[str, Callable[[], Finding]]]:
    """The inspections that need no model, in the order a person reads them."""
    yield "ninfer", _ninfer
    yield "host", _host
    yield "plugin", _plugin
    yield "seams", _seams
    yield "xgrammar", _xgrammar
    yield "torch", _torch
    yield "device", _device


def _ninfer() -> Finding:
    found = version("ninfer-vllm")
    return Finding(
        "ninfer", True, f"ninfer-vllm {found} on Python {platform.python_version()}", facts={"version": found}
    )


def _host() -> Finding:
    from ninfer_vllm.host.installation import host_folder, host_version

    found = host_version()
    fault = host_fault(_entry_point(), found, host_folder())
    notes = () if _installed("vllm") else ("the `vllm` script of this build does not start; use `ninfer serve`",)
    return Finding("host", fault is None, fault or f"vLLM {found}, supported", notes, {"version": found})


def _plugin() -> Finding:
    found = _entry_point().value
    return Finding("plugin", True, f"registered as {found}", facts={"entry_point": found})


def _seams() -> Finding:
    from ninfer_vllm.host.installation import host_folder, host_version

    seams = inspect_seams(_entry_point(), host_version(), host_folder())
    drifted = {seam.target: seam.fault for seam in seams if seam.fault is not None}
    facts = {"seams": {seam.target: seam.fault is None for seam in seams}}
    if drifted:
        reasons = tuple(dict.fromkeys(drifted.values()))
        return Finding("seams", False, f"{len(drifted)} of {len(seams)} are not as recorded", reasons, facts)
    return Finding("seams", True, f"{len(seams)} verified", facts=facts)


def _entry_point() -> EntryPoint:
    """The plugin as the host finds it; an installation has it once."""
    found = [entry for entry in entry_points(group=GENERAL_PLUGINS) if entry.name == "ninfer"]
    if len(found) != 1:
        raise UnusableInput(f"the entry point ninfer of {GENERAL_PLUGINS} is registered {len(found)} times")
    return found[0]


def _xgrammar() -> Finding:
    found = version("xgrammar")
    pinned = next(line for line in requires("ninfer-vllm") or () if line.startswith("xgrammar=="))
    ok = pinned.split(";")[0].strip() == f"xgrammar=={found}"
    return Finding(
        "xgrammar", ok, found if ok else f"{found}, but this version needs {pinned}", facts={"version": found}
    )


def _torch() -> Finding:
    from ninfer_vllm.host.installation import torch_version

    return Finding("torch", True, torch_version(), facts={"version": torch_version()})


def _device() -> Finding:
    from ninfer_vllm.host.installation import device

    return Finding("device", True, device(), facts={"device": device()})


def tokenizer_finding(model: str) -> Finding:
    """The model's tokenizer as serving would adapt it.

    Errors: UnsupportedTokenizer, ModelBuildError, UnusableInput.
    """
    from ninfer_vllm.testing.domain import domain_of
    from ninfer_vllm.vocabulary import TokenClass

    domain = domain_of(_tokenizer_folder(model_of(model)))
    vocabulary = domain.vocabulary
    counts = {TokenClass(value).name.lower(): count for value, count in sorted(Counter(vocabulary.classes).items())}
    ends = {token: vocabulary.spellings[token].decode(errors="replace") for token in vocabulary.ids(TokenClass.EOS)}
    details = (
        "tokens: " + ", ".join(f"{count} {name}" for name, count in counts.items()),
        "ends: " + (", ".join(f"{token} {text}" for token, text in ends.items()) or "none"),
        f"family: {domain.frontend.name}",
    )
    name = type(domain.tokenizer).__name__
    facts = {"class": name, "size": len(vocabulary), "counts": counts, "ends": ends, "family": domain.frontend.name}
    summary = f"{name}, {len(vocabulary)} columns"
    return Finding(
        "tokenizer", bool(ends), summary if ends else f"{summary}, but no end token is known", details, facts
    )


def _tokenizer_folder(model: str) -> Path:
    """The model's folder, or the small files of a hub name."""
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=TOKENIZER_FILES))
    except (OSError, ValueError) as error:
        raise UnusableInput(f"{model} is no folder, and no such model can be fetched: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True
