"""The constrained rows of one step of the V2 worker, which stay on the device: masks in, tokens and row faults out.

Theory of operation. The host's mask worker hands the step's masks over; they are applied, with the facts of the legal
logits kept. When the host is about to apply temperatures, logits are as the contract's target wants them (penalties
and biases behind, temperature before), and our kernels choose the tokens of the constrained rows there and then,
reading the logits where they are. The host goes on to sample the whole batch; our tokens then replace its own. Nothing
waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ninfer_vllm.host.host_version import FIXED_MASK_STRIDE
from ninfer_vllm.host.worker_step import PLACE_HOLDER, RowFaults
from ninfer_vllm.sampling.faults import RowFault

if TYPE_CHECKING:
    from ninfer_kernels.verification import Verified

LEFT_OUT = -1
UNSOUND = 2
FAULTS = {1: RowFault.EMPTY, 2: RowFault.NON_FINITE}
"""Faults as the kernels number them."""


@dataclass(frozen=True, slots=True)
class Part:
    """Requests that the host samples together: a whole batch, or a part of a large one."""

    states: np.ndarray[Any, Any]
    """[requests]: each request's place in the host's tables."""
    starts: torch.Tensor
    """i32 [requests + 1]: where each request's rows of logits begin; on the device."""
    positions: torch.Tensor
    """i64 [rows]: the place of each row's input token in its sequence."""
    drafts: torch.Tensor
    """[rows]: each row's input token; -1 where nothing was proposed."""
    proposal: torch.Tensor | None
    """[tables, K, V]: logits that drafts were sampled from, before temperature."""
    most_drafts: int


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFaults:
    """What the kernels met instead of tokens, on its way to the host."""

    request_ids: tuple[str, ...]
    kinds: torch.Tensor
    """i32 [constrained requests]: 0 none."""
    num_tokens: torch.Tensor
    """i32 [constrained requests]: tokens of the step in front of the fault."""

    def on_host(self) -> DeviceFaults:
        """A copy on the host, there once the stream has come to it."""
        return DeviceFaults(
            self.request_ids, self.kinds.to("cpu", non_blocking=True), self.num_tokens.to("cpu", non_blocking=True)
        )

    def told(self) -> RowFaults:
        """The faults by request, of a copy that is there."""
        met = zip(self.request_ids, self.kinds.tolist(), self.num_tokens.tolist(), strict=True)
        return {request_id: (FAULTS[kind].value, count) for request_id, kind, count in met if kind}


