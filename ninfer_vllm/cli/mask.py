"""`ninfer mask`: the tokens of a model that may come next behind a text, under a constraint."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, get_args

from ninfer_vllm.cli.check import print_problems
from ninfer_vllm.cli.inputs import UnusableInput, add_unknown_keywords, model_of, read_text
from ninfer_vllm.cli.screen import screen
from ninfer_vllm.cli.sources import SOURCE_KINDS, constraint_from, kind_of
from ninfer_vllm.constraint import Frame, OutputConstraint
from ninfer_vllm.errors import ConstraintError, InvalidContinuation, UnsupportedTokenizer

LEGAL, NO_PREFIX, REFUSED = 0, 1, 2
SHOWN = 50
"""Tokens that are printed without `--all`."""

EPILOG = """\
A mask depends on the text so far, not on how tokens spelled it. Tokens are counted over all columns of the model.

  ninfer mask embedded date.regex --prefix 2024-
  ninfer mask path/to/model person.json --prefix '{"name":"' --all --format json

Exit code: 0 the tokens were printed, 1 the text is no prefix of the language, 2 the constraint or input was refused."""


def add_parser(subparsers: Any) -> None:
    """Add the `mask` command to the subparsers of `ninfer`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "mask",
        help="show the tokens that may come next",
        description="Show the tokens of a model that may come next behind a text, under a constraint.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a folder with a tokenizer, `embedded`, `tiny-qwen3` or `embedded-qwen`"
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help=".json (a schema, or a list of choices), .gbnf, .regex, or -"
    )
    parser.add_argument(
        "--kind", choices=(*SOURCE_KINDS, "json_object"), help="what FILE holds; json_object needs no FILE"
    )
    text = parser.add_mutually_exclusive_group()
    text.add_argument("--prefix", metavar="TEXT", default="", help="the text so far (default: none)")
    text.add_argument("--prefix-file", metavar="FILE", help="the text so far, out of a file, or of -")
    parser.add_argument("--frame", choices=get_args(Frame), default="content", help="where the text starts")
    add_unknown_keywords(parser)
    parser.add_argument("--all", action="store_true", help=f"print more than {SHOWN} tokens")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how the answer is printed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the legal tokens on stdout; see the exit codes above.

    Errors: UnusableInput, ConstraintError, HostError.
    """
    try:
        prefix = args.prefix if args.prefix_file is None else read_text(args.prefix_file)
        facts = facts_of(args, _constraint(args), prefix)
    except UnsupportedTokenizer as fault:
        raise UnusableInput(str(fault)) from None
    except InvalidContinuation as fault:
        return _failed(args, fault, NO_PREFIX)
    except ConstraintError as fault:
        return _failed(args, fault, REFUSED)
    if args.format == "json":
        print(json.dumps(facts))
    else:
        _print(facts, show_all=args.all)
    return LEGAL


def facts_of(args: argparse.Namespace, constraint: OutputConstraint, prefix: str) -> dict[str, Any]:
    """The legal tokens behind the prefix, as a JSON object.

    Errors: ConstraintError, HostError.
    """
    from ninfer_vllm.testing import Probe
    from ninfer_vllm.vocabulary import TokenClass

    probe = Probe(_tokenizer(args.model))
    legal = probe.mask(constraint, prefix, frame=args.frame).nonzero()[0].tolist()
    spellings, shown = probe.vocabulary.spellings, None if args.all else SHOWN
    return {
        "model": args.model,
        "kind": constraint.kind,
        "prefix": prefix,
        "complete": probe.accepts(constraint, prefix, frame=args.frame),
        "num_tokens": len(probe.vocabulary),
        "num_legal": len(legal),
        "legal": [
            {
                "id": token,
                "text": spellings[token].decode(errors="backslashreplace"),
                "is_end": probe.vocabulary.class_of(token) == TokenClass.EOS,
            }
            for token in legal[:shown]
        ],
    }


def _tokenizer(name: str) -> str:
    """A folder, or the name of an embedded tokenizer, which needs no model."""
    from ninfer_vllm.embedded import TOKENIZERS

    return name if name in TOKENIZERS else model_of(name)


def _constraint(args: argparse.Namespace) -> OutputConstraint:
    if args.kind == "json_object":
        if args.file is not None:
            raise UnusableInput("json_object is one language: leave FILE out")
        return OutputConstraint.json_object()
    if args.file is None:
        raise UnusableInput("name a FILE, or - for standard input")
    text = read_text(args.file)
    return constraint_from(args.kind or kind_of(args.file, text), text, args.unknown_schema_keywords)


def _failed(args: argparse.Namespace, fault: ConstraintError, code: int) -> int:
    if args.format == "json":
        print(json.dumps({"model": args.model, "problems": [fault.to_json()]}))
    elif code == NO_PREFIX:
        print(f"ninfer mask: {fault}", file=sys.stderr)
    else:
        print_problems(args.file or "", [fault])
    return code


def _print(facts: dict[str, Any], *, show_all: bool) -> None:
    to = screen()
    end = "the text may end here" if facts["complete"] else "the text may not end here"
    to.print(f"[bold]{facts['num_legal']}[/] of {facts['num_tokens']} tokens are legal; {end}", highlight=False)
    for token in facts["legal"]:
        to.print(f"{token['id']:>8}  ", end="", highlight=False)
        to.print(json.dumps(token["text"]) + ("  (end)" if token["is_end"] else ""), markup=False, highlight=False)
    if not show_all and facts["num_legal"] > SHOWN:
        to.print(f"… {facts['num_legal'] - SHOWN} more; --all prints them", highlight=False)
