"""Weights written by us are what torch and safetensors read."""

from pathlib import Path

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from ninfer_vllm.embedded.checkpoint import to_bfloat16, write_safetensors


@given(st.lists(st.floats(-(2.0**120), 2.0**120, width=32), min_size=1, max_size=50))
def test_rounding_is_torchs(values: list[float]) -> None:
    ours = to_bfloat16(np.array(values, dtype=np.float32))
    theirs = torch.tensor(values, dtype=torch.float32).to(torch.bfloat16)
    assert ours.tolist() == theirs.view(torch.uint16).tolist()


def test_ties_go_to_the_even_value() -> None:
    halfway = np.array([0x3F808000, 0x3F818000], dtype=np.uint32).view(np.float32)
    assert to_bfloat16(halfway).tolist() == [0x3F80, 0x3F82]


def test_file_is_read_back_by_safetensors(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in (("b", (3, 5)), ("a.long", (7,)))}
    write_safetensors(tmp_path / "x.safetensors", {name: to_bfloat16(values) for name, values in tensors.items()})
    read = load_file(tmp_path / "x.safetensors")
    assert set(read) == {"a.long", "b"}
    for name, values in tensors.items():
        assert torch.equal(read[name], torch.from_numpy(values).to(torch.bfloat16))
