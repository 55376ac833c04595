"""The same scenarios on lanes in git, as far as lanes go.

The clock that the tests move is both the wall clock and the time since boot. What differs is in `GitScene`:
time counts from when this machine saw something, so the scene looks at what it did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.core import names
from interlock.core.decide import decide
from interlock.core.ledger import LedgerChanges
from interlock.core.model import Event, NewItem
from interlock.core.states import ItemStatus
from interlock.gitlanes.first_seen import FirstSeen
from interlock.gitlanes.lane import Lane
from interlock.gitlanes.service import GitLanes
from interlock.service.contract import AddView, ChangeView, GateView, ItemFilter, LeaseView, RunView, ShowView
from interlock.service.item_view import ItemView
from interlock.service.view_builders import run_view
from tests.clock import Clock
from tests.conformance.scene import Scene
from tests.git_fixtures import git_identity, make_bare

__all__ = ["git_identity"]


class GitSubject(GitLanes):
    """Lanes in git with what the scenarios look at: the whole queue."""

    def show(self, item: int) -> ShowView:
        lane = self.remote.read(self.remote.find(item))
        found = lane.items[item]  # type: ignore[index]
        messages = lane.messages(found.id, 0, 10_000)
        runs = tuple(run_view(run) for run in lane.queue.ended if run.item == item)
        return ShowView(item=ItemView(found), runs=runs, messages=messages, events=(), why="")

    def items(self, wanted: ItemFilter) -> list[ItemView]:
        found = [lane for lane in self.remote.read_all() if isinstance(lane, Lane)]
        items = sorted((i for lane in found for i in lane.items.values()), key=lambda i: i.spec.created_us)
        return [ItemView(i) for i in items if wanted.all or not i.terminal]

    def set_gate(self, lane: str, *, series: str, open: bool, **fields: Any) -> GateView:  # noqa: A002
        """Whoever opens a gate holds its series first: in git none opens for a series that nobody holds."""
        if open and fields.get("run") is None:
            name = names.lane_key(series)
            if not self.lanes(prefix=name):
                added = self.add([NewItem(title="assignment", lane=name, agent="series")])[0]
                assert added.item is not None
                self.next("series", item=added.item.id, external=True)
        return super().set_gate(lane, series=series, open=open, **fields)

    def stats(self) -> SimpleNamespace:
        """Of the figures only what observed lanes count."""
        named = [lane.name for lane in self.remote.read_all() if lane.name]
        counts = self.at_once().counts
        counted = sum((Counter(counts(name)) for name in named), Counter())
        return SimpleNamespace(would_have={k: n for k, n in counted.items() if k.startswith("would_")})

    def sweep(self) -> None:
        """There is no sweeper: whoever looks for work brings what is due."""
        assert self.next("sweeper", types=["nothing"]) == []


OpenClone = Callable[[], GitSubject]


class GitScene(Scene):
    """What a person says to lanes in git. Every item gets a lane, and this machine looks at each run once."""

    service: Any

    def __init__(self, service: GitSubject, clock: Clock) -> None:
        super().__init__(service, clock)  # type: ignore[arg-type]
        self._numbers = count(1)
        self._leases: dict[int, LeaseView] = {}
        self.told: list[Event] = []

    def new(self, title: str = "work", **fields: Any) -> NewItem:
        if "lane" not in fields and "payload" not in fields:
            fields["lane"] = f"work:{next(self._numbers)}"
        return super().new(title, **fields)

    def add(self, title: str = "work", **fields: Any) -> AddView:
        answer = super().add(title, **fields)
        if answer.decision == "superseding":
            self._hear()
        return answer

    def claim(self, agent: str = "coder", **wish: Any) -> LeaseView:
        lease = super().claim(agent, **wish)
        self._leases[lease.item.id] = lease
        self.service.lanes()
        return lease

    def renew(self, lease: LeaseView, **report: Any) -> RunView:
        view = super().renew(lease, **report)
        self.service.lanes()
        return view

    def cancel(self, item: int, why: str = "not needed", *, force: bool = False) -> ChangeView:
        view = super().cancel(item, why, force=force)
        self._hear()
        return view

    def events(self, kind: str) -> list[Any]:
        """What the rules said happened. Starts of runs are not among it: no rule decides on them."""
        return [event for event in self.told if event.kind == kind]

    def _hear(self) -> None:
        """Runs that were asked to stop learn of it now: only then does their grace begin."""
        for lane in self.service.lanes():
            if lane.holder is not None and lane.holder.cancel_requested and lane.holder.item in self._leases:
                self.renew(self._leases[lane.holder.item])


@pytest.fixture
def open_service(clock: Clock, tmp_path: Path) -> OpenClone:
    """Lanes in an empty repository, each time from a clone of its own."""
    bare = make_bare(tmp_path / "lanes.git")
    clones = count(1)

    def open_one() -> GitSubject:
        place = tmp_path / f"clone-{next(clones)}"
        return GitSubject(
            bare.as_uri(),
            place,
            lease_min_s=1,
            margin_share=0,
            now=clock,
            first_seen=FirstSeen(place / "sight", now=clock),
            poll_s=0.01,
        )

    return open_one


@pytest.fixture
def scene(clock: Clock, open_service: OpenClone, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitScene]:
    """Lanes in an empty repository."""
    lanes = open_service()
    scene = GitScene(lanes, clock)

    def overheard(*args: Any) -> LedgerChanges:
        decision = decide(*args)
        # A handover may be decided twice: on what was known, then on what is there.
        scene.told += [event for event in decision.events if event not in scene.told]
        return decision

    monkeypatch.setattr("interlock.gitlanes.lane.decide", overheard)
    yield scene
    for lane in lanes.remote.read_all():
        assert isinstance(lane, Lane), "a scenario left a lane that cannot be read"
        assert sum(i.active for i in lane.items.values() if i.spec.lane) <= 1
        assert not lane.line or lane.holder is not None, "a line that nobody leads"
        running = [i for i in lane.items.values() if i.status is ItemStatus.IN_PROGRESS and i.spec.lane]
        assert (lane.owner.run is not None) == bool(running)
