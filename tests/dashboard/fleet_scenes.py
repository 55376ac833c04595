"""A fleet at work on lanes, for the pages of lanes, runs and agents. Only the test moves the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from interlock.core.commands import QuotaLimit
from interlock.core.model import NewItem
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from tests.clock import Clock

HOSTILE = "</text><script>alert(1)</script>"
RIGHT_TO_LEFT = "\u202e\u0627\u0628\u062f\u0623 \u0645\u0646 \u0647\u0646\u0627"
LOGIN, EXPORT, SEARCH = "issue:acme/app#42", "issue:acme/app#57", "issue:acme/search#7"
DOCS, PULL, BILLING = "issue:acme/docs#3", "pr:acme/app#61", "issue:acme/billing#42"
TITLES = {
    LOGIN: "Login fails on Safari after the session cookie expires",
    EXPORT: "Export of 10,000 rows times out",
    SEARCH: "Search ignores accents",
    DOCS: "Describe the new export format",
    PULL: "Review: stream the export",
    BILLING: "Invoices of leap years are off by a day",
}
#: The hour before noon of this day is the fleet's.
DAY = datetime(2027, 3, 1, 11, tzinfo=UTC)


class Fleet(NamedTuple):
    """What a test refers to."""

    #: The run that holds the lane of issue 42, the handle that lost it before, and the items that wait there.
    holder: LeaseView
    late: LeaseView
    waiting: tuple[int, ...]


def fleet(service: LocalService, clock: Clock) -> Fleet:
    """An hour of work: runs that succeed, fail, crash and are cancelled; a line, a question, a conflict in
    observe mode, a block, a quota limit and a paused agent."""
    service.set_pool("models", max_concurrency=4)
    for agent, most in (("coder", 2), ("reviewer", 1), ("writer", None), ("triager", 3)):
        service.set_agent(agent, max_concurrency=most, types=["task"], pool="models" if most else None)
    service.set_agent("coder", labels=["python", "gpu"])
    service.set_mode(scope="lane", value="issue:acme/docs", mode="observe")

    first = _run(service, LOGIN, "coder")
    _run_for(service, clock, EXPORT, "coder", 240)
    _run_for(service, clock, DOCS, "writer", 120)
    clock.advance(300)
    service.sweep()  # coder's lease of issue 42 has expired: it crashed
    late = first
    service.done([Report(run=late.run)])  # and comes back too late
    clock.advance(60)
    _fail(service, clock, SEARCH, "triager", 200)
    _run_for(service, clock, LOGIN, "reviewer", 400)
    _run_for(service, clock, BILLING, "writer", 90)
    late_export = _add(service, EXPORT, "coder")
    clock.advance(500)
    (started,) = service.next("coder", item=late_export, lease_s=3_600, worker="coder-mac-1")
    clock.advance(320)
    service.done([Report(run=started.run)])
    one, two = _run(service, DOCS, "writer", 3_600), _run(service, DOCS, "reviewer", 3_600)  # observed only
    clock.advance(150)
    service.done([Report(run=two.run)])
    clock.advance(200)
    service.done([Report(run=one.run)])
    cancelled = _run(service, PULL, "reviewer", 3_600)
    clock.advance(100)
    service.cancel(cancelled.item.id, why="The pull request was closed.", by="anna", force=True)
    clock.advance(200)
    walled = _run(service, BILLING, "triager", 3_600)
    clock.advance(40)
    limit = QuotaLimit(for_s=1_800, whole_agent=True, why="429 from the model's provider: 5 h limit reached")
    service.release([Report(run=walled.run, wall=limit)])
    asking = _run(service, SEARCH, "writer", 3_600)
    clock.advance(30)
    service.ask(asking.run, "Should accents be ignored in names too?")
    holder = _run(service, LOGIN, "coder", 600)
    clock.advance(200)
    waiting = []
    for title, agent in (("Comment: it happens on iOS too", "coder"), ("Review the fix", "reviewer")):
        waiting.append(_add(service, LOGIN, agent, title))
        clock.advance(90)
    waiting.append(_add(service, LOGIN, "writer", "Add the fix to the release notes"))
    _add(service, EXPORT, "codr", "Export: add a progress bar")  # a mistyped agent
    service.block(lane=PULL, blocker="acme/app#57", why="The export comes first.", by="anna")
    _add(service, PULL, "reviewer", "Review: stream the export, once more")
    service.pause_agent("reviewer", paused=True, why="Its reviews repeat themselves", by="anna")
    for agent, slots in (("coder", 2), ("writer", 1)):
        _worker(service, f"{agent}-mac-1", agent, slots)
    service.renew([Report(run=holder.run)])
    clock.advance(25)
    _worker(service, "coder-linux-2", "coder", 2)
    return Fleet(holder, late, tuple(waiting))


def many_lanes(service: LocalService, count: int, *, first: int = 0) -> None:
    """Held lanes of two repositories."""
    for start in range(first, count, 1_000):
        numbers = range(start, min(count, start + 1_000))
        service.add([NewItem(title=f"Issue {n}", lane=f"issue:acme/{'ab'[n % 2]}#{n}") for n in numbers])


def _add(service: LocalService, lane: str, agent: str, title: str = "") -> int:
    item = NewItem(title=title or TITLES[lane], type="task", agent=agent, lane=lane)
    (added,) = service.add([item])
    assert added.item is not None
    return added.item.id


def _run(service: LocalService, lane: str, agent: str, lease_s: float = 300.0) -> LeaseView:
    item = _add(service, lane, agent)
    (lease,) = service.next(agent, item=item, lease_s=lease_s, worker=f"{agent}-mac-1")
    return lease


def _run_for(service: LocalService, clock: Clock, lane: str, agent: str, seconds: float) -> None:
    lease = _run(service, lane, agent, 3_600)
    clock.advance(seconds)
    service.done([Report(run=lease.run)])


def _fail(service: LocalService, clock: Clock, lane: str, agent: str, seconds: float) -> None:
    lease = _run(service, lane, agent, 3_600)
    clock.advance(seconds)
    service.fail([Report(run=lease.run, error="The tests fail.", retry=False)])


def _worker(service: LocalService, name: str, agent: str, slots: int) -> None:
    folder = "/home/anna/src/app"
    service.see_worker(name, host="mac-studio", pid=4711, folder=folder, agent=agent, slots=slots, runs=1)
