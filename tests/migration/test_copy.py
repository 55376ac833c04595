"""`interlock copy`: a store becomes another one, both ways, and at no moment do two take writes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import psycopg
import pytest

from interlock.core.continuity import Ancestor, Lineage
from interlock.core.errors import Held, InterlockError, InvalidInput, StoreBusy, StoreSealed
from interlock.core.model import NewItem
from interlock.service import administration
from interlock.service.contract import ItemFilter, Report
from interlock.store import store_copy
from interlock.store.opening import end_of
from interlock.store.store_copy import OWN, TABLES
from tests.faults.processes import wait_until
from tests.faults.stores import assert_kept, open_service, open_store, query
from tests.migration.copies import MakeUrl, add, chosen, command, four_slashes, killed, titles
from tests.migration.filling import dump, fill

WAYS = [
    ("sqlite", "postgres18"),
    ("postgres18", "sqlite"),
    ("postgres16", "postgres18"),
    ("sqlite", "sqlite"),
]
BOTH = pytest.mark.parametrize(("origin", "destination"), WAYS[:2])


def copy(source: str, target: str, **options: Any) -> store_copy.Copied:
    options = {"tell": lambda *_: None, "waiting": None} | options
    return administration.copy(chosen(source), four_slashes(target), **options)


def takes_writes(url: str) -> bool:
    try:
        add(url, "probe")
    except StoreSealed:
        return False
    return True


def lineage_of(url: str) -> Lineage:
    store = open_store(url)
    try:
        return store.database.lineage()
    finally:
        store.close()


# -- what is copied -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres18"])
def test_every_table_and_number_is_known_to_the_copy(kind: str, make_url: MakeUrl) -> None:
    """A new table belongs into `TABLES`, or into `OWN` if a store makes it of the others."""
    url = make_url(kind)
    open_store(url).close()
    if kind == "sqlite":
        tables = query(url, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        numbers = {name for (name,) in query(url, "SELECT name FROM numbers")}
        assert numbers | {"event"} == set(store_copy.Numbers._fields)
    else:
        tables = query(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'interlock'")
        sequences = query(url, "SELECT sequencename FROM pg_sequences WHERE schemaname = 'interlock'")
        assert sequences
        assert len(sequences) == len(store_copy.Numbers._fields)
    backend = kind.rstrip("0123456789")
    assert {name for (name,) in tables} == set(TABLES) | OWN[backend]
    assert not set(TABLES) & OWN[backend]


@pytest.mark.parametrize(("origin", "destination"), WAYS)
def test_all_rows_go_over_and_the_work_goes_on(origin: str, destination: str, make_url: MakeUrl) -> None:
    source, target = make_url(origin), make_url(destination)
    service = open_service(source)
    fill(service, seed=sum(map(ord, origin + destination)))
    last_fence = max(run for (run,) in query(source, "SELECT run FROM runs"))
    done = command(source, "copy", "--to", four_slashes(target))
    assert done.returncode == 0, done.stderr
    assert "is sealed" in done.stdout

    before, after = dump(source), dump(target)
    assert all(before.values()), f"empty: {[table for table, rows in before.items() if not rows]}"
    came = after["events"].pop()
    assert "store.changed" in came
    assert after == before
    with pytest.raises(StoreSealed, match="sealed for its copy to"):
        service.add([NewItem(title="late")])
    was = lineage_of(source)
    service.close()

    assert_kept(target)
    moved = open_service(target)
    lineage = lineage_of(target)
    assert lineage.store != was.store
    assert lineage.ancestors == {**was.ancestors, was.store: Ancestor.SEALED}
    after_seq = max(seq for (seq,) in query(source, "SELECT seq FROM events"))
    assert [e.kind for e in moved.events(after=after_seq)] == ["store.changed"], "a cursor goes on"
    first = moved.add([NewItem(title="new")])[0].arrival
    assert first is not None
    assert first > max(row for (row,) in query(source, "SELECT id FROM items"))
    moved.pause_agent("bob", paused=False, why="back")
    moved.pause_project("frozen", paused=False, why="audited")
    for (item,) in query(target, "SELECT id FROM items WHERE status = 'failed' LIMIT 3"):
        moved.retry(item, why="again")
    fences = _work_all(moved)
    assert fences
    assert min(fences) > last_fence
    moved.close()
    assert_kept(target)
    assert dump(source) == before, "nothing changed in the sealed store"


def _work_all(service: Any) -> list[int]:
    """Do whatever can be done; the fences."""
    fences = []
    while leases := [
        lease
        for agent in ("ada", "bob", "zoe", "editor")
        for lease in service.next(agent, labels=["gpu", "mac"], limit=50)
    ]:
        fences += [lease.fence for lease in leases]
        service.done([Report(run=lease.run, seen=len(lease.messages)) for lease in leases])
    return fences


def test_a_clock_that_was_ahead_goes_on(make_url: MakeUrl) -> None:
    """Taken out (`go_on_from` for SQLite; the clock in `settle_copy` for PostgreSQL; each alone): the history
    of the copy goes back in time."""
    for origin, destination in (("postgres18", "postgres18"), ("postgres18", "sqlite")):
        source, target = make_url(origin), make_url(destination)
        open_store(source).close()
        query(source, "UPDATE clock SET offset_us = 20000000")
        add(source)
        copy(source, target)
        add(target)
        assert_kept(target)
        times = [at_us for (at_us,) in query(target, "SELECT at_us FROM events ORDER BY seq")]
        assert times == sorted(times)
        assert query(target, "SELECT count(*) FROM events WHERE kind = 'clock.stepped'") == [(0,)]


def test_dedupe_keys_and_order_of_arrival_stay(make_url: MakeUrl) -> None:
    source, target = make_url("sqlite"), make_url("postgres18")
    first = add(source, "first", lane="x:1", dedupe_key="once")
    add(source, "second", lane="x:1")
    copy(source, target)
    service = open_service(target)
    again = service.add([NewItem(title="again", dedupe_key="once")])[0]
    assert again.item is not None
    assert again.item.id == first
    service.add([NewItem(title="third", lane="x:1")])
    order = []
    while leases := service.next("ada"):
        order.append(leases[0].item.title)
        service.done([Report(run=leases[0].run)])
    service.close()
    assert order == ["first", "second", "third"]


# -- runs -----------------------------------------------------------------------------------------


@BOTH
def test_live_runs_are_named_and_nothing_is_changed(origin: str, destination: str, make_url: MakeUrl) -> None:
    source, target = make_url(origin), make_url(destination)
    add(source)
    service = open_service(source)
    lease = service.next("ada", lease_s=3600)[0]
    with pytest.raises(Held, match=f"run {lease.fence} of ada on item {lease.item.id}"):
        copy(source, target)
    assert service.done([Report(run=lease.run)])[0].refusal is None
    service.close()
    assert copy(source, target).rows["runs"] == 1
    moved = open_service(target)
    refusal = moved.done([Report(run=lease.run)])[0].refusal
    assert refusal is not None
    assert "succeeded" in refusal.message, "the copy knows how the run ended"
    moved.close()


@BOTH
def test_an_external_run_goes_along_and_ends_in_the_copy(
    origin: str, destination: str, make_url: MakeUrl
) -> None:
    source, target = make_url(origin), make_url(destination)
    add(source)
    service = open_service(source)
    lease = service.next("ada", external=True)[0]
    service.close()
    copy(source, target)
    moved = open_service(target)
    assert [item.run for item in moved.external()] == [lease.fence]
    assert moved.done([Report(run=lease.run)])[0].refusal is None
    moved.close()
    assert_kept(target)


@BOTH
def test_a_lease_that_is_over_does_not_hold_the_copy_up(
    origin: str, destination: str, make_url: MakeUrl
) -> None:
    source, target = make_url(origin), make_url(destination)
    add(source)
    service = open_service(source)
    lease = service.next("ada", lease_s=1)[0]
    wait_until(lambda: service.store.due(1), "the lease is over")
    service.close()
    copy(source, target)
    moved = open_service(target)
    assert moved.done([Report(run=lease.run)])[0].refusal is not None
    assert moved.next("bob")[0].fence > lease.fence
    moved.close()


@BOTH
def test_a_copy_that_waits_lets_runs_end_and_none_start(
    origin: str, destination: str, make_url: MakeUrl
) -> None:
    source, target = make_url(origin), make_url(destination)
    add(source, "running")
    service = open_service(source)
    lease = service.next("ada", lease_s=3600)[0]
    waits = threading.Event()
    copied: list[store_copy.Copied] = []
    copier = threading.Thread(
        target=lambda: copied.append(copy(source, target, waiting=lambda _: waits.set()))
    )
    copier.start()
    assert waits.wait(90)
    service.add([NewItem(title="meanwhile")])
    with pytest.raises(StoreBusy, match=r"is being copied to .*, and no run starts"):
        service.next("bob")
    assert service.renew([Report(run=lease.run)])[0].refusal is None
    assert service.done([Report(run=lease.run)])[0].refusal is None
    copier.join()
    service.close()
    assert copied[0].rows["items"] == 2
    moved = open_service(target)
    assert moved.next("bob")[0].item.title == "meanwhile"
    moved.close()
    assert_kept(target)


@BOTH
def test_runs_start_again_if_the_copy_gives_up_or_dies(
    origin: str, destination: str, make_url: MakeUrl
) -> None:
    source, target = make_url(origin), make_url(destination)
    add(source, "running")
    add(source, "pending")
    service = open_service(source)
    service.next("ada", lease_s=3600)

    def give_up(live: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(source, target, waiting=give_up)
    lease = service.next("bob", lease_s=3600)[0]
    service.release([Report(run=lease.run)])

    def keep_for_a_second(live: object) -> None:
        end = end_of(service.store, "")  # type: ignore[arg-type]
        end.keep_closed("there", 1)
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed(lambda: copy(source, target, waiting=keep_for_a_second))

    def starts() -> bool:
        try:
            return bool(service.next("bob"))
        except StoreBusy:
            return False

    wait_until(starts, "a run starts")
    service.close()


# -- the seal -------------------------------------------------------------------------------------


@BOTH
def test_a_sealed_store_can_be_read_and_refuses_every_write(
    origin: str, destination: str, make_url: MakeUrl
) -> None:
    source, target = make_url(origin), make_url(destination)
    add(source, "one", lane="x:1")
    service = open_service(source)
    lease = service.next("ada")[0]
    service.done([Report(run=lease.run)])
    waits = add(source, "two")
    copy(source, target)
    service.close()
    service = open_service(source)

    assert [item.title for item in service.items(ItemFilter(all=True))] == ["one", "two"]
    assert service.show(1).item.status == "completed"
    assert service.why(1).why
    assert service.events()
    assert service.stats().items == {"completed": 1, "pending": 1}
    assert service.lanes() == []
    assert service.agents()
    assert service.plans() == []
    told = {check.name: check for check in service.doctor()}
    assert not told["takes_writes"].ok
    assert "sealed for its copy to" in told["takes_writes"].detail
    assert "INTERLOCK_URL" in told["takes_writes"].mend
    for line in ("ls", "ls --json", "show 1", "top", "events"):
        said = command(source, *line.split())
        assert said.returncode == 0
        assert said.stderr.startswith("This store is sealed and its data is stale: it was copied to ")
    assert command(target, "ls").stderr == ""
    there = open_service(target)
    assert "It was copied from" in next(c.detail for c in there.doctor() if c.name == "takes_writes")
    there.close()

    # Nothing is written of a run that reported its end itself; of a handle that nobody has, the refusal is.
    unknown = lease.run[:-1] + ("0" if lease.run[-1] != "0" else "1")
    report = [Report(run=unknown)]
    for write in (
        lambda: service.add([NewItem(title="late")]),
        lambda: service.next("ada"),
        lambda: service.done(report),
        lambda: service.renew(report),
        lambda: service.cancel(waits, why="late"),
        lambda: service.msg(waits, "hello"),
        lambda: service.set_agent("ada", max_concurrency=1),
        lambda: service.pause_project("default", paused=True, why="x"),
        lambda: service.set_mode(scope="project", value="default", mode="off"),
        service.sweep,
    ):
        with pytest.raises(StoreSealed, match="sealed for its copy to") as refused:
            write()
        assert "INTERLOCK_URL" in refused.value.hint
    service.close()
    for args in (
        ("add", "x"),
        ("next", "--agent", "ada"),
        ("sweep", "--once"),
    ):
        said = command(source, *args)
        assert (said.returncode, "sealed for its copy to" in said.stderr) == (1, True), said
    assert command(source, "ls", "--all").returncode == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgres18"])
def test_the_seal_holds_for_programs_that_do_not_know_it(kind: str, make_url: MakeUrl) -> None:
    """Plain SQL is refused by every table, in words: so no version writes, however old."""
    source = make_url(kind)
    open_store(source).close()
    service = open_service(source)
    fill(service, seed=1, steps=120)
    service.close()
    copy(source, make_url("sqlite"))
    before = dump(source)
    for table in (*TABLES, *OWN[kind.rstrip("0123456789")]):
        for statement in (f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1"):
            if query(source, f"SELECT count(*) FROM {table}")[0][0]:
                with pytest.raises((apsw.ConstraintError, psycopg.Error), match="sealed for its copy to"):
                    query(source, statement)
    assert dump(source) == before


@pytest.mark.parametrize("kind", ["sqlite", "postgres18"])
def test_what_was_acknowledged_while_the_store_was_sealed_is_in_the_copy(
    kind: str, make_url: MakeUrl
) -> None:
    """Taken out (the order in `copy`, with the seal after the rows): some are missing in the copy."""
    source, target = make_url(kind), make_url("sqlite")
    open_store(source).close()
    acknowledged: list[int] = []
    busy = threading.Barrier(5)

    def arrive(n: int) -> None:
        service = open_service(source)
        busy.wait()
        try:
            while True:
                acknowledged.append(service.add([NewItem(title="w", lane=f"x:{n}")])[0].arrival or 0)
        except StoreSealed:
            service.close()

    writers = [threading.Thread(target=arrive, args=(n,)) for n in range(4)]
    for writer in writers:
        writer.start()
    busy.wait()
    wait_until(lambda: len(acknowledged) > 40, "there is traffic")
    copy(source, target)
    for writer in writers:
        writer.join()
    assert set(acknowledged) == {item for (item,) in query(target, "SELECT id FROM items")}
    assert_kept(target, added=tuple(acknowledged))


# -- targets --------------------------------------------------------------------------------------


@BOTH
def test_a_target_that_is_not_empty_is_refused(origin: str, destination: str, make_url: MakeUrl) -> None:
    source, target = make_url(origin), make_url(destination)
    add(source)
    open_store(target).close()
    service = open_service(target)
    service.set_agent("somebody")
    service.close()
    for waiting in (None, lambda _: None):
        with pytest.raises(Held, match="is not empty: its table events has rows"):
            copy(source, target, waiting=waiting)
    assert takes_writes(source)
    assert takes_writes(target)


def test_bad_targets_are_refused_in_words(make_url: MakeUrl, tmp_path: Path) -> None:
    source = make_url("sqlite")
    add(source)
    for target, words in (
        (source, "onto itself"),
        ("git+file:///nowhere.git", "needs a database"),
        (f"sqlite://{tmp_path}/no/such.db", "does not exist"),
        ("redis://there", "no store for the scheme"),
    ):
        with pytest.raises(InvalidInput, match=words):
            copy(source, target)
    with pytest.raises(InterlockError, match="has no Interlock schema"):
        copy(make_url("sqlite"), make_url("sqlite"))
    assert takes_writes(source)


def test_a_copy_that_fails_leaves_the_store_as_it_was(
    make_url: MakeUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out (the `unseal` of `copy`): a full disk of the target stops the fleet."""
    for origin, destination in WAYS[:2]:
        source, target = make_url(origin), make_url(destination)
        add(source)

        def fail(table: str, count: int) -> None:
            if table == "items":
                raise OSError("no space left")

        with pytest.raises(OSError, match="no space"):
            copy(source, target, tell=fail)
        assert takes_writes(source)
        assert copy(source, target).rows["items"] == 2
        assert not takes_writes(source)
        assert takes_writes(target)


