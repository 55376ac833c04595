"""Incidents of other systems that must not happen here, by the number they have in the project's list.

1 (64 processes, one item), 17 (an arrival meets a finish) and the races of 16 and 18 are in test_races,
15's crashes in test_storms and test_lost_acknowledgements, 21 is trap P10.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import apsw
import pytest

from interlock.client import Interlock
from interlock.core.errors import StoreUnavailable
from interlock.core.model import NewItem, Policy
from interlock.core.timing import Timing
from interlock.http.periodic_jobs import PeriodicJob
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from tests.clock import Clock
from tests.faults import racers, traffic
from tests.faults.processes import Crew, wait_until
from tests.faults.stores import assert_kept, file_of, open_service, open_store, query, read_log
from tests.patience import PATIENCE_S
from tests.postgres_fixtures import StartPostgres

LANE = "issue:acme/app#42"
CALM = Timing(lease_s=60, cancel_grace_s=15, back_off_first_s=10)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(any_url: str, clock: Clock) -> Iterator[LocalService]:
    """A service in whose store only the test moves time."""
    service = open_service(any_url, timing=CALM, now=clock)
    yield service
    service.close()


def add(service: LocalService, title: str = "work", **fields: object) -> int:
    item = service.add([NewItem(title=title, **fields)])[0].item  # type: ignore[arg-type]
    assert item is not None
    return item.id


def take(service: LocalService, agent: str = "coder", **options: object) -> LeaseView:
    leases = service.next(agent, **options)  # type: ignore[arg-type]
    assert len(leases) == 1, leases
    return leases[0]


def status(service: LocalService, item: int) -> str:
    return service.why(item).item.status


def start_sweeper(service: LocalService) -> PeriodicJob:
    """The job of a server that sweeps."""
    sweeper = PeriodicJob("sweeper", 0.05, service.sweep)
    sweeper.start(done=lambda *_: None, failed=lambda *_: None)
    return sweeper


def stop(sweeper: PeriodicJob) -> None:
    sweeper.stop()
    sweeper.join(PATIENCE_S)


def test_2_a_holder_stopped_past_its_lease_can_do_nothing_when_it_goes_on(crew: Crew, url: str) -> None:
    """Taken out: the comparison with the current run, in `finish` and in `renew.sql`: it is then accepted."""
    service = open_service(url)
    item = add(service, lane=LANE)
    add(service, "next in line", lane=LANE, agent="other")
    holder = crew.start(traffic.claim_and_wait, url, "coder", ["renew", "done", "fail", "release", "inbox"])
    _, fence, held = holder.hear()
    assert held == item
    holder.stop()
    wait_until(lambda: service.sweep().expired, "its lease is over")
    heir = take(service, "heir", lease_s=60)
    assert heir.item.id == item
    assert heir.fence > fence
    holder.go_on()
    for _ in range(5):
        before = query(url, "SELECT * FROM items ORDER BY id"), query(url, "SELECT * FROM runs")
        holder.tell()
        assert holder.hear() == "lease_lost"
        after = query(url, "SELECT * FROM items ORDER BY id"), query(url, "SELECT * FROM runs")
        assert after == before, "a refused write changed something"
    assert service.done([Report(run=heir.run)])[0].refusal is None
    history = assert_kept(url, done=((heir.fence, item),))
    assert len(history.refused) == 5
    service.close()


def test_3_a_long_silent_call_keeps_its_lease(crew: Crew, url: str) -> None:
    """Three leases long, a process does nothing but wait for its tool; its lease renews itself meanwhile."""
    service = open_service(url)
    item = add(service, lane=LANE)
    holder = crew.start(racers.work_in_silence, url)
    fence, until = holder.hear()
    while service.store.now_us() < until + 2_000_000:
        assert service.sweep().expired == 0
        assert service.next("thief") == []
    holder.tell()
    assert holder.join() is True
    assert_kept(url, done=((fence, item),))
    service.close()


def test_3_forty_minutes_of_renewals_are_one_run(service: LocalService, clock: Clock, any_url: str) -> None:
    add(service, lane=LANE)
    lease = take(service)
    for _ in range(40 * 3):
        clock.advance(20)
        assert service.renew([Report(run=lease.run)])[0].refusal is None
        assert service.sweep().expired == 0
        assert service.next("thief") == []
    assert service.done([Report(run=lease.run)])[0].status == "succeeded"
    assert_kept(any_url, done=((lease.fence, lease.item.id),))


def test_3_a_kill_that_does_not_land_frees_nothing_before_the_grace_is_over(
    service: LocalService, clock: Clock, any_url: str
) -> None:
    """The operator wants it stopped, and the process does not stop but renews: it keeps the item until the
    grace is over, not a moment longer, and a second process never has the item together with it."""
    item = add(service, lane=LANE)
    heir = add(service, "heir", lane=LANE)
    lease = take(service)
    service.cancel(item, why="stop it")
    for _ in range(14):
        clock.advance(1)
        view = service.renew([Report(run=lease.run)])[0]
        assert view.cancel_requested
        assert service.sweep().expired == 0
        assert service.next("second") == []
    clock.advance(1)
    assert service.sweep().expired == 1, "a renewal does not reach past the grace"
    assert take(service, "second").item.id == heir
    assert service.renew([Report(run=lease.run)])[0].refusal is not None
    assert status(service, item) == "cancelled"
    assert_kept(any_url)


def test_4_a_new_claim_starts_with_a_fresh_heartbeat(
    service: LocalService, clock: Clock, any_url: str
) -> None:
    item = add(service, lane=LANE, timeout_s=100)
    first = take(service)
    clock.advance(50)
    assert service.renew([Report(run=first.run)])[0].refusal is None
    clock.advance(61)
    second = take(service, "heir")
    assert second.item.id == item
    assert second.expires_at == clock.in_s(60)
    assert service.sweep().expired == 0, "it does not die of its predecessor's age"
    clock.advance(59)
    assert service.renew([Report(run=second.run)])[0].expires_at == clock.in_s(41), "100 s of its own"
    assert service.sweep().expired == 0
    assert_kept(any_url)


def _lost(service: LocalService, clock: Clock, lease: LeaseView) -> None:
    clock.advance(61)


def _timed_out(service: LocalService, clock: Clock, lease: LeaseView) -> None:
    clock.advance(31)


def _cancelled(service: LocalService, clock: Clock, lease: LeaseView) -> None:
    service.cancel(lease.item.id, why="no longer wanted")
    clock.advance(16)


def _superseded(service: LocalService, clock: Clock, lease: LeaseView) -> None:
    add(service, "newer", lane=LANE, agent="coder", policy=Policy.SUPERSEDE)
    clock.advance(16)


def _forced(service: LocalService, clock: Clock, lease: LeaseView) -> None:
    service.cancel(lease.item.id, why="at once", force=True)


def _taken_back(service: LocalService, clock: Clock, lease: LeaseView) -> None:
    service.take_back(lease.item.id, why="stuck")


def _answer(word: str, *, retry: bool = True) -> Callable[[LocalService, Clock, LeaseView], None]:
    def end(service: LocalService, clock: Clock, lease: LeaseView) -> None:
        assert getattr(service, word)([Report(run=lease.run, retry=retry)])[0].refusal is None

    return end


WAYS: dict[str, Callable[[LocalService, Clock, LeaseView], None]] = {
    "done": _answer("done"),
    "failed, to be tried again": _answer("fail"),
    "failed for good": _answer("fail", retry=False),
    "released": _answer("release"),
    "lost": _lost,
    "timed out": _timed_out,
    "cancelled, grace over": _cancelled,
    "cancelled by force": _forced,
    "taken back": _taken_back,
    "superseded, grace over": _superseded,
}


@pytest.mark.parametrize("way", WAYS)
def test_5_a_run_that_ends_in_any_way_leaves_no_lane_locked(
    service: LocalService, clock: Clock, any_url: str, way: str
) -> None:
    """One attempt only, so that the item itself does not come back; then one sweep, and the next runs."""
    fields = {"agent": "coder", "policy": Policy.SUPERSEDE, "max_attempts": 1, "timeout_s": 30.0}
    if way == "lost":
        fields["timeout_s"] = None
    add(service, "owner", lane=LANE, **fields)
    lease = take(service)
    add(service, "next", lane=LANE, agent="other")
    WAYS[way](service, clock, lease)
    service.sweep()
    again = way in ("released", "taken back")
    agent = "coder" if again or way.startswith("superseded") else "other"
    heir = take(service, agent)
    assert heir.fence > lease.fence
    assert [lane.waiting for lane in service.lanes()] == [1 if agent == "coder" else 0]
    assert_kept(any_url)


@pytest.mark.parametrize("way", ["cancelled", "paused", "scheduled", "claimed by a process that died"])
def test_5_a_run_that_never_started_leaves_no_lane_locked(
    service: LocalService, clock: Clock, any_url: str, way: str
) -> None:
    owner = add(service, "owner", lane=LANE, agent="coder")
    heir = add(service, "next", lane=LANE, agent="other")
    match way:
        case "cancelled":
            service.cancel(owner, why="never mind")
        case "paused":
            service.pause_agent("coder", paused=True, why="holiday")
        case "scheduled":
            service.fail([Report(run=take(service).run)])  # it is in back-off, and not on its lane
        case _:
            for _ in range(3):
                take(service)
                clock.advance(61)
    assert take(service, "other").item.id == heir
    assert_kept(any_url)


def test_6_an_item_behind_a_busy_agent_does_not_block_its_lane(
    service: LocalService, clock: Clock, any_url: str
) -> None:
    service.set_agent("busy", max_concurrency=1)
    add(service, "what keeps it busy", agent="busy")
    busy = take(service, "busy", lease_s=3600)
    owner = add(service, "owner", lane=LANE, agent="busy")
    other = add(service, "other", lane=LANE, agent="free")
    lease = take(service, "free")
    assert lease.item.id == other
    assert status(service, owner) == "deferred"
    service.done([Report(run=busy.run)])
    assert service.next("busy") == [], "the lane is taken now"
    service.done([Report(run=lease.run)])
    assert take(service, "busy").item.id == owner, "it kept its place"
    assert_kept(any_url)


def test_6_an_owner_that_starts_while_it_is_overtaken_starts_once(crew: Crew, url: str) -> None:
    """The busy agent becomes free at the very moment at which another takes its lane."""
    service = open_service(url)
    service.set_agent("busy", max_concurrency=1)
    service.set_agent("free", max_concurrency=40)
    add(service, "what keeps it busy", agent="busy")
    busy = take(service, "busy", lease_s=60)
    for n in range(12):
        add(service, "owner", lane=f"issue:acme/app#{n}", agent="busy")
        add(service, "other", lane=f"issue:acme/app#{n}", agent="free")
    roles = [("finish", busy.run)] + [("claim", "busy")] * 3 + [("claim", "free")] * 4
    crew.race_roles(roles, racers.play, url)
    history = assert_kept(url)
    running = Counter(history.items[r.item].lane for r in history.runs.values() if r.ended is None)
    assert max(running.values()) == 1
    service.close()


def test_7_runs_that_end_with_unread_messages_on_several_items_promote_each_lane_once(
    service: LocalService, any_url: str
) -> None:
    """Three runs end in one batch. What was said to them is not lost, and each lane goes on once."""
    lanes = [f"issue:acme/app#{n}" for n in range(3)]
    for lane in lanes:
        add(service, "owner", lane=lane, agent="coder")
        add(service, "next", lane=lane, agent="other")
    leases = service.next("coder", limit=3)
    for lease in leases:
        service.msg(lease.item.id, f"about {lease.item.id}", author="someone")
    views = service.done([Report(run=lease.run) for lease in leases])
    assert [len(view.promoted) for view in views] == [1, 1, 1]
    promoted = Counter(line.lane for line in read_log(any_url) if line.kind == "lane.promoted")
    assert promoted == dict.fromkeys(lanes, 1)
    said = set()
    for _ in range(2):  # the follow-up has an older ticket or not; either way both come, one at a time
        heirs = [*service.next("coder", limit=9), *service.next("other", limit=9)]
        assert Counter(h.item.lane for h in heirs) == dict.fromkeys(lanes, 1)
        said |= {m.text for h in heirs for m in h.messages}
        service.done([Report(run=h.run, seen=len(h.messages)) for h in heirs])
    assert said == {f"about {lease.item.id}" for lease in leases}
    assert_kept(any_url)


def test_15_a_store_clock_that_is_set_back_ends_and_doubles_nothing(
    service: LocalService, clock: Clock, any_url: str
) -> None:
    """An operator or a time server sets the database's clock an hour back in the middle of everything."""
    items = [add(service, f"item {n}", lane=f"issue:acme/app#{n}") for n in range(3)]
    first = take(service)
    clock.advance(-3600)
    second = take(service)
    assert service.sweep().expired == 0
    assert service.renew([Report(run=first.run)])[0].refusal is None
    assert service.done([Report(run=first.run)])[0].status == "succeeded"
    clock.advance(3600)
    assert service.sweep().expired == 1, "its hour is over"
    assert service.done([Report(run=second.run)])[0].refusal is not None
    third = take(service)
    assert third.fence > second.fence
    assert {first.item.id, third.item.id} <= set(items)
    assert query(any_url, "SELECT count(*) FROM runs WHERE status = 'succeeded'") == [(1,)]


