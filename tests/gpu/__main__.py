"""`python -m tests.gpu`: every kernel checked, then timed, and a table at the end."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

import torch

from tests.gpu.correctness import failures
from tests.gpu.inputs import Shape
from tests.gpu.table import as_table
from tests.gpu.timings import time_all

BATCHES = (1, 8, 64, 256)
DRAFTS = (0, 3, 7)
VOCABULARIES = (151_936, 248_320)
CHECKED = [Shape(1, 0, 31), Shape(3, 2, 33), Shape(2, 3, 1), Shape(4, 3, 151_936), Shape(2, 1, 248_320)]
TINY = [Shape(2, 2, 33)]


def main() -> int:
    """Exit status 1 if a kernel disagrees with its reference."""
    options = argparse.ArgumentParser(prog="tests/gpu/run.sh")
    options.add_argument("--interpret", action="store_true", help="tiny sizes in Triton's interpreter, on the CPU")
    options.add_argument("--out", type=Path, help="also write the table here")
    given = options.parse_args()
    started = time.monotonic()
    device = torch.device("cpu" if given.interpret else "cuda")
    faults = [fault for shape in (TINY if given.interpret else CHECKED) for fault in failures(shape, device)]
    for fault in faults:
        print("WRONG", fault)
    print(f"correctness: {len(faults)} disagreements, {time.monotonic() - started:.0f} s", flush=True)
    sizes = itertools.product(VOCABULARIES, BATCHES, DRAFTS)
    shapes = TINY if given.interpret else [Shape(batch, drafts, size) for size, batch, drafts in sizes]
    text = as_table([time_all(shape, device) for shape in shapes], device)
    print(text)
    print(f"{time.monotonic() - started:.0f} s in all")
    if given.out is not None:
        given.out.write_text(text + "\n", encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
