"""The embedded models, built from packages of the Python registry into a cache folder."""

from ninfer_vllm.embedded.cache import cache_folder
from ninfer_vllm.embedded.errors import ModelBuildError
from ninfer_vllm.embedded.recipes import MODELS, TOKENIZERS, build, model_path, tokenizer

__all__ = ["MODELS", "TOKENIZERS", "ModelBuildError", "build", "cache_folder", "model_path", "tokenizer"]
