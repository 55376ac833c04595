"""What a statement costs on SQLite does not grow with the store, in steps of SQLite's virtual machine.

Every operation runs on a store of 1,000 items and on one of many more. Each statement may take at most twice
the steps on the larger one, unless `GROWS` names it with a reason. No clock is involved: counts are exact.
`INTERLOCK_COST_ITEMS` sets the larger size: 50,000 by default, up to a million.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.core.commands import QuotaLimit
from interlock.core.model import ANOTHER_SYSTEM, NewItem, Policy
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, Graph, TaskSpec
from interlock.service import sweeper
from interlock.service.contract import ItemFilter, LeaseView, Report
from interlock.service.local import LocalService
from interlock.store import metrics, reads
from interlock.store.sqlite import snapshot
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.conformance.access_cases import use_access
from tests.conformance.github_cases import use_github
from tests.faults.stores import broken

FEW = 1_000
MANY = int(os.environ.get("INTERLOCK_COST_ITEMS", "50000"))
#: Steps that are no growth: a merge that finds a few rows more or fewer beside the one that it looks for.
SLACK = 50
#: What may grow: the operation, the statement, and why.
GROWS = {
    ("access", "access/tokens"): "reads up to TOKENS_MAX tokens",
    ("list agents", "agents"): "counts up to 1,000 items that wait for each agent by name",
    (
        "claim in vain, waiting in many lines",
        "candidates",
    ): "looks at every lane it waits on",
    ("GitHub", "links/runs"): "looks at every run that goes on",
}

#: Twenty kinds of items, evenly mixed: `i % 20` is the kind, and each twenty share a lane. Most have ended.
FILL = """
CREATE TEMP TABLE fill AS
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
SELECT i, i % 20 AS kind, 'issue:acme/app#' || (i / 20) AS lane,
    iif(i % 20 = 16, 'runner-' || (i / 200), 'agent-' || (i % 3)) AS agent
FROM n;

INSERT INTO lanes (lane)
SELECT DISTINCT lane FROM fill UNION SELECT 'branch:acme/app/' || i FROM fill WHERE kind = 19;
INSERT INTO lanes (lane, gate_series, gate_open, gate_exempt, gate_us)
SELECT 'gated:acme/app/' || i, 'series:' || (i / 200), 0, '["look"]', {now_us} FROM fill WHERE kind = 14;
INSERT INTO items
SELECT i, 'default', 'task', 'item ' || i,
    CASE kind WHEN 14 THEN '' WHEN 18 THEN 'waiter' WHEN 19 THEN 'unknown' ELSE agent END,
    'queue', i % 5, 2147483647, i, iif(kind = 14, i - {count}, i),
    CASE WHEN kind IN (16, 17, 18) THEN lane WHEN kind = 19 THEN 'branch:acme/app/' || i
        WHEN kind = 14 THEN 'gated:acme/app/' || i END,
    NULL, NULL, NULL, NULL, 3, 'yield', {now_us} - {count} + i,
    CASE WHEN kind < 12 THEN 'completed' WHEN kind = 12 THEN 'failed' WHEN kind = 13 THEN 'waiting'
        WHEN kind IN (14, 15, 19) THEN 'pending' WHEN kind = 16 THEN 'in_progress' ELSE 'deferred' END,
    iif(kind < 13 OR kind = 16, 1, 0), 0,
    iif(kind IN (13, 16), {now_us} + 3600000000, NULL),
    iif(kind = 16, i, NULL), iif(kind = 16, agent, NULL), NULL, iif(kind = 16, {now_us}, NULL),
    iif(kind = 16, 3600.0, NULL), iif(kind = 16, {now_us} + 3600000000, NULL),
    NULL, NULL, NULL, NULL, 0, 0, 0, 0, NULL, iif(kind < 13 OR kind = 16, {now_us}, NULL),
    iif(kind < 13, {now_us}, NULL), 'test', NULL, NULL, NULL, iif(kind = 16, i, NULL), 0, NULL,
    kind = 14, 0
FROM fill;
-- One lane with a long line of one agent, and many of its retries in their back-off.
INSERT INTO lanes (lane) VALUES ('line:acme');
INSERT INTO items
SELECT {count} + i, 'default', 'task', 'item ' || i,
    'liner', 'queue', 0, 2147483647, {count} + i, {count} + i,
    'line:acme', NULL, NULL, NULL, NULL, 3, 'yield', {now_us},
    CASE WHEN i = 20 THEN 'pending' WHEN kind = 0 THEN 'deferred' ELSE 'waiting' END, kind, 0,
    iif(kind = 1, {now_us} + 3600000000, NULL), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    0, 0, 0, 0, NULL, iif(kind = 1, {now_us}, NULL), NULL, 'test', NULL, NULL, NULL, NULL, 0, NULL, 0, 0
