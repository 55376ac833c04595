"""A SQLite file that was copied or restored: the store notices, and no fence comes twice.

Taken out (`_recognise` in `SqliteDatabase`): the twins give out the same numbers.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.core.model import NewItem
from interlock.service.contract import EventView, LeaseView, Report
from interlock.service.local import LocalService
from interlock.store.sqlite import openfiles
from interlock.store.sqlite.store import SqliteStore
from tests.faults.stores import broken

MICROSECONDS = 1_500_000_000_000_000


def opened(path: Path) -> LocalService:
    return LocalService(SqliteStore(path))


def claim(path: Path) -> LeaseView:
    service = opened(path)
    service.add([NewItem(title="some work")])
    lease = service.next("coder")[0]
    service.close()
    return lease


def changes(path: Path) -> list[EventView]:
    service = opened(path)
    found = [event for event in service.events(limit=100) if event.kind == "store.changed"]
    service.close()
    return found


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory in the temporary directory, and one on whatever disk the tests are on: file systems differ
    in whether they use an inode again."""
    if request.param == "memory":
        yield tmp_path
        return
    made = Path(__file__).parent / f".copied-{os.getpid()}"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    yield made
    shutil.rmtree(made)


def by_copy(path: Path, backup: Path) -> Path:
    return Path(shutil.copy(backup, path.with_name("twin.db")))


def with_attributes(path: Path, backup: Path) -> Path:
    return Path(shutil.copy2(backup, path.with_name("twin.db")))


def over_a_deleted_one(path: Path, backup: Path) -> Path:
    path.unlink()
    return Path(shutil.copy(backup, path))


def by_rename(path: Path, backup: Path) -> Path:
    return backup.replace(path)


WAYS = (by_copy, with_attributes, over_a_deleted_one, by_rename)


@pytest.mark.parametrize("restore", WAYS)
def test_a_copy_gives_out_no_number_that_the_other_one_gives_out(
    place: Path, restore: Callable[[Path, Path], Path]
) -> None:
    path = place / "il.db"
    assert claim(path).fence == 1
    if restore is over_a_deleted_one and not openfiles._mark(path):
        pytest.skip("this file system keeps no marks, and may use an inode again")
    backup = Path(shutil.copy2(path, place / "backup.db"))
    since = [claim(path).fence for _ in range(3)]
    twin = restore(path, backup)
    service = opened(twin)
    (finding,) = broken(service.doctor())
    assert "file is known" in finding.replace("_", " ")
    service.close()
    first, second = claim(twin), claim(twin)
    assert second.fence == first.fence + 1 > max(since) + 1
    assert first.fence > MICROSECONDS
    (event,) = changes(twin)
    assert event.data["last_run"] == first.fence - 1
    assert event.data["was"] != event.data["now"]
    service = opened(twin)
    assert broken(service.doctor()) == []
    service.close()


def test_a_store_that_was_only_used_moved_or_opened_by_another_name_goes_on_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "il.db"
    claim(path)
    path = path.rename(tmp_path / "renamed.db")
    (tmp_path / "link.db").symlink_to(path)
    assert [claim(tmp_path / "link.db").fence, claim(path).fence] == [2, 3]
    assert changes(path) == []


def test_many_processes_that_open_a_copy_notice_once(tmp_path: Path) -> None:
    claim(tmp_path / "il.db")
    twin = Path(shutil.copy(tmp_path / "il.db", tmp_path / "twin.db"))
    begin = threading.Barrier(4)
    fences = []

    def user() -> None:
        begin.wait()
        fences.append(claim(twin).fence)

    threads = [threading.Thread(target=user) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (event,) = changes(twin)
    assert sorted(fences) == [event.data["last_run"] + n for n in range(1, 5)]


def test_a_file_system_without_marks_tells_files_apart_by_device_and_inode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    path = tmp_path / "il.db"
    claim(path)
    twin = Path(shutil.copy(path, tmp_path / "twin.db"))
    assert claim(path).fence == 2
    assert claim(twin).fence > MICROSECONDS
    assert openfiles.known_as(path, openfiles.identity(path)).startswith("device ")


def test_a_handle_of_one_twin_is_nothing_to_the_other(tmp_path: Path) -> None:
    path = tmp_path / "il.db"
    service = opened(path)
    service.add([NewItem(title="some work")])
    service.close()
    twin = Path(shutil.copy(path, tmp_path / "twin.db"))
    leases = {file: opened(file).next("coder")[0] for file in (path, twin)}
    for file, other in ((path, twin), (twin, path)):
        (view,) = opened(file).done([Report(run=leases[other].run)])
        assert view.refusal is not None
        assert view.refusal.code == "lease_lost"
