"""`ninfer bench`: this machine's own figures, ours beside the stock back ends, as ratios of one run (PRF-1, PRF-2)."""

from __future__ import annotations

import argparse
import json
import math
import os
from typing import Any

from ninfer_vllm.cli.bench_engines import BACKENDS, DRAFTS, Plan, is_complete, plot
from ninfer_vllm.cli.bench_engines import measure as measure_engines
from ninfer_vllm.cli.inputs import UnusableInput, model_of
from ninfer_vllm.cli.screen import screen, steps

PEERS = ("xgrammar", "llguidance")
MASK_PARTS = {
    "first_mask": "schema to first mask, nothing cached",
    "warm_first_mask": "the same of a schema that is compiled already",
    "cold_mask": "a mask where no output has been before",
    "cold_accept": "a token there",
    "mask": "a mask where an output has been before",
    "accept": "a token there",
}
BAR = 40
"""Columns of the longest bar."""

EPILOG = """\
masks   compiling, masks and tokens of four built-in schemas, without a model: ninfer, xgrammar, llguidance
engine  tokens a second and time between tokens of whole engines: unconstrained, vLLM's own back ends, ninfer;
        without drafts, with n-gram drafts, with those of a draft model and, ours alone, with those of the grammar.
        Every combination is an engine of its own, which takes half a minute to start: ten of them, unless --drafts
        or --backends name fewer.

  ninfer bench masks
  ninfer bench engine embedded --tokens 64 --batches 1,8 --format json
  ninfer bench engine path/to/model --drafts none --backends xgrammar,ninfer

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
    parser.add_argument(
        "--drafts", default=",".join(DRAFTS), help=f"engine: proposers, by commas (default {','.join(DRAFTS)})"
    )
    parser.add_argument(
        "--backends", default=",".join(BACKENDS), help=f"engine: by commas (default {','.join(BACKENDS)})"
    )
    parser.add_argument(
        "--draft-model", metavar="MODEL", help="engine: the model that drafts (default: the measured one itself)"
    )
    parser.add_argument("--temperature", type=float, default=1.0, help="engine: of every request (default 1)")
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
        plot(figures, _heading, _bar)
    return 0 if args.what == "masks" or is_complete(figures) else 1


def _masks(args: argparse.Namespace) -> dict[str, Any]:
    from ninfer_vllm.cli.bench_masks import measure

    peers = _listed("--peers", args.peers, PEERS)
    with steps("ninfer bench", 1 + len(peers)) as told:
        return measure(args.model or "embedded-qwen", peers, told)


def _engines(args: argparse.Namespace) -> dict[str, Any]:
    sizes = args.batches.split(",")
    if not all(size.isdigit() and int(size) for size in sizes) or args.tokens < 1:
        raise UnusableInput("--batches and --tokens are whole numbers from 1")
    drafts, backends = _listed("--drafts", args.drafts, DRAFTS), _listed("--backends", args.backends, BACKENDS)
    if not (drafts and backends):
        raise UnusableInput("--drafts and --backends name at least one")
    if not 0 <= args.temperature < math.inf:
        raise UnusableInput("--temperature is a number from 0")
    model = model_of(args.model or "embedded")
    plan = Plan(
        model, model if args.draft_model is None else model_of(args.draft_model),
        drafts, backends, [int(size) for size in sizes], args.tokens, args.temperature,
    )  # fmt: skip
    # An embedded model needs no more; the user's own setting stands.
    small = {"VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1")} if model != args.model else {}
    with steps("ninfer bench", len(list(plan.runs()))) as told:
        return measure_engines(plan, small, told)


def _listed(option: str, given: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names of an option, in the order that is known."""
    names = set(filter(None, given.split(",")))
    if names - set(known):
        raise UnusableInput(f"{option} {','.join(sorted(names - set(known)))}: known are {', '.join(known)}")
    return tuple(name for name in known if name in names)


def _print_masks(figures: dict[str, Any]) -> None:
    ours = figures["ninfer"]
    for part, label in MASK_PARTS.items():
        _heading(f"{label}, microseconds at p50 (p99)")
        rows = {name: of[part] for name, of in figures.items() if part in of and of[part]["count"]}
        longest = max(row["p50_us"] for row in rows.values())
        for name, row in rows.items():
            ratio = row["p50_us"] / ours[part]["p50_us"]
            _bar(name, row["p50_us"] / longest, f"{row['p50_us']} ({row['p99_us']}), {ratio:.2f} × ninfer")
    _heading("memory grown by, MiB, the vocabulary's own tables included")
    grown = {name: of["memory_mib"] for name, of in figures.items() if "memory_mib" in of}
    for name, size in grown.items():
        _bar(name, size / max(1, *grown.values()), f"{size}")
    for name, of in figures.items():
        if "missing" in of:
            _line(f"{name}: {of['missing']}")
        elif of["refused"] or of["cut_short"]:
            _line(f"{name}: refused {', '.join(of['refused']) or 'none'}; {of['cut_short']} texts cut short")


def _heading(text: str) -> None:
    screen().print(f"\n[bold]{text}[/]", highlight=False)


def _bar(name: str, share: float, text: str) -> None:
    _line(f"{name:<14} {'█' * max(1, round(BAR * share)):<{BAR}} {text}")


def _line(text: str) -> None:
    screen().print(text, markup=False, highlight=False)
