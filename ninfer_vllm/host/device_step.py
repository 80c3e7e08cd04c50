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
class Layout:
    """Where a step's requests and masks stand among requests that the host samples together; on the device.

    Shapes, all i64: with R constrained requests, M mask rows and P of the requests in the part: `states`, `places`,
    `inside` and `firsts` [R], `owners` and `offsets` [M], `mine` and `theirs` [P].
    """

    states: torch.Tensor
    """The requests' places in the host's tables; some place for one that is not in the part."""
    places: torch.Tensor
    """The requests' places in the part; 0 for one that is not in it."""
    inside: torch.Tensor
    """1 for a request of the part."""
    firsts: torch.Tensor
    """The first mask row of each request."""
    owners: torch.Tensor
    """The request of each mask row."""
    offsets: torch.Tensor
    """The place of each mask row among those of its request."""
    mine: torch.Tensor
    """The requests of the part, by their number in the step."""
    theirs: torch.Tensor
    """The same ones, by their place in the part."""

    @classmethod
    def of(cls, states: Sequence[int], counts: Sequence[int], part: np.ndarray[Any, Any], device: Any) -> Layout:
        """The layout of a step in a part, `part` being the part's places in the host's tables: one copy."""
        place_of = {int(state): place for place, state in enumerate(part)}
        places = np.array([place_of.get(state, LEFT_OUT) for state in states], np.int64)
        inside = np.flatnonzero(places >= 0)
        found = places.clip(min=0)
        owners = np.repeat(np.arange(len(counts)), counts)
        firsts = np.cumsum([0, *counts[:-1]])
        offsets = np.arange(len(owners)) - firsts[owners]
        tables = (part[found], found, places >= 0, firsts, owners, offsets, inside, places[inside])
        packed = on_device(np.concatenate(tables), device, torch.int64)
        return cls(*torch.split(packed, [len(table) for table in tables]))

    @property
    def first_masks(self) -> torch.Tensor:
        """i32 [R]: the first mask row of each request."""
        return self.firsts.to(torch.int32)

    def rows(self, starts: torch.Tensor) -> torch.Tensor:
        """i32 [M]: the row of logits of each mask; -1 where the host verifies no such position."""
        place = self.places[self.owners]
        rows = starts[place] + self.offsets
        kept = (self.inside[self.owners] > 0) & (rows < starts[place + 1])
        return torch.where(kept, rows, LEFT_OUT).to(torch.int32)

    def extents(self, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """First row of logits and number of drafts of each request; a request that is not in the part has none."""
        first = starts[self.places].to(torch.int64)
        count = starts[self.places + 1] - starts[self.places] - 1
        return first, (count * self.inside).to(torch.int32)


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
        self._words: torch.Tensor
        self._facts: torch.Tensor
        self._kinds: torch.Tensor
        self._num_tokens: torch.Tensor
        self._part: Part | None = None
        self._layout: Layout
        """That of the part that is open, before it opens that of the whole batch."""
        self._laid_out: np.ndarray[Any, Any] | None = None
        """The places in the host's tables that the layout is of."""
        self._verified: Verified | None = None

    def mask(
        self, logits: torch.Tensor, words: torch.Tensor, states: np.ndarray[Any, Any], starts: torch.Tensor
    ) -> None:
        """Apply the step's mask rows to the logits of the whole batch."""
        from ninfer_kernels.masking import apply_mask

        self._words = words
        self._kinds = torch.zeros(len(self._ids), dtype=torch.int32, device=logits.device)
        self._num_tokens = torch.zeros_like(self._kinds)
        self._lay_out(states, logits.device)
        self._facts = apply_mask(logits, words, self._layout.rows(starts))

    @contextmanager
    def sampling(self, part: Part) -> Iterator[None]:
        """Choose tokens of the requests in `part` as soon as the host's logits are ready for it."""
        self._lay_out(part.states, part.starts.device)
        self._part, self._verified = part, None
        try:
            yield
        finally:
            self._part = None

    def is_whole(self, num_rows: int) -> bool:
        """Whether every one of so many requests of the open part is constrained."""
        return self._part is not None and len(self._layout.mine) == num_rows

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

        own, lines = self._layout.states, self._layout.rows(part.starts)
        row_state = own[self._layout.owners]
        temperature = parameters.temperature.gpu
        found = select_candidates(
            logits, self._words, lines, temperature[row_state], parameters.top_k.gpu[row_state],
            parameters.min_p.gpu[row_state], parameters.top_p.gpu[row_state],
        )  # fmt: skip
        # Logits that were unsound as the model wrote them stay so, whatever penalties and biases made of them.
        found = replace(found, facts=torch.where(self._facts == 1, found.facts, UNSOUND))
        first, num_drafts = self._layout.extents(part.starts)
        wanted = first[:, None] + 1 + torch.arange(part.most_drafts, device=logits.device)
        drafts = part.drafts[wanted.clamp(max=len(part.drafts) - 1)].to(torch.int32)
        slab_of = own.to(torch.int32)
        proposal = part.proposal
        offered = None if proposal is None else proposal_of_logits(proposal, slab_of, temperature[own], num_drafts)
        self._verified = verify_drafts(
            logits, self._words, lines, found, self._layout.first_masks, num_drafts, drafts,
            offered, parameters.seeds.gpu[own], part.positions[first] + 1,
        )  # fmt: skip

    def put(self, tokens: torch.Tensor, num_tokens: torch.Tensor | None) -> None:
        """Put the part's tokens in place of the host's, and note its faults.

        Shapes: tokens [requests of the part, most drafts + 1]; num_tokens [requests of the part], if the host counts.
        """
        done = self._verified
        assert done is not None, "the host never came to its temperatures"
        mine, theirs = self._layout.mine, self._layout.theirs
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

    def _lay_out(self, states: np.ndarray[Any, Any], device: torch.device) -> None:
        """Find this step's requests in a part; most steps have one part, which is laid out once."""
        if self._laid_out is not None and np.array_equal(self._laid_out, states):
            return
        self._layout = Layout.of(self._states, self._counts, states, device)
        self._laid_out = states


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
