"""`ninfer completion`: a script that completes commands, options and choices in a shell, read from the real parsers."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from typing import Any

SHELLS = ("bash", "zsh", "fish")
EPILOG = """\
  bash   source <(ninfer completion bash)
  zsh    source <(ninfer completion zsh)
  fish   ninfer completion fish | source

Exit code: 0."""

HOSTS = ("serve",)
"""Commands whose options are the host's: completing them would start it."""

BASH = """\
_ninfer() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands}"
  else
    case "$command" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [ "${{#COMPREPLY[@]}}" -eq 0 ]; then COMPREPLY=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _ninfer ninfer
"""


def add_parser(subparsers: Any) -> None:
    """Add the `completion` command to the subparsers of `ninfer`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a script that completes the words of `ninfer` in a shell.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script on stdout."""
    print(script(args.shell), end="")
    return 0


def script(shell: str) -> str:
    """The completion script of a shell."""
    from ninfer_vllm.cli.main import COMMANDS

    words = {name: list(_words(name)) for name in COMMANDS}
    if shell == "fish":
        return "".join(f"{line}\n" for line in _fish(COMMANDS, words))
    cases = "\n".join(f'      {name}) words="{" ".join(of)}" ;;' for name, of in words.items())
    text = BASH.format(commands=" ".join(COMMANDS), cases=cases)
    return "autoload -U +X bashcompinit && bashcompinit\n" + text if shell == "zsh" else text


def _words(name: str) -> Iterable[str]:
    """Options and fixed values of a command."""
    if name in HOSTS:
        return
    holder = argparse.ArgumentParser()
    importlib.import_module(f"ninfer_vllm.cli.{name}").add_parser(holder.add_subparsers())
    (subparsers,) = (action for action in holder._actions if isinstance(action, argparse._SubParsersAction))
    for action in subparsers.choices[name]._actions:
        yield from action.option_strings
        yield from map(str, action.choices or ())


def _fish(summaries: dict[str, str], words: dict[str, list[str]]) -> Iterable[str]:
    for name, summary in summaries.items():
        quoted = summary.replace("'", "\\'")
        yield f"complete -c ninfer -n __fish_use_subcommand -a {name} -d '{quoted}'"
    for name, of in words.items():
        options = " ".join(of)
        if options:
            yield f"complete -c ninfer -n '__fish_seen_subcommand_from {name}' -a '{options}'"
