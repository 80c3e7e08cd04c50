"""The recipes by name, and the two things asked of them: a model folder, or only its tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ninfer_vllm.embedded import smollm2, tiny_qwen3
from ninfer_vllm.embedded.cache import Progress, build_folder, cache_folder
from ninfer_vllm.embedded.errors import ModelBuildError

_DOMAIN_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    *("config.json", "generation_config.json"),
)
_MODEL_FILES = (*_DOMAIN_FILES, "model.safetensors", "README.md")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a folder is written; `version` grows with every change of what is written, so that old folders stay aside."""

    version: int
    files: tuple[str, ...]
    write: Callable[[Path, Progress], None]


MODELS: Mapping[str, Recipe] = {
    "smollm2": Recipe(version=1, files=_MODEL_FILES, write=smollm2.write_model),
    "tiny-qwen3": Recipe(version=1, files=_MODEL_FILES, write=tiny_qwen3.write_model),
}
TOKENIZERS: Mapping[str, Recipe] = {
    "embedded": Recipe(version=2, files=_DOMAIN_FILES, write=smollm2.write_domain),
    "embedded-qwen": Recipe(version=2, files=_DOMAIN_FILES, write=tiny_qwen3.write_domain),
}


def build(name: str, *, folder: Path | None = None, progress: Progress = lambda line: None) -> Path:
    """The model's folder, built unless it is there: `smollm2` or `tiny-qwen3`.

    Effects:  may download a package and write `model_path(name, folder=folder)`; safe beside other builds.
    Errors:   ModelBuildError for another name, or if the download or the file system fails.
    """
    return _built(_recipe(MODELS, name), model_path(name, folder=folder), progress)


def model_path(name: str, *, folder: Path | None = None) -> Path:
    """Where `build` puts the model: in `folder`, or in the cache, under its name and its recipe's version."""
    return (folder or cache_folder()).absolute() / f"{name}-{_recipe(MODELS, name).version}"


def tokenizer(name: str, *, progress: Progress = lambda line: None) -> Path:
    """A folder with all of an embedded model but its weights: `embedded` (SmolLM2's) or `embedded-qwen`.

    Errors:   as `build`.
    """
    recipe = _recipe(TOKENIZERS, name)
    return _built(recipe, cache_folder() / f"tokenizer-{name}-{recipe.version}", progress)


def _recipe(recipes: Mapping[str, Recipe], name: str) -> Recipe:
    if name not in recipes:
        raise ModelBuildError(repr(name), "there is no recipe of that name", f"choose one of {', '.join(recipes)}")
    return recipes[name]


def _built(recipe: Recipe, path: Path, progress: Progress) -> Path:
    if build_folder(path, recipe.files, lambda partial: recipe.write(partial, progress), progress):
        progress(f"made {path}")
    return path
