"""A reader that keeps the last number it saw misses no line and sees none twice, whoever is slow or dies."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from interlock.core.errors import StoreUnavailable
from interlock.core.model import NewItem
from interlock.service.local import LocalService
from tests.faults import racers
from tests.faults.failpoints import wait_for_lock_waiters
from tests.faults.processes import Actor, Crew, wait_until
from tests.faults.stores import assert_kept, open_service, query, read_log
from tests.postgres_fixtures import StartPostgres

LANE = "issue:acme/app#1"
#: Sessions of this name wait at a place of the test's choice while the test holds the lock.
SLOW = """
    IF current_setting('application_name') = 'slow' THEN PERFORM pg_advisory_xact_lock_shared(1); END IF;
"""
#: The same as a number to be added, which is 0.
SLOWLY = f"""
CREATE FUNCTION interlock.slowly() RETURNS bigint LANGUAGE plpgsql VOLATILE
    AS $$ BEGIN {SLOW} RETURN 0; END $$
"""
HOLD = "SELECT pg_advisory_xact_lock(1)"
DRAWS = "nextval('interlock.event_numbers')"
#: Which function waits at a stage, and where in its text.
PLACES = {
    "announced": ("next_seq", DRAWS, f"(interlock.slowly() + {DRAWS})"),
    "drawn": ("next_seq", DRAWS, f"({DRAWS} + interlock.slowly())"),
    "reading": ("horizon", "announced :=", SLOW + "announced :="),
}


def slow(url: str) -> str:
    return f"{url}&application_name=slow"


def slow_down(url: str, stage: str) -> None:
    """Put a wait into one of the store's functions."""
    name, old, new = PLACES[stage]
    text = query(url, f"SELECT pg_get_functiondef('interlock.{name}'::regproc)")[0][0]
    assert old in text, f"interlock.{name} has changed: mend the test"
    query(url, SLOWLY)
    query(url, text.replace(old, new))


@contextmanager
def held(url: str, statement: str) -> Iterator[psycopg.Connection]:
    """A lock that the test has; let go by a commit, or at the end."""
    with psycopg.connect(url) as conn:
        conn.execute(statement.encode())
        yield conn


class Cursors:
    """Two readers side by side, one of them naive: it reads whatever is committed."""

    def __init__(self, url: str, service: LocalService) -> None:
        self.url, self.service = url, service
        self.ours: list[int] = [0]
        self.naive: list[int] = [0]

    def follow(self) -> int:
        self.ours += [event.seq for event in self.service.events(after=self.ours[-1], limit=10_000)]
        newer = f"SELECT seq FROM events WHERE seq > {self.naive[-1]} ORDER BY seq"
        self.naive += [seq for (seq,) in query(self.url, newer)]
        return self.ours[-1]

    def read_all(self) -> list[int]:
        """Every committed line, once our reader has come to the last one."""
        whole = [line.seq for line in read_log(self.url)]
        wait_until(lambda: self.follow() == whole[-1], "the cursor reaches the end")
        return whole


@pytest.fixture
def service(pg_url: str) -> Iterator[LocalService]:
    service = open_service(pg_url)
    service.set_agent("slow", max_concurrency=100)
    service.add([NewItem(title="first", lane=LANE, agent="slow")])
    service.add([NewItem(title=f"item {n}", agent="slow") for n in range(4)])
    yield service
    service.close()


@pytest.fixture
def writers(crew: Crew, service: LocalService, pg_url: str) -> list[Actor]:
    """They write one line after the other until told to stop."""
    return [crew.start(racers.write_lines, pg_url) for _ in range(2)]


def let_others_write(url: str) -> None:
    count = "SELECT count(*) FROM events"
    before = query(url, count)[0][0]
    wait_until(lambda: query(url, count)[0][0] > before + 5, "others commit meanwhile")


def stop(writers: list[Actor]) -> None:
    for writer in writers:
        writer.tell("stop")
    assert sum(writer.join() for writer in writers) > 5


