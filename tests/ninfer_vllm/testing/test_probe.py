"""`Probe` answers from the code that serves requests, without the host."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from ninfer_vllm import OutputConstraint, embedded
from ninfer_vllm.errors import (
    ConflictingConstraint,
    InvalidContinuation,
    InvalidGrammar,
    InvalidOption,
    InvalidRegex,
    UnsupportedSchema,
    UnsupportedTokenizer,
)
from ninfer_vllm.testing import Probe
from ninfer_vllm.vocabulary import TokenClass

DATE = OutputConstraint.regex(r"\d{4}-\d{2}-\d{2}")
COLOUR = OutputConstraint.choice(["red", "red wine", "blue"])
POINT = OutputConstraint.json_schema(
    {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "label": {"type": "string"}},
        "required": ["x"],
        "additionalProperties": False,
    }
)
STATUS = OutputConstraint.grammar('root ::= "status=" ("ok" | "error") "\\n"')

pytestmark = pytest.mark.contract("API-9")


@pytest.fixture(scope="module", params=["embedded", "embedded-qwen"])
def probe(request: pytest.FixtureRequest) -> Probe:
    return Probe(request.param)


def test_probe_needs_no_host() -> None:
    code = "import sys; sys.modules['vllm'] = None; from ninfer_vllm.testing import Probe; Probe('embedded')"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.contract("GEN-2", "CHO-3")
def test_accepts_asks_for_a_complete_text(probe: Probe) -> None:
    assert [probe.accepts(COLOUR, text) for text in ("red", "red wine", "re", "red ", "Red")] == [True] * 2 + [
        False
    ] * 3


def test_is_prefix_asks_for_one_that_can_go_on(probe: Probe) -> None:
    assert [probe.is_prefix(COLOUR, text) for text in ("", "re", "red ", "red wine", "rex")] == [True] * 4 + [False]


@pytest.mark.contract("GEN-1", "TOK-3")
def test_first_mask_allows_exactly_the_tokens_that_fit(probe: Probe) -> None:
    spellings = probe.vocabulary.spellings
    mask = probe.mask(STATUS)
    assert (mask.dtype, mask.shape) == (np.bool_, (len(probe.vocabulary),))
    fits = {
        token
        for token in probe.vocabulary.ids(TokenClass.ORDINARY)
        if spellings[token] and any(text.startswith(spellings[token]) for text in (b"status=ok\n", b"status=error\n"))
    }
    assert set(np.flatnonzero(mask).tolist()) == fits


def test_mask_behind_a_complete_text_allows_the_ends(probe: Probe) -> None:
    assert np.flatnonzero(probe.mask(STATUS, "status=ok\n")).tolist() == list(probe.vocabulary.ids(TokenClass.EOS))


def test_mask_goes_on_inside_a_character(probe: Probe) -> None:
    hai = OutputConstraint.choice(["海"])
    assert probe.mask(hai, "海".encode()[:1]).any()


@pytest.mark.contract("RGX-4")
@pytest.mark.parametrize("text", ["\ud800", b"\xff", "a\ud800"])
def test_what_is_no_unicode_text_is_in_no_language(probe: Probe, text: str | bytes) -> None:
    anything = OutputConstraint.regex(r"[\s\S]*")
    assert not probe.is_prefix(anything, text)
    assert not probe.accepts(anything, text)


def test_mask_of_what_is_no_prefix_says_where_it_stops_being_one(probe: Probe) -> None:
    with pytest.raises(InvalidContinuation) as raised:
        probe.mask(DATE, "20x")
    assert raised.value.place == {"offset": 2}


@pytest.mark.parametrize("constraint", [DATE, COLOUR, POINT, STATUS, OutputConstraint.json_object()])
@pytest.mark.parametrize("frame", ["content", "thinking", "opening"])
def test_samples_are_members_and_repeat_with_their_seed(probe: Probe, constraint: OutputConstraint, frame: str) -> None:
    texts = [probe.sample(constraint, seed, frame=frame) for seed in range(5)]
    assert texts == [probe.sample(constraint, seed, frame=frame) for seed in range(5)]
    assert all(probe.accepts(constraint, text, frame=frame) for text in texts)


@pytest.mark.contract("THK-3", "THK-4")
@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("</think>\n\nred", True),
        ("Let me see.\n</think>\n\nred", True),
        ("Let me see.</think>\n\nred", False),
        ("Let me see.\n</think>\nred", False),
        ("red", False),
    ],
)
def test_content_follows_a_closed_block_in_the_thinking_frame(probe: Probe, text: str, accepted: bool) -> None:
    assert probe.accepts(COLOUR, text, frame="thinking") is accepted
    assert probe.accepts(COLOUR, f"<think>\n{text}", frame="opening") is accepted


def test_reasoning_alone_is_a_prefix_in_the_thinking_frame(probe: Probe) -> None:
    assert probe.is_prefix(COLOUR, "Let me", frame="thinking")
    assert not probe.is_prefix(COLOUR, "Let me", frame="opening")
    assert probe.is_prefix(COLOUR, "", frame="opening")


@pytest.mark.contract("GBNF-4")
def test_token_terminal_is_read_as_its_token(probe: Probe) -> None:
    (hello,) = (
        token for token in probe.vocabulary.ids(TokenClass.ORDINARY) if probe.vocabulary.spellings[token] == b"hello"
    )
    grammar = OutputConstraint.grammar(f'root ::= Token({hello}) "x"{{2}} ExcludeToken({hello})')
    assert probe.accepts(grammar, "helloxx!")
    assert probe.is_prefix(grammar, "hel")
    assert not probe.accepts(grammar, "hel")
    assert not probe.is_prefix(grammar, "helxx")
    assert probe.accepts(grammar, probe.sample(grammar, 1))
    with pytest.raises(InvalidContinuation) as raised:
        probe.mask(grammar, "hellox!")
    assert raised.value.offset == 6


def test_walk_times_every_token(probe: Probe) -> None:
    ends = probe.vocabulary.ids(TokenClass.EOS)
    digits = {probe.vocabulary.spellings[token]: token for token in probe.vocabulary.ids(TokenClass.ORDINARY)}
    tokens = [digits[char.encode()] for char in "2024-05-06"]
    timings = probe.walk(DATE, [*tokens, ends[0]])
    assert (len(timings.mask_ns), len(timings.accept_ns)) == (10, 11)
    assert min(timings.first_mask_ns, *timings.mask_ns, *timings.accept_ns) > 0
    with pytest.raises(InvalidContinuation, match=r"byte 2: token 2 \(id \d+\) is not legal"):
        probe.walk(DATE, [*tokens[:2], ends[0]])
    with pytest.raises(InvalidContinuation, match="byte 10: token 10"):
        probe.walk(DATE, [*tokens, tokens[0]])


def test_lower_gives_the_grammar_of_the_frame(probe: Probe) -> None:
    plain, framed = probe.lower(COLOUR), probe.lower(COLOUR, frame="thinking")
    assert framed.rules[plain.root] == plain.rules[plain.root]
    assert framed.root != plain.root


@pytest.mark.parametrize(
    ("constraint", "error"),
    [
        (OutputConstraint.regex("(?=a)"), InvalidRegex),
        (OutputConstraint.grammar("root ::="), InvalidGrammar),
        (OutputConstraint.json_schema({"uniqueItems": True}), UnsupportedSchema),
    ],
)
def test_refusals_are_those_of_serving(probe: Probe, constraint: OutputConstraint, error: type[Exception]) -> None:
    for ask in (probe.accepts, probe.is_prefix, probe.mask):
        with pytest.raises(error):
            ask(constraint, "a")
    with pytest.raises(error):
        probe.sample(constraint, 0)


def test_missing_engine_is_refused_by_name() -> None:
    with pytest.raises(InvalidOption, match="'other'"):
        Probe("embedded", engine="other")  # type: ignore[arg-type]


def test_folder_and_objects_give_the_same_masks() -> None:
    folder = embedded.tokenizer("embedded-qwen")
    bare = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    from transformers import AutoTokenizer

    fast = AutoTokenizer.from_pretrained(str(folder))
    ends = Probe(folder).vocabulary.ids(TokenClass.EOS)
    *folders, object_mask, bare_mask = (
        Probe(source, eos_ids=ends).mask(POINT) for source in (str(folder), folder, fast, bare)
    )
    assert (object_mask == bare_mask).all()
    for mask in folders:
        assert (mask[: len(bare_mask)] == bare_mask).all()
        assert not mask[len(bare_mask) :].any(), "columns without a token"


def test_ends_and_columns_come_from_beside_the_tokenizer(tmp_path: Path) -> None:
    for file in embedded.tokenizer("embedded-qwen").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [151645, 151643]}))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", "text_config": {"vocab_size": 151999}}))
    vocabulary = Probe(tmp_path).vocabulary
    assert vocabulary.ids(TokenClass.EOS) == (151643, 151645)
    assert len(vocabulary) == 151999
    assert config["vocab_size"] == 151936


def test_frame_without_thinking_is_refused_where_the_model_does_not_think() -> None:
    bare = tokenizers.Tokenizer.from_file(str(embedded.tokenizer("embedded-qwen") / "tokenizer.json"))
    with pytest.raises(ConflictingConstraint, match="has no thinking block"):
        Probe(bare).accepts(COLOUR, "red", frame="thinking")
    with pytest.raises(ConflictingConstraint, match="is not one of"):
        Probe(bare).accepts(COLOUR, "red", frame="middle")  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["no-such-folder", 7])
def test_what_is_no_tokenizer_is_refused(source: object) -> None:
    with pytest.raises(UnsupportedTokenizer):
        Probe(source)
