"""The host's command line and engine configuration: `--plugin` and the plugin's start options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any, get_args

from ninfer_patches.activation import activate
from ninfer_patches.selection import NAME, selected_by_environment
from ninfer_vllm import limits
from ninfer_vllm.constraint import Dialect, Enforcement, UnknownKeywords
from ninfer_vllm.host.acceptance import refuse_lossy_acceptance, refuse_lost_drafts
from ninfer_vllm.host.options import CONFIG_KEY, PluginOptions

OPTIONS = (
    "grammar_cache_bytes", "grammar_compile_timeout", "unknown_schema_keywords", "constraint_timings",
    "grammar_drafts", "tool_dialect", "tool_enforcement",
)  # fmt: skip

PARSERS = ("tool_call_parser", "reasoning_parser")
"""Options of `vllm serve` that choose who reads outputs; both name our parser, or none does."""


def add_cli_args(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Add the option group `ninfer` behind the host's own options."""

    def add(parser: Any) -> Any:
        parser = original(parser)
        group = parser.add_argument_group(title="ninfer", description="Exact constrained decoding (ninfer-vllm).")
        group.add_argument(
            "--plugin", action="append", type=_plugin_names, default=None,
            help="Plugins to select, separated by commas; may be given several times.",
        )  # fmt: skip
        group.add_argument(
            "--grammar-cache-bytes", type=int, default=limits.GRAMMAR_CACHE_BYTES,
            help="Bytes of compiled grammars kept for reuse in each engine core.",
        )  # fmt: skip
        group.add_argument(
            "--grammar-compile-timeout", type=float, default=limits.COMPILE_TIMEOUT_S,
            help="Seconds a grammar may take to compile before its request is refused.",
        )  # fmt: skip
        group.add_argument(
            "--unknown-schema-keywords", choices=get_args(UnknownKeywords), default="refuse",
            help="What an unrecognised JSON Schema keyword does: refuse the request, or be an annotation.",
        )  # fmt: skip
        group.add_argument(
            "--constraint-timings", action="store_true",
            help="Measure CPU seconds of preparation, masks and commits in every constraint record.",
        )  # fmt: skip
        group.add_argument(
            "--grammar-drafts", action="store_true",
            help="With n-gram or suffix drafts: propose what a grammar leaves no choice about as well.",
        )  # fmt: skip
        group.add_argument(
            "--tool-dialect", choices=("auto", *get_args(Dialect)), default="auto",
            help="How the model writes tool calls; auto finds it out from the chat template.",
        )  # fmt: skip
        group.add_argument(
            "--tool-enforcement", choices=get_args(Enforcement), default="basic",
            help="basic constrains the framing of every request's calls, automatic only what a request asks for.",
        )  # fmt: skip
        return parser

    return add


def from_cli_args(original: Callable[..., Any]) -> Callable[..., Any]:
    """Carry the options into `additional_config` where the command line selects the plugin."""

    def from_args(cls: type, args: argparse.Namespace) -> Any:
        given = vars(args)
        names = [name for chosen in given.get("plugin") or () for name in chosen]
        _require_installed(name for name in names if name != NAME)
        is_selected = NAME in names or selected_by_environment()
        if is_selected:
            _choose_parser(args)
        engine_args = original(cls, args)
        if is_selected:
            options = {name: given[name] for name in OPTIONS if name in given}
            if given.get("chat_template") is not None:
                options["chat_template"] = str(given["chat_template"])
            config = dict(engine_args.additional_config or {})
            engine_args.additional_config = {**config, CONFIG_KEY: {**options, **config.get(CONFIG_KEY, {})}}
        return engine_args

    return from_args


def create_engine_config(original: Callable[..., Any]) -> Callable[..., Any]:
    """Activate the plugin where this engine's configuration or the environment selects it.

    Errors: InvalidOption, UnsupportedHost, PatchDrift.
    """

    def create(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = dict(self.additional_config or {})
        if CONFIG_KEY in config or selected_by_environment():
            options = PluginOptions.of(config.get(CONFIG_KEY) or {})
            activate()
            self.additional_config = {**config, CONFIG_KEY: options.to_json()}
        created = original(self, *args, **kwargs)
        if CONFIG_KEY in (self.additional_config or {}):
            refuse_lossy_acceptance(created)
            if self.additional_config[CONFIG_KEY]["grammar_drafts"]:
                refuse_lost_drafts(created)
        return created

    return create


def _choose_parser(args: argparse.Namespace) -> None:
    """Let a server publish with our parser, unless its command line names others."""
    named = {getattr(args, name, None) for name in PARSERS} - {None, ""}
    if hasattr(args, "enable_auto_tool_choice") and named <= {NAME}:
        for name in PARSERS:
            setattr(args, name, NAME)
        args.enable_auto_tool_choice = True


def _plugin_names(value: str) -> list[str]:
    return [name for name in value.split(",") if name]


def _require_installed(names: Iterable[str]) -> None:
    installed = {entry.name for entry in entry_points(group="vllm.general_plugins")}
    for name in names:
        if name not in installed:
            raise ValueError(f"--plugin {name}: no installed vLLM plugin has this name")