def test_15_a_clock_that_is_wrong_on_one_host_changes_nothing(crew: Crew, url: str) -> None:
    """A sweeper whose own clock is hours ahead, or behind, takes no lease that is good. On SQLite the store
    follows it, and its deadlines with it, until the next process sets it right."""
    service = open_service(url)
    add(service, lane=LANE)
    lease = take(service, lease_s=60)
    for hours in (5, -5):
        swept, _ = crew.start(racers.sweep_with_wall_clock_off, url, hours).join()
        assert swept == 0
        assert abs(service.store.now_us() / 1e6 - time.time()) < 60
    assert service.done([Report(run=lease.run)])[0].refusal is None
    service.close()


def test_15_a_sweeper_outlives_a_crash_of_its_database(start_postgres: StartPostgres) -> None:
    """Taken out: the `except` in `PeriodicJob._loop`; it ends silently, and no lease ever does again."""
    server = start_postgres(18)
    service = open_service(server.create_database("crashing"), retry_s=0.1)
    item = add(service, lane=LANE)
    sweeper = start_sweeper(service)
    server.stop("immediate")
    wait_until(lambda: sweeper.error, "a sweep failed")
    server.start()
    wait_until(lambda: sweeper.error is None, "a sweep came through again")
    take(service)
    wait_until(lambda: status(service, item) == "pending", "the sweeper freed what its holder forgot")
    stop(sweeper)
    service.close()


