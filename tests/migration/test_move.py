"""The default store of an older version moves into the directory of git: nothing is lost, nothing doubled."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

from interlock import app, settings
from interlock.core.errors import Held, SchemaMismatch, StoreBusy
from interlock.core.model import NewItem
from interlock.service import administration
from interlock.service.contract import ItemFilter, Report, Service
from interlock.service.local import LocalService
from interlock.store.sqlite import move
from interlock.store.sqlite.store import SqliteStore
from tests.migration.releases import Release, unpack_last
from tests.patience import PATIENCE_S

TITLES = ["first", "second", "third"]


class Clone:
    """A git repository whose store is where version 0.1.0 had it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.old = path / ".interlock" / "interlock.db"
        self.new = path / ".git" / "interlock" / "interlock.db"

    @property
    def settings(self) -> settings.Settings:
        return settings.load(environ={"INTERLOCK_BUSY_TIMEOUT_S": "0.2"}, directory=self.path)

    def service(self) -> Service:
        return app.open_service(settings=self.settings)

    def move(self) -> bool:
        return administration.migrate(self.settings).moved_to == str(self.new)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "clone"
    subprocess.run(["git", "init", "--quiet", path], check=True)
    clone = Clone(path)
    clone.old.parent.mkdir()
    service = LocalService(SqliteStore(clone.old))
    service.add([NewItem(title=title) for title in TITLES])
    service.done([Report(run=service.next("coder")[0].run)])
    service.close()
    return path


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return unpack_last(tmp_path_factory.mktemp("release"))


@pytest.fixture
def clone(template: Path, tmp_path: Path) -> Clone:
    shutil.copytree(template, tmp_path / "clone")
    return Clone(tmp_path / "clone")


def titles(service: Service) -> list[str]:
    return [item.title for item in service.items(ItemFilter(all=True))]


def test_the_store_moves_with_all_it_has_when_it_is_asked_for(clone: Clone) -> None:
    with pytest.raises(SchemaMismatch, match=r"still in its old place") as refused:
        clone.service()
    assert "interlock migrate" in refused.value.hint
    assert clone.move()
    service = clone.service()
    assert titles(service) == TITLES
    assert service.next("coder")[0].fence == 2, "the numbers go on"
    service.close()
    assert not clone.move(), "and once is enough"


def test_the_place_that_it_left_is_sealed(clone: Clone) -> None:
    clone.move()
    with pytest.raises(SchemaMismatch, match=r"was moved to .*/\.git/interlock/interlock\.db"):
        app.open_service("sqlite:///" + str(clone.old))
    assert clone.old.stat().st_size < 50_000
    shutil.rmtree(clone.old.parent)  # git clean -fdx
    service = clone.service()
    assert titles(service) == TITLES
    service.close()


def test_a_store_of_the_last_release_moves_and_that_release_refuses_what_is_left(
    clone: Clone, release: Release
) -> None:
    shutil.rmtree(clone.old.parent)

    def said(*args: str) -> str:
        return release.start("-m", "interlock", *args, cwd=clone.path).communicate(timeout=PATIENCE_S)[0]

    assert "admitted" in said("add", "made by an old version")
    assert clone.old.exists()
    assert clone.move()
    service = clone.service()
    assert service.next("coder")[0].item.title == "made by an old version"
    service.close()
    for command in (("ls",), ("add", "x"), ("migrate",), ("next", "--agent", "coder")):
        words = said(*command)
        assert f"schema version 999, this Interlock knows {release.schema}." in words
        assert "Install a newer Interlock; nothing was changed." in words


def test_live_runs_are_named_and_the_store_stays(clone: Clone) -> None:
    service = LocalService(SqliteStore(clone.old))
    service.next("coder")
    service.close()
    with pytest.raises(Held, match=r"while runs are live: run \d+ of coder on item 2") as refused:
        clone.move()
    assert "leases expire" in refused.value.hint
    service = LocalService(SqliteStore(clone.old))
    service.take_back(2, why="test")
    service.close()
    assert clone.move()


