"""The constrained rows of one step of the V1 worker: masks in, tokens and row faults out.

Theory of operation. The host samples a step in several of its own functions. A `ConstrainedStep` is current while they
run; at each of them it keeps the logits of its rows as they are after penalties and before temperature, and puts its
own tokens in place of the host's before the host computes log probabilities of them. Rows of other requests, and
everything else in the step, are the host's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from ninfer_vllm.host.host_version import FIXED_MASK_STRIDE
from ninfer_vllm.masks.bits import MaskRow
from ninfer_vllm.sampling.faults import RowFault
from ninfer_vllm.sampling.masking import mask_logits
from ninfer_vllm.sampling.parameters import Parameters
from ninfer_vllm.sampling.targets import Logits, Target, target_of
from ninfer_vllm.sampling.verification import Proposal, verify

if TYPE_CHECKING:
    from vllm import SamplingParams

NO_TOKEN = -1
"""What the host writes behind a row's last token."""
PLACE_HOLDER = 0
"""Stands for the token of a row that failed: the engine core drops it before anyone sees it."""
SEEDS = 1 << 62

RowFaults = dict[str, tuple[str, int]]
"""Request -> what is wrong, and how many tokens of the step come before; as it travels to the engine core."""


@dataclass(frozen=True, slots=True)
class Row:
    """One constrained request in a step."""

    request_id: str
    index: int
    """Its place in the batch."""
    first: int
    """Its first row of logits."""
    num_drafts: int
    parameters: Parameters
    seed: int
    position: int
    """The place of the step's first token in the request's sequence."""
    num_masked: int | None = None
    """Drafts that its masks looked ahead through, if not all: those behind them are taken for nothing proposed."""


class ConstrainedStep:
    """The constrained rows of a step, until its tokens are chosen."""

    def __init__(self, rows: Sequence[Row], unsound: set[int], *, is_drafted: bool) -> None:
        self.rows = rows
        self.is_drafted = is_drafted
        """Whether the step verifies drafts, of whichever rows."""
        self.faults: RowFaults = {}
        self._unsound = unsound
        self._kept: dict[int, Logits] = {}
        """Logits by their row in the step, after penalties."""

    def is_whole_batch(self, num_rows: int) -> bool:
        """Whether the host has no row of its own in a batch of so many."""
        return len(self.rows) == num_rows

    def keep_last(self, logits: torch.Tensor) -> None:
        """Keep the logits [batch, V] of each row's last position: its only one, or that of the bonus token."""
        kept = copy_of(logits, [row.index for row in self.rows])
        self._kept.update(zip((row.first + row.num_drafts for row in self.rows), kept, strict=True))

    def keep_drafted(self, logits: torch.Tensor, num_drafts: Sequence[int]) -> None:
        """Keep the logits [drafts of the batch, V] of the positions that verify a draft."""
        starts = starts_of(num_drafts)
        places = {row.first + at: starts[row.index] + at for row in self.rows for at in range(row.num_drafts)}
        self._kept.update(zip(places, copy_of(logits, list(places.values())), strict=True))

    def sample(self, tokens: torch.Tensor) -> None:
        """Put the rows' tokens into `tokens` [batch], in a step in which nothing was drafted."""
        self._put(tokens.unsqueeze(1), [self._run(row, (), None) for row in self.rows])

    def verify(
        self, drafts: torch.Tensor, num_drafts: Sequence[int], proposal: torch.Tensor | None, tokens: torch.Tensor
    ) -> None:
        """Put the rows' tokens into `tokens` [batch, most drafts + 1].

        Shapes: drafts [drafts of the batch]; proposal [drafts of the batch, V] or None; the host's order.
        """
        starts, proposed = starts_of(num_drafts), drafts.tolist()
        steps = []
        for row in self.rows:
            own = slice(starts[row.index], starts[row.index] + row.num_drafts)
            mine: list[int] = proposed[own]
            if row.num_masked is not None:
                mine[row.num_masked :] = [NO_TOKEN] * len(mine[row.num_masked :])
            steps.append(self._run(row, mine, None if proposal is None else proposal[own].cpu().numpy()))
        self._put(tokens, steps)

    def _put(self, tokens: torch.Tensor, steps: Sequence[tuple[int, ...]]) -> None:
        chosen = np.full((len(steps), tokens.shape[1]), NO_TOKEN)
        for line, step in zip(chosen, steps, strict=True):
            line[: len(step)] = step
        tokens[[row.index for row in self.rows]] = torch.from_numpy(chosen).to(tokens)

    def _run(self, row: Row, drafts: Sequence[int], proposal: Proposal | None) -> tuple[int, ...]:
        step = verify(partial(self._target, row), drafts, proposal, row.seed, row.position)
        if step.fault is None:
            return step.tokens
        self.faults[row.request_id] = (step.fault.value, len(step.tokens))
        return (*step.tokens, PLACE_HOLDER)

    def _target(self, row: Row, at: int) -> Target | RowFault:
        if row.first + at in self._unsound:
            return RowFault.NON_FINITE
        return target_of(self._kept[row.first + at], row.parameters)


