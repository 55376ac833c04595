"""Somebody sets the clock of the database's host under living and dead holders."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from interlock.core.model import NewItem
from interlock.core.timing import Timing
from interlock.service.contract import Report
from tests.faults import clock_racers
from tests.faults.clocks import ServerClock, StoreClock
from tests.faults.mutations import replace_statement
from tests.faults.processes import Crew, wait_until
from tests.faults.stores import assert_kept, open_service, query, read_log
from tests.postgres_fixtures import StartPostgres

HOUR_S = 3600


class Server:
    """A server whose clock a test may set."""

    def __init__(self, url: str, clock: ServerClock | StoreClock) -> None:
        self.url = url
        self.step = clock.step

    def raw_s(self) -> float:
        return float(query(self.url, "SELECT extract(epoch FROM clock_timestamp())")[0][0])

    def now_us(self) -> int:
        return int(query(self.url, "SELECT clock_us()")[0][0])


@pytest.fixture
def server(start_postgres: StartPostgres, server_clock: ServerClock) -> Server:
    started = start_postgres(18, environ=server_clock.environ)
    found = Server(started.create_database("stepping"), server_clock)
    before_s = found.raw_s()
    found.step(HOUR_S)
    assert found.raw_s() > before_s + HOUR_S / 2, (
        "the server's clock cannot be set: these tests prove nothing"
    )
    found.step(0)
    return found


@pytest.fixture
def store(pg_database18: str, server_directory: Path) -> Server:
    """The same for one store. A crowd of processes signals and is signalled, which the library under
    `server` does not always survive."""
    return Server(pg_database18, StoreClock(pg_database18, server_directory))


def steps(url: str) -> list[float]:
    return [line.data["step_s"] for line in read_log(url) if line.kind == "clock.stepped"]


@pytest.mark.parametrize("seconds", [-HOUR_S, HOUR_S], ids=["back", "forward"])
def test_a_step_of_the_clock_neither_frees_the_living_nor_keeps_the_dead(
    store: Server, crew: Crew, seconds: int
) -> None:
    """Eight sweep, two claim, one holder lives and one is dead. The step is corrected once.

    Taken out: `stepped` in `due` and in `_attempt`. Forward, the living holder is refused; back, the dead
    one's item is not offered again for an hour.
    """
    service = open_service(store.url, timing=Timing(lease_s=3))
    service.add([NewItem(title="held", agent="living"), NewItem(title="forgotten", agent="dead")])
    living = crew.start(clock_racers.hold_until_told, store.url, "living")
    held = living.hear()
    (dead,) = service.next("dead", lease_s=3)
    others = [crew.start(clock_racers.sweep_until_told, store.url) for _ in range(8)]
    claimers = [crew.start(clock_racers.claim_until_told, store.url, "dead") for _ in range(2)]
    for other in (*others, *claimers):
        other.hear()
    before_us = store.now_us()
    store.step(seconds)
    wait_until(lambda: steps(store.url), "somebody noticed")
    wait_until(
        lambda: query(store.url, f"SELECT status FROM items WHERE id = {dead.item.id}") == [("completed",)],
        "the dead one's item was offered again, and done",
    )
    for actor in (living, *others, *claimers):
        actor.tell()
    assert living.join() == [], "the living holder keeps its lease"
    taken = [item for claimer in claimers for item in claimer.join()]
    assert taken == [dead.item.id]
    for other in others:
        other.join()
    assert [round(step) for step in steps(store.url)] == [pytest.approx(seconds, abs=3)]
    # The second judge: time goes on, and nothing is dated ahead.
    now_us = store.now_us()
    assert before_us < now_us < before_us + 120_000_000
    assert held != dead.item.id
    rows = query(
        store.url,
        f"""SELECT 'item', id FROM items
        WHERE greatest(created_us, run_started_us, first_claimed_us, ended_us) > {now_us}
        UNION ALL SELECT 'due', id FROM items WHERE due_us > {now_us} + 60000000
        UNION ALL SELECT 'agent', 0 FROM agents WHERE seen_us > {now_us}""",
    )
    assert not rows
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert query(store.url, deadlocks) == [(0,)]
    service.close()
    assert_kept(store.url, steady_clock=False)


def test_steps_back_and_forth_are_each_corrected_and_small_ones_are_left_alone(
    server: Server, crew: Crew
) -> None:
    service = open_service(server.url)
    sweeper = crew.start(clock_racers.sweep_until_told, server.url)
    sweeper.hear()
    for n, seconds in enumerate((HOUR_S, -HOUR_S, 0)):
        server.step(seconds)
        wait_until(partial(_more_than, server.url, n), f"step {n + 1}")
    assert [round(step) for step in steps(server.url)] == [
        pytest.approx(HOUR_S, abs=3),
        pytest.approx(-2 * HOUR_S, abs=3),
        pytest.approx(HOUR_S, abs=3),
    ]
    assert abs(query(server.url, "SELECT offset_us FROM clock")[0][0]) < 9_000_000, "the clock is right again"
    for seconds in (20, 0):
        server.step(seconds)
        service.sweep()
    sweeper.tell()
    sweeper.join()
    assert len(steps(server.url)) == 3
    service.close()


def test_who_first_looks_between_a_step_and_its_correction_does_not_undo_it(server: Server) -> None:
    """Taken out: the comparison of offsets in `step_between`; the two then correct each other for ever."""
    early, late = open_service(server.url), open_service(server.url)
    early.sweep()
    server.step(HOUR_S)
    late.sweep()  # it has nothing to compare with, and believes the server
    for service in (early, late) * 3:
        service.sweep()
    assert [round(step) for step in steps(server.url)] == [pytest.approx(HOUR_S, abs=3)]
    for service in (early, late):
        service.close()


def test_a_step_back_that_nobody_saw_is_found_in_what_was_written_before(server: Server) -> None:
    """A dead holder was leased its item by a clock that was an hour ahead, and nobody watched the clock until
    it was right again. Then it goes an hour ahead once more, under a living holder.

    Taken out: `recall` in `due`. The dead holder keeps its item for an hour, and the living one is refused:
    the times that the second step leaves out seem to have been passed.
    """
    server.step(HOUR_S)
    early = open_service(server.url, timing=Timing(lease_s=5))
    early.add([NewItem(title="dead", max_attempts=1)])
    early.next("dead")
    early.close()
    server.step(0)
    sweeper = open_service(server.url, timing=Timing(lease_s=5))
    sweeper.sweep()
    assert [round(step) for step in steps(server.url)] == [pytest.approx(-HOUR_S, abs=60)]
    wait_until(lambda: sweeper.sweep().expired == 1, "the end of the dead holder's lease")
    sweeper.add([NewItem(title="living", lease_s=300)])
    (living,) = sweeper.next("coder")
    server.step(HOUR_S)
    sweeper.sweep()
    assert sweeper.renew([Report(run=living.run)])[0].refusal is None
    assert len(steps(server.url)) == 2
    sweeper.close()
    assert_kept(server.url, steady_clock=False)


def test_what_was_written_by_a_clock_that_was_ahead_is_no_step_back_once_that_is_corrected(
    server: Server,
) -> None:
    """Taken out: `clock.stepped` in `newest_time.sql`; whoever comes later undoes the correction."""
    early, hasty = open_service(server.url), open_service(server.url)
    early.sweep()
    server.step(HOUR_S)
    hasty.add([NewItem(title="dated an hour ahead")])  # it has nothing to compare with
    early.sweep()
    late = open_service(server.url)
    late.sweep()
    assert [round(step) for step in steps(server.url)] == [pytest.approx(HOUR_S, abs=3)]
    for service in (early, hasty, late):
        service.close()


def test_an_agent_that_asked_by_a_clock_that_was_ahead_is_no_step_back_once_that_is_corrected(
    server: Server,
) -> None:
    """Its statement read the clock before the correction and wrote after it.

    Taken out: the agents' part of `newest_time.sql`; a later process undoes the correction. Taken out:
    the comparison with times ahead in `see_agent.sql`; the agent seems to be there for an hour.
    """
    early = open_service(server.url)
    early.next("coder")
    server.step(HOUR_S)
    early.sweep()
    ahead_us = server.now_us() + HOUR_S * 1_000_000
    query(server.url, f"UPDATE agents SET seen_us = {ahead_us} RETURNING key")
    late = open_service(server.url)
    late.sweep()
    assert [round(step) for step in steps(server.url)] == [pytest.approx(HOUR_S, abs=3)]
    late.next("coder")
    assert query(server.url, "SELECT seen_us FROM agents")[0][0] < ahead_us
    for service in (early, late):
        service.close()


def _more_than(url: str, n: int) -> bool:
    return len(steps(url)) > n


def test_a_sweeper_that_was_stopped_takes_nothing_for_a_step(pg_database18: str, crew: Crew) -> None:
    """Its own clock went on meanwhile."""
    sweepers = [crew.start(clock_racers.sweep_until_told, pg_database18) for _ in range(3)]
    for sweeper in sweepers:
        sweeper.hear()
        sweeper.stop()
    service = open_service(pg_database18)
    query(pg_database18, "SELECT pg_sleep(1.5)")
    for sweeper in sweepers:
        sweeper.go_on()
    for sweeper in sweepers:
        sweeper.tell()
        sweeper.join()
    assert steps(pg_database18) == []
    service.close()


@pytest.mark.parametrize("witnessed", [True, False])
def test_a_machine_that_was_frozen_with_its_clock_is_believed_only_if_nobody_else_wrote(
    pg_database18: str, witnessed: bool
) -> None:
    """Like a virtual machine that was paused: its time since boot stood still for a minute.

    Taken out: `_was_passed`; the store's clock is set back although everybody else worked on.
    """
    frozen = open_service(pg_database18)
    frozen.sweep()
    store = frozen.store
    last = store.clock._last  # type: ignore[attr-defined]
    assert last is not None
    # As if it had read the clock a minute ago, and its own time had stood still since.
    store.clock._last = last._replace(clock_us=last.clock_us - 60_000_000)  # type: ignore[attr-defined]
    if witnessed:
        at_us = last.clock_us - 30_000_000
        query(
            pg_database18,
            "INSERT INTO events (seq, at_us, kind, reason) VALUES (1, " + str(at_us) + ", 'mode.set', '')",
        )
    frozen.sweep()
    assert [round(step) for step in steps(pg_database18)] == ([] if witnessed else [60])
    frozen.close()


def test_a_run_goes_on_over_a_step_and_its_end_is_accepted(server: Server) -> None:
    """One process alone, which neither sweeps nor claims: its own transaction notices."""
    service = open_service(server.url, timing=Timing(lease_s=60))
    service.add([NewItem(title="work", lane="issue:acme/app#1")])
    (lease,) = service.next("coder")
    server.step(HOUR_S)
    service.add([NewItem(title="next", lane="issue:acme/app#1")])  # an arrival repairs the lane it touches
    assert service.renew([Report(run=lease.run)])[0].refusal is None
    assert service.done([Report(run=lease.run)])[0].refusal is None
    assert [round(step) for step in steps(server.url)] == [pytest.approx(HOUR_S, abs=3)]
    service.close()
    assert_kept(server.url, steady_clock=False)


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_an_external_run_has_no_lease_after_a_step_either(server: Server, seconds: int) -> None:
    """Taken out: the look at `lease_until_us` in `spare_runs`; asked to stop, it then has a lease."""
    service = open_service(server.url, timing=Timing(lease_s=60))
    service.add([NewItem(title="free"), NewItem(title="asked to stop")])
    free, asked = service.next("outside", limit=2, external=True)
    service.cancel(asked.item.id, why="no longer wanted")
    server.step(seconds)
    service.add([NewItem(title="next")])
    service.sweep()
    wait_until(lambda: steps(server.url), "it was noticed")
    assert {item.id for item in service.external()} >= {free.item.id}
    assert query(server.url, "SELECT count(*) FROM items WHERE lease_until_us IS NOT NULL") == [(0,)]
    assert service.done([Report(run=free.run)])[0].refusal is None
    service.close()
    assert_kept(server.url, steady_clock=False)


def test_a_statement_that_a_step_ends_is_made_again(server: Server) -> None:
    """A server whose clock jumps ahead takes a statement that runs for one that has lasted too long.

    Taken out: `TransactionTimeout` in `GONE`; the caller gets the server's error.
    """
    service = open_service(server.url)
    slowly = "FROM (SELECT pg_sleep(2)) AS slow CROSS JOIN interlock.agents a"
    replace_statement(service, "agents", "FROM interlock.agents a", slowly)
    service.set_agent("coder")
    step = threading.Timer(0.5, server.step, (HOUR_S,))
    step.start()
    assert [agent.name for agent in service.agents()] == ["coder"]
    step.join()
    service.close()
