"""The roles of the processes: racers, storm workers, pushers, a planner and a sweeper.

A worker claims, renews and ends runs through the service like any other program. It is careless on purpose:
it forgets runs, sleeps past its lease, and writes without looking whether its lease is lost. A process that
was stopped does the same. The store must refuse what comes too late.

What a process does next follows from the seed and its name. When it happens depends on the machine.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from interlock import app, settings
from interlock.core.errors import (
    EditRefused,
    ItemEnded,
    LeaseLost,
    PlanEnded,
    StoreBusy,
    StoreUnavailable,
)
from interlock.core.model import NewItem, Policy
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, Graph, RemoveTask, TaskSpec
from interlock.prove import guards
from interlock.prove.journal import ProcessJournal
from interlock.prove.place import PUSH_LEASE_S
from interlock.prove.pusher import Pusher
from interlock.service.contract import LeaseView, Report, RunView, Service

WORK, RACE, PUSH = "work", "race", "push"
AGENTS = ("ada", "bert", "cleo")
#: Files in the directory that tell all processes how far it is.
DRAIN, OVER = "drain", "over"
#: What a store may answer while it restarts, or while others write.
TROUBLE = (StoreUnavailable, StoreBusy)
SWEEP_EVERY_S, IDLE_S = 0.15, 0.05
#: So many processes may keep the winner waiting, and it must not lose its lease meanwhile.
RACE_LEASE_S = 60.0
#: Keys that arrivals of the storm share, so that some come twice.
_KEYS = 40
_POLICIES = (
    *(3 * (Policy.QUEUE,)),
    *(Policy.COALESCE, Policy.SUPERSEDE, Policy.LATEST, Policy.REJECT),
)
#: How a run of the storm ends, and how often of 100.
_ENDINGS = {"done": 66, "fail": 12, "release": 12, "forget": 5, "oversleep": 5}

T = TypeVar("T")


class Actor:
    """One process: its journal, its dice and its connection to the store."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.name: str = order["name"]
        self.directory = Path(order["directory"])
        self.project: str = order["project"]
        self.lanes: Sequence[str] = order["lanes"]
        self.lease_s: float = order["lease_s"]
        self.guard: str | None = order["guard"]
        self.dice = random.Random(f"{order['seed']}/{self.name}")  # noqa: S311  (a schedule, no secret)
        self.journal = ProcessJournal(self.directory, self.name)
        self._parent = os.getppid()
        self.service: Service = app.open_service(settings=settings.load(directory=self.directory))
        if self.guard is not None:
            guards.take_out(self.guard, self.service)

    def draining(self) -> bool:
        """Whether nothing new may be added."""
        return (self.directory / DRAIN).exists()

    def over(self) -> bool:
        return (self.directory / OVER).exists() or os.getppid() != self._parent

    def agent(self, name: str) -> str:
        """An agent's name in the store, which may be shared."""
        return f"{name}-{self.project}"

    def ask(
        self, op: str, send: Callable[[], T], told: Callable[[T], dict[str, Any]], **facts: Any
    ) -> T | None:
        """Send a request, and note the attempt and what came of it; None if it was refused, or if its outcome
        is unknown."""
        n = self.journal.attempt(op, **facts)
        try:
            answer = send()
        except TROUBLE as error:
            self.journal.note("unsure", op, n=n, code=error.code, **facts)
            time.sleep(IDLE_S)
            return None
        except (LeaseLost, ItemEnded, EditRefused, PlanEnded) as error:
            self.journal.note("refused", op, n=n, code=error.code, **facts)
            return None
        self.journal.note("ack", op, n=n, **facts, **told(answer))
        return answer

    def add(self, new: NewItem) -> None:
        def told(views: list[Any]) -> dict[str, Any]:
            view = views[0]
            item = view.item.id if view.item is not None else None
            return {"decision": view.decision, "item": item, "arrival": view.arrival}

        facts = {"key": new.dedupe_key, "lane": new.lane}
        self.ask("add", lambda: self.service.add([new]), told, **facts)

    def claim(self, agent: str, *kinds: str, **facts: Any) -> LeaseView | None:
        def told(leases: list[LeaseView]) -> dict[str, Any]:
            if not leases:
                return {"item": None}
            lease = leases[0]
            return {"item": lease.item.id, "run": lease.fence, "lane": lease.item.lane, **self._until(lease)}

        claim = partial(
            self.service.next,
            self.agent(agent),
            types=[type_of(self.project, kind) for kind in kinds],
            labels=[self.project],
            lease_s=self.lease_s,
            worker=f"{self.name}-{self.project}",
        )
        found = self.ask("claim", claim, told, **facts)
        return found[0] if found else None

    def report(self, op: str, lease: LeaseView, report: Report) -> RunView | None:
        """Renew or end a run; None if the store refused it."""
        facts = {"run": lease.fence, "item": lease.item.id}
        n = self.journal.attempt(op, **facts)
        try:
            view: RunView = getattr(self.service, op)([report])[0]
        except TROUBLE as error:
            self.journal.note("unsure", op, n=n, code=error.code, **facts)
            return None
        if view.refusal is not None:
            self.journal.note("refused", op, n=n, code=view.refusal.code, **facts)
            return None
        until = self._until(view) if op == "renew" else {}
        self.journal.note("ack", op, n=n, status=view.status, **facts, **until)
        return view

    def _until(self, view: LeaseView | RunView) -> dict[str, Any]:
        if view.expires_at is None:
            return {}
        return {"until_us": round(view.expires_at.timestamp() * 1e6), "lease_us": round(self.lease_s * 1e6)}

    def hold(self, lease: LeaseView, span_s: float) -> bool:
        """Work for a while and renew in time; whether the run goes on. A process that was stopped meanwhile
        learns here, or not at all, that its lease is lost."""
        self.journal.note("hold", "work", run=lease.fence, item=lease.item.id, span_s=round(span_s, 3))
        end_s = time.monotonic() + span_s
        goes_on = True
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, self.lease_s / 3))
            if time.monotonic() < end_s:
                view = self.report("renew", lease, Report(run=lease.run))
                goes_on = view is not None and not view.cancel_requested
                if not goes_on:
                    break
        self.journal.note("held", "work", run=lease.fence, item=lease.item.id)
        return goes_on


