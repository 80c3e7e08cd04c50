"""The files of a model folder: bfloat16 weights in the safetensors format, and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Bfloat16Bits = npt.NDArray[np.uint16]

# The format wants the tensor bytes to start at a multiple of 8; the header is padded with spaces.
_HEADER_ALIGNMENT = 8


def to_bfloat16(values: Float32) -> Bfloat16Bits:
    """The nearest bfloat16 of each finite value, as its 16 bits; ties go to the even one.

    Formula:  upper 16 bits of (b + 0x7FFF + bit 16 of b), where b are the 32 bits of the value.
    Source:   IEEE 754 roundTiesToEven; bfloat16 is the upper half of binary32.
    """
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)


def write_safetensors(path: Path, tensors: Mapping[str, Bfloat16Bits]) -> None:
    """Write the tensors as BF16, in the mapping's order.

    Source:   safetensors format: u64 little-endian header length, JSON header, row-major little-endian bytes.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, bits in tensors.items():
        start, end = end, end + bits.nbytes
        header[name] = {"dtype": "BF16", "shape": list(bits.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _HEADER_ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for bits in tensors.values():
            file.write(np.ascontiguousarray(bits, dtype="<u2").data)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON document for people to read."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
