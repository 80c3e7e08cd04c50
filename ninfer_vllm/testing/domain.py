"""From what a test has (a folder, a tokenizer object, a name) to the token domain of a model."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninfer_vllm import embedded
from ninfer_vllm.errors import UnsupportedTokenizer
from ninfer_vllm.host.frontend import Frontend, frontend_for
from ninfer_vllm.host.tokenizer import vocabulary_of
from ninfer_vllm.host.tokenizer_folder import columns_of, listed_ends, load_tokenizer
from ninfer_vllm.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Domain:
    """A tokenizer with what serving derives from it."""

    tokenizer: Any
    vocabulary: Vocabulary
    frontend: Frontend


def domain_of(source: Any, eos_ids: Iterable[int] = ()) -> Domain:
    """The domain of a tokenizer folder, a tokenizer object, or one of the names `embedded` and `embedded-qwen`.

    The end tokens are the tokenizer's own, those of a `generation_config.json` in the folder, and `eos_ids`. The number
    of columns is that of a `config.json` in the folder, else the tokenizer's.

    Errors: UnsupportedTokenizer; ModelBuildError where an embedded tokenizer cannot be made.
    """
    if isinstance(source, str | os.PathLike):
        folder = _folder(source)
        return _domain(load_tokenizer(folder), columns_of(folder), [*listed_ends(folder), *eos_ids])
    return _domain(_hugging_face(source), 0, eos_ids)


def _domain(tokenizer: Any, columns: int, eos_ids: Iterable[int]) -> Domain:
    own = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    size = max(columns, 1 + max(tokenizer.get_vocab().values()))
    vocabulary = vocabulary_of(tokenizer, size, tuple(dict.fromkeys([*own, *eos_ids])))
    return Domain(tokenizer, vocabulary, frontend_for(tokenizer))


def _folder(source: str | os.PathLike[str]) -> Path:
    if source in embedded.TOKENIZERS:
        return embedded.tokenizer(str(source))
    folder = Path(source)
    if not folder.is_dir():
        names = ", ".join(embedded.TOKENIZERS)
        raise UnsupportedTokenizer(str(source), f"there is no such folder, and it is none of {names}")
    return folder


def _hugging_face(source: Any) -> Any:
    """The object itself, or a Hugging Face wrapper around a bare `tokenizers.Tokenizer`."""
    import tokenizers

    if isinstance(source, tokenizers.Tokenizer):
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast(tokenizer_object=source)
    if not hasattr(source, "backend_tokenizer"):
        raise UnsupportedTokenizer(type(source).__name__, "only fast (tokenizers) tokenizers are supported")
    return source