FROM fill WHERE kind < 2;
INSERT INTO runs
SELECT i, i, 1, agent, NULL, {now_us}, {now_us}, iif(kind < 12, 'succeeded', 'failed'), '', NULL, NULL, i
FROM fill WHERE kind < 13;
INSERT INTO events (at_us, kind, reason, project, item, run, lane, agent, span_us)
SELECT {now_us} - 3 * {count} + 3 * i + step, event, 'test', 'default', i, iif(step, i, NULL), NULL, agent,
    iif(step, 9, NULL)
FROM fill CROSS JOIN (SELECT 0 AS step, 'item.added' AS event UNION ALL SELECT 1, 'run.started' UNION ALL
    SELECT 2, 'run.succeeded')
WHERE kind < 12 OR step = 0;
UPDATE numbers SET value = 2 * {count};
INSERT INTO github_repositories VALUES (1, 'acme/app', 'acme/app', '');
INSERT INTO github_deliveries
SELECT 'old-' || i, 'issues', 1, i / 20, {now_us} - {count} + i, NULL, 0, '', NULL FROM fill;
INSERT INTO github_numbers SELECT 1, i / 20, 1, '{{}}', '{{}}', {now_us}, {count} FROM fill WHERE kind = 0;
INSERT INTO github_consequences
SELECT 1, iif(kind < 10, 1, i / 20), i, 'old-' || i, '{{}}', NULL, {now_us} - {count} + i, 0, i, ''
FROM fill WHERE i >= 20;
INSERT INTO github_outboxes SELECT 1, i / 20, {count}, NULL, NULL FROM fill WHERE kind = 0;
INSERT INTO github_effects
SELECT 1, iif(kind < 10, 1, i / 20), i, 'old-' || i, 'comment', iif(kind < 10, 'sticky', ''), '{{}}', NULL,
    {now_us} - {count} + i, NULL, 0, {now_us} - 3600000000 - {count} + i, i, {now_us} - {count} + i, NULL, ''
