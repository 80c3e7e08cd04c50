"""`ninfer generate`: one offline generation, under a constraint or freely."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ninfer_vllm.cli.inputs import UnusableInput, add_unknown_keywords, model_of, read_text
from ninfer_vllm.cli.sources import POLICIES, constraint_from, tools_from
from ninfer_vllm.constraint import Constraint, OutputConstraint
from ninfer_vllm.errors import NInferError

if TYPE_CHECKING:
    from ninfer_vllm.host.offline import Prompt, Sample

COMPLETE, INCOMPLETE = 0, 1
SAMPLING = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "n")
EPILOG = """\
With --tools-file the text is the message's content, if it has one, and one line of JSON a call; with --format json the
reasoning, the content and the calls have members of their own. --json-object and --json-schema-file then say what the
content must be where no tool is called.

Exit code: 0 every output is complete (without a constraint: nothing failed), 1 an output is incomplete or failed,
2 the constraint or the input was refused. Options behind `--` are engine options of the host, for instance
`-- --max-model-len 4096 --tensor-parallel-size 2`."""


def add_parser(subparsers: Any) -> None:
    """Add the `generate` command to the subparsers of `ninfer`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "generate",
        help="generate text offline",
        description="Generate text offline, under a constraint or freely, and print it.",
        epilog=EPILOG,
        usage="ninfer generate MODEL (--prompt TEXT | --prompt-file FILE | --chat TEXT) [options] [-- HOST OPTIONS]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="a folder, a hub name, `embedded` or `tiny-qwen3`")
    _add_prompt(parser)
    _add_constraint(parser)
    _add_tools(parser)
    _add_sampling(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: one object an output")
    parser.add_argument("--compile", action="store_true", help="let the host compile the model (slow start, fast run)")
    parser.set_defaults(run=run)


def _add_prompt(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("prompt")
    one = group.add_mutually_exclusive_group(required=True)
    one.add_argument("--prompt", metavar="TEXT", help="a raw prompt; all new text is constrained")
    one.add_argument("--prompt-file", metavar="FILE", help="a raw prompt out of a file, or of - (standard input)")
    one.add_argument("--chat", metavar="TEXT", help="a message of the user, through the model's chat template")
    group.add_argument("--system", metavar="TEXT", help="with --chat: the system message")


def _add_constraint(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("constraint (at most one)")
    one = group.add_mutually_exclusive_group()
    one.add_argument("--grammar-file", metavar="FILE", help="a GBNF grammar")
    one.add_argument("--json-schema-file", metavar="FILE", help="a JSON Schema")
    one.add_argument("--json-object", action="store_true", help="any JSON object")
    one.add_argument("--regex", metavar="REGEX", help="a regular expression for the whole output")
    one.add_argument("--choice", metavar="TEXT", action="append", help="one of several texts; repeat it")
    add_unknown_keywords(group)


def _add_tools(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tools (with --chat)")
    group.add_argument("--tools-file", metavar="FILE", help="a JSON list of function declarations, as Chat takes them")
    group.add_argument(
        "--tool-choice", metavar="CHOICE", help=f"{', '.join(POLICIES)}, or the name of one tool (default auto)"
    )


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling (default: the model's own)")
    group.add_argument("--max-tokens", type=int, default=256)
    group.add_argument("--temperature", type=float)
    group.add_argument("--top-p", type=float)
    group.add_argument("--top-k", type=int)
    group.add_argument("--min-p", type=float)
    group.add_argument("--seed", type=int)
    group.add_argument("--n", type=int, help="samples of the same prompt")


def run(args: argparse.Namespace) -> int:
    """Print the output on stdout, and nothing else; see the exit codes above.

    Errors: UnusableInput, ConstraintError, HostError.
    """
    _require_partners(args)
    body = _body_of(args)
    if body is not None:
        _refuse_early(body)
    constraint: Constraint | None = body
    if args.tools_file is not None:
        declared = read_text(args.tools_file)
        constraint = tools_from(declared, args.tool_choice or "auto", body, args.unknown_schema_keywords)
    text = read_text(args.prompt_file) if args.prompt_file is not None else args.prompt
    model = model_of(args.model)
    _quieten(embedded=model != args.model)
    outputs = _outputs(args, model, text, constraint)
    for output in outputs:
        _print(output, args.format, several=len(outputs) > 1)
    return COMPLETE if all(map(_is_complete, outputs)) else INCOMPLETE


def _require_partners(args: argparse.Namespace) -> None:
    for name, partner in (("system", "chat"), ("tools_file", "chat"), ("tool_choice", "tools_file")):
        if getattr(args, name) is not None and getattr(args, partner) is None:
            raise UnusableInput(f"--{name.replace('_', '-')} needs --{partner.replace('_', '-')}")


def _body_of(args: argparse.Namespace) -> OutputConstraint | None:
    if args.grammar_file is not None:
        return constraint_from("grammar", read_text(args.grammar_file), args.unknown_schema_keywords)
    if args.json_schema_file is not None:
        return constraint_from("json_schema", read_text(args.json_schema_file), args.unknown_schema_keywords)
    if args.regex is not None:
        return OutputConstraint.regex(args.regex)
    if args.choice is not None:
        return OutputConstraint.choice(args.choice)
    return OutputConstraint.json_object() if args.json_object else None


def _refuse_early(constraint: OutputConstraint) -> None:
    """Refuse what needs no model to be refused before an engine is started for it."""
    from ninfer_vllm.grammar.checks import prune
    from ninfer_vllm.languages.lowering import lower

    prune(lower(constraint))


def _quieten(*, embedded: bool) -> None:
    """Keep stdout for the output, and the host's log to what a person has to know."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # For the host's processes: what they leave to be cleaned up at their end is no news to a person.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning,ignore::FutureWarning")
    if embedded:
        # Gibibytes of key-value cache on a CPU, where the host would take half of the memory.
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")


def _outputs(args: argparse.Namespace, model: str, text: str | None, constraint: Constraint | None) -> list[Sample]:
    from ninfer_vllm.host.offline import generate, start_engine, stop_engine

    options = [*args.host_words] if args.compile else ["--enforce-eager", *args.host_words]
    sampling = {name: getattr(args, name) for name in SAMPLING if getattr(args, name) is not None}
    try:
        engine = start_engine(model, options)
        try:
            return generate(engine, _prompt_of(args, text), constraint, sampling)
        finally:
            stop_engine(engine)
    except NInferError:
        raise
    except (ValueError, OSError) as error:
        raise UnusableInput(" ".join(str(error).split())) from None


def _prompt_of(args: argparse.Namespace, text: str | None) -> Prompt:
    from ninfer_vllm.host.offline import Prompt

    if args.chat is None:
        return Prompt(text=text or "")
    system = [] if args.system is None else [{"role": "system", "content": args.system}]
    return Prompt(messages=(*system, {"role": "user", "content": args.chat}))


def _is_complete(output: Sample) -> bool:
    if output.constraint is None:
        return bool(output.finish_reason != "error")
    return bool(output.constraint.complete and output.finish_reason == "stop")


def _print(output: Sample, form: str, *, several: bool) -> None:
    record, fault = output.constraint, output.constraint_error
    if form == "json":
        facts = {
            "text": output.text,
            "finish_reason": output.finish_reason,
            "constraint": None if record is None else record.to_json(),
            **({} if output.message is None else asdict(output.message)),
        }
        print(json.dumps(facts, ensure_ascii=False))
        return
    # The exact bytes where a program reads them; a line end for the prompt or the next output.
    shown = _text_of(output)
    ends_line = shown.endswith("\n") or not (several or sys.stdout.isatty())
    sys.stdout.write(shown if ends_line else shown + "\n")
    if fault is not None:
        print(f"ninfer generate: {fault}", file=sys.stderr)
    elif not _is_complete(output):
        print(f"ninfer generate: the output is not complete (finish reason {output.finish_reason})", file=sys.stderr)


def _text_of(output: Sample) -> str:
    """The text of a sample; of one with tools, its content and a line a call."""
    if output.message is None:
        return output.text
    content = output.message.content
    calls = [
        json.dumps({"name": call.name, "arguments": call.value}, ensure_ascii=False)
        for call in output.message.tool_calls
    ]
    return "\n".join([*([content] if content else []), *calls])
