"""Random traffic in one process, until a store has a little of everything."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

from interlock.core.errors import InterlockError
from interlock.core.model import NewItem, Policy, RetryLane
from interlock.core.plans.model import AddTask, EdgeSpec, Graph, TaskSpec
from interlock.service.contract import ItemFilter, LeaseView, Report
from interlock.service.local import LocalService
from interlock.store.access import RepeatableRequest
from interlock.store.github import DisplayOptions, GitHubStore, KnownNumber, NewOrder, StoredReaction
from interlock.store.links import Head, Link, StoredWorkflowRun
from interlock.store.outbox import Effect
from interlock.store.series_notes import Note
from interlock.store.store_copy import TABLES
from tests.faults.stores import is_sqlite, query

LANES = [f"issue:acme/app#{n}" for n in range(4)]
AGENTS = ["ada", "bob", "zoe"]
EDITOR = "editor"


def fill(service: LocalService, seed: int, steps: int = 250) -> None:
    """Leave rows in every table, and no run."""
    dice = random.Random(seed)
    service.set_agent(EDITOR)
    service.set_pool("gpu", max_concurrency=4)
    service.set_agent("Ada", pool="gpu", max_concurrency=3, types=["task", "review"], labels=["gpu", "mac"])
    service.set_agent("bob")
    service.add([NewItem(title="frozen", project="frozen")])
    service.pause_agent("bob", paused=True, why="on holiday")
    service.pause_project("frozen", paused=True, why="audit")
    service.set_mode(scope="lane", value="observed:", mode="observe")
    service.block(lane="issue:acme/app#99", blocker="acme/app#3", why="blocked by")
    for lane, is_open in ((LANES[0], True), (LANES[3], False)):
        service.set_gate(lane, series="series:acme/app/RFC-093", open=is_open, exempt=["review"], why="turns")
    service.store.begin_mark("on_dead_letter", 1)
    _hear_from_github(service.store.github)
    service.create_token("laptop", scope="agent:ada", expires_s=3600)
    service.answering(RepeatableRequest("key", "asked")).add([NewItem(title="asked for")])
    held: list[LeaseView] = []
    for n in range(steps):
        try:
            dice.choice([_add, _add, _add, _claim, _claim, _end, _end, _tell, _cancel, _plan])(
                service, dice, held, n
            )
        except (InterlockError, IndexError):
            continue  # what a random wish may be answered; there may be nothing to choose
    for lease in held:
        service.release([Report(run=lease.run)])
    _leave_an_end_unanswered(service)
    service.metrics()


def _leave_an_end_unanswered(service: LocalService) -> None:
    """A task has ended, and its plan's editor owes an answer."""
    graph = Graph(tasks=(TaskSpec(key="first"), TaskSpec(key="second")), edges=())
    plan = service.create_plan("owed", graph, editor=EDITOR)
    (lease,) = service.next("zoe", item=plan.tasks[0].item)
    service.done([Report(run=lease.run)])


def _hear_from_github(github: GitHubStore) -> None:
    github.repository(1, "acme/app")
    github.keep_delivery("decided", "issues", 1, 4, "{}")
    github.decide_delivery("decided", "one item")
    github.keep_note(Note("series:acme/app/RFC-093", 1, '{"counts": {}}'))
    github.keep_delivery("due", "ping", None, None, '{"zen": "“ü”"}')
    github.advance(
        KnownNumber(1, 4, 1, "{}", "{}"),
        [NewOrder("1:create", "{}"), NewOrder("1:adjust", "{}")],
        closes=[3],
    )
    github.choose(1, DisplayOptions(comments=True, lane_status=True))
    github.keep_reaction(StoredReaction(1, 1, 1, 4, "issue", 4, None))
    effects = [Effect(1, 4, name, "comment", '{"text": "“ü”"}', run=1) for name in ("done", "failed", "due")]
    github.carry_out(1, 4, "1:create", item=1, outcome="item 1", effects=effects)
    done = github.outbox.take(60)
    assert done is not None
    github.outbox.settle(done, made=77, outcome="posted")
    failed = github.outbox.take(60)
    assert failed is not None
    github.outbox.put_off(failed, 3600, "refused", failed=True, maybe_sent=True)
    head = Head(1, 5, "", 1, "a" * 40, "fix", "https://x/5", "open", "failure", "“ü” failed", followed=True)
    checked = StoredWorkflowRun(1, 9, head.head, 2, "ci", "completed", "failure", "u", "l", 90, "[]", 1)
    github.links.advance(head, [Link(1, 1, 1, 5, "", "trailer")], [checked])


