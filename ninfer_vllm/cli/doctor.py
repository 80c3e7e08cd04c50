"""`ninfer doctor`: whether this installation can serve constraints, part by part."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

from ninfer_vllm.cli.findings import Finding, finding_of, host_findings, tokenizer_finding
from ninfer_vllm.cli.screen import screen

HEALTHY, UNHEALTHY = 0, 1


def add_parser(subparsers: Any) -> None:
    """Add the `doctor` command to the subparsers of `ninfer`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor",
        help="check the installation",
        description="Check the installation: versions, the host's seams, the device, and a model's tokenizer.",
        epilog="Exit code: 0 all is well, 1 something is wrong.",
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a folder, a hub name, `embedded` or `tiny-qwen3`: also adapt its tokenizer",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how the findings are printed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one finding a part; see the exit codes above."""
    # The host's log would mix with the findings.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    findings = []
    for inspect in _inspections(args.model):
        findings.append(inspect())
        if args.format == "text":
            _print(findings[-1])
    healthy = all(finding.ok for finding in findings)
    if args.format == "json":
        print(json.dumps({"ok": healthy, "findings": [finding.to_json() for finding in findings]}, indent=2))
    return HEALTHY if healthy else UNHEALTHY


def _inspections(model: str | None) -> Iterator[Callable[[], Finding]]:
    for part, inspect in host_findings():
        yield finding_of(part, inspect)
    if model is not None:
        yield finding_of("tokenizer", lambda: tokenizer_finding(model))


def _print(finding: Finding) -> None:
    verdict = "[green]ok[/]   " if finding.ok else "[bold red]wrong[/]"
    to = screen()
    to.print(f"{verdict} {finding.part:<10} ", end="", highlight=False)
    to.print(finding.summary, markup=False, highlight=False)
    for line in finding.details:
        to.print(f"{'':17}{line}", markup=False, highlight=False)
