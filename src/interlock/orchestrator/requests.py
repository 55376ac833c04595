"""What an orchestrator hands to Python callables: a task to execute, or the ends of tasks to answer.

Behind each stands a run. It is renewed in the background for as long as the callable works; the callable
cannot be stopped, so it looks at `cancelled` between its steps. Nothing it gives is accepted after its run
has lost its lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from interlock.core.plans.model import EDIT_TYPE, Graph, Operation
from interlock.orchestrator.caller import Call
from interlock.plans.planfile import Edit, edit_of
from interlock.process.command import now_s
from interlock.process.heartbeat import BEAT_MAX_S
from interlock.service.contract import LeaseView, MessageView, RunView, Service
from interlock.service.planview import BatchView, CompletionView, PlanView


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that was raised where nobody could catch it."""

    #: `executor`, `editor`, `listener`, `store`, or `orchestrator` for a defect of ours.
    where: str
    #: The task, or what the listener was told.
    about: str
    error: BaseException


class Running:
    """A run of this process, as its heartbeat sees it."""

    def __init__(self, lease: LeaseView) -> None:
        self.lease = lease
        self.call = Call()
        self.lost = False
        self.cancel_requested = False
        #: Its end is being reported: it is renewed no more.
        self.ending = False
        self._renewed_s = now_s()

    @property
    def handle(self) -> str:
        return self.lease.run

    @property
    def agent(self) -> str:
        return self.lease.item.run_agent or ""

    @property
    def is_edit(self) -> bool:
        return self.lease.item.type == EDIT_TYPE

    @property
    def cancelled(self) -> bool:
        """Whether the work is no longer wanted: somebody asked for an end, or the lease is lost."""
        return self.lost or self.cancel_requested

    @property
    def beat_due_s(self) -> float:
        return self._renewed_s + min(self.lease.renew_within_s, BEAT_MAX_S)

    def renewed(self, view: RunView, sent_s: float) -> None:
        self._renewed_s = sent_s
        self.lost = self.lost or view.refusal is not None
        self.cancel_requested = self.cancel_requested or view.cancel_requested
        if self.cancelled:
            self.call.cancel()


class TaskRun:
    """A task that was claimed for an executor."""

    def __init__(
        self, seen: PlanView, key: str, running: Running, service: Service, before: Mapping[str, int]
    ) -> None:
        """`before` has the items of the tasks that this one waited for, by key, as the plan was seen."""
        self.plan = seen.id
        self.key = key
        self._before = before
        self._revision = seen.revision
        self._running = running
        self._service = service

    def __repr__(self) -> str:
        return f"<task {self.key} of plan {self.plan}, attempt {self.attempt}>"

    @property
    def item(self) -> int:
        return self._running.lease.item.id

    @property
    def title(self) -> str:
        return self._running.lease.item.title

    @property
    def type(self) -> str:
        return self._running.lease.item.type

    @property
    def payload(self) -> Mapping[str, Any]:
        return self._running.lease.item.payload or {}

    @property
    def attempt(self) -> int:
        return self._running.lease.item.attempt

    @property
    def messages(self) -> tuple[MessageView, ...]:
        """What the task was told before this attempt."""
        return self._running.lease.messages

    @property
    def handle(self) -> str:
        """The secret that lets this run write, for commands that the executor starts."""
        return self._running.handle

    @property
    def fence(self) -> int:
        return self._running.lease.fence

    @property
    def cancelled(self) -> bool:
        """Whether the work is no longer wanted. An `async` executor is cancelled then."""
        return self._running.cancelled

    def inputs(self) -> dict[str, Any]:
        """The results of the tasks that this one waited for, by key; of one that did not complete, null."""
        if self._service.plan_history(self.plan, after=self._revision, limit=1):
            # Edited since it was seen, maybe before the claim. A task that has started keeps its edges.
            seen = self._service.plan(self.plan)
            items = {task.key: task.item for task in seen.tasks}
            self._before = {e.source: items[e.source] for e in seen.edges if e.target == self.key}
            self._revision = seen.revision
        return {key: self._result(item) for key, item in self._before.items()}

    def _result(self, item: int) -> Any:
        runs = self._service.show(item).runs
        return next((run.result for run in reversed(runs) if run.status == "succeeded"), None)


class EditRequest:
    """The ends of tasks that an editor has to answer, and the plan as it stands."""

    def __init__(
        self, batch: BatchView, running: Running, service: Service, refused: tuple[str, ...]
    ) -> None:
        #: Why the answer before this one was not accepted, if there was one.
        self.refused = refused
        self._batch = batch
        self._running = running
        self._service = service

    @cached_property
    def plan(self) -> PlanView:
        """The whole plan as it stands; looked at when it is asked for."""
        return self._service.plan(self._batch.plan)

    @property
    def completions(self) -> tuple[CompletionView, ...]:
        """Every end since the last edit, oldest first, with results and errors."""
        return self._batch.completions

    @property
    def revision(self) -> int:
        return self._batch.revision

    @property
    def through(self) -> int:
        return self._batch.through

    @property
    def deadline_at(self) -> datetime:
        return self._batch.deadline_at

    @property
    def cancelled(self) -> bool:
        return self._running.cancelled


def edit_of_answer(answer: object) -> Edit:
    """The edit that an editor gave: nothing, operations, a graph, or either as a file would write it."""
    if answer is None:
        return Edit(operations=())
    if isinstance(answer, Edit):
        return answer
    if isinstance(answer, Graph):
        return Edit(graph=answer)
    if isinstance(answer, Mapping):
        return edit_of(answer)
    if isinstance(answer, Sequence) and all(isinstance(one, Operation) for one in answer):
        return Edit(operations=tuple(answer))
    return edit_of({"operations": answer})
