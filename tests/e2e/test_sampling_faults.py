"""Rows that a broken model leaves without sound logits, and seeded rows whose prompt is read in chunks."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import InvalidOption, NonFiniteLogits
from tests.support.engine import IN_PROCESS, SELECTED, Ask, Engine
from tests.support.inspection import state_of

pytestmark = pytest.mark.engine

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1, "prompt_lookup_max": 3}
CHUNK = 64
BROKEN_WORD = "dog"
GREEDY = {"temperature": 0.0, "max_tokens": 8}
SAMPLED = {"temperature": 1.0, "max_tokens": 8, "seed": 5}
SOUND = Ask("Choose one:", OutputConstraint.choice(["cat", "sun"]), GREEDY)
FREE = Ask("One, two,", None, {**GREEDY, "max_tokens": 4})


@pytest.fixture(scope="module")
def broken_model(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with NaN in the weights of one word's logit."""
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("broken") / "model"
    shutil.copytree(tiny, folder)
    (token,) = AutoTokenizer.from_pretrained(folder).encode(BROKEN_WORD)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"][token] = math.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def engine(broken_model: Path) -> Iterator[Engine]:
    options = {"dtype": "float32", "max_model_len": 512, "max_num_batched_tokens": CHUNK, "speculative_config": NGRAM}
    with Engine(broken_model, IN_PROCESS, **options, **SELECTED) as running:
        yield running


@pytest.mark.contract("SMP-4", "ERR-4", "ERR-5", "ERR-6")
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_row_with_unsound_legal_logits_fails_alone_with_its_own_code(engine: Engine, sampling: dict) -> None:
    failing = Ask("Choose one:", OutputConstraint.choice(["cat", BROKEN_WORD]), sampling)
    failed, sound = (answer.only for answer in engine.generate([failing, SOUND]))
    assert (failed.text, failed.token_ids, failed.finish_reason) == ("", (), "error")
    assert failed.stop_reason == "non_finite_logits"
    assert failed.error == NonFiniteLogits(0)
    # The same broken logit is illegal here and counts for nothing.
    assert sound.text in ("cat", "sun")
    assert sound.finish_reason == "stop"
    state = engine.call(state_of)
    assert (state.sessions, state.step_rows, state.unfinished) == (0, 0, 0)


@pytest.mark.contract("ERR-4", "SMP-4", "SPC-7", "MSK-6")
def test_fault_behind_an_accepted_draft_takes_the_whole_step_with_it(engine: Engine) -> None:
    """Behind the first digit the prompt has a space, a digit and a space drafted; the broken word is legal third."""
    failing = Ask("7 8 9 7 8 9 7 8 9 ", OutputConstraint.regex(f"7 8({BROKEN_WORD}|sun)"), GREEDY)
    failed = engine.generate([failing, SOUND])[0].only
    assert failed.text == "7"
    assert len(failed.token_ids) == 1
    assert failed.error == NonFiniteLogits(3)
    assert failed.stop_reason == "non_finite_logits"


@pytest.mark.contract("SPC-8")
def test_lossy_acceptance_stops_the_start(tiny: Path) -> None:
    lossy = {**NGRAM, "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.9, 0.8, 0.7]}
    with pytest.raises(InvalidOption, match="synthetic"):
        Engine(tiny, IN_PROCESS, speculative_config=lossy, **SELECTED)


@pytest.mark.contract("SMP-5", "ERR-6", "ENG-1")
def test_seeded_request_is_the_same_in_whichever_chunks_its_prompt_is_read(engine: Engine) -> None:
    """The host winds generators of such rows back, which a CPU's generators cannot do."""
    long = Ask("word " * (3 * CHUNK), OutputConstraint.regex("[a-c]{6}"), SAMPLED)
    unconstrained = Ask("word " * (2 * CHUNK), None, {**SAMPLED, "max_tokens": 2})
    alone = engine.generate([long])[0].only
    together = engine.generate([FREE, unconstrained, long, SOUND])[2].only
    assert together.token_ids == alone.token_ids
    assert len(alone.text) == 6
