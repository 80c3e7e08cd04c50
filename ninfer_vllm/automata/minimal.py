"""The coarsest partition of states that no text can tell apart.

Theory of operation. States lie in blocks and transitions in cords; both are arrays in which a set is an interval, so
that marking a member is one swap and splitting off the marked ones is one new border. Cords start as the labels, blocks
as accepting and not. A cord splits the blocks its transitions leave, a block splits the cords of the transitions that
enter it; of every split only the smaller half is looked at again, which bounds the work by m log n for m transitions.
A missing transition needs no state of rejection, because every state can still accept.

Source: Valmari, "Fast brief practical DFA minimization", Information Processing Letters 112 (2012).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

Transition = tuple[int, int, int]
"""Source, label, target."""


def coarsest(num_states: int, transitions: Sequence[Transition], accepting: Iterable[int]) -> list[int]:
    """The block of each state: two states share one where the same texts lead to acceptance.

    Every state can reach acceptance, and a state has at most one transition a label.
    """
    states = _Partition(num_states)
    for state in accepting:
        states.mark(state)
    states.split()
    cords = _Partition(len(transitions))
    if transitions:
        cords.group([label for _, label, _ in transitions])
    sources = [source for source, _, _ in transitions]
    first, entering = _by_target(num_states, transitions)
    done_blocks, done_cords = 1, 0
    while done_cords < len(cords.first):
        for place in range(cords.first[done_cords], cords.past[done_cords]):
            states.mark(sources[cords.members[place]])
        states.split()
        done_cords += 1
        while done_blocks < len(states.first):
            for place in range(states.first[done_blocks], states.past[done_blocks]):
                state = states.members[place]
                for at in range(first[state], first[state + 1]):
                    cords.mark(entering[at])
            cords.split()
            done_blocks += 1
    return states.set_of


class _Partition:
    """Disjoint sets of 0 … size - 1; set k is `members[first[k] : past[k]]`, its marked ones at the front."""

    def __init__(self, size: int) -> None:
        self.members = list(range(size))
        self.place = list(range(size))
        self.set_of = [0] * size
        self.first = [0] if size else []
        self.past = [size] if size else []
        self._marked = [0]
        self._touched: list[int] = []

    def group(self, keys: Sequence[int]) -> None:
        """Start over with one set a key."""
        self.members.sort(key=keys.__getitem__)
        self.first, self.past = [], []
        previous: int | None = None
        for place, member in enumerate(self.members):
            self.place[member] = place
            if keys[member] != previous:
                previous = keys[member]
                self.first.append(place)
                self.past.append(place)
            self.past[-1] = place + 1
            self.set_of[member] = len(self.first) - 1
        self._marked = [0] * len(self.first)

    def mark(self, member: int) -> None:
        """Choose a member for the next split."""
        number = self.set_of[member]
        place = self.place[member]
        border = self.first[number] + self._marked[number]
        if place < border:
            return
        other = self.members[border]
        self.members[place], self.place[other] = other, place
        self.members[border], self.place[member] = member, border
        if not self._marked[number]:
            self._touched.append(number)
        self._marked[number] += 1

    def split(self) -> None:
        """Part the marked members of each set from the others; the smaller side gets a new number."""
        for number in self._touched:
            first, past = self.first[number], self.past[number]
            border = first + self._marked[number]
            self._marked[number] = 0
            if border == past:
                continue
            new = len(self.first)
            if border - first <= past - border:
                self.first.append(first)
                self.past.append(border)
                self.first[number] = border
            else:
                self.first.append(border)
                self.past.append(past)
                self.past[number] = border
            self._marked.append(0)
            for place in range(self.first[new], self.past[new]):
                self.set_of[self.members[place]] = new
        self._touched.clear()


def _by_target(num_states: int, transitions: Sequence[Transition]) -> tuple[list[int], list[int]]:
    """The transitions in the order of their targets, and where those of each target begin."""
    counts = [0] * (num_states + 1)
    for _, _, target in transitions:
        counts[target + 1] += 1
    order = sorted(range(len(transitions)), key=lambda at: transitions[at][2])
    return list(accumulate(counts)), order
