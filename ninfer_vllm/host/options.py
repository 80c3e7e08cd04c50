"""The plugin's start options, as they travel in `additional_config["ninfer"]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from ninfer_vllm import limits
from ninfer_vllm.constraint import Dialect, Enforcement, UnknownKeywords
from ninfer_vllm.engines.protocol import EngineName
from ninfer_vllm.errors import InvalidOption

CONFIG_KEY = "ninfer"


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """Start options of one engine; all have defaults."""

    engine: EngineName = "native"
    grammar_cache_bytes: int = limits.GRAMMAR_CACHE_BYTES
    grammar_compile_timeout: float = limits.COMPILE_TIMEOUT_S
    unknown_schema_keywords: UnknownKeywords = "refuse"
    constraint_timings: bool = False
    grammar_drafts: bool = False
    """Propose what a grammar leaves no choice about as drafts, in front of the host's n-gram or suffix drafts."""
    tool_dialect: Literal["auto", "xml", "hermes"] = "auto"
    """How the model writes tool calls; `auto` finds it out from the chat template."""
    tool_enforcement: Enforcement = "basic"
    chat_template: str | None = None
    """What prompts are rendered with, where it is not the model's own template: a file, or the template itself."""

    def __post_init__(self) -> None:
        _require(self.engine in get_args(EngineName), "engine", self.engine)
        _require(
            self.unknown_schema_keywords in get_args(UnknownKeywords),
            "unknown_schema_keywords",
            self.unknown_schema_keywords,
        )
        _require(self.tool_dialect in ("auto", *get_args(Dialect)), "tool_dialect", self.tool_dialect)
        _require(self.tool_enforcement in get_args(Enforcement), "tool_enforcement", self.tool_enforcement)
        _require(isinstance(self.chat_template, str | None), "chat_template", self.chat_template)
        _require(self.grammar_cache_bytes >= 0, "grammar_cache_bytes", self.grammar_cache_bytes)
        _require(self.grammar_compile_timeout > 0, "grammar_compile_timeout", self.grammar_compile_timeout)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> PluginOptions:
        """Read a configuration mapping.

        Errors: InvalidOption for an unknown name or a value out of range.
        """
        known = {field.name for field in fields(cls)}
        for name, value in config.items():
            _require(name in known, name, value)
        return cls(**config)

    def to_json(self) -> dict[str, Any]:
        """The mapping that `of` reads."""
        return asdict(self)


def options_of(vllm_config: Any) -> PluginOptions | None:
    """The options of a host configuration, or None where it does not select the plugin."""
    config = vllm_config.additional_config
    return PluginOptions.of(config[CONFIG_KEY]) if isinstance(config, Mapping) and CONFIG_KEY in config else None


def _require(holds: object, name: str, value: object) -> None:
    if not holds:
        raise InvalidOption(name, repr(value))