FROM fill WHERE i >= 20;
INSERT INTO github_answers SELECT 'old-' || i, '', NULL, x'', {now_us} - {count} + i FROM fill WHERE kind = 0;
INSERT INTO github_heads
SELECT 1, i, '', 1, 'head-' || i, 'fix', '', iif(kind = 0, 'open', 'merged'), 'success', '', 1, i, i, i
FROM fill WHERE i > 1;
INSERT INTO github_heads
SELECT 1, 0, 'sha-' || i, 1, 'sha-' || i, 'main', '', NULL, 'failure', '', 1, i, i, i FROM fill WHERE i > 1;
INSERT INTO github_links SELECT i, 1, i, '', i, 'branch', i FROM fill WHERE i > 1;
INSERT INTO github_links SELECT i, 1, 0, 'sha-' || i, i, 'trailer', i FROM fill WHERE i > 1;
INSERT INTO github_workflow_runs
SELECT 1, i, 'head-' || i, 1, 'ci', 'completed', 'success', '', '', i, '[]', i FROM fill;
INSERT INTO series_notes SELECT 'series:old/' || i, 1, '{{}}' FROM fill WHERE kind = 0;
INSERT INTO tokens SELECT 'old-' || i, 'old', 'read', printf('%064d', 0), i, i, i, i FROM fill WHERE kind = 0;
INSERT INTO requests SELECT 'old-' || i, '', '{{}}', {now_us} FROM fill;
DROP TABLE fill;
"""


class Costs:
    """A filled store, and the steps of each statement by operation."""

    def __init__(self, path: Path, count: int) -> None:
        clock = Clock()
        self._store = SqliteStore(path, now=clock)
        self.service = LocalService(self._store)
        self._db = self._store.database.db
        self._db.pragma("synchronous", "off")
        with self._store.database.write():
            self._db.execute(FILL.format(count=count, now_us=clock.now_us))
        clock.advance(1)
        self.steps: Counter[tuple[str, str]] = Counter()
        self._before: dict[tuple[int, str], tuple[int, int]] = {}
        self._operation = ""
        self._db.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)

    @contextmanager
    def of(self, operation: str) -> Iterator[None]:
        """Count what happens inside."""
        self._operation = operation
        try:
            yield
        finally:
            self._operation = ""

    def _note(self, event: dict[str, Any]) -> None:
        steps = self._steps(event)
        if self._operation:
            names = {text.strip(): name for name, text in self._store.database.sql._texts.items()}
            self.steps[self._operation, names.get(event["sql"].strip(), event["sql"])] += steps

    def _steps(self, event: dict[str, Any]) -> int:
        """The steps of this run alone: SQLite adds up those of all runs of a prepared statement."""
        status = event["stmt_status"]
        which = event["id"], event["sql"]
        runs, steps = status["SQLITE_STMTSTATUS_RUN"], status["SQLITE_STMTSTATUS_VM_STEP"]
        runs_before, steps_before = self._before.get(which, (0, 0))
        self._before[which] = runs, steps
        return int(steps - steps_before if runs > runs_before else steps)


def run_everything(costs: Costs) -> None:
    """Every operation, on items of its own beside all that the store is filled with."""
    service, of = costs.service, costs.of
    service.set_agent("coder", max_concurrency=10)
    for agent in ("agent-0", "agent-1", "agent-2"):
        service.set_agent(agent)

    def start(**fields: Any) -> LeaseView:
        service.add([NewItem(title="mine", agent="coder", **fields)])
        return service.next("coder")[0]

    with of("add, lane free"):
        service.add([NewItem(title="first", lane="issue:mine/mine#1", agent="coder", dedupe_key="once")])
    with of("add, lane taken"):
        service.add([NewItem(title="second", lane="issue:mine/mine#1", agent="other")])
        service.add([NewItem(title="third", lane="issue:acme/app#7", agent="other")])
    with of("add, absorbed on a lane with a long line"):
        added = service.add(
            [
                NewItem(title="said", lane="line:acme", agent=agent, policy=Policy.COALESCE)
                for agent in ("liner", "x")
            ]
        )
        assert [a.decision for a in added] == ["coalesced", "queued"]
        service.cancel(added[1].arrival or 0, why="over")
    with of("add, a duplicate"):
        service.add([NewItem(title="again", dedupe_key="once")])
    with of("claim"):
        lease = service.next("coder")[0]
    with of("claim in vain"):
        assert service.next("coder", limit=5) == []
    with of("claim in vain, waiting in many lines"):
        assert service.next("waiter") == []
    with of("renew"):
        service.renew([Report(run=lease.run)])
    with of("done, with a successor"):
        assert service.done([Report(run=lease.run)])[0].promoted
    with of("claim one item"):
        mine = service.add([NewItem(title="this one", agent="coder")])[0].arrival
        lease = service.next("coder", item=mine)[0]
    with of("done"):
        service.done([Report(run=lease.run)])
    with of("done, too late"):
        assert service.done([Report(run=lease.run)])[0].refusal is not None
    with of("fail"):
        service.fail([Report(run=start().run)])
    with of("release"):
        service.release([Report(run=start().run)])
    service.done([Report(run=service.next("coder")[0].run)])
    with of("claim past an owner that cannot start"):
        service.add([NewItem(title="rival", lane="branch:acme/app/39", agent="coder")])
        assert service.next("coder")[0].item.lane == "branch:acme/app/39"
    owner = service.store.owner("line:acme")
    assert owner is not None
    service.block(item=owner.id, blocker="acme/app#3", why="blocked by")
    with of("claim past an owner that cannot start, of a long line"):
        assert service.next("liner")[0].item.lane == "line:acme"
    with of("message, cancel, retry"):
        item = service.add([NewItem(title="told")])[0].arrival
        assert item is not None
        service.msg(item, "hello", author="ann")
        service.cancel(item, why="not wanted")
        service.retry(item, why="wanted after all")
        service.cancel(item, why="not wanted")
    with of("sweep, nothing due"):
        assert not service.sweep().expired
    tell_and_wait(costs, start)
    with of("GitHub"):
        use_github(service.store.github)
    with of("access"):
        use_access(service)
    look_at_everything(costs)
    plan_and_edit(costs)
    with of("prune"):
        before_us = service.store.now_us() + 1
        assert service.store.prune_items(before_us, 0, 20, really=True).items > 5
        assert service.store.prune_plans(before_us, 0, 5, really=True).plans == 1
        assert service.store.github.prune(before_us, 20) == (20, False)


def tell_and_wait(costs: Costs, start: Callable[..., LeaseView]) -> None:
    """Messages, questions, quota limits, pools, workers and notices."""
    service, of, store = costs.service, costs.of, costs.service.store
    lease = start(lane="issue:mine/mine#2")
    with of("message, inbox, done"):
        service.msg(lease.item.id, "look", sender=ANOTHER_SYSTEM)
        service.inbox(lease.run)
        service.msg(lease.item.id, "look again", sender=ANOTHER_SYSTEM)
        assert service.done([Report(run=lease.run)])[0].follow_up is not None
    lease = service.next("coder")[0]
    with of("fail, wake up"):
        service.fail([Report(run=lease.run)])
        service.msg(lease.item.id, "look again", sender=ANOTHER_SYSTEM)
    with of("ask, answer"):
        service.ask(service.next("coder")[0].run, "Which?")
        assert store.asking(10)
        service.msg(lease.item.id, "This one")
    with of("release at a quota limit"):
        service.release([Report(run=service.next("coder")[0].run, wall=QuotaLimit(for_s=60.0))])
    service.set_pool("gpu", max_concurrency=2)
    service.set_agent("trainer", pool="gpu")
    with of("claim in a pool"):
        service.add([NewItem(title="train", agent="trainer")])
        assert service.next("trainer")
    service.add([NewItem(title="outside", agent="copilot")])
    (outside,) = service.next("copilot", external=True)
    with of("list and end external runs"):
        assert service.external()
        service.end_external(outside.item.id, outside.fence, "done", why="merged")
    (mine,) = service.add([NewItem(title="blocked", agent="coder", lane="issue:mine/mine#9")])
    with of("block, explain, unblock"):
        service.block(lane="issue:mine/mine#9", blocker="acme/app#3", why="blocked by")
        assert mine.item is not None
        service.block(item=mine.item.id, blocker="acme/app#3", why="blocked by")
        assert "blocked by" in service.why(mine.item.id).why
        assert service.blocks()
        service.unblock(item=mine.item.id)
        service.unblock(lane="issue:mine/mine#9")
    service.cancel(mine.item.id, why="over")
    use_gates(costs)
    with of("list what waits for a person"):
        assert service.stopped() == []
    with of("workers"):
        service.see_worker("w", host="h", pid=1, folder="/", agent="coder", slots=1, runs=0)
        assert service.workers()
        assert store.worker("w")
        service.leave_worker("w")
    with of("notices"):
        store.begin_mark("on_question", 0)
        mark = store.mark("on_question")
        assert mark is not None
        assert store.lease_mark(mark, 1, 60.0)
        store.move_mark("on_question", 1, seq=1)
    with of("lineage"):
        assert service.lineage().store


def use_gates(costs: Costs) -> None:
    service, of = costs.service, costs.of
    lane, series = "issue:mine/mine#10", "series:mine/mine/RFC-1"
    service.add([NewItem(title="assignment", lane=series, type="series.assignment", agent="coder")])
    with of("shut a gate"):
        service.set_gate(lane, series=series, open=False, exempt=["look"], why="not its turn")
    with of("add and explain on a shut lane"):
        gated, look = service.add(
            [NewItem(title=t, type=t, lane=lane, agent="coder") for t in ("gated", "look")]
        )
        assert gated.item is not None
        assert look.item is not None
        assert "RFC-1" in service.why(gated.item.id).why
    with of("claim past a gated owner"):
        (lease,) = service.next("coder", types=["look", "gated"], limit=5)
    with of("done before a gated item"):
        service.done([Report(run=lease.run)])
    with of("open a gate"):
        service.set_gate(lane, series=series, open=True, exempt=["look"], why="its turn")
    with of("list gates"):
        assert len(service.gates(limit=20)) == 20
        assert len(service.gates(series=series)) == 1
    with of("remove a gate"):
        assert service.remove_gate(lane, why="it left")
    for item in service.items(ItemFilter(lane=lane)) + service.items(ItemFilter(lane=series)):
        service.cancel(item.id, why="over")


def look_at_everything(costs: Costs) -> None:
    service, of = costs.service, costs.of
    deferred, pending = 17, 35
    with of("list"):
        assert len(service.items(ItemFilter(limit=20))) == 20
        assert len(service.store.named_items([1, 2])) == 2  # type: ignore[list-item]
    with of("list all"):
        assert len(service.items(ItemFilter(all=True, limit=20))) == 20
    with of("list failed"):
        assert len(service.items(ItemFilter(statuses=("failed",), limit=20))) == 20
    with of("stats"):
        assert service.stats().items["failed"] > 1
    with of("stats by type"):
        assert service.stats(by="type").groups
    with of("metrics"):
        assert service.metrics()
    service.cancel(service.add([NewItem(title="counted", agent="coder")])[0].arrival or 0, why="over")
    with of("metrics, with something new"):
        assert service.metrics()
    with of("why"):
        assert "or more ahead" in service.why(pending + 20 * (FEW // 20 - 2)).why
        assert "next in line" in service.why(deferred).why
    with of("show"):
        assert len(service.show(20).runs) == 1
        assert len(service.show(20).events) == 3
    with of("events"):
        assert len(service.events(after=100, limit=20)) == 20
        assert len(service.events(newest=True, limit=20)) == 20
    with of("list recent runs"):
        assert len(service.recent_runs()) > 100
        assert len(service.recent_runs(lane="issue:acme/app#1")) <= 20
    with of("list lanes"):
        assert len(service.lanes(limit=10)) == 10
        assert len(service.lanes(prefix="issue:acme/app#1", limit=10)) == 10
    with of("list agents"):
        assert service.agents()
        assert service.pools()


def plan_and_edit(costs: Costs) -> None:
    service, of = costs.service, costs.of
    tasks = tuple(TaskSpec(key=f"T{n}", agent="coder") for n in range(10))
    edges = tuple(EdgeSpec(source=f"T{n}", target=f"T{n + 1}") for n in range(9))
    with of("make a plan"):
        plan = service.create_plan("work", Graph(tasks=tasks, edges=edges), editor="coder")
    with of("finish a task"):
        service.done([Report(run=service.next("coder")[0].run)])
    edit = service.next("coder")[0]
    operations = (AddTask(task=TaskSpec(key="new")), AddEdge(edge=EdgeSpec(source="T3", target="new")))
    with of("edit a plan"):
        service.edit_plan(plan.id, base=1, operations=operations, run=edit.run)
    with of("look at a plan"):
        service.plan(plan.id)
        service.plans()
        service.plans(project="web", ended=True, limit=5)
        service.plan_tasks(service.plans(limit=1)[0].id, limit=5)
    service.cancel_plan(plan.id, why="enough")


def growth(few: Costs, many: Costs) -> dict[tuple[str, str], str]:
    """The statements that took more than twice the steps on the larger store."""
    return {
        place: f"{few.steps[place]} steps at {FEW:,} items, {steps} at {MANY:,}"
        for place, steps in many.steps.items()
        if steps > 2 * few.steps[place] + SLACK
    }


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that stop at a limit reach it in the smaller store already."""
    monkeypatch.setattr(reads, "EVENTS_MAX", 500)
    monkeypatch.setattr(reads, "SPANS_MAX", 100)
    monkeypatch.setattr(reads, "AHEAD_MAX", 10)
    monkeypatch.setattr(reads, "RUNS_MAX", 100)
    monkeypatch.setattr(snapshot, "AHEAD_MAX", 10)
    monkeypatch.setattr("interlock.core.why.AHEAD_MAX", 10)
    monkeypatch.setattr(sweeper, "LINES", 20)
    monkeypatch.setattr(metrics, "LINES", 500)
    monkeypatch.setattr(metrics, "COUNTED", 20)
    monkeypatch.setattr(metrics, "SERIES_MAX", 20)


