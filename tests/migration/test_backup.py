"""`interlock backup` and `restore`: one moment of a store that is in use, and nothing given out twice."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

from interlock.core.continuity import Ancestor
from interlock.core.errors import (
    Held,
    InterlockError,
    InvalidInput,
    LeaseLost,
    NotFound,
    SchemaMismatch,
)
from interlock.core.model import NewItem
from interlock.service import backups, sweeper
from interlock.service.contract import Report
from interlock.store.sqlite import backup_file
from interlock.store.store_backup import BackedUp, Restored
from interlock.store.store_copy import TABLES
from tests.faults.fleet import Fleet
from tests.faults.processes import Crew, wait_until
from tests.faults.stores import assert_kept, open_service, open_store, query
from tests.migration.copies import MakeUrl, add, chosen, command, killed, titles
from tests.migration.filling import dump, fill

WAYS = [
    ("sqlite", "sqlite"),
    ("sqlite", "postgres18"),
    ("postgres18", "sqlite"),
    ("postgres16", "postgres18"),
]
KINDS = pytest.mark.parametrize("kind", ["sqlite", "postgres18"])


def back_up(url: str, file: Path, *, force: bool = False, tell: Any = lambda *_: None) -> BackedUp:
    return backups.back_up(chosen(url), file, force=force, tell=tell)


def restore(url: str, file: Path, *, replace: bool = False, tell: Any = lambda *_: None) -> Restored:
    return backups.restore(chosen(url), file, replace=replace, tell=tell)


def rows(url: str) -> dict[str, Any]:
    """Everything in a store, but for the lines that a restore adds to its history."""
    found = dump(url)
    found["events"] = [line for line in found["events"] if "store.changed" not in line]
    return found


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if ".partial" in path.name]


# -- what is in a backup ----------------------------------------------------------------------------


@pytest.mark.parametrize(("origin", "destination"), WAYS)
def test_all_rows_come_back_into_either_kind_of_database(
    origin: str, destination: str, make_url: MakeUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, file = make_url(origin), make_url(destination), tmp_path / "monday.backup"
    service = open_service(source)
    fill(service, seed=len(origin + destination))
    before = dump(source)
    assert all(before[table] for table in TABLES)
    back_up(source, file)
    assert dump(source) == before, "a backup changes nothing"
    service.add([NewItem(title="after the backup")])
    service.close()
    monkeypatch.setattr(sweeper, "move_due", lambda *_: None)  # time goes on after a restore
    done = restore(target, file)
    assert done.rows == {table: len(found) for table, found in before.items()}
    assert rows(target) == before
    assert_kept(target)
    restored = open_service(target)
    last_seq = max(seq for (seq,) in query(source, "SELECT seq FROM events"))
    assert [e.kind for e in restored.events(after=last_seq)] == ["store.changed"], "a cursor misses nothing"
    restored.add([NewItem(title="new", agent="new")])
    assert restored.next("new")[0].fence > done.last_run > 1_000_000
    restored.close()


@pytest.mark.parametrize(("origin", "destination"), WAYS[:3])
def test_live_runs_of_the_backup_are_lost_and_their_handles_are_void(
    origin: str, destination: str, make_url: MakeUrl, tmp_path: Path
) -> None:
    """Taken out (`revoke_runs`): the old run reports its end in the restored store."""
    source, target, file = make_url(origin), make_url(destination), tmp_path / "b"
    service = open_service(source)
    service.add([NewItem(title="one", lane="x:1"), NewItem(title="two", lane="x:1")])
    (lease,) = service.next("ada", lease_s=3600)
    assert back_up(source, file).live_runs == 1
    service.done([Report(run=lease.run)])
    (later,) = service.next("ada", lease_s=3600)
    restored = restore(target, file)
    assert (restored.rows["runs"], restored.live_runs, restored.lost_runs) == (0, 1, 1)
    after = open_service(target)
    assert query(target, "SELECT status FROM runs") == [("lost",)]
    assert [view.refusal is None for view in after.done([Report(run=lease.run)])] == [False]
    with pytest.raises(LeaseLost):
        after.inbox(lease.run)
    with pytest.raises(LeaseLost):
        after.inbox(later.run)
    (again,) = after.next("ada")
    assert again.item.id == lease.item.id
    assert again.item.attempt == 2
    assert again.fence > restored.last_run > later.fence
    after.close()
    service.close()
    assert_kept(target)


def test_an_external_run_goes_on_after_a_restore(make_url: MakeUrl, tmp_path: Path) -> None:
    source, target, file = make_url("sqlite"), make_url("postgres18"), tmp_path / "b"
    add(source)
    service = open_service(source)
    (lease,) = service.next("ada", external=True)
    service.close()
    back_up(source, file)
    restored = restore(target, file)
    assert (restored.live_runs, restored.lost_runs) == (1, 0)
    after = open_service(target)
    assert after.done([Report(run=lease.run)])[0].refusal is None
    after.close()


@KINDS
def test_a_store_is_replaced_in_one_step_and_its_numbers_go_on(
    kind: str, make_url: MakeUrl, tmp_path: Path
) -> None:
    url, file = make_url(kind), tmp_path / "b"
    service = open_service(url)
    service.add([NewItem(title="kept")])
    was = service.store.lineage()
    back_up(url, file)
    lost = [service.add([NewItem(title=f"lost {n}")])[0].arrival for n in range(3)]
    fence = service.next("ada", lease_s=3600)[0].fence
    with pytest.raises(Held, match="is not empty: its table") as refused:
        restore(url, file)
    assert "--replace" in refused.value.hint
    assert len(titles(url)) == 4
    restored = restore(url, file, replace=True)
    assert titles(url) == {"kept"}
    new = add(url, "new")
    assert new > max(item for item in lost if item), "an item's number is not given out twice"
    assert service.next("ada")[0].fence > restored.last_run > fence
    assert service.store.lineage().store == was.store
    assert not restored.in_use
    service.close()
    assert_kept(url)


@KINDS
def test_the_store_of_a_backup_may_still_be_in_use_elsewhere(
    kind: str, make_url: MakeUrl, tmp_path: Path
) -> None:
    source, target, file = make_url(kind), make_url(kind), tmp_path / "b"
    add(source)
    back_up(source, file)
    assert restore(target, file).in_use
    store, origin = open_store(target), open_store(source)
    name = origin.lineage().store
    assert store.lineage().ancestors[name] is Ancestor.COPIED
    store.database.after_restore()
    assert store.lineage().ancestors[name] is Ancestor.GONE
    store.close()
    origin.close()


# -- while the store is used ------------------------------------------------------------------------


@KINDS
def test_a_backup_in_the_middle_of_work_is_one_moment(
    kind: str, make_url: MakeUrl, tmp_path: Path, crew: Crew
) -> None:
    """Six workers, two sweepers and a producer. Taken out (`snapshot`): rows of different moments."""
    url, target = make_url(kind), make_url("sqlite")
    fleet = Fleet(crew, url, tmp_path, seed=7)
    wait_until(fleet.worked, "a storm")
    files = [tmp_path / f"backup {n}" for n in range(3)]
    runs = []
    for file in files:
        back_up(url, file)
        runs.append(len(query(url, "SELECT run FROM runs")))
    wait_until(lambda: len(query(url, "SELECT run FROM runs")) > runs[-1], "work after the backups")
    fleet.calm_down()
    for file in files:
        restored = restore(target, file, replace=True)
        assert restored.rows["items"] > 0
        assert_kept(target)
    assert_kept(url)


# -- crashes ----------------------------------------------------------------------------------------


def _killed_at(step: int, work: Callable[[], object]) -> bool:
    """Whether work in a child was killed before the n-th line of the backup that it meets."""
    parts = ("store_backup", "backup_file", "store_copy", "copy_end")
    met: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if Path(frame.f_code.co_filename).stem not in parts:
            return None
        if event == "line":
            met.add((frame.f_code.co_filename, frame.f_lineno))
            if len(met) == step:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def traced() -> None:
        sys.settrace(trace)
        work()

    return killed(traced)


@pytest.mark.parametrize(("kind", "every"), [("sqlite", 3), ("postgres18", 15)])
def test_a_killed_backup_leaves_no_file_of_the_name(
    kind: str, every: int, make_url: MakeUrl, tmp_path: Path
) -> None:
    """Taken out (the draft's other name): a file that cannot be restored has the name."""
    url, target = make_url(kind), make_url("sqlite")
    add(url, "one", lane="x:1", message="hello")
    step, complete = 1, 0
    while True:
        file = tmp_path / f"backup-{step}"
        if not _killed_at(step, lambda file=file: back_up(url, file)):  # type: ignore[misc]
            break
        if file.exists():  # killed after it was named
            complete += 1
            restore(target, file, replace=True)
        step += every
    assert step > 100
    assert file.exists()
    assert complete < 15
    back_up(url, tmp_path / "backup-1", force=True)
    assert not [name for name in leftovers(tmp_path) if name.startswith(".backup-1.")]


@pytest.mark.parametrize(("kind", "every"), [("sqlite", 5), ("postgres18", 15)])
def test_a_killed_restore_leaves_an_empty_store_or_a_whole_one(
    kind: str, every: int, make_url: MakeUrl, tmp_path: Path
) -> None:
    source, file = make_url("sqlite"), tmp_path / "b"
    add(source, "one", lane="x:1", message="hello")
    add(source, "two", lane="x:1")
    back_up(source, file)
    step, whole, empty = 1, 0, 0
    while True:
        target = make_url(kind)
        if not _killed_at(step, lambda target=target: restore(target, file)):  # type: ignore[misc]
            break
        try:
            restore(target, file)
            empty += 1
        except Held:
            whole += 1
        assert titles(target) == {"one", "two"}
        step += every
    assert empty > 5
    assert_kept(target)


def test_a_killed_replacement_changes_nothing(make_url: MakeUrl, tmp_path: Path) -> None:
    url, file = make_url("sqlite"), tmp_path / "b"
    add(url, "old")
    back_up(url, file)
    add(url, "new")

    def die(table: str, count: int) -> None:
        if table == "items":
            os.kill(os.getpid(), signal.SIGKILL)

    assert killed(lambda: restore(url, file, replace=True, tell=die))
    assert titles(url) == {"old", "new"}
    assert_kept(url)


def test_a_backup_that_fails_leaves_nothing_behind(make_url: MakeUrl, tmp_path: Path) -> None:
    url = make_url("sqlite")
    add(url)

    def fail(table: str, count: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(InterlockError, match=r"cannot be written: No space left"):
        back_up(url, tmp_path / "b", tell=fail)
    assert not (tmp_path / "b").exists()
    assert leftovers(tmp_path) == []


# -- what is refused --------------------------------------------------------------------------------


def test_an_existing_file_is_replaced_only_if_it_is_wanted(make_url: MakeUrl, tmp_path: Path) -> None:
    url, file = make_url("sqlite"), tmp_path / "b"
    add(url, "one")
    back_up(url, file)
    before = file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0, "it has everything that is in the store"

    def appear(table: str, count: int) -> None:
        (tmp_path / "late").write_text("by somebody else")

    with pytest.raises(Held, match=r"b exists\.") as refused:
        back_up(url, file)
    assert "--force" in refused.value.hint
    assert file.read_bytes() == before
    with pytest.raises(Held, match=r"late exists\."):
        back_up(url, tmp_path / "late", tell=appear)
    assert (tmp_path / "late").read_text() == "by somebody else"
    back_up(url, file, force=True)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("size", [0, 1, 20, 5_000, -1, -200])
def test_a_truncated_file_is_refused_and_nothing_is_changed(
    size: int, make_url: MakeUrl, tmp_path: Path
) -> None:
    source, target, file = make_url("sqlite"), make_url("sqlite"), tmp_path / "b"
    add(source)
    back_up(source, file)
    whole = file.read_bytes()
    file.write_bytes(whole[:size])
    with pytest.raises(InvalidInput, match=r"is truncated, or|is not a backup|is damaged"):
        restore(target, file)
    assert not Path(target.removeprefix("sqlite://")).exists()
    with pytest.raises(InvalidInput):
        restore(source, file, replace=True)
    assert titles(source) == {"work"}


def test_a_damaged_file_is_refused_wherever_the_damage_is(make_url: MakeUrl, tmp_path: Path) -> None:
    """Taken out (the checksum): damage in a text is restored."""
    source, target, file = make_url("sqlite"), make_url("sqlite"), tmp_path / "b"
    add(source, "a title that is damaged")
    back_up(source, file)
    whole = file.read_bytes()
    places = [
        whole.index(b"a title that is damaged"),
        100,
        len(whole) // 2,
        len(whole) - 30,
        len(whole) - 100,
    ]
    for place in places:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InvalidInput, match=r"is damaged: its checksum is wrong|is truncated"):
            restore(target, file)
    file.write_bytes(whole)
    restore(target, file)


def test_what_is_no_backup_is_refused_in_words(make_url: MakeUrl, tmp_path: Path) -> None:
    url, empty = make_url("sqlite"), make_url("sqlite")
    add(url)
    text = tmp_path / "text"
    text.write_text("x" * 10_000)
    with pytest.raises(NotFound, match="There is no file"):
        restore(empty, tmp_path / "nothing")
    with pytest.raises(InvalidInput, match="is not a backup of Interlock"):
        restore(empty, text)
    with pytest.raises(InvalidInput, match="was not written by `interlock backup`"):
        restore(empty, Path(url.removeprefix("sqlite://")))
    with pytest.raises(NotFound, match="There is no store at"):
        back_up(empty, tmp_path / "b")
    with pytest.raises(InvalidInput, match="does not exist"):
        back_up(url, tmp_path / "no such" / "b")
    with pytest.raises(InvalidInput, match="is a directory"):
        back_up(url, tmp_path)
    back_up(url, tmp_path / "b")
    with pytest.raises(SchemaMismatch, match="is a backup, not a store"):
        open_service(f"sqlite://{tmp_path / 'b'}")
    assert not Path(empty.removeprefix("sqlite://")).exists()


def test_a_sealed_store_is_not_restored_into(make_url: MakeUrl, tmp_path: Path) -> None:
    source, target, file = make_url("sqlite"), make_url("sqlite"), tmp_path / "b"
    add(source)
    back_up(source, file)
    done = command(source, "copy", "--to", target.replace("sqlite://", "sqlite:///"))
    assert done.returncode == 0, done.stderr
    with pytest.raises(Held, match="is sealed for its copy to"):
        restore(source, file, replace=True)
    back_up(source, tmp_path / "of a sealed store")


def test_a_server_s_url_and_an_unconfirmed_replacement_are_usage_errors(
    make_url: MakeUrl, tmp_path: Path
) -> None:
    url, file = make_url("sqlite"), tmp_path / "b"
    add(url)
    back_up(url, file)
    for args in (["backup", str(tmp_path / "c")], ["restore", str(file)]):
        done = command("http://127.0.0.1:1", *args)
        assert done.returncode == 2
        assert "Run it where the server runs" in done.stderr
    done = command(url, "restore", str(file), "--replace")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    done = command(url, "--json", "restore", str(file), "--replace", "--yes")
    assert json.loads(done.stdout)["rows"]["items"] == 1
    done = command(url, "--json", "backup", str(tmp_path / "c"))
    assert json.loads(done.stdout)["bytes"] == (tmp_path / "c").stat().st_size


# -- versions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["sqlite"])
def test_a_backup_of_an_older_schema_is_restored_and_one_of_a_newer_is_refused(
    backend: str, next_version: Callable[..., Path], make_url: MakeUrl, tmp_path: Path, monkeypatch: Any
) -> None:
    source, target = make_url("sqlite"), make_url("sqlite")
    old, new = tmp_path / "old", tmp_path / "new"
    add(source, "from an old version")
    back_up(source, old)
    before = old.read_bytes()
    with monkeypatch.context():
        next_version("CREATE TABLE sundry (id INTEGER PRIMARY KEY) STRICT;")
        restore(target, old)
        assert titles(target) == {"from an old version"}
        assert old.read_bytes() == before, "a backup stays as it is"
        back_up(target, new)
    monkeypatch.undo()
    from interlock.store import migrate

    migrate._known.cache_clear()
    with pytest.raises(SchemaMismatch, match=r"has schema version \d+, this Interlock knows \d+") as refused:
        restore(make_url("sqlite"), new)
    assert "newer Interlock" in refused.value.hint


def test_any_sqlite_reads_a_backup(make_url: MakeUrl, tmp_path: Path) -> None:
    url, file = make_url("postgres18"), tmp_path / "b"
    add(url, "plain")
    back_up(url, file)
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    assert db.pragma("integrity_check") == "ok"
    assert list(db.execute("SELECT title FROM items")) == [("plain",)]
    db.close()
    with backup_file.opened(file) as (_, manifest):
        assert manifest.backend == "postgres"