def test_15_a_database_that_does_not_come_back_is_given_up(start_postgres: StartPostgres) -> None:
    """A restart is waited for, but not for ever; the lease that nobody could end is over by itself."""
    server = start_postgres(18)
    service = open_service(server.create_database("gone"), retry_s=0.5)
    add(service, lane=LANE)
    lease = take(service)
    server.stop("immediate")
    back = threading.Timer(20, server.start)  # for a store that would wait for ever
    back.start()
    with pytest.raises(StoreUnavailable, match="Cannot reach the database"):
        service.done([Report(run=lease.run)])
    back.cancel()
    service.close()


def test_15_a_sweeper_outlives_a_locked_file(sqlite_url: str) -> None:
    service = open_service(sqlite_url)
    item = add(service, lane=LANE)
    sweeper = start_sweeper(LocalService(open_store(sqlite_url, busy_timeout_s=0.05)))
    holder = apsw.Connection(file_of(sqlite_url))
    holder.set_busy_timeout(10_000)
    holder.execute("BEGIN IMMEDIATE")
    wait_until(lambda: sweeper.error, "a sweep failed")
    holder.execute("ROLLBACK")
    holder.close()
    wait_until(lambda: sweeper.error is None, "a sweep came through again")
    take(service)
    wait_until(lambda: status(service, item) == "pending", "the sweeper freed what its holder forgot")
    stop(sweeper)
    service.close()