@pytest.mark.parametrize("stage", ["lane", "claiming", "announced", "drawn", "deciding", "written"])
def test_an_event_cursor_never_skips_a_line_of_a_transaction_that_was_long_open(
    crew: Crew, service: LocalService, writers: list[Actor], pg_url: str, stage: str
) -> None:
    """A writer is held up at whatever stage and commits late. A naive cursor, which reads whatever is
    committed, passes it by once it has drawn its number; the same test shows that.

    Taken out: the lock of `next_seq`; the stages from `drawn` on fail.
    """
    rounds, cursors = 4, Cursors(pg_url, service)
    if stage in PLACES:
        slow_down(pg_url, stage)
    actor = crew.start(racers.hold_open, slow(pg_url), stage, rounds)
    by_lock = stage in racers.BY_LOCK
    lock = "SELECT 1 FROM interlock.lanes FOR UPDATE" if stage == "lane" else HOLD if by_lock else "SELECT 1"
    for _ in range(rounds):
        assert actor.hear() == "open"
        with held(pg_url, lock):
            if by_lock:
                actor.tell()
                wait_for_lock_waiters(pg_url)
            let_others_write(pg_url)
            cursors.follow()
        if not by_lock:
            actor.tell()
        assert actor.hear() == "committed"
        cursors.follow()
    actor.join()
    stop(writers)
    assert cursors.read_all() == cursors.ours[1:]
    if stage in ("drawn", "deciding", "written"):  # the others have no number yet
        assert cursors.naive != cursors.ours, "even a naive cursor skips nothing: this test proves nothing"


def test_a_reader_held_up_between_its_two_looks_skips_nothing(
    crew: Crew, service: LocalService, writers: list[Actor], pg_url: str
) -> None:
    """It has read the number drawn last, and not yet who has announced; meanwhile others write, and one of
    them has drawn and not committed when the reader goes on.

    Taken out: the order of the two in `horizon`; the line of the slow writer is skipped.
    """
    slow_down(pg_url, "reading")
    reading = open_service(slow(pg_url))
    cursors = Cursors(pg_url, reading)
    actor = crew.start(racers.hold_open, pg_url, "written", 1)
    with held(pg_url, HOLD) as lock, ThreadPoolExecutor(1) as threads:
        late = threads.submit(cursors.follow)
        wait_for_lock_waiters(pg_url)
        assert actor.hear() == "open"
        let_others_write(pg_url)
        lock.commit()
        late.result()
    actor.tell()
    assert actor.hear() == "committed"
    stop(writers)
    assert cursors.read_all() == cursors.ours[1:]
    reading.close()


@pytest.mark.parametrize("death", ["the process", "its session"])
def test_a_writer_that_dies_with_its_number_holds_nobody_up(
    crew: Crew, service: LocalService, pg_url: str, death: str
) -> None:
    """Its number stays unused. Whoever comes later is read at once."""
    slow_down(pg_url, "drawn")
    cursors = Cursors(pg_url, service)
    actor = crew.start(racers.hold_open, slow(pg_url), "drawn", 1)
    assert actor.hear() == "open"
    with held(pg_url, HOLD):
        actor.tell()
        wait_for_lock_waiters(pg_url)
        service.add([NewItem(title="later")])
        later = read_log(pg_url)[-1].seq
        assert cursors.follow() < later, "the writer might still commit a line before it"
        actor.kill()
        if death == "its session":
            query(
                pg_url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'slow' AND datname = current_database()",
            )
        wait_until(lambda: cursors.follow() == later, "the reader goes on")
    assert cursors.read_all() == cursors.ours[1:]
    assert_kept(pg_url)


def test_somebody_elses_long_transaction_holds_no_reader_up(service: LocalService, pg_url: str) -> None:
    """Not one that writes, nor one that has locks of its own kind."""
    with held(pg_url, "CREATE TABLE public.thing AS SELECT pg_try_advisory_xact_lock(7)"):
        item = service.add([NewItem(title="later")])[0].item
        assert item is not None
        assert [event.item for event in service.events(newest=True, limit=1)] == [item.id]


def test_a_standby_refuses_to_follow_the_history_and_still_shows_the_newest_lines(
    start_postgres: StartPostgres,
) -> None:
    """It does not see who is writing at the primary, so its cursor could skip a line."""
    primary = start_postgres(18)
    url = primary.create_database("followed")
    service = open_service(url)
    service.add([NewItem(title="item")])
    standby = start_postgres(standby_of=primary)
    wait_until(lambda: query(standby.url("followed"), "SELECT 1 FROM events"), "the line is there")
    reading = open_service(standby.url("followed"))
    with pytest.raises(StoreUnavailable, match="standby cannot follow the history"):
        reading.events(after=0)
    assert [event.kind for event in reading.events(newest=True)] == ["item.added"]
    reading.close()
    service.close()
