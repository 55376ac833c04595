"""The service in short words, so that a test reads as the scenario it is."""

from __future__ import annotations

import time
from typing import Any

from interlock.core.model import NewItem, Policy, RetryLane
from interlock.service.contract import (
    AddView,
    ChangeView,
    EventView,
    ItemFilter,
    LaneView,
    LeaseView,
    MessageView,
    Report,
    RunView,
    Service,
)
from interlock.service.item_view import ItemView
from tests.clock import Clock
from tests.patience import PATIENCE_S

LANE = "issue:acme/app#42"
LEASE_S = 60.0
GRACE_S = 15.0
#: Longer than the first back-off can be with any jitter, shorter than a lease.
FIRST_BACK_OFF_S = 13.0
#: A lane prefix that no test uses: choosing its mode only leaves a line in the history.
_MARK = "end-of-history"
#: How long a test waits for what must come, before it fails instead of hanging.


class Scene:
    """A service, its clock, and what a person would say to them."""

    def __init__(self, service: Service, clock: Clock) -> None:
        self.service = service
        self.clock = clock
        self._marked = 0

    # -- arrivals ---------------------------------------------------------------------------------

    def new(self, title: str = "work", **fields: Any) -> NewItem:
        if "policy" in fields:
            fields["policy"] = Policy(fields["policy"])
        if "retry_lane" in fields:
            fields["retry_lane"] = RetryLane(fields["retry_lane"])
        if "in_s" in fields:
            fields["run_at_us"] = self.clock.now_us + round(fields.pop("in_s") * 1_000_000)
        return NewItem(title=title, **fields)

    def add(self, title: str = "work", **fields: Any) -> AddView:
        """Let one item arrive, a microsecond after whatever came before."""
        self.clock.advance(0.000001)
        return self.service.add([self.new(title, **fields)])[0]

    def put(self, title: str = "work", **fields: Any) -> int:
        """Let one item arrive that gets a row of its own; its id."""
        arrival = self.add(title, **fields).arrival
        assert arrival is not None
        return arrival

    # -- claims -----------------------------------------------------------------------------------

    def claim(self, agent: str = "coder", **wish: Any) -> LeaseView:
        """Claim the one item that must be there."""
        leases = self.service.next(agent, **wish)
        assert len(leases) == 1, f"{agent} found {len(leases)} items"
        return leases[0]

    def idle(self, agent: str = "coder", **wish: Any) -> bool:
        """Whether there is nothing for an agent to do."""
        return self.service.next(agent, **wish) == []

    def put_running(self, title: str = "work", *, by: str | None = None, **fields: Any) -> LeaseView:
        """Let an item arrive and start at once."""
        item = self.put(title, **fields)
        lease = self.claim(by or fields.get("agent") or "coder")
        assert lease.item.id == item, "another item was claimed"
        return lease

    # -- a run's writes ---------------------------------------------------------------------------

    def done(self, lease: LeaseView, **report: Any) -> RunView:
        return self.service.done([Report(run=lease.run, **report)])[0]

    def fail(self, lease: LeaseView, **report: Any) -> RunView:
        return self.service.fail([Report(run=lease.run, **report)])[0]

    def release(self, lease: LeaseView, **report: Any) -> RunView:
        return self.service.release([Report(run=lease.run, **report)])[0]

    def renew(self, lease: LeaseView, **report: Any) -> RunView:
        return self.service.renew([Report(run=lease.run, **report)])[0]

    # -- time -------------------------------------------------------------------------------------

    def pass_s(self, seconds: float) -> None:
        """Let time pass and a sweeper look."""
        self.clock.advance(seconds)
        self.service.sweep()

    def lose(self, lease: LeaseView) -> None:
        """Let a lease run out."""
        assert lease.expires_at is not None
        self.pass_s(max(0.0, (lease.expires_at - self.clock.now).total_seconds()))

    # -- looking ----------------------------------------------------------------------------------

    def item(self, item: int) -> ItemView:
        return self.service.show(item).item

    def status(self, item: int) -> str:
        return self.item(item).status

    def statuses(self, *items: int) -> list[str]:
        return [self.status(i) for i in items]

    def texts(self, item: int) -> list[str]:
        return said(self.service.show(item).messages)

    def lane(self, lane: str = LANE) -> LaneView | None:
        return next((found for found in self.service.lanes(prefix=lane) if found.lane == lane), None)

    def owner(self, lane: str = LANE) -> int | None:
        """The item that holds a lane."""
        found = self.lane(lane)
        return found.holder.item if found and found.holder else None

    def line(self, lane: str = LANE) -> list[int]:
        found = self.lane(lane)
        return list(found.line) if found else []

    def history(self, *, after: int = 0) -> list[EventView]:
        """Everything that happened so far.

        A reader of history stops below the oldest transaction still open. So a last line is written, and
        the history read on until it comes.
        """
        self.service.set_mode(scope="lane", value=_MARK, mode="enforce")
        found: list[EventView] = []
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            page = self.service.events(after=after)
            for event in page:
                after = event.seq
                if event.data.get("value") != _MARK:
                    found.append(event)
                elif event.seq > self._marked:
                    self._marked = event.seq
                    return found
            assert time.monotonic() < deadline_s, "the last line of the history does not come"
            if not page:
                time.sleep(0.01)

    def events(self, kind: str) -> list[EventView]:
        return [e for e in self.history() if e.kind == kind]

    def kinds(self, item: int) -> list[str]:
        """What happened to an item, in order."""
        return [e.kind for e in self.history() if e.item == item]

    def last(self, kind: str) -> EventView:
        return self.events(kind)[-1]

    def unfinished(self) -> list[ItemView]:
        return self.service.items(ItemFilter())

    def every(self, **wanted: Any) -> list[ItemView]:
        return self.service.items(ItemFilter(all=True, **wanted))

    # -- operators --------------------------------------------------------------------------------

    def cancel(self, item: int, why: str = "not needed", *, force: bool = False) -> ChangeView:
        return self.service.cancel(item, why=why, force=force)


def said(messages: tuple[MessageView, ...] | list[MessageView]) -> list[str]:
    return [m.text for m in messages]