def _add(service: LocalService, dice: random.Random, held: list[LeaseView], n: int) -> None:
    new = NewItem(
        title=f"work \\ {n} “ü”",
        lane=dice.choice([*LANES, *LANES, "observed:1", None]),
        agent=dice.choice(["", *AGENTS]),
        policy=dice.choice(list(Policy)),
        type=dice.choice(["task", "review"]),
        project=dice.choice(["default", "default", "frozen"]),
        priority=dice.randint(-1, 2),
        position=dice.choice([None, None, 7]),
        labels=dice.choice([(), (), ("gpu",), ("gpu", "mac")]),
        payload=dice.choice([None, json.dumps({"n": n, "text": "a\\nb\u2028"})]),
        message=dice.choice([None, f"input {n}"]),
        dedupe_key=dice.choice([None, f"k{n % 20}"]),
        retry_lane=dice.choice(list(RetryLane)),
        timeout_s=dice.choice([None, 1.1]),
        max_attempts=dice.randint(1, 3),
    )
    service.add([new])


def _claim(service: LocalService, dice: random.Random, held: list[LeaseView], n: int) -> None:
    leases = service.next(dice.choice([*AGENTS, EDITOR]), labels=["gpu"], limit=2, lease_s=3600, worker="w")
    for lease in leases:
        service.act_as(lease.run, "alice")
        service.cost(lease.run, usd=0.25, output_tokens=n)
        service.append_log(lease.run, start=0, text=f"output {n} ü\n")
    service.set_budget("project", "default", usd=1_000_000)
    service.set_reserve("rare", usd=1)
    service.set_time_zone("Europe/Berlin")
    held += leases


def _end(service: LocalService, dice: random.Random, held: list[LeaseView], n: int) -> None:
    if held:
        lease = held.pop(dice.randrange(len(held)))
        end = dice.choice([service.done, service.done, service.fail, service.release])
        end([Report(run=lease.run, seen=dice.randint(0, len(lease.messages)), error=None)])


def _tell(service: LocalService, dice: random.Random, held: list[LeaseView], n: int) -> None:
    service.msg(dice.choice(service.items(ItemFilter(limit=20))).id, f"word {n}", author="anna")


def _cancel(service: LocalService, dice: random.Random, held: list[LeaseView], n: int) -> None:
    if n % 3 == 0:
        service.cancel(dice.choice(service.items(ItemFilter(limit=20))).id, why="random")


def _plan(service: LocalService, dice: random.Random, held: list[LeaseView], n: int) -> None:
    if n % 4:
        return
    keys = [f"t{k}" for k in range(dice.randint(2, 5))]
    graph = Graph(
        tasks=tuple(TaskSpec(key=key, lane=dice.choice([None, *LANES])) for key in keys),
        edges=tuple(EdgeSpec(source=a, target=b) for a, b in pairwise(keys)),
    )
    plan = service.create_plan(f"plan {n}", graph, editor=dice.choice(["", EDITOR]))
    service.edit_plan(plan.id, base=plan.revision, operations=[AddTask(task=TaskSpec(key="more"))])


def dump(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row that a copy carries, by table, read past Interlock; lists and truth as SQLite has them."""
    found = {}
    for table, key in TABLES.items():
        columns = _columns(url, table)
        rows = query(url, f'SELECT {", ".join(f""" "{c}" """ for c in columns)} FROM {table}')
        at = [columns.index(name) for name in key]
        plain = [tuple(_plain(value) for value in row) for row in rows]
        found[table] = sorted(plain, key=lambda row, at=at: [row[n] for n in at])  # type: ignore[misc]
    return found


def _columns(url: str, table: str) -> list[str]:
    if is_sqlite(url):
        return sorted(row[1] for row in query(url, f"PRAGMA table_info({table})"))
    asked = f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'"
    return sorted(row[0] for row in query(url, f"{asked} AND table_schema = 'interlock'"))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value)
    return int(value) if isinstance(value, bool) else value
