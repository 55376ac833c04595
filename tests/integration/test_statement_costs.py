"""What a statement touches does not grow with the store: the same use cases on a small and on a large one.

Buffers are exact and the same on every machine. Each statement is looked at with the plan made for its
parameters and with the plan that the server keeps for all; with fresh statistics, with those of a store that
was small, and with none.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import psycopg
import pytest

from interlock.core.commands import Wall
from interlock.core.model import ANOTHER_SYSTEM, NewItem
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, Graph, Operation, TaskSpec
from interlock.service.contract import ItemFilter, LeaseView, Report
from interlock.service.local import LocalService
from interlock.service.pruning import prune
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from interlock.testing.postgres import PostgresServer
from tests.conformance.access_cases import use_access
from tests.conformance.github_cases import use_github
from tests.integration.postgres_costs import Costs, fill, watched_service

SMALL, LARGE = 1_000, int(os.environ.get("INTERLOCK_COST_ITEMS", "50000"))
#: Where nothing is known of a table, PostgreSQL reads the whole of a middling one rather than many places of
#: it, a thousand buffers at most; of a large one it does not.
LARGE_UNKNOWN = max(LARGE, 200_000)
#: Buffers that depend on how deep an index is and on what the catalogue's caches hold, not on the plan.
SLACK = 40
#: What may grow, and with what.
GROWS = {
    "access/tokens": "reads up to TOKENS_MAX tokens",
    "ahead_in_queue": "counts up to AHEAD_MAX items before another",
    "agent": "counts up to a thousand ready items of the agent",
    "agents": "counts up to a thousand ready items of each agent",
    "event_counts": "reads up to EVENTS_MAX events of its window",
    "event_spans": "reads up to EVENTS_MAX events of its window",
    "github/notes": "reads the notes of up to SERIES_MAX series for metrics",
    "links/runs": "reads what runs, for the item of a run that goes on",
    "load_lines": "reads up to AHEAD_MAX of the line that an item joins, to tell its place",
    "metrics/running": "reads up to COUNTED of what runs",
    "on_lane": "reads what waits for a time or for tasks",
    "overtakable": "reads the lines that this agent or anyone waits in, when a claim found too little",
    "recent_runs": "reads what runs, and for a lane up to RUNS_MAX of the newest ended runs",
    "run_counts": "reads up to EVENTS_MAX events of its window, and the items of these by their keys",
    "stranded": "looks at the lines and gates of LINES lanes",
}


def use_everything(service: LocalService) -> None:
    """Every use case once, the way a fleet works for a while."""
    _arrive(service)
    for agent in ("coder", "capped", "busy"):
        _work(service, agent)
    _work(service, "picky", types=["task"])
    service.next("idle", types=["nothing"])
    _end_otherwise(service)
    _promote(service)
    _tell_and_wait(service)
    _use_gates(service)
    _plan(service)
    _edit_cycle(service)
    _look(service)
    _operate(service)
    use_github(service.store.github)
    use_access(service)
    service.sweep()
    _prune(service)


def _arrive(service: LocalService) -> None:
    service.add([NewItem(title="no lane", agent="coder")])
    service.add([NewItem(title="free lane", lane="new:lane")])
    service.add([NewItem(title="taken lane", lane="issue:acme/app#96")])
    service.add([NewItem(title="seen before", dedupe_key="key-5")])
    service.add([NewItem(title="many", agent="coder", priority=n, message="hello") for n in range(8)])


def _reports(leases: list[LeaseView]) -> list[Report]:
    return [Report(run=lease.run) for lease in leases]


def _work(service: LocalService, agent: str, types: list[str] | None = None) -> None:
    for limit in (1, 4):
        leases = service.next(agent, limit=limit, types=types or ())
        assert leases
        service.renew(_reports(leases))
        assert len(service.run_agents([lease.run for lease in leases])) == len(leases)
        service.done(_reports(leases))
        assert service.renew(_reports(leases))[0].refusal is not None


def _end_otherwise(service: LocalService) -> None:
    for end in (service.fail, service.release):
        end(_reports(service.next("coder")))


def _promote(service: LocalService) -> None:
    owner, heir = (
        service.add([NewItem(title="work", lane="mine:1", agent=agent)])[0].item for agent in ("ada", "bert")
    )
    assert owner is not None
    assert heir is not None
    service.done(_reports(service.next("ada", item=owner.id)))
    assert service.next("bert", item=heir.id)


def _next_own(service: LocalService, agent: str) -> list[LeaseView]:
    """The next item that the store was not filled with."""
    return service.next(agent, types=["own"])


def _tell_and_wait(service: LocalService) -> None:
    """Messages, questions, walls, loops, pools, workers and notices."""
    store = service.store
    service.add([NewItem(title="told", agent="solo", type="own", lane="mine:2", payload='{"n": 1}')])
    lease = _next_own(service, "solo")[0]
    service.msg(lease.item.id, "look", sender=ANOTHER_SYSTEM)
    service.inbox(lease.run)
    service.msg(lease.item.id, "look again", sender=ANOTHER_SYSTEM)
    follow_up = service.done(_reports([lease]))[0].follow_up
    assert follow_up is not None
    service.fail(_reports(_next_own(service, "solo")))
    service.msg(follow_up, "look again", sender=ANOTHER_SYSTEM)
    service.ask(_next_own(service, "solo")[0].run, "Which?")
    assert store.asking(10)
    service.msg(follow_up, "This one")
    service.release([Report(run=_next_own(service, "solo")[0].run, wall=Wall(for_s=60.0, whole_agent=True))])
    service.stopped()
    (blocked,) = service.add([NewItem(title="blocked", agent="solo", lane="mine:3")])
    assert blocked.item is not None
    service.block(lane="mine:3", blocker="acme/app#3", why="blocked by")
    service.block(item=blocked.item.id, blocker="acme/app#3", why="blocked by")
    assert "blocked by" in service.why(blocked.item.id).why
    assert service.blocks()
    service.unblock(item=blocked.item.id)
    service.unblock(lane="mine:3")
    service.cancel(blocked.item.id, why="over")
    service.add([NewItem(title="outside", agent="copilot", type="own")])
    (outside,) = service.next("copilot", types=["own"], external=True)
    assert service.external()
    service.end_external(outside.item.id, outside.fence, "done", why="merged")
    service.set_pool("gpu", max_concurrency=2)
    service.set_agent("trainer", pool="gpu")
    service.add([NewItem(title="train", agent="trainer", type="own")])
    assert _next_own(service, "trainer")
    service.pools()
    service.see_worker("w", host="h", pid=1, folder="/", agent="coder", slots=1, runs=0)
    service.workers()
    assert store.worker("w")
    service.leave_worker("w")
    store.begin_mark("on_question", 0)
    mark = store.mark("on_question")
    assert mark is not None
    assert store.lease_mark(mark, 1, 60.0)
    store.move_mark("on_question", 1, seq=1)
    service.lineage()


def _use_gates(service: LocalService) -> None:
    lane, series = "mine:gated", "series:mine/RFC-1"
    service.add([NewItem(title="assignment", lane=series, type="own", agent="gatekeeper")])
    service.set_gate(lane, series=series, open=False, exempt=["look"], why="not its turn")
    gated, look = (
        service.add([NewItem(title="work", type=type_, lane=lane, agent="solist")])[0].item
        for type_ in ("own", "look")
    )
    assert gated is not None
    assert look is not None
    assert "RFC-1" in service.why(gated.id).why
    (lease,) = service.next("solist", types=["own", "look"], limit=5)
    assert lease.item.id == look.id
    service.done(_reports([lease]))
    service.set_gate(lane, series=series, open=True, exempt=["look"], why="its turn")
    service.done(_reports(_next_own(service, "solist")))
    assert len(service.gates(limit=5)) == 5
    assert service.gates(series=series)
    assert service.remove_gate(lane, why="it left")


def _edit_cycle(service: LocalService) -> None:
    for agent in ("solist", "editor"):
        service.set_agent(agent)
    tasks = tuple(TaskSpec(key=f"t{n}", title="task", agent="solist", type="own") for n in range(10))
    plan = service.create_plan(name="edited", graph=Graph(tasks=tasks), editor="editor")
    service.done(_reports(_next_own(service, "solist")))
    edit = service.next("editor", types=["plan.edit"])[0]
    service.edit_plan(
        plan.id, base=plan.revision, operations=[AddTask(task=TaskSpec(key="new"))], run=edit.run
    )
    service.plans()
    service.cancel_plan(plan.id, why="enough")


def _plan(service: LocalService) -> None:
    service.set_agent("planner", labels=["any"])
    tasks = tuple(TaskSpec(key=f"t{n}", title="task", agent="planner") for n in range(30))
    edges = tuple(EdgeSpec(source=f"t{n}", target=f"t{n + 1}") for n in range(9))
    plan = service.create_plan(name="plan", graph=Graph(tasks=tasks, edges=edges))
    service.done(_reports(service.next("planner", limit=2)))
    task = TaskSpec(key="new", title="new")
    operations: list[Operation] = [AddTask(task=task), AddEdge(edge=EdgeSpec(source="t9", target="new"))]
    service.edit_plan(plan.id, base=plan.revision, operations=operations)
    service.cancel_plan(plan.id, why="enough")


def _look(service: LocalService) -> None:
    assert len(service.store.named_items([91, 93])) == 2  # type: ignore[list-item]
    service.items(ItemFilter(limit=10))
    service.items(ItemFilter(statuses=("cancelled",), limit=5))
    service.items(ItemFilter(all=True, limit=10))
    service.stats(by="type")
    service.metrics()
    service.cancel(service.add([NewItem(title="counted")])[0].arrival or 0, why="over")
    service.metrics()
    for item in (91, 93, 96, 97):
        service.why(item)
        service.show(item)
    service.events(limit=50)
    service.events(newest=True, limit=50)
    service.lanes(limit=20)  # as many as the small store has
    service.agents()
    service.lanes(prefix="issue:acme/app#9", limit=20)
    service.recent_runs(limit=20)
    service.items(ItemFilter(ci="success", limit=20))
    service.on_lane("issue:acme/app#96")
    service.pause_agent("coder", paused=False, why="nothing is wrong")
    for found in prune(service.store, 86_400.0 * 365 * 100, really=True):
        assert not found


def _operate(service: LocalService) -> None:
    service.msg(97, "hello")
    service.cancel(97, why="no longer wanted")
    service.retry(97, why="wanted again")
    service.take_back(96, why="its host is gone")


def _prune(service: LocalService) -> None:
    with psycopg.connect(service.store.database.url, autocommit=True) as conn:  # type: ignore[attr-defined]
        conn.execute("UPDATE interlock.dedupe_keys SET expires_us = 0 WHERE item <= 200")
    before_us = service.store.now_us()
    assert service.store.prune_items(before_us, 0, 200, really=True).items
    assert service.store.prune_plans(before_us, 0, 5, really=True).plans == 2
    assert service.store.github.prune(before_us, 20) == (20, False)


def analyze(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")


def fresh(url: str, items: int) -> None:
    fill(url, items)
    analyze(url)


def stale(url: str, items: int) -> None:
    """Statistics of the time when it was small."""
    fill(url, SMALL)
    analyze(url)
    if items > SMALL:
        fill(url, items, SMALL + 1)


def missing(url: str, items: int) -> None:
    fill(url, items)


@pytest.mark.slow
@pytest.mark.parametrize("statistics", [fresh, stale, missing])
def test_no_statement_touches_more_of_a_larger_store(
    start_postgres: Callable[..., PostgresServer],
    statistics: Callable[[str, int], None],
) -> None:
    server = start_postgres(18, settings={"autovacuum": "off", "shared_buffers": "512MB"})
    found: list[Costs] = []
    for items in (SMALL, LARGE_UNKNOWN if statistics is missing else LARGE):
        costs = Costs()
        service = watched_service(server.create_database(f"of_{items}"), costs)
        statistics(service.store.database.url, items)  # type: ignore[attr-defined]
        with costs.watched():
            use_everything(service)
        service.close()
        found.append(costs)
    small, large = (costs.touched for costs in found)
    assert len(large) > 60, "most statements are looked at"
    grown = {
        name: (small.get(name, 0), buffers)
        for name, buffers in large.items()
        if buffers > 2 * small.get(name, 0) + SLACK
    }
    assert set(grown) <= set(GROWS), grown


def queued(url: str, items: int) -> None:
    """Nothing but work that waits, all of it for anyone."""
    service = LocalService(PostgresStore(Database(url)))
    for _ in range(items // 10_000 * 3):
        service.add([NewItem(title="work") for _ in range(1_000)])
    service.close()
    analyze(url)


@pytest.mark.slow
@pytest.mark.parametrize("filled", [fresh, queued])
def test_the_server_keeps_the_plans_of_what_runs_often(
    start_postgres: Callable[..., PostgresServer], filled: Callable[[str, int], None]
) -> None:
    """A plan for any parameters must look no dearer than one made for these, or the server plans the
    statement anew each time: a millisecond for a claim. The first five times it always does."""
    server = start_postgres(18, settings={"autovacuum": "off", "shared_buffers": "512MB"})
    database = Database(server.create_database("large"), max_connections=1)
    filled(database.url, LARGE)
    service = LocalService(PostgresStore(database))
    for n in range(20):
        agents = ("coder", "heir")
        service.add([NewItem(title="work", agent=agent, lane=f"often:{n}", priority=9) for agent in agents])
        leases = [*service.next("coder"), *service.next("anyone"), *service.next("picky", types=["task"])]
        service.renew(_reports(leases))
        service.done(_reports(leases))
    with database.connection() as conn:
        planned = conn.execute("SELECT statement, custom_plans FROM pg_prepared_statements")
        anew = [text for text, custom in planned.fetchall() if custom > 5]
    service.close()
    assert anew == []
