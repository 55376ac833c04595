"""A SQLite file that cannot grow, or lies on a disk that fails: what is said, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from interlock.core.errors import StoreUnavailable
from interlock.core.model import NewItem
from interlock.service.contract import ItemFilter
from interlock.service.local import LocalService
from interlock.store.sqlite.database import LOG_KEPT_BYTES
from interlock.store.sqlite.store import SqliteStore

LARGE = NewItem(title="large", message="x" * 500_000)


class Disk(apsw.VFS):
    """The file system of this machine, but for one thing that fails when it is told to."""

    def __init__(self) -> None:
        self.failing = ""
        self.real = apsw.vfs_names()[0]
        super().__init__("failing-disk", self.real, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> DiskFile:  # noqa: N802
        return DiskFile(self, name, flags)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self.disk = disk
        super().__init__(disk.real, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if self.disk.failing == "read":
            raise apsw.exception_for(apsw.SQLITE_IOERR_READ)
        return super().xRead(amount, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self.disk.failing == "sync":
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.unregister()


def titles(service: LocalService) -> list[str]:
    return [item.title for item in service.items(ItemFilter())]


def test_a_file_at_its_size_limit_says_so_keeps_what_it_has_and_goes_on_later(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "full.db")
    service = LocalService(store)
    service.add([NewItem(title="small")])
    store.database.db.pragma("max_page_count", store.database.db.pragma("page_count") + 10)
    with pytest.raises(StoreUnavailable, match=r"full.db cannot grow: .*limit on its size") as refused:
        service.add([LARGE])
    assert "Nothing was changed" in refused.value.hint
    assert titles(service) == ["small"]
    store.database.db.pragma("max_page_count", 1_000_000)
    service.add([LARGE])
    assert titles(service) == ["small", "large"]
    service.close()


def test_a_log_that_a_long_reader_made_large_shrinks_when_the_reader_is_gone(tmp_path: Path) -> None:
    """Without the limit it stays as large as it ever was, until the last process leaves."""
    path = tmp_path / "il.db"
    service = LocalService(SqliteStore(path))
    service.add([NewItem(title="first")])
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM items").get == 1
    log = path.with_name("il.db-wal")
    while log.stat().st_size < 2 * LOG_KEPT_BYTES:
        service.add([NewItem(title="large", message="x" * 1_000_000)] * 4)
    reader.execute("ROLLBACK")
    for _ in range(2):  # the first one empties the log, the second begins it anew
        service.add([NewItem(title="small")])
    assert log.stat().st_size <= LOG_KEPT_BYTES
    reader.close()
    service.close()


def test_a_write_that_fails_does_not_say_that_the_file_cannot_be_opened(tmp_path: Path, disk: Disk) -> None:
    service = LocalService(SqliteStore(tmp_path / "failing.db"))
    service.add([NewItem(title="before")])
    disk.failing = "sync"
    with pytest.raises(StoreUnavailable, match=r"Cannot write the database .*failing.db") as refused:
        service.add([NewItem(title="lost")])
    assert "whether the change was made" in refused.value.hint
    disk.failing = ""
    service.add([NewItem(title="after")])
    assert titles(service) == ["before", "after"]
    service.close()


def test_a_read_that_fails_says_so(tmp_path: Path, disk: Disk) -> None:
    LocalService(SqliteStore(tmp_path / "failing.db")).close()
    disk.failing = "read"
    with pytest.raises(StoreUnavailable, match=r"Cannot read the database .*failing.db"):
        SqliteStore(tmp_path / "failing.db")
