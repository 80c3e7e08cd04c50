"""The playground in a real browser: presets, refusals at their place, tokens, links, both colour schemes (GDE-12)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.endpoints import backend, endpoints_of, listening

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.contract("GDE-12"),
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]
WAIT_MS = 600_000
"""Milliseconds that an answer may take: a hang guard."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    app, _ = endpoints_of(backend())
    with listening(app) as address:
        yield f"{address}/ninfer/playground"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(WAIT_MS)
    faults: list[str] = []
    requests: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(address)
    settled(opened)
    yield opened
    assert faults == []
    assert [url for url in requests if not url.startswith((address.rpartition("/")[0], "data:"))] == []
    opened.close()


def settled(page: Any) -> None:
    """Wait until the page shows the answer to what is typed."""
    page.wait_for_selector("body[data-ready]")


def shoot(page: Any, name: str) -> None:
    """Keep a picture where the tests are asked for pictures."""
    if folder := os.environ.get("NINFER_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def put(page: Any, kind: str, source: str, text: str) -> None:
    page.select_option("#kind", kind)
    page.fill("#source", source)
    page.fill("#text", text)
    settled(page)


def test_first_view_shows_a_supported_preset_and_its_tokens(page: Any) -> None:
    assert "supported" in page.inner_text("#verdict")
    assert "complete" in page.inner_text("#summary")
    assert page.locator("#tokens .token").count() > 3
    shoot(page, "light")


def test_every_preset_is_supported_and_its_samples_are_complete(page: Any) -> None:
    for index in range(page.locator("#preset option").count() - 1):
        page.select_option("#preset", str(index))
        settled(page)
        assert "supported" in page.inner_text("#verdict"), index
        before = page.input_value("#text")
        page.click("#sample")
        page.wait_for_function("before => document.getElementById('text').value !== before", arg=before)
        settled(page)
        assert "complete" in page.inner_text("#summary"), page.input_value("#text")


@pytest.mark.parametrize(
    ("kind", "source", "code", "marked"),
    [
        ("regex", "ab(?=c)", "invalid_regex", "("),
        ("grammar", 'root ::= "a"\nb ::= nam\n', "invalid_grammar", None),
        ("json_schema", '{"properties": {"a": {"type": "nope"}}}', "invalid_schema", '"type": "nope"'),
        ("choice", '["a", 1]', "invalid_choice", "1"),
    ],
)
def test_refusals_are_marked_at_their_place(page: Any, kind: str, source: str, code: str, marked: str | None) -> None:
    put(page, kind, source, "")
    assert code in page.inner_text("#verdict")
    assert page.locator("#marks mark").count() == 1
    assert marked is None or page.locator("#marks mark").text_content() == marked
    shoot(page, f"refused-{kind}")


def test_illegal_byte_legal_set_state_and_distance_are_shown(page: Any) -> None:
    put(page, "regex", "ab(cd)?", "abx")
    assert "byte 0x78 at offset 2" in page.inner_text("#failing")
    assert page.locator("#tokens .token.wrong").count() == 1
    page.locator("#tokens .token").first.click()
    step = page.inner_text("#step")
    assert "2 bytes" in step
    assert "abc" in page.locator("#step .legal .token").all_inner_texts()
    shoot(page, "failing-byte")
    page.get_by_role("button", name="abc", exact=True).click()
    settled(page)
    assert page.input_value("#text") == "abc"
    assert "prefix" in page.inner_text("#summary")


def test_link_brings_everything_back(page: Any, browser: Any) -> None:
    put(page, "choice", '["grün", "blau"]', "grün")
    other = browser.new_page()
    other.set_default_timeout(WAIT_MS)
    other.goto(page.url)
    settled(other)
    assert (other.input_value("#kind"), other.input_value("#source")) == ("choice", '["grün", "blau"]')
    assert "complete" in other.inner_text("#summary")
    other.close()


def test_dark_scheme_follows_the_system_and_the_button(page: Any) -> None:
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    shoot(page, "dark")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
