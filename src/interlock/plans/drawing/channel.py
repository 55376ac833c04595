"""The channel between two columns of a text drawing, where edges change from one line to another.

An edge leaves its source to the right, runs up or down on a *track*, and enters its target from the left.
Edges of one source share a track. Two rules keep the drawing unambiguous: tracks of different sources never
touch, and two sources never use the same piece of a line. If the second rule leads to a cycle, one edge
changes its track on a free line.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """All edges of one source: they leave on `line` and go to the lines `ends` of the next column."""

    line: int
    ends: tuple[int, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Trunk:
    """A piece of a wire on one track: it enters on `line` and leaves to the right on `ends`."""

    wire: int
    line: int
    ends: tuple[int, ...]
    track: int = -1
    #: The next piece of the same wire, if it changes tracks.
    onward: Trunk | None = None
    #: The piece before it.
    continues: Trunk | None = None
    #: Trunks that must be to the left of this one.
    earlier: set[Trunk] = field(default_factory=set)

    @property
    def top(self) -> int:
        return min(self.line, *self.ends)

    @property
    def bottom(self) -> int:
        return max(self.line, *self.ends)

    @property
    def straight(self) -> bool:
        return self.top == self.bottom


def routed(wires: Sequence[Wire]) -> list[Trunk]:
    """The trunks of all wires with their tracks, counted from the left. A straight trunk has no track."""
    trunks = [Trunk(wire=n, line=wire.line, ends=wire.ends) for n, wire in enumerate(wires)]
    taken = {trunk.line for trunk in trunks} | {end for trunk in trunks for end in trunk.ends}
    while True:
        bent = [t for t in trunks if not t.straight]
        _constrain(bent)
        order = _from_left_to_right(bent)
        if len(order) == len(bent):
            break
        trunks.append(_split(_trunk_on_cycle(bent, set(order)), taken))
    _assign(order)
    return trunks


def width(trunks: Sequence[Trunk]) -> int:
    """How many tracks are in use."""
    return max((t.track + 1 for t in trunks), default=0)


def _constrain(bent: Sequence[Trunk]) -> None:
    """A trunk must turn off its line before another trunk's edge enters that line."""
    leaving = {t.line: t for t in bent}
    for trunk in bent:
        lines = [leaving[end] for end in trunk.ends if end in leaving]
        trunk.earlier = {other for other in lines if other not in (trunk, trunk.onward)}
    for trunk in bent:
        if trunk.onward is not None:
            trunk.onward.earlier.add(trunk)


def _from_left_to_right(bent: Sequence[Trunk]) -> list[Trunk]:
    """The trunks in an order that satisfies their constraints, without those on a cycle.

    Among unconstrained trunks, falling ones come lowest first and rising ones highest first: this gives the
    fewest crossings.
    """
    later: dict[Trunk, list[int]] = {trunk: [] for trunk in bent}
    still = [len(t.earlier) for t in bent]
    for n, trunk in enumerate(bent):
        for other in trunk.earlier:
            later[other].append(n)

    def rank(n: int) -> tuple[int, int]:
        falls = bent[n].bottom > bent[n].line
        return (-bent[n].line if falls else bent[n].line), n

    ready = [rank(n) for n in range(len(bent)) if not still[n]]
    heapq.heapify(ready)
    order = []
    while ready:
        trunk = bent[heapq.heappop(ready)[1]]
        order.append(trunk)
        for n in later[trunk]:
            still[n] -= 1
            if not still[n]:
                heapq.heappush(ready, rank(n))
    return order


def _trunk_on_cycle(bent: Sequence[Trunk], settled: set[Trunk]) -> Trunk:
    """A trunk on a cycle: the first one visited twice when following the constraints."""
    trunk = next(t for t in bent if t not in settled)
    met: set[Trunk] = set()
    while trunk not in met:
        met.add(trunk)
        trunk = min((t for t in trunk.earlier if t not in settled), key=lambda t: t.line)
    return trunk


def _split(trunk: Trunk, taken: set[int]) -> Trunk:
    """Let a trunk change its track on the nearest free line; returns the second piece."""
    free = next(line for line in _outward(trunk.line) if line >= 0 and line not in taken)
    taken.add(free)
    ends = tuple(e for e in trunk.ends if e != trunk.line)
    second = Trunk(wire=trunk.wire, line=free, ends=ends, continues=trunk)
    trunk.ends = (free, *(e for e in trunk.ends if e == trunk.line))
    trunk.onward = second
    return second


def _outward(line: int) -> Iterator[int]:
    for step in count(1):
        yield line + step
        yield line - step


def _assign(order: Sequence[Trunk]) -> None:
    """Give each trunk the leftmost track that is free on its lines and right of the trunks before it."""
    tracks: list[list[Trunk]] = []
    for trunk in order:
        track = max((t.track + 1 for t in trunk.earlier), default=0)
        while track < len(tracks) and any(
            t.top <= trunk.bottom and trunk.top <= t.bottom for t in tracks[track]
        ):
            track += 1
        while len(tracks) <= track:
            tracks.append([])
        tracks[track].append(trunk)
        trunk.track = track
