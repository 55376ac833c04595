"""Ends of runs on their way to a real store: in one batch, none spoils another, none overtakes a renewal."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from interlock.core.commands import Outcome
from interlock.core.errors import InterlockError, UnknownRun
from interlock.core.model import NewItem
from interlock.service.contract import LeaseView, Report, RunView
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from interlock.worker import reporter
from interlock.worker.reporter import Reporter
from interlock.worker.rundirectory import Home
from interlock.worker.spool import RunEnd, Spool
from interlock.worker.worker import Worker, WorkerOptions
from tests.overridden import OverriddenService
from tests.patience import PATIENCE_S


class Counted(OverriddenService):
    """A service that counts the calls that end runs."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self.calls: list[int] = []

    def done(self, reports: Sequence[Report], **wish: Any) -> Any:
        self.calls.append(len(reports))
        return self.plain.done(reports, **wish)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Counted]:
    service = Counted(SqliteStore(tmp_path / "interlock.db"))
    yield service
    service.close()


def claim(service: LocalService, n: int) -> list[LeaseView]:
    service.add([NewItem(title=f"item {k}") for k in range(n)])
    return service.next("coder", limit=n)


STORE = Home(Path(), "sqlite:///x").store


def end(handle: str, fence: int) -> RunEnd:
    return RunEnd(outcome=Outcome.DONE, run=handle, fence=fence, item=fence, store=STORE)


def deliver(
    service: LocalService, home: Home, ends: list[RunEnd]
) -> dict[int, RunView | InterlockError | None]:
    """Report all of them at once; the store's answers by run."""
    reporter = Reporter(
        service,
        home,
        worker="w",
        trouble=lambda _: None,
        unkept=lambda *_: None,
        answered=lambda *_: None,
        crashed=_raise,
    )
    reporter.start()
    for one in ends:
        reporter.keep(one)
    assert len(list(home.spool.glob("w/run-*"))) == len(ends)
    with ThreadPoolExecutor(len(ends)) as threads:
        answers = list(threads.map(reporter.report, ends))
    reporter.leave()
    reporter.close(10.0)
    assert not list(home.spool.iterdir())
    return {one.fence: answer for one, answer in zip(ends, answers, strict=True)}


def _raise(error: Exception) -> None:
    raise error


def test_ends_that_come_together_are_reported_together(
    service: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0.005 <= reporter.GATHER_S <= 0.010
    monkeypatch.setattr(reporter, "GATHER_S", 1.0)  # time to start most of 20 threads on a busy machine
    home = Home(tmp_path, "sqlite:///x")
    home.make()
    leases = claim(service, 20)
    answers = deliver(service, home, [end(lease.run, lease.fence) for lease in leases])
    assert sum(service.calls) == 20
    assert len(service.calls) <= 5
    assert {answer.status for answer in answers.values() if isinstance(answer, RunView)} == {"succeeded"}


def test_an_end_that_every_store_refuses_does_not_delay_the_others(service: Counted, tmp_path: Path) -> None:
    """A handle of another store, and one that is none: answered with the reason, and not tried again."""
    home = Home(tmp_path, "sqlite:///x")
    home.make()
    (lease,) = claim(service, 1)
    foreign, nonsense = end(f"7.7.{'0' * 16}", 7), end("nonsense", 8)
    answers = deliver(service, home, [foreign, end(lease.run, lease.fence), nonsense])
    kept = answers[lease.fence]
    assert isinstance(kept, RunView)
    assert kept.status == "succeeded"
    refused = answers[7]
    assert isinstance(refused, RunView)
    assert refused.refusal is not None
    assert refused.refusal.code == "lease_lost"
    assert isinstance(answers[8], UnknownRun)


class Hesitant(OverriddenService):
    """A service whose renewal stands still on its way until the end of its run is owed, and then some."""

    def __init__(self, store: SqliteStore, home: Home) -> None:
        super().__init__(store)
        self._home = home
        self._ended = threading.Event()

    def renew(self, reports: Sequence[Report]) -> list[RunView]:
        (self._home.root / "renewing").touch()
        give_up_s = time.monotonic() + PATIENCE_S
        while not list(self._home.spool.glob("*/run-*")) and time.monotonic() < give_up_s:
            time.sleep(0.005)
        self._ended.wait(0.5)  # it must not come meanwhile; what is owed goes out within milliseconds
        return self.plain.renew(reports)

    def done(self, reports: Sequence[Report], **wish: Any) -> Any:
        answers = self.plain.done(reports, **wish)
        self._ended.set()
        return answers


def test_an_end_waits_for_the_renewal_that_is_under_way(tmp_path: Path) -> None:
    """Taken out: the lock around either, or one lock for each. Then the renewal arrives after the end of its
    own run, and an honest worker is counted among those whose writes were refused."""
    home = Home(tmp_path, "sqlite:///interlock.db")
    service = Hesitant(SqliteStore(tmp_path / "interlock.db"), home)
    service.add([NewItem(title="work", lease_s=1.0)])
    script = f'until [ -e "{tmp_path}/renewing" ]; do sleep 0.01; done'
    options = WorkerOptions(agent="coder", command=("sh", "-c", script), limit=1)
    heard: list[str] = []
    worker = Worker(
        service,
        options,
        home=home,
        url="sqlite:///interlock.db",
        tell=lambda notice: heard.append(notice.kind),
        echo=lambda *_: None,
    )
    assert worker.run() == 0
    assert heard == ["ready", "started", "ended", "stopped"]
    assert service.stats().refused_writes == 0
    service.close()


def test_a_damaged_spool_of_a_dead_worker_does_not_stop_the_next(service: Counted, tmp_path: Path) -> None:
    """An end that lies beside what cannot be read is delivered; nobody's reporter dies of the rest."""
    home = Home(tmp_path, "sqlite:///x")
    home.make()
    (lease,) = claim(service, 1)
    dead = Spool.make(home.spool, "dead")
    dead.keep(end(lease.run, lease.fence))
    (dead.path / "run-900.json").write_text("[" * 100_000)
    wrong = {**asdict(end("x", 901)), "result": {"x": 1}}
    (dead.path / "run-901.json").write_text(json.dumps(wrong))
    dead.close()
    answered = threading.Event()
    crashes: list[Exception] = []
    reporter = Reporter(
        service,
        home,
        worker="w",
        trouble=lambda _: None,
        unkept=lambda *_: None,
        answered=lambda *_: answered.set(),
        crashed=crashes.append,
    )
    reporter.start()
    assert answered.wait(PATIENCE_S)
    reporter.leave()
    reporter.close(10.0)
    assert crashes == []
    assert service.show(lease.item.id).item.status == "completed"
    assert sorted(path.name for path in home.spool.rglob("run-*")) == [
        "run-900.unreadable",
        "run-901.unreadable",
    ]