def measured(path: Path, count: int, change: Callable[[Costs], None] = lambda _: None) -> Costs:
    costs = Costs(path, count)
    change(costs)
    run_everything(costs)
    assert broken(costs.service.doctor()) == [], "the store is filled with what could have happened"
    costs.service.close()
    return costs


@pytest.mark.usefixtures("limits")
def test_no_statement_costs_more_on_a_larger_store(tmp_path: Path) -> None:
    few, many = measured(tmp_path / "few.db", FEW), measured(tmp_path / "many.db", MANY)
    assert few.steps.keys() == many.steps.keys(), "both did the same"
    assert len({statement for _, statement in many.steps}) > 60, "it saw what was run"
    found = growth(few, many)
    assert found.keys() == GROWS.keys(), "\n".join(f"{place}: {text}" for place, text in found.items())


#: Those that no statement names. One that names its index fails without it.
INDEXES = (
    "items_lane_owner",
    "items_due",
    "items_external",
    "items_unclaimed",
    "items_observed",
    "events_item",
    "runs_item",
    "items_absorbed",
    "items_of_plan",
    "items_gated",
    "lanes_gated",
    "lanes_series",
)


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("index", INDEXES)
def test_a_missing_index_is_noticed(tmp_path: Path, index: str) -> None:
    """The comparison above has power."""

    def drop(costs: Costs) -> None:
        costs._db.execute(f"DROP INDEX {index}")

    few, many = (measured(tmp_path / f"{count}.db", count, drop) for count in (FEW, 5 * FEW))
    assert growth(few, many).keys() - GROWS.keys(), f"nothing became slower without {index}"