def test_a_store_that_somebody_has_open_stays(clone: Clone) -> None:
    """Taken out (both pragmas of `_alone`): it is moved under that process."""
    service = LocalService(SqliteStore(clone.old))
    service.items(ItemFilter())
    with pytest.raises(StoreBusy):
        clone.move()
    service.add([NewItem(title="meanwhile")])
    service.close()
    assert clone.move()
    moved = clone.service()
    assert titles(moved) == [*TITLES, "meanwhile"]
    moved.close()


def _has_open(pid: int, path: Path) -> bool:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # files come and go while one looks
            if link.readlink() == path:
                return True
    return False


def test_a_process_that_waits_for_the_old_file_meets_the_seal(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has opened the file before the move, and gets its lock after it.

    Taken out (a seal by `rename` instead of in place): it goes on in a file that nobody else sees."""
    waiting = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from interlock import app; sys.stdin.readline(); app.open_service(sys.argv[1])",
            f"sqlite:///{clone.old}",
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    copy = move._copy

    def copy_meanwhile(db: apsw.Connection, new: Path) -> None:
        assert waiting.stdin is not None
        waiting.stdin.write(b"go\n")
        waiting.stdin.flush()
        while not _has_open(waiting.pid, clone.old):
            assert waiting.poll() is None
        copy(db, new)

    monkeypatch.setattr(move, "_copy", copy_meanwhile)
    assert clone.move()
    _, said = waiting.communicate(timeout=PATIENCE_S)
    assert b"was moved to" in said


def test_two_stores_are_not_mixed(clone: Clone) -> None:
    """An older version made a store after `git clean` had taken the seal away."""
    clone.move()
    LocalService(SqliteStore(clone.old.with_name("other.db"))).close()
    clone.old.with_name("other.db").replace(clone.old)
    for use in (clone.service, clone.move):
        with pytest.raises(SchemaMismatch, match=r"There are two stores"):
            use()


@pytest.mark.parametrize("content", [b"", "foreign"])
def test_what_never_was_a_store_does_not_matter(clone: Clone, content: Any) -> None:
    clone.old.unlink()
    if content == "foreign":
        db = apsw.Connection(str(clone.old))
        db.execute("CREATE TABLE precious (x)")
        db.close()
    else:
        clone.old.touch()
    service = clone.service()
    assert titles(service) == []
    service.close()


def test_many_movers_at_once_make_one_store(clone: Clone) -> None:
    begin = threading.Barrier(4)
    found: list[object] = []

    def mover() -> None:
        chosen = settings.load(environ={}, directory=clone.path)
        begin.wait()
        found.append(administration.migrate(chosen).moved_to)

    threads = [threading.Thread(target=mover) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, found)) == sorted([str(clone.new), "None", "None", "None"])
    service = clone.service()
    assert titles(service) == TITLES
    service.close()


def killed_at(step: int, clone: Clone) -> bool:
    """Move in a child that is killed before the n-th line of `move` that it meets; false if it met fewer."""
    pid = os.fork()
    if pid == 0:
        met: set[int] = set()

        def trace(frame: FrameType, event: str, _: object) -> Any:
            if frame.f_code.co_filename != move.__file__:
                return None
            if event == "line":
                met.add(frame.f_lineno)
                if len(met) == step:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        move.move(clone.old, clone.new, busy_timeout_s=1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_a_move_that_is_killed_at_any_line_loses_nothing_and_can_be_repeated(
    template: Path, tmp_path: Path
) -> None:
    """Taken out (the seal set before the copy is made): whoever comes next finds neither store."""
    step, ways = 0, set()
    while True:
        step += 1
        directory = tmp_path / str(step)
        shutil.copytree(template, directory)
        clone = Clone(directory)
        clone.new.parent.mkdir()
        if not killed_at(step, clone):
            break
        before = None
        try:
            clone.service().close()  # as any command would
        except SchemaMismatch as refused:
            before = refused
            old = LocalService(SqliteStore(clone.old))  # an older version may go on
            old.add([NewItem(title="meanwhile")])
            old.close()
            assert clone.move()
        ways.add(before is None)
        service = clone.service()
        assert titles(service) == [*TITLES, *([] if before is None else ["meanwhile"])], step
        service.close()
        assert sorted(path.name for path in clone.new.parent.iterdir()) == ["interlock.db"], step
        shutil.rmtree(directory)
    assert ways == {True, False}, "killed before and after the seal"
    assert step > 40