def type_of(project: str, kind: str) -> str:
    """A type of items that no other work in a shared store has: no process here claims anything else."""
    return f"{project}.{kind}"


def play(order: Mapping[str, Any], gates: Sequence[int]) -> None:
    """Play the role that an order names."""
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # its connections are killed here all the time
    actor = Actor(order)
    match order["role"]:
        case "racer":
            race(actor, gates)
        case "worker":
            work(actor)
        case "pusher":
            push(actor, order["remote"])
        case "planner":
            plan(actor)
        case _:
            sweep(actor)
    actor.service.close()


def race(actor: Actor, gates: Sequence[int]) -> None:
    """Add one item at the same moment as all others, then claim it at the same moment, under one name."""
    store: Any = getattr(actor.service, "store", None)
    if (database := getattr(store, "database", None)) is not None and hasattr(database, "notify"):
        database.notify = lambda: None  # nobody waits for work here, and it would be a second connection
    actor.lease_s = RACE_LEASE_S
    actor.service.agents()  # the connection is there before the race begins
    actor.journal.note("ready", "race")
    for number in range(len(gates) // 2):
        add_gate, claim_gate = gates[2 * number : 2 * number + 2]
        os.read(add_gate, 1)  # returns when the gate is opened
        key = f"race-{number}"
        actor.add(
            _new(
                actor,
                RACE,
                title=f"race {number}",
                dedupe_key=key,
                lane=f"race:{actor.project}/{number}",
            )
        )
        actor.journal.note("added", "race", round=number)
        os.read(claim_gate, 1)
        lease = actor.claim("racer", RACE, race=number)
        if lease is not None:
            actor.report("done", lease, Report(run=lease.run))
        actor.journal.note("raced", "race", round=number)


def work(actor: Actor) -> None:
    """Add and work, on a few lanes, until it is over."""
    dice = actor.dice
    while not actor.over():
        draining = actor.draining()
        # In the end they also take what a race with a broken guard has left.
        types = (WORK, RACE) if draining else (WORK,)
        lease = actor.claim(dice.choice(AGENTS), *types, drain=draining)
        if not draining and dice.random() < (0.8 if lease is not None else 0.15):
            _arrive(actor)
        if lease is not None:
            _work_on(actor, lease, careful=draining)
            if dice.random() < 0.1:
                _talk(actor, lease)
        time.sleep(dice.uniform(0.0, IDLE_S) if lease is not None else dice.uniform(IDLE_S, 3 * IDLE_S))


def _arrive(actor: Actor) -> None:
    dice = actor.dice
    actor.add(
        _new(
            actor,
            WORK,
            title=f"work of {actor.name}",
            lane=dice.choice(actor.lanes),
            agent=actor.agent(dice.choice(AGENTS)) if dice.random() < 0.7 else "",
            policy=dice.choice(_POLICIES),
            priority=dice.randint(0, 3),
            message=f"input of {actor.name}" if dice.random() < 0.3 else None,
            dedupe_key=f"key-{dice.randrange(_KEYS)}" if dice.random() < 0.3 else None,
        )
    )


def _new(actor: Actor, kind: str, **fields: Any) -> NewItem:
    return NewItem(
        project=actor.project,
        type=type_of(actor.project, kind),
        labels=(actor.project,),
        max_attempts=50,
        author="prove",
        **fields,
    )


def _talk(actor: Actor, lease: LeaseView) -> None:
    item = lease.item.id
    actor.ask(
        "msg", lambda: actor.service.msg(item, "one more thing", author="prove"), lambda _: {}, item=item
    )


def _work_on(actor: Actor, lease: LeaseView, *, careful: bool) -> None:
    dice = actor.dice
    (ending,) = dice.choices(list(_ENDINGS), list(_ENDINGS.values()))
    span_s = dice.uniform(0.2, 1.2) * actor.lease_s if dice.random() < 0.15 else dice.uniform(0.0, 0.06)
    retry = dice.random() < 0.6
    planned_s = (lease.item.payload or {}).get("hold_s")
    if planned_s is not None or careful:
        ending, span_s = "done", planned_s or 0.01
    if ending == "forget":
        actor.journal.note("forgot", "work", run=lease.fence, item=lease.item.id)
        return
    if ending == "oversleep":
        time.sleep(1.3 * actor.lease_s)
        actor.report("renew", lease, Report(run=lease.run))
        ending = "done"
    elif not actor.hold(lease, span_s) and ending != "done":
        ending = "release"
    report = Report(run=lease.run, seen=len(lease.messages), retry=retry)
    if ending == "done":
        report = report._replace(result=json.dumps({"by": actor.name}))
    actor.report(ending, lease, report)


def push(actor: Actor, remote: str) -> None:
    """Take turns on one branch. Each run arms the fence, commits, waits, and pushes without looking again."""
    actor.lease_s = PUSH_LEASE_S
    pusher = Pusher(
        actor.directory / f"clone-{actor.name}", remote, actor.journal, fenced=actor.guard != "fence"
    )
    while not actor.over():
        lease = actor.claim(actor.name, PUSH)
        if lease is None:
            time.sleep(3 * IDLE_S)
            continue
        with suppress(LeaseLost):
            beat = partial(actor.report, "renew", lease, Report(run=lease.run))
            push_now = pusher.prepare(lease, actor.agent(actor.name), actor.service, beat)
            actor.hold(lease, (lease.item.payload or {}).get("hold_s", 0.0))
            push_now()
        actor.report("done", lease, Report(run=lease.run))


def plan(actor: Actor) -> None:
    """Edit plans while their tasks are claimed: tasks come, change their order, and go."""
    dice, count = actor.dice, 0
    while not actor.over() and not actor.draining():
        count += 1
        keys = [f"t{n}" for n in range(4)]
        graph = Graph(
            tasks=tuple(_task(actor, key) for key in keys),
            edges=(EdgeSpec(source="t0", target="t2"), EdgeSpec(source="t1", target="t3")),
        )
        made = actor.ask(
            "create_plan",
            partial(actor.service.create_plan, f"plan {count}", graph, project=actor.project),
            lambda view: {"plan": view.id, "revision": view.revision},
        )
        if made is None:
            continue
        base = made.revision
        for turn in range(dice.randint(3, 6)):
            time.sleep(dice.uniform(0.05, 0.3))
            if actor.over() or actor.draining():
                return
            new = f"n{turn}"
            operations: list[Any] = [AddTask(task=_task(actor, new))]
            if dice.random() < 0.7:
                gone = keys.pop(dice.randrange(len(keys)))
                operations.append(RemoveTask(key=gone))
            if dice.random() < 0.5:
                operations.append(AddEdge(edge=EdgeSpec(source=dice.choice(keys), target=new)))
            stale = dice.random() < 0.15  # an edit that was made for an older revision
            edit = partial(
                actor.service.edit_plan,
                made.id,
                base=max(1, base - stale),
                operations=operations,
                why="prove",
            )
            done = actor.ask(
                "edit_plan",
                edit,
                lambda view: {"revision": view.revision, "removed": list(view.removed)},
                plan=made.id,
            )
            if done is None:
                break
            keys.append(new)
            base = done.revision


def _task(actor: Actor, key: str) -> TaskSpec:
    lane = actor.dice.choice([*actor.lanes, None, None])
    return TaskSpec(
        key=key, labels=(actor.project,), type=type_of(actor.project, WORK), lane=lane, max_attempts=50
    )


def sweep(actor: Actor) -> None:
    """Sweep all the time."""
    while not actor.over():
        n = actor.journal.attempt("sweep")
        with suppress(*TROUBLE):
            swept = actor.service.sweep()
            actor.journal.note("ack", "sweep", n=n, expired=swept.expired)
        time.sleep(SWEEP_EVERY_S)
