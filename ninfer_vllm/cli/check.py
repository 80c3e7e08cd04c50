"""`ninfer check`: whether a schema, grammar, regex or choice is supported, and every place where it is not."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ninfer_vllm.cli.inputs import UnusableInput, add_unknown_keywords, read_text
from ninfer_vllm.cli.problems import problems_of
from ninfer_vllm.cli.screen import screen
from ninfer_vllm.cli.sources import SOURCE_KINDS, constraint_from, kind_of
from ninfer_vllm.errors import ConstraintError, Place

SUPPORTED, REFUSED, UNUSABLE = 0, 1, 2


def add_parser(subparsers: Any) -> None:
    """Add the `check` command to the subparsers of `ninfer`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "check",
        help="say whether a constraint is supported",
        description="Say whether a constraint is supported, and print each problem with its place.",
        epilog="Example: ninfer check city.json. Exit code: 0 supported, 1 refused, 2 the input cannot be judged.",
    )
    parser.add_argument("file", metavar="FILE", help=".json (a schema, or a list of choices), .gbnf, .regex, or -")
    parser.add_argument("--kind", choices=SOURCE_KINDS, help="what FILE holds (default: told by its name)")
    add_unknown_keywords(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how the answer is printed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the verdict on stdout; see the exit codes above."""
    try:
        text = read_text(args.file)
        kind = args.kind or kind_of(args.file, text)
    except UnusableInput as error:
        return _unusable(args, str(error))
    try:
        problems = problems_of(constraint_from(kind, text, args.unknown_schema_keywords))
    except ConstraintError as fault:
        problems = [fault]
    if args.format == "json":
        found = [problem.to_json() for problem in problems]
        print(json.dumps({"file": args.file, "kind": kind, "supported": not found, "problems": found}))
    else:
        print_problems(args.file, problems)
        if not problems:
            screen().print(f"{args.file}: [bold green]supported[/] ({kind})", highlight=False)
    return REFUSED if problems else SUPPORTED


def _unusable(args: argparse.Namespace, reason: str) -> int:
    if args.format == "json":
        print(json.dumps({"file": args.file, "kind": args.kind, "supported": None, "unusable": reason}))
    else:
        print(f"ninfer check: {reason}", file=sys.stderr)
    return UNUSABLE


def print_problems(name: str, problems: list[ConstraintError]) -> None:
    """Print refusals, a line each."""
    to = screen()
    for problem in problems:
        to.print(f"{_located(name, problem.place)}: [bold red]{problem.code}[/]: ", end="", highlight=False)
        to.print(str(problem), markup=False, highlight=False)


def _located(name: str, place: Place) -> str:
    """`name:line:column`, as editors read it; the other places are in the message."""
    return f"{name}:{place['line']}:{place['column']}" if "line" in place else name
