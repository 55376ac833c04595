"""The demo fleet: a few agents on a server's own store, for a first look at the dashboard.

One thread directs it: it adds items, creates a plan, and kills an agent now and then with `kill -9`. The
agents are processes with real leases. Everything is in one project, so that it can be deleted as a whole.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import cycle
from pathlib import Path
from typing import Protocol

from interlock.core.errors import Held, InterlockError
from interlock.core.model import ItemId, NewItem, PlanId
from interlock.core.plans.model import EdgeSpec, Graph, TaskSpec
from interlock.demo.processes import AgentProcess, Crew
from interlock.service.contract import ItemFilter
from interlock.service.demo import AGENTS, EDITOR, LABEL, PROJECT, TYPE
from interlock.service.item_view import moment
from interlock.service.local import LocalService
from interlock.settings import Settings, sqlite_path
from interlock.settings.store_url import scheme_of

#: After this time the fleet stops and is removed.
LASTS_S = 3_600.0
TURN_S = 1.0
#: How long an end waits for the director, which may wait for the store.
STOP_S = 10.0
#: How many items are kept waiting, and how often one is added.
WAITING, ADD_EVERY_S = 6, 4.0
#: When an agent first crashes, how often, and how long it stays away.
CRASH_AFTER_S, CRASH_EVERY_S, AWAY_S = 20.0, 75.0, 9.0
#: When the first question and the first dead letter come, and how often further ones.
ASK_AFTER_S, ASK_EVERY_S, DEAD_AFTER_S, DEAD_EVERY_S = 1.0, 120.0, 8.0, 600.0
PLAN_EVERY_S = 90.0
_ITEMS_MAX = 10_000
_TITLES = (
    "Fix the login redirect loop",
    "Speed up the search page",
    "Remove the deprecated export",
    "Add rate limits to the public API",
    "Upgrade the database driver",
    "Describe retention in the handbook",
    "Cache the user's permissions",
    "Mend the flaky checkout test",
    "Sort invoices by due date",
    "Show the time zone in reports",
)
_QUESTIONS = (
    (
        "Drop the v1 API",
        "Keep the old API for one more release, or remove it now? Two clients still call it.",
    ),
    ("Rename the settings file", "Should the old name still be read for a while?"),
    ("Choose a colour for warnings", "Amber or orange? The contrast of both is sufficient."),
)
_TASKS = {
    "design": "Agree on the interface",
    "server": "Serve the new fields",
    "client": "Read the new fields",
    "docs": "Describe the new fields",
    "release": "Release it",
}
_EDGES = (
    ("design", "server"),
    ("design", "client"),
    ("server", "docs"),
    ("docs", "release"),
    ("client", "release"),
)


class Ended(Protocol):
    """Is called when a fleet ends by itself: why, and whether what it made is removed already."""

    def __call__(self, error: Exception | None, *, removed: bool = False) -> None: ...


class DemoFleet:
    """The fleet of one server."""

    def __init__(
        self, service: LocalService, settings: Settings, defect: Callable[[Exception], None]
    ) -> None:
        self._service, self._settings, self._defect = service, settings, defect
        self._lock = threading.Lock()
        self._run: _FleetRun | None = None

    @property
    def ends_at(self) -> datetime | None:
        run = self._run
        return None if run is None else run.ends_at

    def start(self) -> None:
        """Start the processes, and add the first items."""
        with self._lock:
            if self._run is None:
                run = _FleetRun(self._service, self._settings)
                run.begin(self._ended)
                self._run = run

    def remove(self) -> None:
        """Stop the processes, and delete what the fleet made, also what a killed server left behind."""
        with self._lock:
            run, self._run = self._run, None
            if run is not None:
                run.end()
            remove(self._service)

    def _ended(self, error: Exception | None, *, removed: bool = False) -> None:
        """The director has ended by itself; what the fleet made may be removed already."""
        if error is not None:
            self._defect(error)
        tidy = self._leave if removed else self._tidy
        threading.Thread(target=tidy, name="demo-fleet-end", daemon=True).start()

    def _tidy(self) -> None:
        try:
            self.remove()
        except InterlockError as error:
            self._defect(error)

    def _leave(self) -> None:
        """Stop the processes alone."""
        with self._lock:
            run, self._run = self._run, None
            if run is not None:
                run.end()


class _FleetRun:
    """The processes of a fleet from its start to its end."""

    def __init__(self, service: LocalService, settings: Settings) -> None:
        self._service = service
        self._directory = Path(tempfile.mkdtemp(prefix="interlock-fleet-"))
        self._crew = Crew(self._directory, _environ(settings), cwd=settings.root, module="fleet_agent")
        #: Tells this fleet from one that another server starts in its place.
        self._mark = f"fleet-{uuid.uuid4().hex[:8]}"
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._began_s = time.monotonic()
        self.ends_at = moment(service.store.now_us() + round(LASTS_S * 1_000_000))
        self._titles, self._questions = cycle(_TITLES), cycle(_QUESTIONS)
        self._added = 0
        #: When each thing is due, by the seconds since the start.
        self._due = {"add": 0.0, "ask": ASK_AFTER_S, "die": DEAD_AFTER_S, "crash": CRASH_AFTER_S, "plan": 0.0}
        #: The crashed agent, and when it comes back.
        self._away: tuple[AgentProcess, float] | None = None

    def begin(self, ended: Ended) -> None:
        try:
            for name in AGENTS:
                labels = [LABEL, self._mark] if name == EDITOR else [LABEL]
                self._service.set_agent(name, labels=labels, max_concurrency=1, by="demo")
            self._add_some(WAITING)
            for name in AGENTS:
                self._crew.start((name,), name=name, label=name)
        except BaseException:
            self.end()
            with suppress(InterlockError):
                remove(self._service)
            raise
        self._thread = threading.Thread(target=self._direct, args=(ended,), name="demo-fleet", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Kill the processes, and wait for the director."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)
        self._crew.end()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _direct(self, ended: Ended) -> None:
        try:
            while not self._over.wait(TURN_S):
                elapsed_s = time.monotonic() - self._began_s
                if elapsed_s > LASTS_S:
                    ended(None)
                    return
                self._crew.listen(0.0)
                if self._is_removed():
                    ended(None, removed=True)
                    return
                with suppress(InterlockError):  # the store is away for a moment
                    self._turn(elapsed_s)
        except Exception as error:
            ended(error)

    def _is_removed(self) -> bool:
        """Whether another server has removed the fleet, or started one in its place."""
        try:
            editor = self._service.store.agent(EDITOR)
        except InterlockError:
            return False
        return editor is None or self._mark not in editor.labels

    def _turn(self, now_s: float) -> None:
        if self._comes_due("add", now_s, ADD_EVERY_S):
            waiting = ItemFilter(statuses=("pending", "deferred"), project=PROJECT, limit=WAITING)
            self._add_some(min(1, WAITING - len(self._service.items(waiting))))
        if self._comes_due("ask", now_s, ASK_EVERY_S) and not self._service.store.asking(1):
            title, question = next(self._questions)
            self._add(title, {"work_s": 3.0, "asks": question}, priority=5)
        if self._comes_due("die", now_s, DEAD_EVERY_S):
            payload = {"work_s": 4.0, "failures": 99}  # on a lane that no question keeps
            self._add("Import the 2019 invoices", payload, priority=5, attempts=1, issue=self._added + 1_000)
        if self._comes_due("plan", now_s, PLAN_EVERY_S) and not self._service.plans(project=PROJECT):
            self._plan()
        if self._away is not None and now_s >= self._away[1]:
            gone, self._away = self._away[0], None
            self._crew.start((gone.name,), name=gone.name, label=gone.name, instead=gone)
        if now_s >= self._due["crash"] and self._away is None:
            busy = [a for a in self._crew.agents if a.state == "working" and a.name != EDITOR]
            if busy:
                busy[0].kill()
                self._away = busy[0], now_s + AWAY_S
                self._due["crash"] = now_s + CRASH_EVERY_S

    def _comes_due(self, what: str, now_s: float, every_s: float) -> bool:
        if now_s < self._due[what]:
            return False
        self._due[what] = now_s + every_s
        return True

    def _add_some(self, count: int) -> None:
        for _ in range(count):
            work_s = 7.0 + 5.0 * (self._added % 3)
            self._add(next(self._titles), {"work_s": work_s}, priority=self._added % 3)

    def _add(
        self,
        title: str,
        payload: Mapping[str, object],
        *,
        priority: int,
        attempts: int = 5,
        issue: int | None = None,
    ) -> None:
        self._added += 1
        if issue is None:
            issue = 41 + self._added // 2 if self._added % 4 < 2 else 41 + self._added  # some share a lane
        new = NewItem(
            title=title,
            project=PROJECT,
            type=TYPE,
            labels=(LABEL,),
            agent=AGENTS[self._added % (len(AGENTS) - 1)],
            lane=f"issue:demo/shop#{issue}",
            priority=priority,
            payload=json.dumps(payload),
            message=f"{title}, please.",
            author="demo",
            max_attempts=attempts,
        )
        self._service.add([new])

    def _plan(self) -> None:
        tasks = tuple(
            TaskSpec(
                key=key,
                title=title,
                agent=AGENTS[n % (len(AGENTS) - 1)],
                type=TYPE,
                labels=(LABEL,),
                payload='{"work_s": 8}',
                priority=4,
            )
            for n, (key, title) in enumerate(_TASKS.items())
        )
        edges = tuple(EdgeSpec(source=source, target=target) for source, target in _EDGES)
        graph = Graph(tasks=tasks, edges=edges)
        self._service.create_plan(
            "Ship release 2.4", graph, editor=EDITOR, edit_deadline_s=120, project=PROJECT, by="demo"
        )


def remove(service: LocalService) -> None:
    """Delete what a fleet made: the items and plans of its project, its agents and their workers."""
    why = "the demo was stopped"
    for plan in service.plans(project=PROJECT, limit=_ITEMS_MAX):
        service.cancel_plan(plan.id, why=why)
    for item in service.items(ItemFilter(project=PROJECT, limit=_ITEMS_MAX)):
        with suppress(InterlockError):  # it has just ended
            service.cancel(item.id, why=why, force=True)
    service.sweep()
    items = service.items(ItemFilter(all=True, project=PROJECT, limit=_ITEMS_MAX))
    plans = service.plans(project=PROJECT, ended=True, limit=_ITEMS_MAX)
    service.store.erase([ItemId(item.id) for item in items], [PlanId(plan.id) for plan in plans])
    for worker in service.workers(limit=_ITEMS_MAX):
        if worker.agent in AGENTS:
            service.leave_worker(worker.name)
    ours = {agent.key for agent in service.agents() if agent.name in AGENTS and LABEL in agent.labels}
    for name in sorted(ours, key=lambda name: name == EDITOR):  # the editor marks a demo: it goes last
        try:
            service.remove_agent(name, by="demo")
        except Held:  # an item that somebody else added names it
            service.set_agent(name, labels=[], unlimited=True, by="demo")


def _environ(settings: Settings) -> dict[str, str]:
    """The environment of the agents: the server's store, and none of the user's other settings."""
    url = settings.url
    if scheme_of(url) == "sqlite":
        url = f"sqlite:///{sqlite_path(url, settings.root).resolve()}"
    rest = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return {**rest, "INTERLOCK_URL": url}
