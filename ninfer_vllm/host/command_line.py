"""The host's `serve` command without its console script, which some builds of the host cannot start."""

from __future__ import annotations

from collections.abc import Sequence

from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
from vllm.logger import configure_logging_from_args
from vllm.utils.argparse_utils import FlexibleArgumentParser


def run_serve(words: Sequence[str]) -> None:
    """Parse the words as `vllm serve` does and serve until stopped.

    Errors: SystemExit for options that the host's parser refuses.
    """
    cli_env_setup()
    parser = FlexibleArgumentParser(prog="ninfer")
    command = ServeSubcommand()
    serve_parser = command.subparser_init(parser.add_subparsers(dest="subparser"))
    # Words that nobody knows are told by the outer parser.
    parser.usage = serve_parser.usage = "ninfer serve MODEL [options]; `ninfer serve --help` lists them"
    args = parser.parse_args([ServeSubcommand.name, *words])
    configure_logging_from_args(args)
    command.validate(args)
    command.cmd(args)
