"""A database that fails over: what is kept, what is lost, and that no number and no handle comes twice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from docs.generation.codes import event_data
from interlock.core.errors import LeaseLost, StoreUnavailable
from interlock.core.model import NewItem
from interlock.core.timing import Timing
from interlock.git.plumbing import GitRepository
from interlock.push.fence import LaneRun, arm
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from tests.faults import failover
from tests.faults.pair import Pair
from tests.faults.processes import Crew, wait_until
from tests.faults.stores import assert_kept, open_service, query
from tests.faults.traffic import LANES, journals
from tests.git_fixtures import clone, git, git_identity, make_bare, seed
from tests.postgres_fixtures import StartPostgres
from tests.postgres_server import PostgresServer

#: How often the standby is promoted in a storm.
FAILOVERS = int(os.environ.get("INTERLOCK_FAILOVERS", "2"))
STORMS = [("synchronous", "url"), ("asynchronous", "moved_url")]
if FAILOVERS >= 20:
    STORMS += [("synchronous", "moved_url"), ("asynchronous", "url")]
MakePair = Callable[..., Pair]

__all__ = ["git_identity"]


@pytest.fixture
def make_pair(start_postgres: StartPostgres) -> Iterator[MakePair]:
    pairs: list[Pair] = []

    def make(version: int = 18, *, synchronous: bool = False) -> Pair:
        pairs.append(Pair(start_postgres(version), "failover", synchronous=synchronous))
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.remove()


def claim(service: LocalService, count: int) -> list[LeaseView]:
    service.add([NewItem(title="work", lane=lane) for lane in LANES[:count]])
    leases = service.next("coder", limit=count)
    assert len(leases) == count
    return leases


def changes(url: str) -> list[tuple[Any, ...]]:
    return query(url, "SELECT seq, data FROM events WHERE kind = 'store.changed' ORDER BY seq")


@pytest.mark.parametrize("version", [16, 18])
def test_after_a_failover_that_lost_commits_nothing_comes_again_and_work_goes_on(
    version: int, make_pair: MakePair, tmp_path: Path
) -> None:
    """Taken out: the comparison in `expect`; then the fences come again, and pushes are refused for good."""
    pair = make_pair(version)
    service = open_service(pair.url, timing=Timing())
    service.add([NewItem(title="kept")])
    (kept,) = service.next("coder")
    pair.lose_contact()
    service.add([NewItem(title="more") for _ in range(40)])  # sequences are replicated some numbers ahead
    assert len(service.next("coder", limit=40)) == 40
    lost = claim(service, 3)
    cursor = max(event.seq for event in service.events(limit=100))
    remote = make_bare(tmp_path / "remote.git")
    seed(remote, tmp_path / "seeding", {"README": "work"})
    tree = clone(str(remote), tmp_path / "tree")
    for lease in lost:
        arm(GitRepository(tree), "origin", lane_run(lease))
    pair.fail_over()

    assert service.renew([Report(run=kept.run)])[0].refusal is None
    again = claim(service, 3)
    assert min(lease.fence for lease in again) > max(lease.fence for lease in lost)
    assert min(lease.item.id for lease in again) > max(lease.item.id for lease in lost)
    for ending in (service.renew, service.done, service.fail, service.release):
        refused = ending([Report(run=lease.run) for lease in lost])
        assert [view.refusal and view.refusal.code for view in refused] == ["lease_lost"] * 3
    assert {service.show(lease.item.id).item.status for lease in again} == {"in_progress"}
    news = service.events(after=cursor)
    assert news[0].kind == "store.changed"
    assert set(news[0].data) == set(event_data()["store.changed"])
    assert len(changes(pair.url)) == 1
    for old, new in zip(lost, again, strict=True):
        with pytest.raises(LeaseLost):
            arm_after(tree, new, old)
    pushed = push(tree, again[0], pair.url)
    assert pushed.returncode == 0, pushed.stderr
    assert push(tree, lost[0], pair.url).returncode == 5
    told = next(check for check in service.doctor() if check.name == "server_is_known")
    assert told.ok
    assert "moved forward" in told.detail
    service.close()
    assert_kept(pair.url)


def lane_run(lease: LeaseView) -> LaneRun:
    return LaneRun(lane=lease.item.lane or "", handle=lease.run, agent="coder")


def arm_after(tree: Path, new: LeaseView, old: LeaseView) -> None:
    arm(GitRepository(tree), "origin", lane_run(new))
    arm(GitRepository(tree), "origin", lane_run(old))


def push(tree: Path, lease: LeaseView, url: str) -> subprocess.CompletedProcess[str]:
    (tree / f"{lease.fence}.txt").write_text("work")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "--message", "work")
    return subprocess.run(
        [sys.executable, "-m", "interlock", "push"],
        cwd=tree,
        env=os.environ | {"INTERLOCK_RUN": lease.run, "INTERLOCK_URL": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("replication", "address"), STORMS)
def test_promoted_under_load_nothing_is_given_out_twice_and_only_what_was_not_replicated_is_lost(
    replication: str, address: str, make_pair: MakePair, crew: Crew, tmp_path: Path
) -> None:
    """Taken out: the comparison in `expect`; then a fence is given out twice where replication lags."""
    synchronous = replication == "synchronous"
    pair = make_pair(synchronous=synchronous)
    url = getattr(pair, address)
    workers = [crew.start(failover.work, url, tmp_path, f"agent{n}", n) for n in range(3)]
    windows: list[tuple[int, int]] = []
    for n in range(FAILOVERS):
        if n:
            pair.rebuild()
        worked(tmp_path, 20)
        begun = time.monotonic_ns()
        if not synchronous:
            pair.lose_contact()
            worked(tmp_path, 6)
        pair.fail_over()
        windows.append((begun, time.monotonic_ns()))
        worked(tmp_path, 6)
    for worker in workers:
        worker.tell("stop")
    for worker in workers:
        worker.join()
    judge(url, tmp_path, windows, synchronous=synchronous)


def worked(folder: Path, claims: int) -> None:
    before = len(journals(folder, "claimed"))
    wait_until(lambda: len(journals(folder, "claimed")) >= before + claims, f"{claims} more claims")


def judge(url: str, folder: Path, windows: list[tuple[int, int]], *, synchronous: bool) -> None:
    """What was acknowledged to the workers, compared with the store's rows."""
    claims = journals(folder, "claimed")
    fences = [fence for _, fence, *_ in claims]
    assert len(set(fences)) == len(fences), "a fence was given out twice"
    for lane in LANES:
        line = [(got, asked, fence) for _, fence, _, on, asked, got in claims if on == lane]
        back = [(low, high) for got, _, low in line for _, asked, high in line if got < asked and low > high]
        assert back == [], f"fences went back on {lane}"
    items = {row[0] for row in query(url, "SELECT id FROM items")}
    done = {row[0] for row in query(url, "SELECT run FROM runs WHERE status = 'succeeded'")}

    def lost(kept: Callable[[Any], bool], noted: list[list[Any]]) -> list[list[Any]]:
        gone = [line for line in noted if not kept(line[0])]
        outside = [line for line in gone if not any(low < line[-1] < high for low, high in windows)]
        assert outside == [], "what was replicated is lost"
        return gone

    gone = lost(lambda item: item in items, journals(folder, "added"))
    ended = lost(lambda run: int(run.partition(".")[0]) in done, journals(folder, "done"))
    assert len(changes(url)) == len(windows), "the history does not tell of every failover"
    if synchronous:
        assert (gone, ended) == ([], [])
    else:
        assert gone, "the test lost nothing, so it shows nothing"
    runs = {row[0] for row in query(url, "SELECT run FROM runs UNION SELECT run FROM items WHERE run > 0")}
    service = open_service(url)
    zombies = [handle for handle, fence, *_ in claims if fence not in runs][:500]
    if zombies:
        for view in service.done([Report(run=handle) for handle in zombies]):
            assert view.refusal is not None
            assert view.refusal.code == "lease_lost"
    service.close()
    assert_kept(url)
    print(f"lost of {len(claims)} claims: {len(zombies)}, of items: {len(gone)}, of ends: {len(ended)}")


