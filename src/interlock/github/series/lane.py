"""The lane of a series on any store: its owner, its queue, and the writes that change it.

If another process was faster, a write is refused or changes nothing, and the caller reads again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from interlock.core.errors import ItemEnded, LeaseLost, UnreadableState
from interlock.core.model import OUR_BOT, NewItem, Policy, RetryLane
from interlock.core.record import Record
from interlock.core.series.decision import Add, EndRun, SetMemberGate, Start, Withdraw
from interlock.core.series.snapshot import LanePlacement, Stopped
from interlock.core.states import TERMINAL
from interlock.github.hosted_agents import SERIES_TYPE
from interlock.service.contract import (
    AddView,
    ChangeView,
    GateView,
    LeaseView,
)
from interlock.service.item_view import ItemView

#: The type of items for assignments, and the only agent that may start them.
TYPE, AGENT = SERIES_TYPE, "interlock-series"
#: The actor in the history, and the prefix of the reason for removing an item from the queue.
BY, WITHDRAWN = "series", "series: "
LINE_MAX = 1_000
#: The most ended items of an issue within the retention of keys.
_EPISODES_MAX = 200


T = TypeVar("T")


class LaneReading(Protocol):
    """The lanes at one moment."""

    def on_lane(self, lane: str) -> list[ItemView]: ...

    def gates(self, *, series: str | None = None, limit: int = 100) -> list[GateView]: ...


class Lanes(LaneReading, Protocol):
    """The operations of a store that a series needs."""

    def add(self, items: Sequence[NewItem]) -> list[AddView]: ...

    def next(self, agent: str, *, item: int | None = None, external: bool = False) -> list[LeaseView]: ...

    def end_external(
        self, item: int, run: int, outcome: str, *, why: str, by: str = "", result: str | None = None
    ) -> ChangeView: ...

    def cancel(self, item: int, *, why: str, by: str = "", force: bool = False) -> ChangeView: ...

    def set_gate(
        self,
        lane: str,
        *,
        series: str,
        open: bool,  # noqa: A002  (the contract's)
        exempt: Sequence[str] = (),
        why: str,
        by: str = "",
        run: int | None = None,
    ) -> GateView: ...

    def remove_gate(self, lane: str, *, why: str, by: str = "") -> bool: ...


class SeriesGates(Record):
    """The gates of a series' issues."""

    open: Mapping[int, bool]
    busy: frozenset[int]


NO_GATES = SeriesGates(open={}, busy=frozenset())


