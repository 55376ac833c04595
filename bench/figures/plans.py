"""I to L: what plans cost: an edit, the answer to completions, dispatch, and an editor."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

from bench.databases import clear, interlock_at, settle
from bench.figure import Figure, Row, Sample, Target, divided
from bench.plan import Plan
from bench.rounds import quantile
from bench.subject import Store
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, EditOperation, Graph, RemoveEdge, TaskSpec
from interlock.service.contract import Report, Service

TITLES: dict[Store, str] = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
EDITOR = "editor"
#: Tasks stand in layers of so many, and each but the first layer waits for two of the layer before.
LAYER = 10
SIZE_RATIO_MAX = 2
ONE_P95_MAX_MS, FIFTY_P95_MAX_MS = 50, 200
#: What the idea's origin states for an edit, in ms.
ORIGIN = "10 to 50 ms, as the idea's origin states it"


def plans(plan: Plan) -> list[Figure]:
    """I to L on both stores."""
    found: list[Figure] = []
    for store, title in TITLES.items():
        plan.rounds.say(f"plans on {title}")
        url = plan.postgres_url if store == "postgres" else str(plan.directory / "plans.db")
        clear(store, url)
        with interlock_at(store, url) as service:
            service.set_agent(EDITOR)
            found += [edits(plan, service, store, url), answers(plan, service, store)]
            found += [dispatch(plan, service, store), editor(plan, service, store)]
    return found


def layered(tasks: int) -> Graph:
    """A graph of layers."""
    keys = [f"t{n}" for n in range(tasks)]
    edges = [
        EdgeSpec(source=keys[n - LAYER - n % LAYER + other % LAYER], target=keys[n])
        for n in range(LAYER, tasks)
        for other in (n, n + 1)
    ]
    return Graph(tasks=tuple(TaskSpec(key=key) for key in keys), edges=tuple(edges))


def wide(tasks: int) -> Graph:
    return Graph(tasks=tuple(TaskSpec(key=f"w{n}") for n in range(tasks)))


def deep(tasks: int) -> Graph:
    edges = [EdgeSpec(source=f"d{n}", target=f"d{n + 1}") for n in range(tasks - 1)]
    return Graph(tasks=tuple(TaskSpec(key=f"d{n}") for n in range(tasks)), edges=tuple(edges))


# -- I ------------------------------------------------------------------------------------------------


def edits(plan: Plan, service: Service, store: Store, url: str) -> Figure:
    """One operation, on graphs of three sizes in turn: an edge across the middle comes and goes."""
    made = {size: service.create_plan(f"size {size}", layered(size)) for size in plan.plan_sizes}
    settle(store, url)
    revisions = {size: view.revision for size, view in made.items()}
    spans_ms: dict[int, list[float]] = {size: [] for size in made}
    for n in range(2 * plan.edits_n + 2):
        for size, view in made.items():
            middle = size // 2 - size // 2 % LAYER
            edge = EdgeSpec(source=f"t{middle}", target=f"t{middle + 3 * LAYER}")
            turn: list[EditOperation] = [
                AddEdge(edge=edge),
                RemoveEdge(source=edge.source, target=edge.target),
            ]
            begun_s = time.perf_counter()
            edited = service.edit_plan(view.id, base=revisions[size], operations=[turn[n % 2]])
            revisions[size] = edited.revision
            if n >= 2:
                spans_ms[size].append(1_000 * (time.perf_counter() - begun_s))
    for view in made.values():
        service.cancel_plan(view.id, why="measured")
    rows = [
        Row(subject=f"{size:,} tasks", samples=[Sample(value=each) for each in spans])
        for size, spans in spans_ms.items()
    ]
    smallest, largest = rows[0], rows[-1]
    return Figure(
        name=f"plan-edits-{store}",
        title=f"I. An edit of one operation on {TITLES[store]}, {2 * plan.edits_n} times",
        unit="ms",
        rows=rows,
        base=smallest.subject,
        targets=[
            Target.at_most(
                f"I, {TITLES[store]}: {largest.subject} to {smallest.subject}",
                divided(largest.median, smallest.median),
                SIZE_RATIO_MAX,
            )
        ],
    )


# -- J ------------------------------------------------------------------------------------------------


def answers(plan: Plan, service: Service, store: Store) -> Figure:
    """What an editor waits for when it answers one completion, or fifty at once, at 1,000 tasks."""
    size = plan.plan_sizes[1]
    rows, targets = [], []
    for batch, bound_ms in ((1, ONE_P95_MAX_MS), (50, FIFTY_P95_MAX_MS)):
        made = service.create_plan(f"answers {batch}", wide(size), editor=EDITOR)
        revision, spans_ms, fresh = made.revision, [], count()
        for _ in range(min(plan.edits_n, size // batch)):
            work(service, batch)
            begun_s = time.perf_counter()
            revision = answer(service, made.id, revision, [AddTask(task=TaskSpec(key=f"n{next(fresh)}"))])
            spans_ms.append(1_000 * (time.perf_counter() - begun_s))
        service.cancel_plan(made.id, why="measured")
        name = "one completion" if batch == 1 else f"{batch} completions"
        p95_ms = quantile(spans_ms, 0.95)
        rows += [
            Row(subject=f"{name}, p50", samples=[Sample(value=quantile(spans_ms, 0.5))]),
            Row(subject=f"{name}, p95", samples=[Sample(value=p95_ms)]),
        ]
        targets.append(Target.at_most(f"J, {TITLES[store]}: {name}, p95", p95_ms, bound_ms, "ms"))
    return Figure(
        name=f"plan-answers-{store}",
        title=f"J. Claim, batch and edit by an editor on {TITLES[store]}, at {size:,} tasks",
        unit="ms",
        rows=rows,
        targets=targets,
    )


def work(service: Service, tasks: int) -> None:
    leases = service.next("worker", limit=tasks)
    assert len(leases) == tasks, f"{len(leases)} of {tasks} tasks were to be had"
    service.done([Report(run=lease.run) for lease in leases])


def answer(service: Service, plan: int, revision: int, operations: list[EditOperation]) -> int:
    """Claim the edit, read what ended, answer it."""
    lease = service.next(EDITOR, types=("plan.edit",))[0]
    given = service.plan_batch(lease.run)
    edited = service.edit_plan(
        plan, base=revision, operations=operations, run=lease.run, through=given.through
    )
    assert not edited.editing
    return edited.revision


# -- K ------------------------------------------------------------------------------------------------


def dispatch(plan: Plan, service: Service, store: Store) -> Figure:
    """Tasks claimed and done a second by one worker; of a deep plan only one is ready at a time."""
    size = plan.plan_sizes[-1]
    shapes: dict[str, tuple[Callable[[int], Graph], int]] = {
        "wide, batches of 100": (wide, 100),
        "wide, one by one": (wide, 1),
        "deep, one by one": (deep, 1),
    }
    rows = []
    for name, (shape, batch) in shapes.items():
        made = service.create_plan(name, shape(size))
        begun_s, done = time.monotonic(), 0
        while done < size and time.monotonic() - begun_s < plan.limit_s:
            leases = service.next("worker", limit=batch)
            service.done([Report(run=lease.run) for lease in leases])
            done += len(leases)
        rate = done / (time.monotonic() - begun_s)
        note = "" if done == size else f"stopped after {plan.limit_s:g} s with {done:,} done"
        service.cancel_plan(made.id, why="measured") if done < size else None
        rows.append(Row(subject=name, samples=[Sample(value=rate)], note=note))
    title = f"K. Dispatch of a plan of {size:,} tasks on {TITLES[store]}"
    return Figure(name=f"plan-dispatch-{store}", title=title, unit="tasks/s", rows=rows)


# -- L ------------------------------------------------------------------------------------------------


def editor(plan: Plan, service: Service, store: Store) -> Figure:
    """One completion after the other, with and without an editor that answers at once."""
    rows = []
    for name, editing in (("without an editor", False), ("with an editor that answers at once", True)):
        made = service.create_plan(name, wide(plan.edits_n + 1), editor=EDITOR if editing else "")
        spans_ms = []
        for n in range(plan.edits_n + 1):
            begun_s = time.perf_counter()
            work(service, 1)
            if editing:
                answer(service, made.id, made.revision, [])
            if n > 0:
                spans_ms.append(1_000 * (time.perf_counter() - begun_s))
        rows.append(Row(subject=name, samples=[Sample(value=each) for each in spans_ms]))
    rows.append(Row(subject="an edit elsewhere", note=ORIGIN))
    title = f"L. A task from claim to answered completion on {TITLES[store]}"
    return Figure(name=f"plan-editor-{store}", title=title, unit="ms", rows=rows, base=rows[0].subject)
