"""Many processes want the same thing at once. Docstrings name the guard taken out to see the test fail."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from interlock.core.errors import Held
from interlock.core.model import NewItem, Policy
from tests.faults import racers
from tests.faults.processes import CONTEXT, Crew, wait_until
from tests.faults.stores import assert_kept, open_service, query, read_log
from tests.patience import PATIENCE_S


def test_of_64_processes_with_the_same_name_exactly_one_gets_the_item(crew: Crew, url: str) -> None:
    """Taken out: SKIP LOCKED and its row lock in `claim.sql`. (On SQLite a claim is one statement.)"""
    service = open_service(url)
    service.add([NewItem(title="the only one", lane="issue:acme/app#1")])
    won = [lease for got in crew.race(64, racers.claim, url, "coder", 1) for lease in got]
    assert len(won) == 1
    assert query(url, "SELECT count(*) FROM events WHERE kind = 'run.started'") == [(1,)]
    assert_kept(url)
    service.close()


def test_64_processes_share_64_items_and_no_item_is_given_twice_or_to_nobody(crew: Crew, url: str) -> None:
    """Also no false "nothing to do": there is work for everyone, so everyone gets some."""
    service = open_service(url)
    service.add([NewItem(title=f"item {n}") for n in range(64)])
    got = crew.race(64, racers.claim, url, "coder", 1)
    assert Counter(item for leases in got for _, item in leases).most_common(1)[0][1] == 1
    late = service.next("coder", limit=64, lease_s=60)
    assert sum(map(len, got)) + len(late) == 64
    assert_kept(url)
    service.close()


def test_a_limit_of_runs_holds_under_32_claimers(crew: Crew, url: str) -> None:
    """Taken out: `FOR NO KEY UPDATE` in `lock_agent.sql` (see test_guards for the forced interleaving)."""
    service = open_service(url)
    service.set_agent("coder", max_concurrency=5)
    service.add([NewItem(title=f"item {n}", agent="coder" if n % 2 else "") for n in range(64)])
    for wanted, already in ((5, 0), (0, 5)):
        got = [lease for leases in crew.race(32, racers.claim, url, "coder", 3) for lease in leases]
        assert len(got) == wanted, f"{len(got)} more runs than {already} for a limit of 5"
    assert_kept(url)
    service.close()


def test_the_limit_of_a_pool_holds_under_32_claimers_of_four_agents(crew: Crew, url: str) -> None:
    """Taken out: `FOR NO KEY UPDATE` in `lock_pool.sql`; 12 runs on PostgreSQL (see test_guards for the
    forced interleaving, on SQLite too).

    Half of the items must overtake."""
    service = open_service(url)
    service.set_pool("gpu", max_concurrency=5)
    for n in range(4):
        service.set_agent(f"coder{n}", pool="gpu", max_concurrency=3)
    service.add([NewItem(title=f"item {n}") for n in range(16)])
    for n in range(16):
        lane = f"issue:acme/app#{n}"
        service.add([NewItem(title="stuck", agent="absent", lane=lane), NewItem(title="ready", lane=lane)])
    for wanted, already in ((5, 0), (0, 5)):
        got = [lease for leases in crew.race(32, racers.claim_as_one_of_four, url, 3) for lease in leases]
        assert len(got) == wanted, f"{len(got)} more runs than {already} for a limit of 5"
    assert_kept(url)
    service.close()


def test_a_budget_for_five_runs_starts_five_for_64_claimers_of_four_agents(crew: Crew, url: str) -> None:
    """Taken out: `FOR NO KEY UPDATE` in `lock_budgets.sql`. (On SQLite a claim has the whole file.)"""
    service = open_service(url)
    service.set_reserve("task", usd=0.5)
    service.set_budget("project", "default", usd=2.75)
    service.add([NewItem(title=f"item {n}") for n in range(64)])
    for wanted in (5, 0):
        got = [lease for leases in crew.race(64, racers.claim_as_one_of_four, url, 1) for lease in leases]
        assert len(got) == wanted, f"{len(got)} runs for a budget of 5"
    assert service.budgets().budgets[0].reserved_usd == 2.5
    assert_kept(url)
    service.close()


@pytest.mark.parametrize("cap", [1, 2])
@pytest.mark.parametrize("shared", [False, True], ids=["agent", "pool"])
def test_a_limit_holds_at_every_moment_for_ends_that_claim(
    crew: Crew, url: str, cap: int, shared: bool
) -> None:
    """The room of an ended run is taken in the transaction that ends it, or by another claim, never by both.

    Taken out: the agent's and the pool's locks; a cap of 1 is passed."""
    service = open_service(url)
    service.set_pool("gpu", max_concurrency=cap)
    for agent in ("ada", "bob"):
        service.set_agent(agent, **{"pool": "gpu"} if shared else {"max_concurrency": cap})
    lanes = [None, "issue:acme/app#1", "issue:acme/app#2"]
    added = service.add([NewItem(title="work", lane=lanes[n % 3]) for n in range(48)])
    agents = ["ada", "bob"] * 2 if shared else ["ada"] * 4
    got = crew.race_roles(agents, racers.end_and_claim, url)
    assert sorted(item for had in got for item in had) == [view.arrival for view in added]
    running = 0
    for line in read_log(url):
        if line.kind.startswith("run."):
            running += 1 if line.kind == "run.started" else -1
        assert running <= cap, f"at {line}"
    assert_kept(url)
    service.close()


def test_a_limit_holds_for_items_that_overtake(crew: Crew, url: str) -> None:
    """An overtaking claim counts like any other: four lanes to overtake on, room for one run."""
    service = open_service(url)
    service.set_agent("coder", max_concurrency=1)
    for n in range(4):
        lane = f"issue:acme/app#{n}"
        service.add([NewItem(title="stuck", agent="absent", lane=lane), NewItem(title="ready", lane=lane)])
    got = [lease for leases in crew.race(8, racers.claim, url, "coder", 4) for lease in leases]
    assert len(got) == 1
    assert_kept(url)
    service.close()


def test_of_an_agent_that_comes_back_and_those_that_overtake_it_one_runs_on_each_lane(
    crew: Crew, url: str
) -> None:
    """Half of its items were lost by a run of it, the others have never started.
    `tests/unit/test_overtaking.py` has the rule that decides under the lock."""
    service = open_service(url)
    service.set_agent("coder", overtake_after_s=0.001)
    lanes = [f"issue:acme/app#{n}" for n in range(24)]
    service.add([NewItem(title="owner", agent="coder", lane=lane, lease_s=1) for lane in lanes])
    lost = service.next("coder", limit=12)
    service.add([NewItem(title="behind", agent="cto", lane=lane) for lane in lanes])
    while any(service.show(lease.item.id).item.status == "in_progress" for lease in lost):
        service.sweep()
    got = crew.race_roles(["coder", "cto"] * 4, racers.claim_as, url, 24)
    runs = [item for leases in got for _, item in leases]
    owners = [service.show(item).item.lane or "" for item in runs]
    assert sorted(owners) == sorted(lanes)
    assert_kept(url)
    service.close()


def test_two_operators_undo_nothing_that_the_other_sets(crew: Crew, url: str) -> None:
    """Taken out: the test for what is named in `set_agent.sql` (see test_setters for the forced
    interleaving). Each operator is the only one to set its part of the agent."""
    service = open_service(url)
    service.set_agent("coder", max_concurrency=1)
    service.pause_agent("coder", paused=True, why="from the start")
    service.add([NewItem(title="work", agent="coder")])
    undone = crew.race_roles(["paused_reason", "max"], racers.operate, url, 300)
    assert undone == [[], []]
    service.close()


def test_no_item_is_edited_after_it_has_started(crew: Crew, url: str) -> None:
    """Taken out: `item.started` in `_why_not_edited`; the schema then refuses a running item that waits. The
    row lock in `load_items.sql` is not missed here (see test_guards for the forced interleaving)."""
    service = open_service(url)
    lanes = [f"issue:acme/app#{n}" for n in range(12)]
    items = [v.arrival for v in service.add([NewItem(title="work", lane=lane) for lane in (*lanes, *lanes)])]
    crew.race(16, racers.edit_or_claim, url, items)
    started: set[int] = set()
    for line in read_log(url):
        if line.kind == "run.started":
            started.add(line.item or 0)
        assert line.kind != "item.edited" or line.item not in started, line
    assert_kept(url)
    service.close()


def test_of_16_arrivals_at_a_free_lane_one_is_admitted(crew: Crew, url: str) -> None:
    """Taken out: the lane's row lock in `lock_lanes.sql` (see test_guards)."""
    open_service(url).close()
    rounds = 5
    decisions = crew.race(16, racers.arrive, url, "queue", rounds, None)
    for n in range(rounds):
        assert Counter(d[n] for d in decisions) == {"admitted": 1, "queued": 15}
    assert_kept(url)


