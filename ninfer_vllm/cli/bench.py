"""`ninfer bench`: this machine's own figures, ours beside the stock back ends, as ratios of one run (PRF-1, PRF-2)."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from ninfer_vllm.cli.inputs import UnusableInput, model_of
from ninfer_vllm.cli.screen import screen

MODES = ("unconstrained", "stock", "ninfer")
PEERS = ("xgrammar", "llguidance")
BAR = 40
"""Columns of the longest bar."""

EPILOG = """\
masks   compiling, masks and tokens of four built-in schemas, without a model: ninfer, xgrammar, llguidance
engine  tokens a second of a whole engine: unconstrained, vLLM's own back end, ninfer

  ninfer bench masks
  ninfer bench engine embedded --tokens 64 --batches 1,8 --format json

Compare the ratios of one run; times of different runs or machines are not comparable.
Exit code: 0 everything was measured, 1 an engine failed, 2 the input was refused."""


def add_parser(subparsers: Any) -> None:
    """Add the `bench` command to the subparsers of `ninfer`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "bench",
        help="measure this machine: ours beside the stock back ends",
        description="Measure this machine: ours beside the stock back ends, in one run.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("masks", "engine"), help="what is measured")
    parser.add_argument(
        "model", nargs="?", metavar="MODEL",
        help="masks: whose tokenizer (default embedded-qwen); engine: the model (default embedded)",
    )  # fmt: skip
    parser.add_argument("--peers", default=",".join(PEERS), help="masks: engines to compare with, by commas")
    parser.add_argument("--tokens", type=int, default=64, help="engine: tokens an output (default 64)")
    parser.add_argument("--batches", default="1,8", help="engine: batch sizes, by commas (default 1,8)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: the figures; text: a plot")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the figures on stdout, progress on stderr; see the exit codes above.

    Errors: UnusableInput, HostError.
    """
    figures = _masks(args) if args.what == "masks" else _engines(args)
    if args.format == "json":
        print(json.dumps({"bench": args.what, "figures": figures}))
    elif args.what == "masks":
        _print_masks(figures)
    else:
        _print_engines(figures)
    return 1 if any("failed" in of for of in figures.values()) else 0


def _masks(args: argparse.Namespace) -> dict[str, Any]:
    from ninfer_vllm.cli.bench_masks import measure

    peers = tuple(filter(None, args.peers.split(",")))
    unknown = set(peers) - set(PEERS)
    if unknown:
        raise UnusableInput(f"--peers {','.join(sorted(unknown))}: known are {', '.join(PEERS)}")
    return measure(args.model or "embedded-qwen", peers, _told)


def _engines(args: argparse.Namespace) -> dict[str, Any]:
    sizes = args.batches.split(",")
    if not all(size.isdigit() and int(size) for size in sizes) or args.tokens < 1:
        raise UnusableInput("--batches and --tokens are whole numbers from 1")
    model = model_of(args.model or "embedded")
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_LOGGING_STREAM": "ext://sys.stderr"}
    if model != args.model:
        environment.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    figures: dict[str, Any] = {}
    for mode in MODES:
        _told(mode)
        words = [sys.executable, "-m", "ninfer_vllm.host.measured_run", mode, model, str(args.tokens), args.batches]
        done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            figures[mode] = {"failed": " ".join(done.stderr.split()[-40:])}
        else:
            figures[mode] = json.loads(done.stdout.splitlines()[-1])["batches"]
    return figures


def _told(what: str) -> None:
    print(f"ninfer bench: {what} …", file=sys.stderr, flush=True)


def _print_masks(figures: dict[str, Any]) -> None:
    ours = figures["ninfer"]
    for part, label in (("first_mask", "schema to first mask"), ("mask", "mask a token"), ("accept", "token accepted")):
        _heading(f"{label}, microseconds at p50 (p99)")
        rows = {name: of[part] for name, of in figures.items() if part in of and of[part]["count"]}
        longest = max(row["p50_us"] for row in rows.values())
        for name, row in rows.items():
            ratio = row["p50_us"] / ours[part]["p50_us"]
            _bar(name, row["p50_us"] / longest, f"{row['p50_us']} ({row['p99_us']}), {ratio:.2f} × ninfer")
    for name, of in figures.items():
        if "missing" in of:
            _line(f"{name}: {of['missing']}")
        elif of["refused"] or of["cut_short"]:
            _line(f"{name}: refused {', '.join(of['refused']) or 'none'}; {of['cut_short']} texts cut short")


def _print_engines(figures: dict[str, Any]) -> None:
    measured = {mode: of for mode, of in figures.items() if "failed" not in of}
    for size in next(iter(measured.values()), {}):
        _heading(f"tokens a second, batch {size}")
        longest = max(of[size]["tokens_per_s"] for of in measured.values())
        base = measured.get("unconstrained", {}).get(size, {}).get("tokens_per_s", longest)
        for mode, of in measured.items():
            rate = of[size]["tokens_per_s"]
            _bar(mode, rate / longest, f"{rate}, {rate / base:.2f} × unconstrained, {of[size]['token_ms']} ms a token")
    for mode in figures.keys() - measured.keys():
        _line(f"{mode}: {figures[mode]['failed']}")


def _heading(text: str) -> None:
    screen().print(f"\n[bold]{text}[/]", highlight=False)


def _bar(name: str, share: float, text: str) -> None:
    _line(f"{name:<14} {'█' * max(1, round(BAR * share)):<{BAR}} {text}")


def _line(text: str) -> None:
    screen().print(text, markup=False, highlight=False)