class DeviceStep:
    """The constrained rows of a step, from their masks to their tokens."""

    def __init__(self, request_ids: Sequence[str], states: Sequence[int], counts: Sequence[int]) -> None:
        """`states` places of the requests in the host's tables, `counts` mask rows of each."""
        self._ids = tuple(request_ids)
        self._states = list(states)
        self._counts = list(counts)
        self._firsts = np.cumsum([0, *counts[:-1]], dtype=np.int32)
        self._words: torch.Tensor
        self._facts: torch.Tensor
        self._kinds: torch.Tensor
        self._num_tokens: torch.Tensor
        self._part: Part | None = None
        self._places: list[int] = []
        """Places of this step's requests in the part that is open; -1 for a request that is not in it."""
        self._verified: Verified | None = None

    def mask(
        self, logits: torch.Tensor, words: torch.Tensor, states: np.ndarray[Any, Any], starts: torch.Tensor
    ) -> None:
        """Apply the step's mask rows to the logits of the whole batch."""
        from ninfer_kernels.masking import apply_mask

        self._words = words
        self._kinds = torch.zeros(len(self._ids), dtype=torch.int32, device=logits.device)
        self._num_tokens = torch.zeros_like(self._kinds)
        self._facts = apply_mask(logits, words, self._lines(self._places_in(states), starts))

    @contextmanager
    def sampling(self, part: Part) -> Iterator[None]:
        """Choose tokens of the requests in `part` as soon as the host's logits are ready for it."""
        self._part, self._places, self._verified = part, self._places_in(part.states), None
        try:
            yield
        finally:
            self._part = None

    def is_whole(self, num_rows: int) -> bool:
        """Whether every one of so many requests of the open part is constrained."""
        return self._part is not None and sum(place >= 0 for place in self._places) == num_rows

    def choose(self, logits: torch.Tensor, parameters: Any) -> None:
        """Tokens of the open part's constrained rows, from its logits before temperature.

        Shapes: logits [rows of the part, V]; `parameters` the host's tables of sampling parameters.
        """
        part = self._part
        if part is None or self._verified is not None:
            return
        from ninfer_kernels.candidates import select_candidates
        from ninfer_kernels.proposals import proposal_of_logits
        from ninfer_kernels.verification import verify_drafts

        device, places = logits.device, self._places
        own = on_device([part.states[max(place, 0)] for place in places], device, torch.int64)
        row_state = own[on_device(np.repeat(np.arange(len(places)), self._counts), device, torch.int64)]
        lines = self._lines(places, part.starts)
        temperature = parameters.temperature.gpu
        found = select_candidates(
            logits, self._words, lines, temperature[row_state], parameters.top_k.gpu[row_state],
            parameters.min_p.gpu[row_state], parameters.top_p.gpu[row_state],
        )  # fmt: skip
        # Logits that were unsound as the model wrote them stay so, whatever penalties and biases made of them.
        found = replace(found, facts=torch.where(self._facts == 1, found.facts, UNSOUND))
        first, num_drafts = self._extents(places, part)
        wanted = first[:, None] + 1 + torch.arange(part.most_drafts, device=device)
        drafts = part.drafts[wanted.clamp(max=len(part.drafts) - 1)].to(torch.int32)
        slab_of = own.to(torch.int32)
        proposal = part.proposal
        offered = None if proposal is None else proposal_of_logits(proposal, slab_of, temperature[own], num_drafts)
        self._verified = verify_drafts(
            logits, self._words, lines, found, on_device(self._firsts, device, torch.int32), num_drafts, drafts,
            offered, parameters.seeds.gpu[own], part.positions[first] + 1,
        )  # fmt: skip

    def put(self, tokens: torch.Tensor, num_tokens: torch.Tensor | None) -> None:
        """Put the part's tokens in place of the host's, and note its faults.

        Shapes: tokens [requests of the part, most drafts + 1]; num_tokens [requests of the part], if the host counts.
        """
        done = self._verified
        assert done is not None, "the host never came to its temperatures"
        inside = [at for at, place in enumerate(self._places) if place >= 0]
        mine = on_device(inside, tokens.device, torch.int64)
        theirs = on_device([self._places[at] for at in inside], tokens.device, torch.int64)
        faults = done.faults[mine]
        # Behind the last token stands nothing, but what stands there must be a token of the vocabulary.
        tokens[theirs] = done.tokens[mine].clamp(min=PLACE_HOLDER).to(tokens.dtype)
        if num_tokens is not None:
            num_tokens[theirs] = (done.num_tokens[mine] + (faults > 0)).to(num_tokens.dtype)
        self._kinds[mine] = faults
        self._num_tokens[mine] = done.num_tokens[mine]

    @property
    def faults(self) -> DeviceFaults:
        """The faults of all parts that were sampled."""
        return DeviceFaults(self._ids, self._kinds, self._num_tokens)

    def _places_in(self, states: np.ndarray[Any, Any]) -> list[int]:
        place_of = {int(state): place for place, state in enumerate(states)}
        return [place_of.get(state, LEFT_OUT) for state in self._states]

    def _extents(self, places: list[int], part: Part) -> tuple[torch.Tensor, torch.Tensor]:
        """First row of logits and number of drafts of each request; a request that is not in the part has none."""
        place = on_device([max(place, 0) for place in places], part.starts.device, torch.int64)
        inside = on_device([place >= 0 for place in places], part.starts.device, torch.bool)
        first = part.starts[place].to(torch.int64)
        count = part.starts[place + 1] - part.starts[place] - 1
        return first, torch.where(inside, count, 0).to(torch.int32)

    def _lines(self, places: list[int], starts: torch.Tensor) -> torch.Tensor:
        """i32 [masks]: the row of logits of each mask; -1 where the host verifies no such position."""
        place = on_device(np.repeat(places, self._counts), starts.device, torch.int64)
        position = on_device(np.concatenate([np.arange(count) for count in self._counts]), starts.device, torch.int64)
        inside = place.clamp(min=0)
        lines = starts[inside] + position
        kept = (place >= 0) & (lines < starts[inside + 1])
        return torch.where(kept, lines, LEFT_OUT).to(torch.int32)


class OpenStep:
    """Where the host's mask worker leaves the step that its samplers find."""

    def __init__(self) -> None:
        self.step: DeviceStep | None = None


_open: ContextVar[OpenStep | None] = ContextVar("device_step", default=None)


def open_step() -> OpenStep | None:
    """The step that is being sampled, if the plugin is selected and the step has masks."""
    return _open.get()


def current_device_step() -> DeviceStep | None:
    """The constrained rows that are being sampled, if there are any."""
    opened = _open.get()
    return None if opened is None else opened.step


@contextmanager
def opened() -> Iterator[OpenStep]:
    """Let the host's functions find the step."""
    token = _open.set(OpenStep())
    try:
        found = _open.get()
        assert found is not None
        yield found
    finally:
        _open.reset(token)


def begin_device_step(worker: Any, logits: torch.Tensor, batch: Any, ids: Sequence[str], bitmask: Any) -> DeviceStep:
    """Ship the step's masks to the device and apply them; `worker` is the host's mask worker."""
    from vllm.utils.torch_utils import async_tensor_h2d

    with torch.cuda.stream(worker.copy_stream):
        words = async_tensor_h2d(bitmask, out=worker.grammar_bitmask[: len(bitmask)])
    torch.cuda.current_stream().wait_stream(worker.copy_stream)
    index = {request_id: at for at, request_id in enumerate(batch.req_ids)}
    places = [index[request_id] for request_id in ids]
    drafts = batch.num_draft_tokens_per_req
    if FIXED_MASK_STRIDE:
        counts = [len(bitmask) // len(ids)] * len(ids)
    else:
        counts = [1 if drafts is None else int(drafts[place]) + 1 for place in places]
    assert sum(counts) == len(bitmask)
    step = DeviceStep(ids, [int(batch.idx_mapping_np[place]) for place in places], counts)
    step.mask(logits, words, batch.idx_mapping_np, batch.cu_num_logits)
    return step


def on_device(values: Any, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """A small table of the host's, copied without waiting."""
    from vllm.utils.torch_utils import async_tensor_h2d

    return async_tensor_h2d(np.asarray(values), device=device, dtype=dtype)