def test_of_16_arrivals_that_supersede_each_other_one_remains_and_has_every_input(
    crew: Crew, url: str
) -> None:
    service = open_service(url)
    crew.race(16, racers.arrive, url, "supersede", 1, "a comment")
    statuses = Counter(status for (status,) in query(url, "SELECT status FROM items"))
    assert statuses == {"pending": 1, "superseded": 15}
    lease = service.next("coder")[0]
    assert len({m.origin for m in lease.messages}) == 16
    assert_kept(url)
    service.close()


def test_titles_travel_too_when_an_item_that_superseded_another_is_superseded(any_url: str) -> None:
    service = open_service(any_url)
    titles = ["fix the login", "fix the logout", "fix the signup"]
    for title in titles:
        service.add([NewItem(title=title, lane="issue:acme/app#1", policy=Policy.SUPERSEDE)])
    lease = service.next("coder")[0]
    service.close()
    assert {m.text for m in lease.messages} | {lease.item.title} == set(titles)


def test_eight_sweepers_expire_each_run_once(crew: Crew, url: str) -> None:
    """Taken out: the second look at `due_us` in `core.endings.expire`, taken under lock."""
    service = open_service(url)
    count = 300
    for n in range(count):
        service.add([NewItem(title=f"item {n}", lane=f"issue:acme/app#{n % 100}")])
    leases = service.next("coder", limit=count)
    assert len(leases) == 100
    ends_us = max(lease.expires_at.timestamp() for lease in leases if lease.expires_at) * 1e6
    wait_until(lambda: service.store.now_us() > ends_us, "every lease is over")
    assert sum(crew.race(8, racers.sweep_once, url)) == 100
    lost = Counter(line.run for line in read_log(url) if line.kind == "run.lost")
    assert lost == {lease.fence: 1 for lease in leases}
    history = assert_kept(url)
    assert history.kinds["item.reentered"] == 0, "a sweeper that came too late moved something all the same"
    service.close()


