"""A live run: what the answers of a store mean for the command that works on it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.core.model import NewItem
from interlock.process.clock import now_s
from interlock.process.live_run import LiveRun
from interlock.service.contract import LeaseView, RefusalView, RunView
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LocalService]:
    service = LocalService(SqliteStore(tmp_path / "interlock.db"))
    yield service
    service.close()


def claim(service: LocalService, **fields: Any) -> LeaseView:
    service.add([NewItem(title="work", **fields)])
    return service.next("ann")[0]


def answer(lease: LeaseView, later_s: float) -> RunView:
    """A renewal that moved the end of the lease by so much."""
    assert lease.expires_at is not None
    expires_at = lease.expires_at + timedelta(seconds=later_s)
    return RunView(run=lease.run, status="running", item=lease.item, expires_at=expires_at)


def test_a_renewal_that_does_not_move_the_end_of_the_lease_gives_no_new_trust(service: LocalService) -> None:
    """A store in git answers most renewals without a push. Taken out: the comparison in `renewed`."""
    lease = claim(service)
    sent_s = now_s()
    live = LiveRun(lease, sent_s, beat_s=2.0)
    until_s = live.run_until_s
    assert sent_s + 40 < until_s < sent_s + 60
    live.renewed(answer(lease, 0), sent_s + 10)
    assert live.run_until_s == until_s
    assert live.beat_due_s == sent_s + 12
    live.renewed(answer(lease, 20), sent_s + 20)
    assert live.run_until_s == until_s + 20


def test_a_timeout_ends_trust_early_and_only_then_is_it_the_reason(service: LocalService) -> None:
    lease = claim(service)
    sent_s = now_s()
    late = LiveRun(lease, sent_s, deadline_s=sent_s + 1_000)
    early = LiveRun(lease, sent_s - 100, deadline_s=sent_s)
    short = LiveRun(lease, sent_s, deadline_s=sent_s)
    assert late.run_until_s < sent_s + 60
    assert (late.timed_out, early.timed_out, short.timed_out) == (False, False, True)
    assert lease.expires_at is not None
    assert lease.expires_at > datetime.now(UTC)


def test_a_timeout_that_comes_before_the_end_of_the_lease_does_not_keep_renewals_from_giving_trust(
    service: LocalService,
) -> None:
    """The store cannot move the end of the run past its timeout; the renewal was written all the same."""
    lease, sent_s = claim(service, lease_s=60, timeout_s=100), now_s()
    live = LiveRun(lease, sent_s)
    until_s = live.run_until_s
    live.renewed(answer(lease, 40), sent_s + 50)
    live.renewed(answer(lease, 40), sent_s + 60)
    assert live.run_until_s == until_s + 60


def test_a_refused_renewal_loses_the_run_unless_its_end_is_being_reported(service: LocalService) -> None:
    lease, sent_s = claim(service), now_s()
    running, ending = LiveRun(lease, sent_s), LiveRun(lease, sent_s)
    ending.ending = True
    refusal = RefusalView(code="lease_lost", message="Another has it.", hint="")
    for live in (running, ending):
        live.renewed(RunView(run=lease.run, status="refused", item=None, refusal=refusal), sent_s)
    assert (running.lost, running.beats, running.stop_event.is_set()) == (refusal, False, True)
    assert (ending.lost, ending.stop_event.is_set()) == (None, False)


def test_the_first_reason_to_stop_is_kept(service: LocalService) -> None:
    lease, sent_s = claim(service), now_s()
    live = LiveRun(lease, sent_s)
    service.cancel(lease.item.id, why="not needed")
    (view,) = service.renew([live.renewal])
    live.renewed(view, sent_s)
    live.stop("the worker ends")
    assert live.cancel_reason == "not needed"
    assert live.stop_event.is_set()
    assert live.beats, "it is renewed until its end is reported"
