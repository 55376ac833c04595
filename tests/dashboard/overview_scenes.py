"""A store in the middle of a working day, for the overview."""

from __future__ import annotations

from interlock.core.commands import QuotaLimit
from interlock.core.model import ANOTHER_SYSTEM, NewItem, Policy
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from interlock.store.metrics import Sample
from tests.dashboard.plan_scenes import do, release_plan

QUESTION = "Keep the old API for one more release, or remove it now? Two clients still call it."
ERROR = "AssertionError: expected 3 rows, got 2\n  tests/test_import.py:41"
TITLES = (
    "Fix the login redirect loop",
    "Speed up the search page",
    "Remove the deprecated export",
    "Add rate limits to the public API",
    "Upgrade PostgreSQL driver",
    "Describe retention in the handbook",
    "Cache the user's permissions",
    "Flaky test: test_checkout_total",
)


def busy_day(service: LocalService) -> None:
    """Something in every section of the overview."""
    running(service, "Migrate the billing tables", "issue:acme/app#77", "coder")
    running(service, "Review pull request 80", "pull:acme/app#80", "reviewer")
    running(service, "Hold the deployment", "deploy:production", "release", lease_s=20.0)
    asks(service)
    dead_letter(service)
    loops(service)
    service.add([NewItem(title="Redraw the icons", agent="painter", lane="issue:acme/app#91")])
    service.pause_agent("painter", paused=True, why="on holiday", create=True)
    lease = running(service, "Translate the welcome page", "issue:acme/app#95", "translator")
    service.add([NewItem(title="Translate the settings", agent="translator")])
    service.release([Report(run=lease.run, wall=QuotaLimit(for_s=5_400.0, whole_agent=True))])
    service.add([NewItem(title="Tune the indexes", agent="databse-admin", lane="issue:acme/app#96")])
    service.set_gate("issue:acme/app#12", series="series:acme/app/RFC-093", open=False, why="#11 is active")
    service.add([NewItem(title="Second step of the RFC", lane="issue:acme/app#12", agent="coder")])
    service.add([NewItem(title="Later", lane="issue:acme/app#97", agent="coder")])
    service.block(lane="issue:acme/app#97", blocker="acme/app#96", why="needs the new index")
    plan = release_plan(service).id
    do(service, plan, "design")
    service.add(
        [
            NewItem(title=title, lane=f"issue:acme/app#{100 + n}", agent="coder", priority=n % 3)
            for n, title in enumerate(TITLES)
        ]
    )
    last_hour(service)


def running(service: LocalService, title: str, lane: str, agent: str, *, lease_s: float = 600.0) -> LeaseView:
    (added,) = service.add([NewItem(title=title, lane=lane, agent=agent)])
    (lease,) = service.next(agent, item=added.arrival, lease_s=lease_s)
    return lease


def asks(service: LocalService, question: str = QUESTION, title: str = "Drop the v1 API") -> int:
    lane = f"issue:acme/app#{len(question)}"
    lease = running(service, title, lane, "coder")
    service.ask(lease.run, question)
    return lease.item.id


def dead_letter(service: LocalService, error: str = ERROR, title: str = "Import the 2019 invoices") -> int:
    lease = running(service, title, "issue:acme/app#58", "coder")
    service.fail([Report(run=lease.run, error=error, retry=False)])
    return lease.item.id


def loops(service: LocalService) -> int:
    """An item that other systems woke too often."""
    lane = "pull:acme/app#73"
    (added,) = service.add(
        [NewItem(title="Answer the review of #73", lane=lane, agent="chatty", policy=Policy.COALESCE)]
    )
    item = added.arrival or 0
    while service.show(item).item.status != "waiting":
        (lease,) = service.next("chatty", item=item)
        service.msg(item, "CI failed again", sender=ANOTHER_SYSTEM)
        item = service.done([Report(run=lease.run)])[0].follow_up or item
    return item


def last_hour(service: LocalService) -> None:
    """The numbers of the last hour, as a server would have kept them."""
    minute = service.store.now_us() // 60_000_000
    arrivals = claims = completions = failures = 0
    for n in range(60):
        wave = (n * 7) % 13 + (n // 9) % 5
        arrivals += wave
        claims += wave % 9
        completions += (wave + 3) % 8
        failures += n % 23 == 0
        sample = Sample(
            minute - 60 + n, wave + 4, 6, 3, (wave + 2) * 9_000_000, arrivals, claims, completions, failures
        )
        if not 20 < n < 24:  # the server was down
            service.store.meter.keep(sample)
