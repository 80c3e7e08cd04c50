"""Progress is a bar or a sign of life where a person looks, and plain lines in a pipe."""

from __future__ import annotations

import pytest

from ninfer_vllm.cli.screen import steps, working

pytestmark = pytest.mark.contract("API-6")


def test_a_pipe_gets_a_line_a_step_and_nothing_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with steps("ninfer bench", 2) as told:
        told("[one]")
        told("two")
    with working("model") as told:
        told("[drawing] weights")
    assert capsys.readouterr() == ("", "ninfer bench: [one] …\nninfer bench: two …\nmodel: [drawing] weights\n")


def test_a_terminal_gets_a_bar_that_counts_what_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with steps("ninfer bench", 2) as told:
        told("one")
        told("two")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "1/2" in shown.err
    assert "\x1b[" in shown.err
    with working("model") as told:
        told("weights")
    assert "model: weights" in capsys.readouterr().err
