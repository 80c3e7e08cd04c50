"""`ninfer serve` hands the host the words of `vllm serve`, with the plugin selected."""

import os
import subprocess
import sys

import pytest

from ninfer_vllm import embedded
from ninfer_vllm.cli import main, serve

pytestmark = pytest.mark.contract("API-1", "API-10")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that reach the host; nothing is started."""
    words: list[str] = []
    monkeypatch.setattr("ninfer_vllm.host.command_line.run_serve", words.extend)
    monkeypatch.setattr(sys, "argv", ["ninfer"])
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    return words


def test_every_word_is_passed_through(served: list[str]) -> None:
    words = ["some/model", "--port", "0", "--served-model-name", "x", "-tp", "2", "--plugin", "other"]
    assert main.main(["serve", *words]) == 0
    assert served == [*words, "--plugin", "ninfer"]
    assert sys.argv == ["ninfer", "serve", *served]
    assert "VLLM_PLUGINS" not in os.environ


@pytest.mark.parametrize(("name", "recipe"), [("embedded", "smollm2"), ("tiny-qwen3", "tiny-qwen3")])
def test_embedded_model_is_served_under_its_name(served: list[str], name: str, recipe: str) -> None:
    serve.serve([name, "--port", "0"])
    path = str(embedded.model_path(recipe))
    assert served == [path, "--port", "0", "--served-model-name", name, "--plugin", "ninfer"]
    served.clear()
    serve.serve([name, "--served-model-name=mine"])
    assert served == [path, "--served-model-name=mine", "--plugin", "ninfer"]


@pytest.mark.parametrize(
    ("listed", "admitted"), [("", "ninfer"), ("other", "other,ninfer"), ("ninfer,other", "ninfer,other")]
)
def test_list_of_plugins_admits_ours(
    served: list[str], monkeypatch: pytest.MonkeyPatch, listed: str, admitted: str
) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", listed)
    serve.serve(["some/model"])
    assert os.environ["VLLM_PLUGINS"] == admitted


def test_refusal_of_the_host_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(words: list[str]) -> None:
        raise ValueError("no such model")

    monkeypatch.setattr("ninfer_vllm.host.command_line.run_serve", refuse)
    monkeypatch.setattr(sys, "argv", ["ninfer"])
    assert main.main(["serve", "x"]) == 1
    assert capsys.readouterr().err == "ninfer serve: no such model\n"


def test_path_that_leads_nowhere_is_refused(served: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["serve", "./no-such-folder"]) == 2
    assert capsys.readouterr().err == "ninfer serve: ./no-such-folder: no such model folder\n"
    assert served == []


def test_help_is_the_host_s_with_our_options() -> None:
    command = [sys.executable, "-m", "ninfer_vllm", "serve", "--help=all"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ninfer serve MODEL [options]" in done.stdout
    assert "--grammar-cache-bytes" in done.stdout
    assert "--tensor-parallel-size" in done.stdout
