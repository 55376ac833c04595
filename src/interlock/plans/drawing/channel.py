"""The space between two columns of a text drawing, where edges change from one line to another.

An edge leaves its source to the right, runs up or down on a *track*, and enters its target from the left.
Edges of one source share a track. Two rules keep the picture true: tracks of different sources never touch,
and a line that is left by one source and entered from another is not in use by both at one place. Where the
second rule would run in a circle, one edge changes its track on a line that is free.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What one source sends: it leaves on `line` and goes to the lines `ends` of the next column."""

    line: int
    ends: tuple[int, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Trunk:
    """A piece of a wire on one track: entered on `line`, left to the right on `ends`."""

    wire: int
    line: int
    ends: tuple[int, ...]
    track: int = -1
    #: The next piece of the same wire, if it changes tracks.
    onward: Trunk | None = None
    #: The piece before it.
    continues: Trunk | None = None
    #: Trunks that must be left of this one.
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
    """The trunks of all wires with their tracks, counted from the left. A straight one has no track."""
    trunks = [Trunk(wire=n, line=wire.line, ends=wire.ends) for n, wire in enumerate(wires)]
    taken = {trunk.line for trunk in trunks} | {end for trunk in trunks for end in trunk.ends}
    while True:
        bent = [t for t in trunks if not t.straight]
        _constrain(bent)
        order = _from_left_to_right(bent)
        if len(order) == len(bent):
            break
        trunks.append(_split(_on_a_circle(bent, set(order)), taken))
    _assign(order)
    return trunks


def width(trunks: Sequence[Trunk]) -> int:
    """How many tracks are in use."""
    return max((t.track + 1 for t in trunks), default=0)


def _constrain(bent: Sequence[Trunk]) -> None:
    """A trunk that leaves a line must turn off it before another's edge comes onto that line."""
    leaving = {t.line: t for t in bent}
    for trunk in bent:
        lines = [leaving[end] for end in trunk.ends if end in leaving]
        trunk.earlier = {other for other in lines if other not in (trunk, trunk.onward)}
    for trunk in bent:
        if trunk.onward is not None:
            trunk.onward.earlier.add(trunk)


def _from_left_to_right(bent: Sequence[Trunk]) -> list[Trunk]:
    """In their order, as far as it does not run in a circle.

    Among those that are free to choose, falling ones come from below and rising ones from above: so they
    cross each other least.
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


def _on_a_circle(bent: Sequence[Trunk], settled: set[Trunk]) -> Trunk:
    """One of those that wait for each other: whoever is met twice on the way back."""
    trunk = next(t for t in bent if t not in settled)
    met: set[Trunk] = set()
    while trunk not in met:
        met.add(trunk)
        trunk = min((t for t in trunk.earlier if t not in settled), key=lambda t: t.line)
    return trunk


def _split(trunk: Trunk, taken: set[int]) -> Trunk:
    """Let a trunk change its track on the nearest free line; the second piece is answered."""
    free = next(line for line in _around(trunk.line) if line >= 0 and line not in taken)
    taken.add(free)
    ends = tuple(e for e in trunk.ends if e != trunk.line)
    second = Trunk(wire=trunk.wire, line=free, ends=ends, continues=trunk)
    trunk.ends = (free, *(e for e in trunk.ends if e == trunk.line))
    trunk.onward = second
    return second


def _around(line: int) -> Iterator[int]:
    for step in count(1):
        yield line + step
        yield line - step


def _assign(order: Sequence[Trunk]) -> None:
    """The leftmost track for each that is right of those before it and free on its lines."""
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