def test_16_a_late_finish_does_not_release_the_lane_a_second_time(
    service: LocalService, clock: Clock, any_url: str
) -> None:
    """Elsewhere a queue of limit one ran eleven at once after one late heartbeat."""
    service.set_agent("coder", max_concurrency=1)
    item = add(service, lane=LANE)
    heirs = [add(service, f"heir {n}", lane=LANE) for n in range(3)]
    zombie = take(service)
    clock.advance(61)
    service.sweep()
    owner = take(service)
    assert owner.item.id == item
    for word in ("done", "fail", "release", "renew") * 3:
        view = getattr(service, word)([Report(run=zombie.run)])[0]
        assert view.refusal is not None
        assert view.promoted == ()
        assert service.next("coder", limit=10) == []
        assert service.next("another", limit=10) == []
    assert [status(service, i) for i in heirs] == ["deferred"] * 3
    assert service.done([Report(run=owner.run)])[0].promoted == (heirs[0],)
    assert_kept(any_url, done=((owner.fence, item),))


def test_18_a_batch_holds_one_item_of_a_lane(service: LocalService, any_url: str) -> None:
    for n in range(20):
        add(service, f"item {n}", lane=f"issue:acme/app#{n % 4}", priority=n)
    leases = service.next("coder", limit=20)
    assert sorted(lease.item.lane or "" for lease in leases) == [f"issue:acme/app#{n}" for n in range(4)]
    views = service.done([Report(run=lease.run) for lease in leases])
    assert sum(len(view.promoted) for view in views) == 4
    assert len(service.next("coder", limit=20)) == 4
    assert_kept(any_url)


