"""The store is away when a run ends: the result waits on disk and is delivered once, by whoever can."""

from __future__ import annotations

import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import psutil  # type: ignore[import-untyped]
import pytest

from tests.faults.processes import wait_until
from tests.faults.stores import assert_kept, file_of, query
from tests.faults.workers import Site
from tests.postgres_server import PostgresServer

#: Ends when the test says so, with a result of its own.
ON_COMMAND = "until [ -e go ]; do sleep 0.02; done; echo '{\"pages\": 3}' > $INTERLOCK_RESULT"
IMPATIENT = {"INTERLOCK_BUSY_TIMEOUT_S": "0.2"}


@contextmanager
def store_taken(site: Site) -> Iterator[None]:
    """Nobody can write to the SQLite file."""
    db = apsw.Connection(file_of(site.url))
    db.set_busy_timeout(30_000)
    db.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        db.execute("ROLLBACK")
        db.close()


@contextmanager
def server_away(server: PostgresServer, how: str) -> Iterator[None]:
    """The server crashes and is started again, or all its processes are stopped by a signal for a while."""
    if how == "stopped":
        server.stop("immediate")
        yield
        server.start()
        return
    first = int((server.datadir / "postmaster.pid").read_text().splitlines()[0])
    processes = [psutil.Process(first), *psutil.Process(first).children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def finish_while_away(site: Site) -> None:
    """Let the agent end, and return when its end lies on disk."""
    site.file("go").touch()
    wait_until(site.spooled, "the end is on disk")


def successes(site: Site) -> int:
    ((n,),) = query(site.url, "SELECT count(*) FROM events WHERE kind = 'run.succeeded'")
    return int(n)


def test_a_result_is_delivered_once_when_the_store_is_back(site: Site) -> None:
    item = site.add()
    worker = site.work(ON_COMMAND, env=IMPATIENT)
    worker.until("started")
    with store_taken(site):
        finish_while_away(site)
        worker.until("trouble")
        (entry,) = site.spooled()
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert worker.until("ended")["status"] == "succeeded"
    assert not site.spooled()
    (run,) = site.runs(item)
    assert run.result == {"pages": 3}
    assert successes(site) == 1
    site.add("the slot is free again")
    worker.until("started")


def test_the_next_worker_reports_the_end_that_a_killed_one_left(site: Site) -> None:
    """Without the lock on a spool workers take over what others still owe (tried by hand)."""
    item = site.add()
    worker = site.work(ON_COMMAND, env=IMPATIENT)
    worker.until("started")
    with store_taken(site):
        finish_while_away(site)
        worker.kill()
    heirs = [site.work("exit 1", "--limit", "1") for _ in range(2)]
    for heir in heirs:
        heir.until("ready")
    site.until_status(item, "completed")
    for heir in heirs:
        heir.signal(signal.SIGTERM)
        assert heir.ended() == 0
    delivered = [said for heir in heirs for said in heir.heard if said["event"] in ("ended", "refused")]
    assert [said["status"] for said in delivered] == ["succeeded"]
    (run,) = site.runs(item)
    assert run.result == {"pages": 3}
    assert successes(site) == 1
    assert not list(site.file(".interlock/spool").iterdir())


def test_a_late_end_is_refused_recorded_and_not_tried_again(site: Site) -> None:
    item = site.add(lease_s=1.0)
    worker = site.work(ON_COMMAND, env=IMPATIENT)
    worker.until("started")
    with store_taken(site):
        finish_while_away(site)
        worker.kill()
    with site.service() as service:
        (lease,) = wait_until(lambda: service.next("heir", lease_s=60.0), "the item is another's")
        heir = site.work("exit 0", agent="other")
        assert heir.until("refused")["outcome"] == "done"
        assert service.show(item).item.run == lease.fence
    assert not site.spooled()
    ((n,),) = query(site.url, "SELECT count(*) FROM events WHERE kind = 'run.refused'")
    assert n == 1


def test_a_restart_of_postgresql_at_the_end_of_a_run_loses_nothing(tmp_path: Path, start_postgres) -> None:
    server = start_postgres(18, fsync=False)
    site = Site(tmp_path, server.url())
    try:
        item = site.add()
        worker = site.work(ON_COMMAND)
        worker.until("started")
        server.stop("immediate")
        finish_while_away(site)
        server.start()
        assert worker.until("ended")["status"] == "succeeded"
        assert not site.spooled()
        (run,) = site.runs(item)
        assert run.result == {"pages": 3}
        assert successes(site) == 1
    finally:
        site.close()


def test_a_drained_worker_leaves_ends_it_cannot_report_to_the_next(site: Site) -> None:
    item = site.add()
    worker = site.work(ON_COMMAND, env=IMPATIENT)
    worker.until("started")
    with store_taken(site):
        finish_while_away(site)
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        assert "spooled" in worker.kinds()
        assert site.spooled()
    heir = site.work("exit 1")
    assert heir.until("ended", item=item)["status"] == "succeeded"
    assert_kept(site.url, added=(item,))


def test_a_damaged_spool_is_set_aside_and_stops_nobody(site: Site) -> None:
    site.add()
    spool = site.file(".interlock/spool/dead-worker")
    spool.mkdir(parents=True)
    (spool / "lock").touch()
    for n, junk in enumerate((b"", b"[]", b'{"outcome": "steal"}', bytes(range(256)))):
        (spool / f"run-{n}.json").write_bytes(junk)
    worker = site.work("exit 0", "--exit-when-idle")
    assert worker.ended() == 0
    assert "ended" in worker.kinds()
    assert [path.suffix for path in site.spooled()] == [".unreadable"] * 4


@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_a_worker_drained_while_postgresql_is_away_leaves_its_ends_on_disk(
    tmp_path: Path, start_postgres, how: str
) -> None:
    """And says so. Whatever patience a call has, the worker does not wait for it: while it joined its threads
    without a limit, it stayed for as long as a frozen database did (tried by hand)."""
    server = start_postgres(18, fsync=False)
    site = Site(tmp_path, server.url())
    try:
        item = site.add()
        worker = site.work(ON_COMMAND, "--max", "2")  # its free slot claims meanwhile
        worker.until("started")
        with server_away(server, how):
            finish_while_away(site)
            worker.signal(signal.SIGTERM)
            assert worker.ended() == 0
            (left,) = (said for said in worker.heard if said["event"] == "spooled")
            assert left["runs"] == [1]
            assert site.spooled()
        heir = site.work("exit 1")
        assert heir.until("ended", item=item)["status"] == "succeeded"
    finally:
        site.close()


def test_an_end_that_is_not_on_disk_is_not_promised_to_the_next_worker(
    tmp_path: Path, start_postgres
) -> None:
    """The disk is full and the database away: the worker says that the end is lost with it."""
    server = start_postgres(18, fsync=False)
    site = Site(tmp_path, server.url())
    try:
        site.add()
        worker = site.work(ON_COMMAND)
        worker.until("started")
        # No file of the worker may grow any more: as on a full disk, a write fails.
        psutil.Process(worker.pid).rlimit(psutil.RLIMIT_FSIZE, (0, 0))
        with server_away(server, "stopped"):
            site.file("go").touch()
            worker.until("trouble")
            worker.signal(signal.SIGTERM)
            assert worker.ended() == 0
        (left,) = (said for said in worker.heard if said["event"] == "unreported")
        assert "The end of run 1 is lost with this worker" in left["text"]
        assert "spooled" not in worker.kinds()
        assert not site.spooled()
    finally:
        site.close()
