"""One store with everything that pages show: a day of items, a plan and its edit, a series, effects."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from interlock.app import open_service
from interlock.core.model import NewItem
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.dashboard.client import Site
from tests.dashboard.effect_scenes import usual_effects
from tests.dashboard.item_scenes import Day
from tests.dashboard.plan_scenes import answer, asked, do, note_series, release_plan, usual_edit

#: How long ago the scene begins. It takes a little less.
BEGAN = timedelta(seconds=5_740)
MINUTE_US = 60_000_000
#: Agents whose workers are alive, with the slots and runs of each.
WORKERS = (("coder", 2, 1), ("reviewer", 1, 0), ("labeler", 3, 2), ("triage", 4, 1), ("planner", 1, 0))


class WholeScene(NamedTuple):
    """What tests refer to."""

    day: Day
    plan: int

    def address(self, route: str) -> str:
        """An address of a page with content."""
        if route == "/lane":
            return "/lane?name=issue%3Aacme%2Fapp%2342"
        if route == "/settings/try":
            return "/settings/try?example=1"
        return route.format(item=self.day.crashed, plan=self.plan)

    def go_on(self, site: Site) -> None:
        """Workers are heard from, and the run that is shown keeps its lease."""
        see_workers(site.server.service)
        site.server.service.renew([Report(run=self.day.lease.run, seen=4)])


def whole_scene(service: LocalService, clock: Clock) -> WholeScene:
    """Fill a store."""
    plan = release_plan(service).id
    do(service, plan, "design")
    answer(service, plan, asked(service), *usual_edit())
    day = Day(service, clock)
    note_series(service)
    usual_effects(service, run=3)
    service.set_mode(scope="project", value="acme/legacy", mode="observe", by="anna")
    service.pause_project("acme/legacy", paused=True, why="A release is under way.", by="dana", create=True)
    for name, scope in (("laptop-anna", "admin"), ("build-2", "agent:coder"), ("old-phone", "read")):
        token = service.create_token(name, scope=scope)
        if name == "old-phone":
            service.revoke_token(token.id)
    service.see_worker(
        "docs-writer@laptop-7",
        host="laptop-7",
        pid=99,
        folder="/home/ben",
        agent="docs-writer",
        slots=1,
        runs=0,
    )
    clock.advance(65)
    service.renew([Report(run=day.lease.run, seen=4)])
    see_workers(service)
    do(service, plan, "server")  # its editor is asked for an edit
    return WholeScene(day, plan)


def see_workers(service: LocalService) -> None:
    """Their workers are heard from."""
    for agent, slots, runs in WORKERS:
        service.see_worker(
            f"{agent}@build-2",
            host="build-2",
            pid=4711,
            folder="/srv/app",
            agent=agent,
            slots=slots,
            runs=runs,
        )


class MinuteClock(Clock):
    """Each minute that begins is noticed."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self.on_minute: Callable[[], object] = lambda: None

    def advance(self, seconds: float) -> None:
        end_us = self.now_us + round(seconds * 1e6)
        while (next_us := (self.now_us // MINUTE_US + 1) * MINUTE_US) <= end_us:
            self.now_us = next_us
            self.on_minute()
        self.now_us = end_us


class Background:
    """Agents that label the new issues of three repositories, and a server that counts each minute."""

    AGENT, REPOSITORIES = "labeler", ("acme/app", "acme/api", "acme/docs")
    TITLES = ("Label the new issue", "Find duplicates of the issue", "Ask how to see the fault")

    def __init__(self, service: LocalService) -> None:
        self._service, self._random = service, random.Random(7)
        self._runs: dict[str, LeaseView | None] = dict.fromkeys(self.REPOSITORIES)
        self._rests = dict.fromkeys(self.REPOSITORIES, 0)
        service.set_agent(self.AGENT, max_concurrency=3)

    def work(self) -> None:
        """End runs and begin others."""
        for repository, lease in self._runs.items():
            self._rests[repository] -= 1
            if self._rests[repository] > 0:
                continue
            if lease is not None:
                self._service.done([Report(run=lease.run)])
                self._runs[repository] = None
                self._rests[repository] = self._random.choice((0, 0, 2, 4))
            else:
                self._runs[repository] = self._begin(repository)
                self._rests[repository] = self._random.choice((2, 3, 3, 5, 8))
        self._service.count_history()

    def _begin(self, repository: str) -> LeaseView:
        title = self._random.choice(self.TITLES)
        new = NewItem(title=title, agent=self.AGENT, lane=f"triage:{repository}", project=repository)
        (added,) = self._service.add([new])
        (lease,) = self._service.next(
            self.AGENT, item=added.arrival, lease_s=1_800, worker=f"{self.AGENT}@build-2"
        )
        return lease


@contextmanager
def whole_site(path: Path) -> Iterator[tuple[Site, WholeScene]]:
    """A server of its own on a full store, whose day has just ended."""
    clock = MinuteClock(datetime.now(UTC) - BEGAN)
    with closing(LocalService(SqliteStore(path, now=clock))) as service:
        clock.on_minute = Background(service).work
        scene = whole_scene(service, clock)
    with closing(open_service(url=f"sqlite:///{path}")) as opened:
        assert isinstance(opened, LocalService)
        site = Site(opened)
        try:
            yield site, scene
        finally:
            site.stop()
