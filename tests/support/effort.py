"""A bound on work: wide enough for any machine, it fails where work grows without limit."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_within(seconds: float) -> Iterator[None]:
    """The block takes at most this much CPU time of this process.

    Objects that exist before are kept out of the collector: what other tests left behind would be walked again and
    again, and counted as work of the block.
    """
    gc.freeze()
    began = time.process_time()
    try:
        yield
        taken = time.process_time() - began
    finally:
        gc.unfreeze()
    assert taken < seconds, f"{taken:.1f} s of CPU time, more than {seconds} s"