def test_a_run_that_is_finished_by_16_at_once_ends_once(crew: Crew, url: str) -> None:
    """One handle in many hands: one ending is accepted, one successor promoted."""
    service = open_service(url)
    service.add([NewItem(title=f"item {n}", lane="issue:acme/app#1") for n in range(3)])
    lease = service.next("coder", lease_s=60)[0]
    answers = Counter(crew.race(16, racers.finish_late, url, lease.run, "done"))
    assert answers == {"succeeded": 1, "lease_lost": 15}
    assert query(url, "SELECT count(*) FROM events WHERE kind = 'lane.promoted'") == [(1,)]
    assert_kept(url)
    service.close()


def test_an_arrival_that_meets_a_finish_is_admitted_or_promoted_never_stranded(crew: Crew, url: str) -> None:
    """Taken out: the lane's row lock in `lock_lanes.sql`; the arrival then waits behind nobody."""
    open_service(url).close()
    barrier, rounds = CONTEXT.Barrier(2), 60
    actors = [crew.start(racers.hand_over, barrier, url, role, rounds) for role in ("holder", "arrival")]
    for actor in actors:
        actor.join()
    assert query(url, "SELECT count(*) FROM items WHERE status = 'deferred'") == [(0,)]
    assert query(url, "SELECT count(*) FROM items WHERE status = 'pending'") == [(rounds,)]
    assert_kept(url)


def test_a_pool_that_an_agent_joins_while_it_is_removed_stays(pg_database18: str):
    """Taken out (the refused reference is no answer of `remove_pool`): the remover meets a driver's error."""
    with closing(open_service(pg_database18)) as service, psycopg.connect(pg_database18) as joining:
        service.set_pool("gpu", max_concurrency=1)
        joining.execute("INSERT INTO interlock.agents (key, name, pool) VALUES ('ann', 'ann', 'gpu')")
        with ThreadPoolExecutor(1) as thread, psycopg.connect(pg_database18, autocommit=True) as looking:
            removing = thread.submit(service.remove_pool, "gpu")
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'DELETE'"
            wait_until(lambda: looking.execute(waiting).fetchone(), "the remover waits")
            joining.commit()
            with pytest.raises(Held, match="Pool gpu is in use"):
                removing.result(PATIENCE_S)
        assert service.pools()[0].agents == ("ann",)