# -- what else changes where a store is ---------------------------------------------------------------


def elsewhere(url: str) -> None:
    query(url, "UPDATE meta SET value = 'elsewhere' WHERE name = 'identity'")


def test_a_fresh_store_counts_from_one_and_a_copy_of_its_database_is_noticed(
    postgres18: PostgresServer, pg_database18: str
) -> None:
    service = open_service(pg_database18)
    first = claim(service, 2)
    assert [lease.fence for lease in first] == [1, 2]
    service.close()
    name = pg_database18.partition("@/")[2].partition("?")[0]
    copy = postgres18.create_database(f"{name}_copy", template=name)
    try:
        service = open_service(copy)
        assert service.next("coder") == []
        service.add([NewItem(title="more")])
        assert service.next("coder")[0].fence > 1_000_000_000_000_000
        assert service.renew([Report(run=first[0].run)])[0].refusal is None, (
            "a copy has the runs of its model"
        )
        service.close()
        assert len(changes(copy)) == 1
    finally:
        postgres18.drop_database(f"{name}_copy")


def test_a_dump_that_makes_the_tables_again_is_noticed_in_the_same_database(
    postgres18: PostgresServer, pg_database18: str
) -> None:
    service = open_service(pg_database18)
    claim(service, 1)
    tool = str(postgres18.program("pg_dump"))
    dumped = subprocess.run(
        [tool, "--schema=interlock", "--inserts", "--no-owner", f"--dbname={pg_database18}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lost = claim_more(service)
    query(pg_database18, "DROP SCHEMA interlock CASCADE")
    lines = (line for line in dumped.splitlines() if not line.startswith("\\"))
    query(pg_database18, "\n".join(lines))
    again = claim_more(service)
    assert again.fence > lost.fence
    assert service.renew([Report(run=lost.run)])[0].refusal is not None
    assert len(changes(pg_database18)) == 1
    service.close()


def claim_more(service: LocalService) -> LeaseView:
    service.add([NewItem(title="more")])
    return service.next("coder")[0]


@pytest.mark.parametrize(
    ("clock_us", "least"), [(0, 1_000_000), (-(10**15), 1_000_000), (2**60, 1_000_000), (1, 1_000_000)]
)
def test_a_clock_that_is_far_off_moves_numbers_forward_all_the_same(
    clock_us: int, least: int, pg_database18: str
) -> None:
    """Over two changes, and within what JSON carries exactly."""
    service = open_service(pg_database18, now=lambda: 1_800_000_000_000_000)
    before = claim(service, 1)[0]
    query(
        pg_database18,
        "CREATE OR REPLACE FUNCTION interlock.clock_us() RETURNS bigint LANGUAGE sql VOLATILE"
        f" AS $$ SELECT {clock_us}::bigint $$",
    )
    for _ in range(2):
        elsewhere(pg_database18)
        service.add([NewItem(title="more")])
        after = service.next("coder")[0]
        assert before.fence + least < after.fence < 2**53
        assert before.item.id + least < after.item.id < 2**53
        before = after
    service.close()


def test_processes_that_meet_a_changed_store_at_once_move_its_numbers_once(
    crew: Crew, pg_database18: str
) -> None:
    """Taken out: the lock of the row in `adopt`; then the history tells of several changes."""
    service = open_service(pg_database18)
    service.add([NewItem(title=f"item {n}") for n in range(20)])
    first = service.next("coder")[0].fence
    elsewhere(pg_database18)
    with psycopg.connect(pg_database18) as other:
        other.execute("SELECT FROM interlock.meta WHERE name = 'identity' FOR UPDATE")
        claimers = crew.start_many(8, claim_two, pg_database18)
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'adopt'"
        wait_until(lambda: query(pg_database18, waiting) == [(8,)], "all want to move the numbers")
    fences = [claimer.join() for claimer in claimers]
    assert len({fence for each in fences for fence in each}) == 16
    assert min(fence for each in fences for fence in each) > first + 1_000_000
    assert len(changes(pg_database18)) == 1
    service.close()
    assert_kept(pg_database18)


def claim_two(_: object, url: str) -> list[int]:
    service = open_service(url)
    fences = [lease.fence for lease in service.next("coder", limit=2)]
    service.close()
    return fences


def test_a_sweep_alone_moves_the_numbers(pg_database18: str) -> None:
    service = open_service(pg_database18)
    claim(service, 1)
    elsewhere(pg_database18)
    found = next(check for check in service.doctor() if check.name == "server_is_known")
    assert not found.ok
    assert found.mend == "interlock sweep"
    service.sweep()
    assert len(changes(pg_database18)) == 1
    service.close()
    assert_kept(pg_database18)


def test_a_role_with_a_workers_rights_moves_the_numbers_and_one_without_is_told_what_it_lacks(
    postgres18: PostgresServer, pg_database18: str
) -> None:
    service = open_service(pg_database18)
    claim(service, 1)
    role = f"worker_{os.getpid()}"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA interlock TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA interlock TO {role}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA interlock TO {role}",
    ):
        query(pg_database18, statement)
    try:
        elsewhere(pg_database18)
        service.add([NewItem(title="more")])
        worker = open_service(pg_database18.replace("postgres@", f"{role}@"))
        elsewhere(pg_database18)
        assert worker.next("coder")[0].fence > 1_000_000_000_000_000
        query(pg_database18, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        elsewhere(pg_database18)
        with pytest.raises(StoreUnavailable, match="permission denied for function pg_control_system"):
            worker.next("coder")
        worker.close()
    finally:
        service.close()
        query(pg_database18, f"DROP OWNED BY {role}")
        query(pg_database18, f"DROP ROLE {role}")
        query(pg_database18, "GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")


def test_a_standby_takes_no_writes_and_says_so(make_pair: MakePair) -> None:
    pair = make_pair()
    service = open_service(pair.url)
    service.add([NewItem(title="work")])
    pair.lose_contact()
    service.close()
    standby = open_service(pair.standby.url(pair.database), migrate=False)
    for write in (lambda: standby.next("coder"), lambda: standby.add([NewItem(title="more")])):
        with pytest.raises(StoreUnavailable, match="is read-only"):
            write()
    assert all(check.ok for check in standby.doctor() if check.name == "server_is_known")
    standby.close()
