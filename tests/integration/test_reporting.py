"""Ends of runs on their way to a real store: in one batch, and none spoils another."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from interlock.contract import LeaseView, Report, RunView
from interlock.core.commands import Outcome
from interlock.core.errors import InterlockError, InvalidInput, UnknownRun
from interlock.core.model import NewItem
from interlock.reporting import Reporter
from interlock.service import LocalService
from interlock.spool import End
from interlock.store.sqlite import SqliteStore

PATIENCE_S = 30.0


class Counted(LocalService):
    """A service that counts the calls that end runs."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self.calls: list[int] = []

    def done(self, reports: Sequence[Report]) -> list[RunView]:
        self.calls.append(len(reports))
        return super().done(reports)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Counted]:
    service = Counted(SqliteStore(tmp_path / "interlock.db"))
    yield service
    service.close()


def claim(service: LocalService, n: int) -> list[LeaseView]:
    service.add([NewItem(title=f"item {k}") for k in range(n)])
    return service.next("coder", limit=n)


def end(handle: str, fence: int) -> End:
    return End(outcome=Outcome.DONE, run=handle, fence=fence, item=fence, store="here")


def deliver(service: LocalService, directory: Path, ends: list[End]) -> dict[int, RunView | InterlockError]:
    """Owe all of them, then begin; what each was answered."""
    answers: dict[int, RunView | InterlockError] = {}
    complete = threading.Event()

    def answered(end: End, answer: RunView | InterlockError) -> None:
        answers[end.fence] = answer
        if len(answers) == len(ends):
            complete.set()

    def ignore(_: object) -> None: ...

    reporter = Reporter(
        service,
        directory,
        worker="w",
        store="here",
        writing=threading.Lock(),
        trouble=ignore,
        answered=answered,
        crashed=_raise,
    )
    for one in ends:
        reporter.report(one, answered)
    assert len(list(directory.glob("w/run-*"))) == len(ends)
    reporter.start()
    assert complete.wait(PATIENCE_S)
    reporter.stop()
    assert not list(directory.iterdir())
    return answers


def _raise(error: Exception) -> None:
    raise error


def test_ends_that_come_together_are_reported_together(service: Counted, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    leases = claim(service, 20)
    answers = deliver(service, spool, [end(lease.run, lease.fence) for lease in leases])
    assert service.calls == [20]
    assert {answer.status for answer in answers.values() if isinstance(answer, RunView)} == {"succeeded"}


def test_an_end_that_no_store_takes_does_not_hold_up_the_others(service: Counted, tmp_path: Path) -> None:
    """A handle of another store, and one that is none: answered with the reason, and not tried again."""
    spool = tmp_path / "spool"
    spool.mkdir()
    (lease,) = claim(service, 1)
    foreign, nonsense = end(f"7.7.{'0' * 16}", 7), end("nonsense", 8)
    answers = deliver(service, spool, [foreign, end(lease.run, lease.fence), nonsense])
    kept = answers[lease.fence]
    assert isinstance(kept, RunView)
    assert kept.status == "succeeded"
    assert isinstance(answers[7], UnknownRun)
    assert isinstance(answers[8], InvalidInput)
