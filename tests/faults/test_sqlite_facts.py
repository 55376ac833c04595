"""What the embedded store rests on: SQLite's own behaviour, and the settings that make it right."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.core.errors import StoreBusy
from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.faults import racers
from tests.faults.processes import Crew
from tests.faults.stores import assert_kept, file_of, open_service, query

SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


def test_the_library_has_no_wal_reset_race() -> None:
    """3.7.0 to 3.51.2 can corrupt a file when a log is reset at the wrong moment; the system's may be old."""
    version = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    assert version >= (3, 51, 3)


def test_every_connection_writes_ahead_and_waits_for_the_disk(sqlite_url: str) -> None:
    """WAL with NORMAL may lose the last commits when the power goes, and so give a fence out twice."""
    store = SqliteStore(file_of(sqlite_url))
    found: list[tuple[str, str, int]] = []

    def look() -> None:
        db = store.database.db
        found.append(
            (db.pragma("journal_mode"), SYNCHRONOUS[db.pragma("synchronous")], db.pragma("foreign_keys"))
        )
        store.close()

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    look()
    assert found == [("wal", "full", 1)] * 3


def test_a_commit_is_on_the_disk_before_it_is_acknowledged(sqlite_url: str, tmp_path: Path) -> None:
    """Seen from below: the log is synced once for every commit, and before the commit returns.

    Taken out: `synchronous = full`; no sync is seen.
    """
    syncs: list[str] = []

    class Watched(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("watched", base="")

        def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:  # noqa: N802
            return WatchedFile(name, flags)

    class WatchedFile(apsw.VFSFile):
        def __init__(self, name: Any, flags: Any) -> None:
            self.name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
            super().__init__("", name, flags)

        def xSync(self, flags: int) -> None:  # noqa: N802
            syncs.append(self.name)
            super().xSync(flags)

    watched = Watched()
    LocalService(SqliteStore(file_of(sqlite_url))).close()
    apsw_connection = apsw.Connection

    class Through(apsw.Connection):
        def __init__(self, file: str, flags: int) -> None:
            super().__init__(file, flags=flags, vfs="watched")

    apsw.Connection = Through  # type: ignore[misc, assignment]
    try:
        service = LocalService(SqliteStore(file_of(sqlite_url)))
        service.agents()
        for n in range(3):
            syncs.clear()
            service.add([NewItem(title=f"item {n}")])
            assert any(name.endswith("-wal") for name in syncs), "acknowledged before it was on the disk"
        syncs.clear()
        service.next("coder")
        assert any(name.endswith("-wal") for name in syncs), "a fence was given out before it was on the disk"
        service.close()
    finally:
        apsw.Connection = apsw_connection  # type: ignore[misc]
    watched.unregister()


def test_a_write_never_fails_because_somebody_wrote_since_it_began(
    crew: Crew, sqlite_url: str, tmp_path: Path
) -> None:
    """Naive: `BEGIN`, read, then write. If anyone committed since, it fails at once, however long it is
    willing to wait. Ours has the write lock from its first statement."""
    file = str(tmp_path / "naive.db")
    one, two = apsw.Connection(file), apsw.Connection(file)
    one.pragma("journal_mode", "wal")
    one.execute("CREATE TABLE lease (holder INTEGER); INSERT INTO lease VALUES (0)")
    one.set_busy_timeout(60_000)
    one.execute("BEGIN")
    assert list(one.execute("SELECT holder FROM lease")) == [(0,)]
    two.execute("UPDATE lease SET holder = 2")
    begun_s = time.monotonic()
    with pytest.raises(apsw.BusyError) as busy:
        one.execute("UPDATE lease SET holder = 1")
    assert getattr(busy.value, "extendedresult", 0) == apsw.SQLITE_BUSY_SNAPSHOT
    assert time.monotonic() - begun_s < 30, "it did not wait: the trap"
    one.close()
    two.close()

    open_service(sqlite_url).close()
    added = crew.race(8, racers.add_many, sqlite_url, 25)
    assert sum(added) == 200, "every write came through"
    assert_kept(sqlite_url)


def test_order_comes_from_tickets_however_the_write_lock_is_won(crew: Crew, sqlite_url: str) -> None:
    """12 processes wait for the write lock, in a known order. SQLite lets them in as luck has it; the lane
    and the queue let them through in the order in which they came.

    Taken out: the ticket taken before the wait (`tickets` returning equal numbers); the order is then luck.
    """
    service = open_service(sqlite_url)
    service.add([NewItem(title="owner", lane="issue:acme/app#1")])
    owner = service.next("coder", lease_s=60)[0]
    holder = apsw.Connection(file_of(sqlite_url))
    holder.execute("BEGIN IMMEDIATE")
    actors = []
    for n in range(12):
        actors.append(crew.start(racers.add_with_ticket, sqlite_url, f"arrival {n}"))
        assert actors[-1].hear() == "has its ticket"
    holder.execute("COMMIT")
    holder.close()
    for actor in actors:
        actor.join()
    wanted = [f"arrival {n}" for n in range(12)]
    won = [title for (title,) in query(sqlite_url, "SELECT title FROM items WHERE id > 1 ORDER BY id")]
    assert sorted(won) == sorted(wanted)
    through = []
    run = owner.run
    for _ in range(12):
        service.done([Report(run=run)])
        lease = service.next("coder", lease_s=60)[0]
        through.append(lease.item.title)
        run = lease.run
    assert through == wanted
    service.close()


def test_a_process_stopped_inside_a_write_is_named_as_the_trouble_and_hurts_nobody_once_gone(
    crew: Crew, sqlite_url: str
) -> None:
    """There is no server that could end its transaction. Whoever waits is told in time; killed, it leaves
    nothing of what it had begun."""
    service = open_service(sqlite_url, busy_timeout_s=0.3)
    stopped = crew.start(racers.add_halfway, sqlite_url)
    assert stopped.hear() == "inside"
    stopped.stop()
    with pytest.raises(StoreBusy, match=r"locked for more than 0\.3 s") as refused:
        service.add([NewItem(title="refused")])
    assert refused.value.hint
    assert service.agents() == [], "readers never wait"
    stopped.kill()
    service.add([NewItem(title="after")])
    service.close()
    assert query(sqlite_url, "SELECT title FROM items") == [("after",)]
    assert_kept(sqlite_url)


def test_a_clock_set_back_on_the_host_moves_no_lease(crew: Crew, sqlite_url: str) -> None:
    """A process whose wall clock is hours off moves the clock, and every lease along with it."""
    service = open_service(sqlite_url)
    service.add([NewItem(title="item", lane="issue:acme/app#1")])
    lease = service.next("coder", lease_s=60)[0]
    for hours in (-5, 5):
        swept, now_us = crew.start(racers.sweep_with_wall_clock_off, sqlite_url, hours).join()
        assert swept == 0, "a lease of this minute is not over"
        assert round((now_us - service.store.now_us()) / 3600e6) == hours
    assert service.renew([Report(run=lease.run)])[0].refusal is None
    service.close()


def test_a_reader_is_not_kept_waiting_by_writers(crew: Crew, sqlite_url: str) -> None:
    """A look at the store succeeds while somebody has the write lock."""
    service = open_service(sqlite_url, busy_timeout_s=0.0)
    service.add([NewItem(title="item")])
    holder = apsw.Connection(file_of(sqlite_url))
    holder.execute("BEGIN IMMEDIATE; UPDATE numbers SET value = value")
    assert service.stats().items == {"pending": 1}
    assert service.why(1).why
    assert service.events()
    with pytest.raises(StoreBusy):
        service.add([NewItem(title="refused")])
    holder.execute("ROLLBACK")
    holder.close()
    service.close()
