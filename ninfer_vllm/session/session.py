"""`OutputSession`: everything one constrained sample owns, from waiting to its end (SES-1)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ninfer_vllm.constraint import Frame
from ninfer_vllm.engines.protocol import CompiledGrammar, Matcher
from ninfer_vllm.errors import MatcherInconsistency, NInferError
from ninfer_vllm.masks.bits import WORD_BYTES, MaskRow
from ninfer_vllm.masks.rows import StepRows
from ninfer_vllm.record import CacheOutcome, ConstraintRecord
from ninfer_vllm.session.branch import BranchWatch
from ninfer_vllm.session.existing import Existing, continue_from
from ninfer_vllm.session.grammar_drafts import forced_tokens
from ninfer_vllm.session.lookahead import look_ahead
from ninfer_vllm.session.phases import Phase, PhasedMatcher, ThinkingRules
from ninfer_vllm.session.states import Event, State, after


class OutputSession:
    """One sample's matcher, phase and counters.

    Three operations: `look_ahead` (temporary, always rolled back), `preview` (provisional), `commit` or `discard` of
    the preview. The state table makes lookahead and preview exclude each other. Only the engine's own thread calls
    them after `attach` (SES-7).
    """

    def __init__(
        self,
        kind: str,
        engine: str,
        frame: Frame,
        *,
        existing: Existing = (),
        budget: int | None = None,
        tool_id: int | None = None,
        timings: bool = False,
    ) -> None:
        """A session that waits for its grammar.

        `existing` is content that the prompt already holds (CON-1); `budget` bounds the tokens of the thinking block;
        `tool_id` is the token that begins a tool call.
        """
        self.seconds: dict[str, float] = {}
        """CPU seconds by what they were spent on: prepare_s, mask_s and commit_s."""
        self.record = ConstraintRecord(kind, engine, timings=self.seconds if timings else None)
        self.error: NInferError | None = None
        self._frame = frame
        self._existing = existing
        self._budget = budget
        self._watch = BranchWatch(frame, tool_id)
        self._line_breaks: Mapping[int, int] = {}
        self._state = State.WAITING
        self._matcher: Matcher | None = None
        self._phases: PhasedMatcher | None = None
        self._previewed: tuple[int, ...] = ()

    @property
    def state(self) -> State:
        """The state of the table in `states.py`."""
        return self._state

    @property
    def frame(self) -> Frame:
        """Where the output starts."""
        return self._frame

    @property
    def previewed(self) -> tuple[int, ...]:
        """The tokens of the preview that is neither committed nor discarded."""
        return self._previewed

    @property
    def terminated(self) -> bool:
        """Whether EOS ended the content (committed or previewed)."""
        return self._open_matcher().terminated

    def prepared(self, seconds: float) -> None:
        """Note the CPU seconds spent before this session existed."""
        self.seconds["prepare_s"] = seconds

    def attach(self, compiled: CompiledGrammar, cache: CacheOutcome, rules: ThinkingRules | None) -> None:
        """Start matching behind the existing content.

        `rules` are needed unless the frame is `content`; there they gate the content behind reasoning of a model of no
        known family.
        """
        target = after(self._state, Event.ATTACH)
        body = compiled.matcher()
        continue_from(body, self._existing)
        self._watch.commit((part for part in self._existing if isinstance(part, int)), {})
        if rules is None:
            if self._frame != "content":
                raise MatcherInconsistency(f"frame {self._frame} without thinking rules")
            self._matcher = body
        else:
            self._matcher = self._phases = PhasedMatcher(body, rules, self._frame, self._budget)
            self._line_breaks = rules.line_breaks
        self.record.engine = compiled.engine
        self.record.cache = cache
        self.record.complete = self._matcher.complete
        self._state = target

    def look_ahead(self, drafts: Sequence[int], rows: Sequence[MaskRow]) -> StepRows:
        """Fill the mask rows of one step; see `lookahead.look_ahead`."""
        with self._looking_ahead() as matcher:
            step = look_ahead(matcher, drafts, rows)
        self.record.mask_positions += step.computed
        self.record.mask_bytes += len(rows) * rows[0].size * WORD_BYTES
        return step

    def forced(self, spellings: Sequence[bytes], limit: int, row: MaskRow) -> tuple[int, ...]:
        """The next tokens that leave no choice, none without a grammar; see `grammar_drafts.forced_tokens`."""
        if self._state is not State.OPEN:
            return ()
        with self._looking_ahead() as matcher:
            return forced_tokens(matcher, spellings, limit, row)

    @contextmanager
    def _looking_ahead(self) -> Iterator[Matcher]:
        """The matcher, for what leaves it where it was; its time counts as that of masks."""
        matcher = self._open_matcher()
        self._state = after(self._state, Event.LOOK_AHEAD)
        started = time.thread_time()
        try:
            yield matcher
        finally:
            self._state = after(self._state, Event.ROLL_BACK)
            self._count("mask_s", started)

    def preview(self, tokens: Sequence[int]) -> int:
        """Advance provisionally over tokens the sampler produced; returns how many of them are legal.

        All of them are kept until `commit` or `discard`, even if fewer than given were legal.
        """
        matcher = self._open_matcher()
        target = after(self._state, Event.PREVIEW)
        started = time.thread_time()
        legal = 0
        while legal < len(tokens) and not matcher.terminated and matcher.accept(tokens[legal]):
            legal += 1
        self._previewed = tuple(tokens[:legal])
        self._state = target
        self._count("commit_s", started)
        return legal

    def commit(self, count: int) -> None:
        """Confirm the first `count` previewed tokens and give the others back."""
        target = after(self._state, Event.COMMIT)
        surplus = len(self._previewed) - count
        if surplus < 0:
            raise MatcherInconsistency(f"commit of {count} tokens, previewed {len(self._previewed)}")
        matcher = self._open_matcher()
        if surplus:
            matcher.rollback(surplus)
        self._observe(count)
        self._previewed = ()
        self._state = target

    def discard(self) -> None:
        """Restore exactly the state before the preview."""
        target = after(self._state, Event.DISCARD)
        if self._previewed:
            self._open_matcher().rollback(len(self._previewed))
        self._previewed = ()
        self._state = target

    def fail(self, error: NInferError) -> None:
        """End this sample with an error; what was committed before stays observable."""
        if self._state is State.PREVIEWING:
            self.discard()
        self._state = after(self._state, Event.FAIL)
        self.error = error
        self.record.error = error.to_json()
        self._release()

    def finish(self) -> None:
        """End this sample; releases the matcher (ENG-4)."""
        if self._state in (State.FINISHED, State.FAILED):
            return
        if self._state is State.PREVIEWING:
            self.discard()
        self._state = after(self._state, Event.FINISH)
        self._release()

    def _observe(self, committed: int) -> None:
        matcher = self._open_matcher()
        record = self.record
        outside = matcher.forget()
        record.reasoning_tokens += outside
        if self._phases is not None and self._phases.phase is not Phase.BODY:
            return
        self._watch.commit(self._previewed[outside:committed], self._line_breaks)
        record.branch = self._watch.branch
        record.complete = matcher.complete
        record.terminated = matcher.terminated

    def _open_matcher(self) -> Matcher:
        if self._matcher is None:
            raise MatcherInconsistency(f"session in state {self._state.value} has no matcher")
        return self._matcher

    def _count(self, name: str, started: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + time.thread_time() - started

    def _release(self) -> None:
        self._matcher = self._phases = None
        self._previewed = ()
