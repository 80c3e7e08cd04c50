"""Parse situations as numbers: states, their transitions over bytes and tokens, all computed when first needed.

Theory of operation. A state is a map from terminal positions to stacks, closed over everything that happens without
reading, and interned: equal situations are one number. A transition reads a byte at every terminal that takes it and
closes again. Closing has two halves. What the byte led to may end bodies, which returns to frames. Then bodies are
called, those with the greatest height first, each once with all its frames together: since no rule is left-recursive,
every caller has been seen by then, so the same stacks come out in whatever order a text led here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from ninfer_vllm.engines.native.arrays import ACCEPTS, DEAD, NAMES, PORTAL, UNKNOWN
from ninfer_vllm.engines.native.kinds import ACCEPT, END, Kind, Need, Segment
from ninfer_vllm.engines.native.positions import Positions
from ninfer_vllm.engines.native.stacks import ANY_TIME, PLAIN, Closed, Frame, Stacks, after_copy
from ninfer_vllm.engines.native.tables import Readers, Tables, classes_of, joined_classes
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.limits import NATIVE_FIRST_STEPS, NATIVE_STEPS

Configs = tuple[tuple[int, int], ...]
"""Terminal positions in order, each with its stack."""

Kernel = tuple[tuple[int, int], ...]
"""Positions just reached, each with its stack."""

FLAGS_OF = dict.fromkeys(Kind, 0) | {
    Kind.ACCEPT: ACCEPTS,
    Kind.UNIT: PORTAL,
    Kind.TOKEN: NAMES,
    Kind.EXCLUDE: NAMES,
}
"""What a position of a kind says of its state."""

FEWEST_ALIKE = 6
"""Bytes of the longest token that cannot tell two states apart, from which on the one is worth a look at the other."""

MOST_CONFINED = 16
"""Classes of bytes of a state that are all looked at."""

STATE_BYTES = 700
"""Measured memory of a state with what was interned for it, beside the tables."""

POSITION_BYTES = 600

LISTED_BYTES = 100


class Automaton:
    """The states of one grammar. Not thread-safe: the owner holds its lock."""

    def __init__(self, positions: Positions, root: int, far: int) -> None:
        self.positions = positions
        self.stacks = Stacks(far)
        self.tables = Tables()
        self.configs: list[Configs] = []
        self.readers: dict[int, Readers] = {}
        """For each state with a row and each of its classes: the configurations that read it, with their own class."""
        self._layouts: dict[tuple[int, ...], tuple[int, Readers, tuple[tuple[Segment, ...], ...]]] = {}
        self._states: dict[Configs, int] = {}
        self._kernels: dict[Kernel, int] = {}
        self._near: dict[int, int] = {}
        self.steps = 0
        """Closing steps since `begin`, less the positions there were: with those made since, the work of one call."""
        self.bottom = self.stacks.intern([(ACCEPT, PLAIN, 0, 0, -1)])
        self.begin()
        self._allowed = NATIVE_FIRST_STEPS
        self.root = self.enter(((root, self.bottom),))

    @property
    def nbytes(self) -> int:
        """About how much memory the states take."""
        num_bytes = STATE_BYTES * len(self.configs) + POSITION_BYTES * len(self.positions)
        return num_bytes + self.tables.nbytes + LISTED_BYTES * self.positions.num_listed

    def begin(self) -> None:
        """Start counting the work of one call."""
        self.steps = -len(self.positions.kinds)
        self._allowed = NATIVE_STEPS

    def accepts(self, state: int) -> bool:
        """Whether the text may end in a state."""
        return bool(self.tables.flags(state) & ACCEPTS)

    def step(self, state: int, byte: int) -> int:
        """The state behind a byte, or DEAD."""
        tables = self.tables
        if tables.reads_text(state):
            return self._read_text(state, bytes((byte,)))[0]
        if not tables.is_known(state):
            self.expand(state)
        byte_class = tables.class_of(state, byte)
        target = tables.get(state, byte_class)
        return self.resolve(state, byte_class) if target == UNKNOWN else target

    def run(self, state: int, data: bytes) -> tuple[int, int]:
        """The state behind some bytes, or DEAD, and how many were read."""
        at = 0
        while at < len(data):
            configs = self.configs[state]
            if self.tables.reads_text(state):
                target, read = self._read_text(state, data[at:])
            elif len(configs) == 1 and self.positions.kinds[configs[0][0]] is Kind.UNIT:
                target, read = self._read_unit(configs[0], data[at:])
            else:
                target = self.step(state, data[at])
                read = int(target != DEAD)
            at += read
            if target == DEAD:
                return DEAD, at
            state = target
        return state, at

    def supply(self, needs: Iterable[Need]) -> None:
        """Compute what a walk has missed: classes, and transitions with the classes behind them, which come next."""
        tables = self.tables
        for state, byte_class, byte in needs:
            if byte_class < 0:
                self.expand(state)
            if byte < 0:
                continue
            target = self._supplied(state, byte)
            if target != DEAD and not tables.is_known(target) and not tables.flags(target) & PORTAL:
                self.expand(target)

    def _supplied(self, state: int, byte: int) -> int:
        """The transition of a byte: for a fixed text, that behind the whole of it."""
        tables = self.tables
        if tables.reads_text(state):
            return self._behind_text(state)
        self.expand(state)
        byte_class = tables.class_of(state, byte)
        target = tables.get(state, byte_class)
        return self.resolve(state, byte_class) if target == UNKNOWN else target

    def segments(self, state: int) -> tuple[Segment, ...]:
        """The bytes a state reads, in classes."""
        if self.tables.reads_text(state):
            return self.positions.segments(self.configs[state][0][0])
        self.expand(state)
        return self.tables.segments(state)

    def target(self, state: int, byte_class: int) -> int:
        """The state behind a byte of a class."""
        if self.tables.reads_text(state):
            return self.step(state, self.segments(state)[0][0])
        target = self.tables.get(state, byte_class)
        return self.resolve(state, byte_class) if target == UNKNOWN else target

    def _read_text(self, state: int, data: bytes) -> tuple[int, int]:
        """The state behind as much as `data` holds of a fixed text, or DEAD; and how many bytes agree."""
        position, stack = self.configs[state][0]
        text, offset, after = self.positions.parts[position]
        wanted = text[offset : offset + len(data)]
        if not data.startswith(wanted):
            return DEAD, next(at for at, byte in enumerate(wanted) if data[at] != byte)
        if offset + len(wanted) == len(text):
            return self._behind_text(state), len(wanted)
        return self.enter(((self.positions.literal(text, offset + len(wanted), after), stack),)), len(wanted)

    def _read_unit(self, config: tuple[int, int], data: bytes) -> tuple[int, int]:
        """The state behind as much of `data` as stays inside a unit, or DEAD; and how many bytes were read."""
        unit, inner_state, after = self.positions.parts[config[0]]
        target, read = unit.run(inner_state, data)
        if target == DEAD:
            return DEAD, read
        return self.enter(((self.positions.unit(unit, target, after), config[1]),)), read

    def _behind_text(self, state: int) -> int:
        target = self.tables.get(state, 0)
        if target == UNKNOWN:
            position, stack = self.configs[state][0]
            target = self.enter(((self.positions.parts[position][2], stack),))
            self.tables.set(state, 0, target)
        return target

    def expand(self, state: int) -> None:
        """Give a state its byte classes, where it has none."""
        if self.tables.is_known(state):
            return
        per_config = tuple(self.positions.segments(position) for position, _ in self.configs[state])
        # Segments are shared objects, and `_layouts` keeps them alive, so their identities tell layouts apart.
        key = tuple(map(id, per_config))
        layout = self._layouts.get(key)
        if layout is None:
            segments, readers = joined_classes(per_config)
            layout = self._layouts[key] = (self.tables.add_map(classes_of(segments)), readers, per_config)
        self.readers[state] = layout[1]
        self.tables.add_row(state, layout[0], [UNKNOWN] * len(layout[1]))

    def resolve(self, state: int, byte_class: int) -> int:
        """Compute the transition of a class."""
        configs = self.configs[state]
        readers = self.readers[state]
        kernel = [
            (self.positions.target(configs[index][0], own_class), configs[index][1])
            for index, own_class in readers[byte_class - 1]
        ]
        target = self.enter(tuple(kernel) if len(kernel) == 1 else tuple(sorted(set(kernel))))
        self.tables.set(state, byte_class, target)
        return target

    def enter(self, kernel: Kernel) -> int:
        """The state in which the positions of a kernel have just been reached."""
        state = self._kernels.get(kernel)
        if state is None:
            if len(kernel) == 1 and self.positions.local(kernel[0][0]) == (kernel[0][:1], (), False):
                state = self._kernels[kernel] = self._of_configs(kernel)
            else:
                state = self._kernels[kernel] = self.state(self._close(kernel))
        return state

    def state(self, closed: Mapping[int, int]) -> int:
        """The state of a closed map from terminals to stacks."""
        return self._of_configs(tuple(sorted(closed.items())))

    def _of_configs(self, configs: Configs) -> int:
        state = self._states.get(configs)
        if state is None:
            kinds = self.positions.kinds
            flags = 0
            for position, _ in configs:
                flags |= FLAGS_OF[kinds[position]]
            state = self._states[configs] = self.tables.add_state(flags)
            self.configs.append(configs)
            if len(configs) == 1 and kinds[configs[0][0]] is Kind.LITERAL:
                text, offset, _ = self.positions.parts[configs[0][0]]
                self.tables.add_text(state, text, offset)
        return state

    def joined(self, states: Iterable[int]) -> int:
        """The state of all that can happen in several states."""
        closed = Closed()
        for state in states:
            for position, stack in self.configs[state]:
                closed.add(position, stack)
        return self.state(closed.united(self.stacks))

    def near(self, state: int) -> int:
        """The state that no single token can tell from this one, with the same mask."""
        found = self._near.get(state)
        if found is None:
            counts, near = self.stacks.counts, self.positions.near
            is_plain = not any(counts[stack] or near(position) != position for position, stack in self.configs[state])
            found = self._near[state] = state if is_plain else self._nearer(state)
        return found

    def _nearer(self, state: int, far: int | None = None) -> int:
        closed = Closed()
        for position, stack in self.configs[state]:
            closed.add(self.positions.near(position), self.stacks.near(stack, far))
        return self.state(closed.united(self.stacks))

    def alike(self, state: int) -> tuple[int, int] | None:
        """A state with fewer counts that no token of up to so many bytes can tell from this one, and how many."""
        num_bytes = min(self.stacks.least_count(stack) for _, stack in self.configs[state]) - 1
        if not FEWEST_ALIKE <= num_bytes < ANY_TIME - 1:
            return None
        other = self._nearer(state, num_bytes)
        return None if other == state else (other, num_bytes)

    def common(self, state: int, other: int) -> int | None:
        """The state of everything that two states have in common, where there is anything."""
        theirs = dict(self.configs[other])
        found: dict[int, int] = {}
        for position, stack in self.configs[state]:
            beside = theirs.get(position)
            if beside is None:
                continue
            if beside != stack:
                frames = set(self.stacks.frames[beside]).intersection(self.stacks.frames[stack])
                beside = self.stacks.intern(sorted(frames)) if frames else None
            if beside is not None:
                found[position] = beside
        return self.state(found) if found else None

    def without(self, state: int, part: int) -> int:
        """The state of what one holds besides its part."""
        theirs = dict(self.configs[part])
        found: dict[int, int] = {}
        for position, stack in self.configs[state]:
            if position not in theirs:
                found[position] = stack
            elif theirs[position] != stack:
                frames = set(self.stacks.frames[stack]).difference(self.stacks.frames[theirs[position]])
                found[position] = self.stacks.intern(sorted(frames))
        return self.state(found)

    def confined(self, state: int) -> int | None:
        """A state with the transitions of this one that stays where that only gains something; None without such."""
        self.expand(state)
        num_classes = len(self.readers[state])
        if num_classes > MOST_CONFINED:
            return None
        targets = [self.target(state, byte_class) for byte_class in range(1, num_classes + 1)]
        gains = [target not in (state, DEAD) and self.common(state, target) == state for target in targets]
        if not any(gains):
            return None
        found = self.tables.add_state(self.tables.flags(state))
        self.configs.append(self.configs[state])
        kept = [found if gained or target == state else target for target, gained in zip(targets, gains, strict=True)]
        self.tables.add_row(found, self.tables.map_of(state), kept)
        return found

    def num_live(self, state: int) -> int:
        """How many different bytes a state reads."""
        if self.tables.reads_text(state):
            return 1
        self.expand(state)
        return self.tables.num_live(state)

    def _close(self, kernel: Kernel) -> dict[int, int]:
        closed = Closed()
        pending: dict[int, set[Frame]] = {}
        self._return(kernel, closed, pending)
        heights, locals_at = self.positions.height, self.positions.local
        queue = [(-heights(entry), entry) for entry in pending]
        heapify(queue)
        while queue:
            entry = heappop(queue)[1]
            stack = self.stacks.intern(sorted(pending.pop(entry)))
            terminals, calls, _ = locals_at(entry)
            self.count(len(terminals) + len(calls))
            for terminal in terminals:
                closed.add(terminal, stack)
            for call in calls:
                if call[0] not in pending:
                    heappush(queue, (-heights(call[0]), call[0]))
                self._call(call, stack, pending)
        return closed.united(self.stacks)

    def _return(self, kernel: Kernel, closed: Closed, pending: dict[int, set[Frame]]) -> None:
        """What the read byte led to: terminals, calls, and the ends of bodies, back through the frames."""
        seen = set(kernel)
        todo = list(kernel)
        locals_at = self.positions.local
        while todo:
            position, stack = todo.pop()
            terminals, calls, ends = locals_at(position)
            self.count(1 + len(terminals) + len(calls))
            for terminal in terminals:
                closed.add(terminal, stack)
            for call in calls:
                self._call(call, stack, pending)
            if ends:
                for frame in self.stacks.frames[stack]:
                    for found in self._behind(frame, closed, pending):
                        if found not in seen:
                            seen.add(found)
                            todo.append(found)

    def _behind(self, frame: Frame, closed: Closed, pending: dict[int, set[Frame]]) -> Iterable[tuple[int, int]]:
        """Where the end of a called body leads."""
        position, width, low, high, below = frame
        if position == ACCEPT:
            closed.add(ACCEPT, 0)
        elif width == PLAIN:
            yield position, below
        else:
            item, after = self.positions.parts[position]
            ends, counts = after_copy(width, low, high)
            if counts is not None:
                pending.setdefault(self.positions.entry(item), set()).add((position, *counts, below))
            if ends:
                yield after, below

    def _call(self, call: tuple[int, int, int, int, int], stack: int, pending: dict[int, set[Frame]]) -> None:
        entry, after, width, low, high = call
        frames = pending.setdefault(entry, set())
        if after == END:
            # A call at the end of a body needs no frame: it returns to where the body would.
            frames.update(self.stacks.frames[stack])
        else:
            frames.add((after, width, low, high, stack))

    def count(self, steps: int) -> None:
        """Add to the work of this call.

        Errors: LimitExceeded where it is too much.
        """
        self.steps += steps
        if self.steps + len(self.positions.kinds) > self._allowed:
            raise LimitExceeded("native_steps", self._allowed)
