"""The scene of plans: graphs written as `A>B, B>C, D`, and the words of planners and editors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from interlock.core.errors import (
    EditRefused,
)
from interlock.core.plans.model import (
    AddEdge,
    AddTask,
    EdgeSpec,
    EditOperation,
    Graph,
    TaskSpec,
)
from interlock.service.contract import LeaseView, Service
from interlock.service.plan_view import EditView, PlanView, TaskView
from tests.clock import Clock
from tests.conformance.scene import Scene

EDITOR = "planner"


class Planner(Scene):
    """The scene, in the words of plans. A graph is written `A>B, B>C, D`."""

    plan: int

    def __init__(self, service: Service, clock: Clock) -> None:
        super().__init__(service, clock)
        service.set_agent("coder", labels=["gpu"])
        service.set_agent(EDITOR)

    def make(
        self, text: str, *, editor: str = "", tasks: dict[str, Any] | None = None, **fields: Any
    ) -> PlanView:
        self.clock.advance(0.000001)
        view = self.service.create_plan("work", graph(text, **tasks or {}), editor=editor, **fields)
        self.plan = view.id
        return view

    def view(self) -> PlanView:
        return self.service.plan(self.plan)

    def task(self, key: str) -> TaskView:
        return next(t for t in self.view().tasks if t.key == key)

    def states(self) -> str:
        """Every task with the first letters of its status."""
        return " ".join(f"{t.key}:{t.status[:4]}" for t in self.view().tasks)

    def start(self, key: str) -> LeaseView:
        return self.claim(item=self.task(key).item)

    def do(self, *keys: str) -> None:
        """Start these tasks and end them well, one by one."""
        for key in keys:
            self.done(self.start(key))

    def edit(self, *operations: EditOperation, lease: LeaseView | None = None, **fields: Any) -> EditView:
        fields.setdefault("base", self.view().revision)
        run = lease.run if lease else None
        return self.service.edit_plan(self.plan, operations=operations, run=run, **fields)

    def ask(self) -> LeaseView:
        """The editor takes the edit it is asked for."""
        return self.claim(EDITOR, types=["plan.edit"])

    def refused(self, *operations: EditOperation, **fields: Any) -> tuple[str, ...]:
        """The reasons why an edit is refused, which must leave the plan as it was."""
        before = self.view()
        with pytest.raises(EditRefused) as caught:
            self.edit(*operations, **fields)
        assert self.view() == before
        return caught.value.reasons


def graph(text: str, **tasks: Any) -> Graph:
    keys: dict[str, None] = {}
    edges = []
    for part in text.replace(" ", "").split(","):
        path = part.split(">")
        keys.update(dict.fromkeys(path))
        edges += [EdgeSpec(source=s, target=t) for s, t in pairwise(path)]
    return Graph(tasks=tuple(task(k, **tasks.get(k, {})) for k in keys), edges=tuple(edges))


def task(key: str, **fields: Any) -> TaskSpec:
    return TaskSpec(key=key, **fields)


def add(key: str, **fields: Any) -> AddTask:
    return AddTask(task=task(key, **fields))


def edge(source: str, target: str, **fields: Any) -> AddEdge:
    return AddEdge(edge=EdgeSpec(source=source, target=target, **fields))
