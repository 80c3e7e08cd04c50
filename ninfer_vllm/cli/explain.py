"""`ninfer explain`: what a constraint reduces to, as parts of a schema, as a grammar, and as sample outputs."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from ninfer_vllm.cli.check import REFUSED, SUPPORTED, UNUSABLE, print_problems
from ninfer_vllm.cli.inputs import STANDARD_INPUT, UnusableInput, add_unknown_keywords, read_text
from ninfer_vllm.cli.screen import screen
from ninfer_vllm.cli.sources import SOURCE_KINDS, constraint_from, kind_of
from ninfer_vllm.constraint import OutputConstraint, Whitespace
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.grammar.printed import PrintedRule, printed
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.grammar.shortest import TokenTerminal
from ninfer_vllm.languages import json_schema
from ninfer_vllm.languages.json_schema.description import Part
from ninfer_vllm.languages.lowering import lower

KINDS = (*SOURCE_KINDS, "json_object")
SHOWN = 100
"""Parts and rules that are printed without `--all`."""

MAX_SAMPLES = 1_000
SAMPLE_BYTES = 80
"""The size that samples are about."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A supported constraint in three readings."""

    parts: list[Part]
    """Of a JSON Schema; other kinds have no parts."""
    rules: list[PrintedRule]
    samples: list[str]


def add_parser(subparsers: Any) -> None:
    """Add the `explain` command to the subparsers of `ninfer`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "explain",
        help="show what a constraint reduces to",
        description="Show what a constraint reduces to: the parts of a schema, the grammar, and sample outputs.",
        epilog="Example: ninfer explain city.json --samples 3. "
        "Exit code: 0 supported, 1 refused, 2 the input cannot be judged.",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help=".json (a schema, or a list of choices), .gbnf, .regex, or -"
    )
    parser.add_argument("--kind", choices=KINDS, help="what FILE holds (default: told by its name)")
    parser.add_argument("--samples", type=_count, default=5, metavar="N", help="sample outputs (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="which samples (default 0)")
    parser.add_argument("--all", action="store_true", help=f"print more than {SHOWN} parts and rules")
    parser.add_argument("--whitespace", choices=get_args(Whitespace), default="compact", help="between tokens of JSON")
    add_unknown_keywords(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how the answer is printed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the explanation on stdout; see the exit codes above."""
    name = args.file or args.kind or ""
    try:
        kind, text = _source(args)
    except UnusableInput as error:
        if args.format == "json":
            print(json.dumps({"file": args.file, "kind": args.kind, "supported": None, "unusable": str(error)}))
        else:
            print(f"ninfer explain: {error}", file=sys.stderr)
        return UNUSABLE
    try:
        found = explanation(_constraint(args, kind, text), num_samples=args.samples, seed=args.seed)
    except ConstraintError as fault:
        if args.format == "json":
            problems = [fault.to_json()]
            print(json.dumps({"file": args.file, "kind": kind, "supported": False, "problems": problems}))
        else:
            print_problems(name, [fault])
        return REFUSED
    if args.format == "json":
        print(json.dumps({"file": args.file, "kind": kind, "supported": True, **asdict(found)}))
    else:
        _print(name, kind, found, None if args.all else SHOWN)
    return SUPPORTED


def explanation(constraint: OutputConstraint, *, num_samples: int, seed: int) -> Explanation:
    """The three readings of a constraint.

    Errors: ConstraintError where it is refused.
    """
    is_schema = constraint.kind == "json_schema"
    parts = json_schema.description(constraint.source, constraint.options) if is_schema else []
    grammar = prune(lower(constraint))
    return Explanation(parts, list(printed(grammar)), list(_samples(grammar, num_samples, random.Random(seed))))


def _samples(grammar: Grammar, number: int, rng: random.Random) -> Iterator[str]:
    for _ in range(number):
        yield sample(grammar, rng, SAMPLE_BYTES, _spelled_token).decode(errors="backslashreplace")


def _spelled_token(node: TokenTerminal) -> bytes:
    """A stand-in for a token, whose spelling only a model's vocabulary knows."""
    return f"<token {min(node.ids, default=0)}>".encode() if type(node).__name__ == "Token" else b"<token>"


def _count(word: str) -> int:
    number = int(word)
    if not 0 <= number <= MAX_SAMPLES:
        raise argparse.ArgumentTypeError(f"{word} is not between 0 and {MAX_SAMPLES}")
    return number


def _source(args: argparse.Namespace) -> tuple[str, str]:
    """The kind and the text to explain; any JSON object needs no text."""
    if args.kind == "json_object":
        if args.file is not None:
            raise UnusableInput("json_object is one language: leave FILE out")
        return args.kind, ""
    if args.file is None:
        raise UnusableInput(f"name a FILE, or {STANDARD_INPUT} for standard input")
    text = read_text(args.file)
    return args.kind or kind_of(args.file, text), text


def _constraint(args: argparse.Namespace, kind: str, text: str) -> OutputConstraint:
    if kind == "json_object":
        return OutputConstraint.json_object(whitespace=args.whitespace)
    constraint = constraint_from(kind, text, args.unknown_schema_keywords)  # type: ignore[arg-type]
    return replace(constraint, options=replace(constraint.options, whitespace=args.whitespace))


def _print(name: str, kind: str, found: Explanation, shown: int | None) -> None:
    to = screen()
    to.print(f"{name}: [bold green]supported[/] ({kind})", highlight=False)
    if found.parts:
        _heading("parts of the schema")
        for part in found.parts[:shown]:
            _line(part.name)
            for line in part.lines:
                _line(f"    {line}")
        _rest(len(found.parts), shown)
    _heading("grammar")
    for rule in found.rules[:shown]:
        _line(f"{rule.name} ::= {rule.body}")
        for state in rule.states:
            _line(f"    {state}")
    _rest(len(found.rules), shown)
    if found.samples:
        _heading("samples")
        for text in found.samples:
            _line(text)


def _heading(text: str) -> None:
    screen().print(f"\n[bold]{text}[/]", highlight=False)


def _line(text: str) -> None:
    print(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode(sys.stdout.encoding or "utf-8"))


def _rest(number: int, shown: int | None) -> None:
    if shown is not None and number > shown:
        _line(f"… {number - shown} more; --all prints them")