class SeriesLane:
    """One series' lane."""

    def __init__(
        self,
        lanes: Lanes,
        repository: str,
        series: str,
        *,
        exempt: Sequence[str] = (),
        mend: Callable[..., object] | None = None,
    ) -> None:
        """`repository` is the repository's name in lanes. `mend` repairs an unreadable lane."""
        self._lanes, self._repository, self._exempt = lanes, repository, tuple(exempt)
        self._mend = mend
        self.series, self.name = series, lane_of(repository, series)

    # -- reading ----------------------------------------------------------------------------------

    def placed(self, reading: LaneReading | None = None) -> tuple[LanePlacement, ...]:
        """The owner, then the queue; from an earlier reading, if one is given."""
        try:
            found = (reading or self._lanes).on_lane(self.name)
        except UnreadableState:
            found = self._readable(self.name, lambda: self._lanes.on_lane(self.name))
        return tuple(self._placed(item) for item in found if item.type == TYPE)

    def _readable(self, lane: str, work: Callable[[], T]) -> T:
        """Work on a lane. An unreadable lane counts as held until it is repaired."""
        try:
            return work()
        except UnreadableState:
            if self._mend is None:
                raise
            self._mend(lane, why="rebuilt from the open issues of the series", by=BY)
            return work()

    def _placed(self, item: ItemView) -> LanePlacement:
        stopped = Stopped.NO
        if item.cancel_requested and item.run is not None:
            ours = (item.cancel_reason or "").startswith(WITHDRAWN)
            stopped = Stopped.WITHDRAWN if ours else Stopped.BY_OPERATOR
        return LanePlacement(
            item=item.id,
            number=_number(item),
            position=item.position or 0,
            run=item.run,
            stopped=stopped,
        )

    def run(self) -> int | None:
        """The run of the active issue, read now."""
        placed = self.placed()
        return placed[0].run if placed else None

    def gates(self, reading: LaneReading | None = None) -> SeriesGates:
        views = (reading or self._lanes).gates(series=self.name, limit=LINE_MAX)
        ours = f"issue:{self._repository}#"  # an operator may have added other lanes to the series
        found = {_number_of(view.lane): view for view in views if view.lane.lower().startswith(ours)}
        return SeriesGates(
            open={number: view.open for number, view in found.items()},
            busy=frozenset(number for number, view in found.items() if view.run is not None),
        )

    # -- writing ----------------------------------------------------------------------------------

    def add(self, steps: Sequence[Add]) -> None:
        """Queue issues, each once even if several processes do so at the same time.

        An item's key names the previous ended item of the same issue, so all processes use the same key.
        """
        left = {step.number: (step, 0) for step in steps}
        for _ in range(_EPISODES_MAX):
            if not left:
                return
            views = self._lanes.add([self._item(step, after) for step, after in left.values()])
            again = {}
            for (step, _after), view in zip(left.values(), views, strict=True):
                if view.decision == "duplicate" and view.item is not None and view.item.status in TERMINAL:
                    again[step.number] = (step, view.item.id)
            left = again

    def _item(self, step: Add, after: int) -> NewItem:
        payload: dict[str, Any] = {
            "repository": self._repository,
            "issue_number": step.number,
            "series": self.series,
        }
        return NewItem(
            title=f"#{step.number} {step.title}".strip()[:500],
            type=TYPE,
            agent=AGENT,
            lane=self.name,
            policy=Policy.QUEUE,
            position=step.position,
            payload=json.dumps(payload),
            dedupe_key=f"{self.name}#{step.number}@{step.position}:{after}",
            retry_lane=RetryLane.KEEP,
            sender=OUR_BOT,
        )

    def withdraw(self, step: Withdraw) -> bool:
        try:
            self._lanes.cancel(step.item, why=f"{WITHDRAWN}{step.why}", by=BY)
        except ItemEnded:
            return False
        return True

    def start(self, step: Start) -> int | None:
        """The new run; None if another process was faster."""
        try:
            found = self._lanes.next(AGENT, item=step.item, external=True)
        except ItemEnded:
            return None
        return found[0].fence if found else None

    def end(self, step: EndRun) -> bool:
        try:
            outcome = "done" if step.completed else "yield" if step.yields else "cancel"
            self._lanes.end_external(step.item, step.run, outcome, why=step.why, by=BY)
        except (LeaseLost, ItemEnded):
            return False
        return True

    def gate(self, step: SetMemberGate, run: int | None) -> bool:
        """Move a gate; false if it stays shut because work of another issue still runs.

        A lane opens only while the series still has the run of that decision.
        """
        lane, is_open = f"issue:{self._repository}#{step.number}", step.open

        def move() -> bool:
            if is_open is None:
                self._lanes.remove_gate(lane, why=step.why, by=BY)
                return True
            view = self._lanes.set_gate(
                lane, series=self.name, open=is_open, exempt=self._exempt, why=step.why, by=BY, run=run
            )
            return view.open is is_open

        return self._readable(lane, move)


def lane_of(repository: str, series: str) -> str:
    return f"series:{repository}/{series}"


def _number_of(lane: str) -> int:
    return int(lane.rpartition("#")[2])


def _number(item: ItemView) -> int:
    """The issue of an item; 0, which no issue has, if another client made it."""
    number = (item.payload or {}).get("issue_number")
    return number if isinstance(number, int) else 0