_current: ContextVar[ConstrainedStep | None] = ContextVar("constrained_step", default=None)


def current_step() -> ConstrainedStep | None:
    """The step that is being sampled, if it has constrained rows."""
    return _current.get()


@contextmanager
def sampling(step: ConstrainedStep) -> Iterator[None]:
    """Let the host's functions find the step."""
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)


def begin_step(runner: Any, grammar_output: Any) -> ConstrainedStep:
    """Apply the step's masks to the host's logits and collect its constrained rows."""
    scheduled, logits = runner.execute_model_state.scheduler_output, runner.execute_model_state.logits
    drafted = scheduled.scheduled_spec_decode_tokens
    firsts: dict[str, int] = {}
    used = 0
    for request_id in runner.input_batch.req_ids:
        firsts[request_id] = used
        used += 1 + len(drafted.get(request_id, ()))
    ids, masked = grammar_output.structured_output_request_ids, grammar_output.num_acceptable_drafts
    rows: list[Row] = []
    row_of: list[int] = []
    masks: list[MaskRow] = []
    for request_id, own, num_masked in zip(ids, _masks_of(grammar_output, drafted), masked, strict=True):
        if request_id in firsts:
            rows.append(_row_of(runner, scheduled, request_id, firsts[request_id], len(own) - 1, num_masked))
            row_of += range(firsts[request_id], firsts[request_id] + len(own))
            masks += own
    sound = mask_logits(logits, row_of, masks)
    unsound = {index for index, good in zip(row_of, sound, strict=True) if not good}
    return ConstrainedStep(rows, unsound, is_drafted=runner.execute_model_state.spec_decode_metadata is not None)


def copy_of(logits: torch.Tensor, rows: list[int]) -> npt.NDArray[np.float32]:
    """Some rows of the host's float32 logits, on the CPU; the host goes on to write where they are."""
    kept: npt.NDArray[np.float32] = logits[rows].to("cpu", torch.float32).numpy()
    return kept


def starts_of(counts: Sequence[int]) -> list[int]:
    """Where each of several runs begins when they are laid one behind the other."""
    starts = [0]
    for count in counts[:-1]:
        starts.append(starts[-1] + count)
    return starts


def _masks_of(grammar_output: Any, drafted: dict[str, list[int]]) -> Iterator[list[MaskRow]]:
    """The mask rows of each constrained request, one more than it has drafts."""
    ids, words = grammar_output.structured_output_request_ids, grammar_output.grammar_bitmask
    used = 0
    for request_id in ids:
        count = 1 + len(drafted.get(request_id, ()))
        yield list(words[used : used + count])
        used += len(words) // len(ids) if FIXED_MASK_STRIDE else count


def _row_of(runner: Any, scheduled: Any, request_id: str, first: int, num_drafts: int, num_masked: int | None) -> Row:
    state = runner.requests[request_id]
    params: SamplingParams = state.sampling_params
    seed = int(torch.randint(SEEDS, ())) if params.seed is None else params.seed
    index = runner.input_batch.req_id_to_index[request_id]
    parameters = Parameters(params.temperature, max(params.top_k, 0), params.min_p, params.top_p)
    # Not the host's count of output tokens: with asynchronous scheduling it holds drafts that were rejected meanwhile.
    position = state.num_computed_tokens + scheduled.num_scheduled_tokens[request_id] - num_drafts
    return Row(request_id, index, first, num_drafts, parameters, seed, position, num_masked)