# -- crashes --------------------------------------------------------------------------------------


def killed_at(step: int, source: str, target: str) -> bool:
    """Copy in a child that is killed before the n-th line of the copy that it meets, if it meets so many."""
    copying = (".store_copy", ".drained_copy", ".copy_end")
    files = {sys.modules[name].__file__ for name in list(sys.modules) if name.endswith(copying)}
    met: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            met.add((frame.f_code.co_filename, frame.f_lineno))
            if len(met) == step:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def work() -> None:
        sys.settrace(trace)
        copy(source, target)

    return killed(work)


def _examine_after_a_crash(source: str, target: str, *, undone: bool) -> str:
    """One store at most takes writes, and nothing is lost on any way from here; which way it was."""
    was = titles(source)
    if takes_writes(source):
        way = "open"
        was |= {"probe"}
    elif undone:
        try:
            administration.undo_copy(chosen(source), four_slashes(target))
            way = "undone"
            assert takes_writes(source)
            was |= {"probe"}
        except Held:
            way = "complete"
    else:
        way = "sealed"
    copy(source, target)
    assert not takes_writes(source)
    assert titles(target) == was
    assert takes_writes(target)
    return way


@pytest.mark.parametrize(
    ("origin", "destination", "every"),
    [("sqlite", "sqlite", 5), ("sqlite", "postgres18", 20), ("postgres18", "sqlite", 20)],
)
def test_a_copy_that_is_killed_at_any_line_loses_nothing_and_can_be_repeated(
    origin: str, destination: str, every: int, make_url: MakeUrl, tmp_path: Path
) -> None:
    """Each second crash is undone, if that is still possible. Some lines; all with INTERLOCK_EVERY_CASE=1.

    Taken out (`exclusively` around the filling of a target in SQLite): it is found half full, and refused."""
    if os.environ.get("INTERLOCK_EVERY_CASE") == "1":
        every = 1

    ways, step, crashes = set(), 1, 0
    while True:
        source, target = make_url(origin), make_url(destination)
        add(source, "one", lane="x:1", message="hello")
        add(source, "two", lane="x:1", payload="{}")
        if not killed_at(step, source, target):
            break
        crashes += 1
        ways.add(_examine_after_a_crash(source, target, undone=crashes % 2 == 0))
        step += every
    assert {"open", "sealed", "undone"} <= ways
    assert step > 60


def test_a_copy_may_be_finished_only_at_its_place(make_url: MakeUrl) -> None:
    source, target, other = (make_url("sqlite") for _ in range(3))
    add(source)

    def die(table: str, count: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed(lambda: copy(source, target, tell=die))
    with pytest.raises(Held, match=r"a copy to .* was begun"):
        copy(source, other)
    with pytest.raises(Held, match=r"a copy to .* was begun"):
        administration.undo_copy(chosen(source), four_slashes(other))
    copy(source, target)
    assert copy(source, target).rows == {}, "and once is enough"
    with pytest.raises(Held, match="The copy is complete"):
        administration.undo_copy(chosen(source), four_slashes(target))
    with pytest.raises(InvalidInput, match="not sealed"):
        administration.undo_copy(chosen(target), four_slashes(other))
