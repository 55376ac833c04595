"""Plans and series for the pages that show them."""

from __future__ import annotations

import json
import random

from interlock.core.model import OUR_BOT, NewItem, Policy
from interlock.core.plans.model import (
    AddEdge,
    AddTask,
    EdgeSpec,
    EditOperation,
    Graph,
    OnCancel,
    RemoveTask,
    TaskSpec,
    UpdateTask,
    When,
)
from interlock.github.series.lane import AGENT, TYPE
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from interlock.service.plan_view import EditView, PlanView
from interlock.store.series_notes import Note

CODER, EDITOR = "coder", "planner"
HOSTILE = "</text><script>alert(1)</script>"
RIGHT_TO_LEFT = "\u202e\u0627\u0628\u062f\u0623 \u0645\u0646 \u0647\u0646\u0627"
LONG = "a very long name " * 12


def release_plan(service: LocalService, name: str = "Ship release 2.4") -> PlanView:
    """A small plan with all kinds of edges and an editor."""
    _agents(service)
    names = {
        "design": "Agree on the interface",
        "server": "Serve the new fields",
        "client": "Read the new fields",
        "migrate": "Move stored rows",
        "docs": "Describe the new fields",
        "tests": "Test old and new clients",
        "canary": "Run on one machine",
        "rollback": "Take the release back",
        "announce": "Tell the users",
    }
    edges = (
        *(_edge("design", key) for key in ("server", "client", "docs")),
        *(_edge(key, "tests") for key in ("server", "client", "migrate")),
        _edge("server", "migrate"),
        _edge("tests", "canary"),
        EdgeSpec(source="canary", target="rollback", when=When.FAILURE),
        _edge("canary", "announce"),
        EdgeSpec(source="docs", target="announce", when=When.COMPLETION, on_cancel=OnCancel.SATISFY),
    )
    tasks = tuple(TaskSpec(key=key, title=title, agent=CODER) for key, title in names.items())
    graph = Graph(tasks=tasks, edges=edges)
    return service.create_plan(name, graph, editor=EDITOR, by="anna", edit_deadline_s=900)


def layered_plan(service: LocalService, size: int, *, width: int = 8, editor: str = "") -> PlanView:
    """A plan of this size in layers; each task waits for one or two of the layer before."""
    _agents(service)
    chance = random.Random(size)
    keys = [f"step-{n:04}" for n in range(size)]
    edges = set()
    for n in range(width, size):
        start = n // width * width - width
        edges |= {(start + chance.randrange(width), n) for _ in range(chance.choice((1, 1, 2)))}
    graph = Graph(
        tasks=tuple(TaskSpec(key=key, title=f"Task {n}", agent=CODER) for n, key in enumerate(keys)),
        edges=tuple(_edge(keys[a], keys[b]) for a, b in sorted(edges)),
    )
    return service.create_plan(f"{size} tasks", graph, editor=editor, by="anna")


def do(service: LocalService, plan: int, *keys: str) -> None:
    """Start these tasks and end them well."""
    for key in keys:
        service.done([Report(run=start(service, plan, key).run)])


def start(service: LocalService, plan: int, key: str) -> LeaseView:
    item = next(task.item for task in service.plan(plan).tasks if task.key == key)
    (lease,) = service.next(CODER, item=item, lease_s=3_600)
    return lease


def fail(service: LocalService, plan: int, key: str) -> None:
    """Let a task fail for good."""
    service.fail([Report(run=start(service, plan, key).run, error="The disk is full.", retry=False)])


def asked(service: LocalService) -> LeaseView:
    """The editor starts the edit that it is asked for."""
    (lease,) = service.next(EDITOR, types=["plan.edit"], lease_s=3_600)
    return lease


def answer(service: LocalService, plan: int, lease: LeaseView, *operations: EditOperation) -> EditView:
    """The editor's edit."""
    base = service.plan(plan).revision
    made = service.edit_plan(
        plan, base=base, operations=operations, run=lease.run, why="The design changed the order."
    )
    service.done([Report(run=lease.run)])
    return made


def usual_edit() -> tuple[EditOperation, ...]:
    """An edit that adds, removes and changes."""
    return (
        AddTask(task=TaskSpec(key="audit", title="Audit the new fields", agent=CODER)),
        AddEdge(edge=_edge("design", "audit")),
        AddEdge(edge=_edge("audit", "canary")),
        RemoveTask(key="migrate"),
        UpdateTask(key="docs", changes={"title": "Describe the new fields and limits", "priority": 5}),
    )


def note_series(service: LocalService, repository: str = "acme/app", series: str = "RFC-093") -> None:
    """A series with an active issue, a queue, a blocked issue and a problem, as a reconcile leaves it."""
    lane = f"series:{repository}/{series}"
    service.set_agent(AGENT)
    first, *_ = service.add([_member(repository, series, number) for number in (12, 14, 15, 19)])
    assert first.item is not None
    (lease,) = service.next(AGENT, item=first.item.id, external=True)
    service.store.github.keep_note(
        Note(
            lane,
            1,
            json.dumps(
                {
                    "looks": {"run": lease.fence, "seen": True, "seen_s": 1.0, "missing_since_s": None},
                    "assigned": ["copilot"],
                    "waiting": {"15": ["#14"], "23": ["RFC-092"]},
                    "ignored": {"30": "its author has no write access"},
                    "state_issue": 3,
                    "counts": {"promotion_events": 7, "duplicate_prevented": 2, "retries": 1, "conflicts": 3},
                    "cycle": {"promotion_events": 1},
                    "cycle_at": "2026-01-31T09:00:00Z",
                    "cycle_done": ["#11 ended: completed", "#12 promoted: #11 completed"],
                    "promotion": {
                        "from": 11,
                        "to": 12,
                        "run": lease.fence,
                        "why": "#11 completed",
                        "at": "2026-01-31T08:59:00Z",
                    },
                }
            ),
        )
    )


def _member(repository: str, series: str, number: int) -> NewItem:
    payload = {"repository": repository, "issue_number": number, "series": series}
    return NewItem(
        title=f"#{number} Part {number}",
        type=TYPE,
        agent=AGENT,
        lane=f"series:{repository}/{series}",
        policy=Policy.QUEUE,
        position=number,
        payload=json.dumps(payload),
        sender=OUR_BOT,
    )


def _agents(service: LocalService) -> None:
    service.set_agent(CODER)
    service.set_agent(EDITOR)


def _edge(source: str, target: str) -> EdgeSpec:
    return EdgeSpec(source=source, target=target)
