"""Every operation once, on items of its own beside whatever the store is filled with.

The cost tests look at each statement meanwhile.
"""

from __future__ import annotations

from datetime import UTC, datetime

from interlock.core.commands import QuotaLimit
from interlock.core.model import ANOTHER_SYSTEM, NewItem
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, EditOperation, Graph, TaskSpec
from interlock.core.row import NamedTuple
from interlock.service.contract import ItemFilter, LeaseView, Report
from interlock.service.local import LocalService
from interlock.service.retention import prune
from tests.conformance.access_cases import use_access
from tests.conformance.github_cases import use_github

LANE = "issue:acme/mine#96"
LEASE_S = 86_400.0


class _Cast(NamedTuple):
    """Items that are looked at and changed by name."""

    ready: int
    scheduled: int
    running: int
    behind: int


def use_everything(service: LocalService) -> None:
    """Every operation once."""
    use_items(service)
    use_github(service.store.github)
    use_access(service)
    service.sweep()


def use_items(service: LocalService) -> int:
    """Every operation of items, lanes, agents and plans. Gives the first item that it added."""
    cast = _cast(service)
    _arrive(service)
    service.set_agent("capped", max_concurrency=10_000)
    service.set_agent("busy", max_concurrency=1)
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
    _look(service, cast)
    _operate(service, cast)
    service.sweep()
    return cast.ready


def prune_everything(service: LocalService, after: int = 0) -> None:
    """Delete some of what has ended, behind an item."""
    before_us = service.store.now_us()
    assert service.store.prune_items(before_us, after, 200, really=True).items
    assert service.store.prune_plans(before_us, 0, 5, really=True).plans == 2


def _cast(service: LocalService) -> _Cast:
    news = (
        NewItem(title="ready", agent="solo"),
        NewItem(title="scheduled", agent="solo", run_at_us=service.store.now_us() + 10**12),
        NewItem(title="running", agent="runner", lane=LANE),
        NewItem(title="behind", lane=LANE),
    )
    found = _Cast(*(added.arrival or 0 for added in service.add(news)))
    assert service.next("runner", item=found.running, lease_s=LEASE_S)
    return found


def _arrive(service: LocalService) -> None:
    service.add([NewItem(title="no lane", agent="coder")])
    service.add([NewItem(title="free lane", lane="new:lane")])
    service.add([NewItem(title="taken lane", lane=LANE)])
    for _ in range(2):
        service.add([NewItem(title="seen before", dedupe_key="once")])
    service.add([NewItem(title="many", agent="coder", priority=n, message="hello") for n in range(8)])


def _reports(leases: list[LeaseView]) -> list[Report]:
    return [Report(run=lease.run) for lease in leases]


def _work(service: LocalService, agent: str, types: list[str] | None = None) -> None:
    service.add([NewItem(title="work", agent=agent, type="task") for _ in range(6)])
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
    """Messages, questions, quota limits, loops, pools, workers and notices."""
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
    service.add([NewItem(title="asks", agent="solo", type="own")])
    waits = _next_own(service, "solo")[0]
    service.ask(waits.run, "Which?", keep_lease=True)
    service.msg(waits.item.id, "This one")
    service.close_question(waits.run)
    service.done(_reports([waits]))
    assert store.asking(10)
    service.msg(follow_up, "This one")
    service.release(
        [Report(run=_next_own(service, "solo")[0].run, wall=QuotaLimit(for_s=60.0, whole_agent=True))]
    )
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
    (trained,) = _next_own(service, "trainer")
    service.cost(trained.run, usd=0.25, input_tokens=10)
    service.append_log(trained.run, start=0, text="epoch 1\n")
    assert service.run_log(trained.fence).text
    assert service.last_lines(runs=[trained.fence])
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
    assert service.gates(limit=5)
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
    service.plans(project="web", ended=True, limit=5)
    service.plan_tasks(service.plans(limit=1)[0].id, limit=5)
    service.cancel_plan(plan.id, why="enough")


def _plan(service: LocalService) -> None:
    service.set_agent("planner", labels=["any"])
    tasks = tuple(TaskSpec(key=f"t{n}", title="task", agent="planner") for n in range(30))
    edges = tuple(EdgeSpec(source=f"t{n}", target=f"t{n + 1}") for n in range(9))
    plan = service.create_plan(name="plan", graph=Graph(tasks=tasks, edges=edges))
    service.done(_reports(service.next("planner", limit=2)))
    task = TaskSpec(key="new", title="new")
    operations: list[EditOperation] = [AddTask(task=task), AddEdge(edge=EdgeSpec(source="t9", target="new"))]
    service.edit_plan(plan.id, base=plan.revision, operations=operations)
    service.cancel_plan(plan.id, why="enough")


def _look(service: LocalService, cast: _Cast) -> None:
    assert len(service.store.named_items(cast[:2])) == 2  # type: ignore[arg-type]
    service.items(ItemFilter(limit=10))
    service.items(ItemFilter(statuses=("cancelled",), limit=5))
    service.items(ItemFilter(all=True, limit=10))
    service.stats(by="type")
    service.metrics()
    service.count_history()
    service.trend()
    service.attention()
    service.upcoming()
    service.add([NewItem(title="given up", agent="solist", type="own", max_attempts=1)])
    service.fail(_reports(_next_own(service, "solist")))
    assert service.recap(limit=100).failed
    assert service.spending()
    service.set_time_zone("Europe/Berlin")
    service.set_reserve("own", usd=0.5)
    service.set_reserve("rare", usd=0.5)
    service.set_reserve("rare", usd=0)
    service.set_budget("project", "default", usd=1_000_000)
    service.set_budget("agent", "payer", usd=1_000, when_spent="cancel")
    service.set_budget("agent", "solist", usd=0, per="month", when_spent="cancel")
    service.add([NewItem(title="paid", agent="payer", type="own", lane="mine:9")])
    service.cost(_next_own(service, "payer")[0].run, usd=2_000)
    assert service.budgets().budgets
    service.remove_budget("agent", "solist", per="month")
    service.remove_budget("agent", "payer")
    service.remove_budget("project", "default")
    service.cancel(service.add([NewItem(title="counted")])[0].arrival or 0, why="over")
    service.metrics()
    for item in cast:
        service.why(item)
        service.show(item)
    service.events(limit=50)
    service.events(newest=True, limit=50)
    newest = service.events(newest=True, limit=1)[0].seq
    for last in (False, True):
        service.events(after=newest - 500, before=newest, kinds=["item.added"], newest=last, limit=50)
    service.lanes(limit=20)  # as many as the small store has
    service.agents()
    service.unknown_agents(limit=20)
    service.lanes(prefix="issue:acme/", limit=20)
    service.lanes(after="issue:acme/", number=1, limit=20)
    service.blocks(lane=LANE)
    service.recent_runs(limit=20)
    service.recent_runs(until=datetime(2200, 1, 1, tzinfo=UTC), limit=20)
    service.items(ItemFilter(ci="success", limit=20))
    service.on_lane(LANE)
    service.pause_agent("coder", paused=False, why="nothing is wrong")
    for found in prune(service.store, 86_400.0 * 365 * 100, really=True):
        assert not found


def _operate(service: LocalService, cast: _Cast) -> None:
    service.msg(cast.behind, "hello")
    service.cancel(cast.behind, why="no longer wanted")
    service.retry(cast.behind, why="wanted again")
    service.take_back(cast.running, why="its host is gone")