@pytest.mark.parametrize("policy", [Policy.QUEUE, Policy.LATEST, Policy.SUPERSEDE])
def test_19_a_retry_does_not_push_in_where_a_newer_item_holds_the_lane(
    service: LocalService, clock: Clock, any_url: str, policy: Policy
) -> None:
    """Failed, parked, its lane given to a newer one; then its back-off is over."""
    old = add(service, "old", lane=LANE, agent="coder", policy=policy, message="the old request")
    lease = take(service)
    newer = add(service, "newer", lane=LANE, agent="coder", policy=policy, message="the newer request")
    if policy is Policy.SUPERSEDE:
        service.fail([Report(run=lease.run)])
        assert status(service, old) == "superseded"
    else:
        service.fail([Report(run=lease.run)])
        assert status(service, newer) == "pending"
        clock.advance(60)
        service.sweep()
    expected = "deferred" if policy is Policy.QUEUE else "superseded"
    assert status(service, old) == expected
    heir = take(service)
    assert heir.item.id == newer
    if policy is not Policy.QUEUE:
        assert [m.text for m in heir.messages] == ["the old request", "the newer request"]
    assert service.next("coder") == []
    assert_kept(any_url)


def test_19_an_operators_retry_waits_its_turn(service: LocalService, any_url: str) -> None:
    failed = add(service, "failed", lane=LANE, max_attempts=1)
    service.fail([Report(run=take(service).run)])
    newer = add(service, "newer", lane=LANE)
    service.retry(failed)
    assert [status(service, i) for i in (failed, newer)] == ["deferred", "pending"]
    assert service.done([Report(run=take(service).run)])[0].promoted == (failed,)
    assert_kept(any_url)


def test_20_a_run_of_an_unknown_agent_and_type_is_given_back_not_thrown_away(
    service: LocalService, clock: Clock, any_url: str
) -> None:
    """Whoever ran it was removed since, and nobody knows the type any more."""
    item = add(service, lane=LANE, type="of-a-plugin-long-gone", agent="gone")
    lease = take(service, "gone")
    query(any_url, "DELETE FROM agents")
    clock.advance(61)
    assert service.sweep().expired == 1
    assert status(service, item) == "pending"
    assert take(service, "gone").item.id == item
    assert service.done([Report(run=lease.run)])[0].refusal is not None
    assert_kept(any_url)


def test_a_lease_in_a_with_block_is_lost_loudly(crew: Crew, url: str) -> None:
    """The Python client says so where the work ends, and nothing of it is accepted."""
    service = open_service(url)
    add(service, lane=LANE)
    holder = crew.start(racers.finish_in_block, url)
    assert holder.hear() == "inside"
    holder.stop()
    wait_until(lambda: service.sweep().expired, "its lease is over")
    heir = take(service, "heir", lease_s=60)
    holder.go_on()
    holder.tell()
    assert holder.join() == "lease_lost"
    with Interlock(service) as il:
        assert il.service.done([Report(run=heir.run)])[0].refusal is None
    assert_kept(url)
