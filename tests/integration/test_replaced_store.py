"""A SQLite store whose files are removed or replaced while a process has them open.

Taken out (`check_files` in `SqliteDatabase`): both sides go on, and both claim the one item.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.core.errors import InterlockError, StoreReplaced, StoreUnavailable
from interlock.core.model import NewItem
from interlock.service.contract import ItemFilter, Report
from interlock.service.local import LocalService
from interlock.store.sqlite import database
from interlock.store.sqlite.store import SqliteStore


def opened(path: Path) -> LocalService:
    return LocalService(SqliteStore(path))


def the_file_alone(path: Path) -> None:
    path.unlink()


def all_files(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


def its_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def the_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def the_locks(path: Path) -> None:
    path.with_name(f"{path.name}-shm").unlink()


def the_locks_by_new_ones(path: Path) -> None:
    the_locks(path)
    path.with_name(f"{path.name}-shm").touch()


WAYS = (the_file_alone, all_files, by_a_copy, its_directory, the_log, the_locks, the_locks_by_new_ones)
Way = Callable[[Path], None]


@pytest.fixture(autouse=True)
def readers_look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOOK_EVERY_S", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "il.db"


@pytest.mark.parametrize("remove", WAYS)
def test_nothing_is_read_or_written_in_files_that_were_removed(path: Path, remove: Way) -> None:
    service = opened(path)
    service.add([NewItem(title="first"), NewItem(title="second")])
    run = Report(run=service.next("coder")[0].run)
    remove(path)
    uses: tuple[Callable[[], object], ...] = (
        lambda: service.add([NewItem(title="third")]),
        lambda: service.next("coder"),
        lambda: service.next("nobody", wait_s=30),
        lambda: service.renew([run]),
        lambda: service.done([run]),
        lambda: service.items(ItemFilter()),
        service.events,
        lambda: service.cancel(1, why="test"),
        service.sweep,
    )
    for use in uses:
        with pytest.raises(StoreReplaced, match=r"il\.db was removed or replaced") as refused:
            use()
        assert "Restart the process" in refused.value.hint
    service.close()
    with pytest.raises(StoreReplaced):  # a service is one of one store
        service.items(ItemFilter())
    gone = remove in (the_file_alone, all_files, its_directory)
    assert path.exists() != gone, "it made no new one"


def test_a_waiting_claim_ends_when_its_store_is_removed(path: Path) -> None:
    service = opened(path)
    ended: list[InterlockError] = []
    waiting = threading.Event()
    real = service.store.wait_for_work

    def wait(*args: object) -> bool:
        waiting.set()
        return real(*args)  # type: ignore[arg-type]

    service.store.wait_for_work = wait  # type: ignore[assignment, method-assign]

    def claim() -> None:
        try:
            service.next("coder", wait_s=60)
        except InterlockError as error:
            ended.append(error)

    thread = threading.Thread(target=claim)
    thread.start()
    waiting.wait()
    all_files(path)
    thread.join(30)
    assert [error.code for error in ended] == ["store_replaced"]


def test_a_second_thread_does_not_take_over_what_came_in_between(path: Path) -> None:
    """It gets the locks of the first thread's connection, not those at the path.

    Taken out (`_OPEN` in `openfiles`): the thread takes the new `-shm` for its own."""
    service = opened(path)
    service.add([NewItem(title="first")])
    the_locks(path)
    other = opened(path)  # as another process would: it makes new locks
    ended: list[object] = []

    def claim() -> None:
        try:
            ended.append(service.next("coder"))
        except InterlockError as error:
            ended.append(error)

    thread = threading.Thread(target=claim)
    thread.start()
    thread.join()
    assert isinstance(ended[0], StoreReplaced)
    other.close()
    service.close()


def test_a_link_that_leads_elsewhere_is_noticed(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    for name in ("one.db", "two.db"):
        opened(tmp_path / name).close()
    link.symlink_to("one.db")
    service = opened(link)
    service.add([NewItem(title="first")])
    link.unlink()
    link.symlink_to("two.db")
    with pytest.raises(StoreReplaced):
        service.next("coder")
    service.close()


def test_a_second_name_that_comes_later_is_noticed(path: Path) -> None:
    service = opened(path)
    service.add([NewItem(title="work")])
    path.with_name("other.db").hardlink_to(path)
    with pytest.raises(StoreUnavailable, match="second hard link"):
        service.next("coder")
    path.with_name("other.db").unlink()
    assert len(service.next("coder")) == 1
    service.close()


def test_a_service_that_was_closed_finds_its_store_again(path: Path) -> None:
    """The last one to close removes `-wal` and `-shm`; that is no replacement."""
    service = opened(path)
    service.add([NewItem(title="first")])
    service.close()
    assert not path.with_name("il.db-shm").exists()
    opened(path).add([NewItem(title="second")])
    assert len(service.next("coder", limit=2)) == 2
    service.close()
