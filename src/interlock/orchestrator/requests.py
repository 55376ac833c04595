"""The arguments of an orchestrator's callables: a task to execute, or the ends of tasks to answer.

Each belongs to a run, which is renewed in the background while the callable works. The callable cannot be
stopped, so it checks `cancelled` between its steps. Once its run has lost its lease, its result is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from interlock.core.plans.model import EDIT_TYPE, EditOperation, Graph
from interlock.orchestrator.caller import Call, FunctionCaller, in_thread
from interlock.plans.planfile import EditFile, edit_of
from interlock.process.live_run import LiveRun
from interlock.service.contract import LeaseView, MessageView, Service
from interlock.service.plan_view import BatchView, CompletionView, PlanView


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An error that was raised where no caller could catch it."""

    #: `executor`, `editor`, `listener`, `store`, or `orchestrator` for a defect of ours.
    where: str
    #: The task, or the kind of the listener's event.
    about: str
    error: BaseException


class CallableRun:
    """A run of this process: its lease, and the call that works on it."""

    def __init__(self, lease: LeaseView, sent_s: float) -> None:
        """`sent_s` is when the claim was sent."""
        self.lease = lease
        self.handle = lease.run
        self.agent = lease.item.run_agent or ""
        self.is_edit = lease.item.type == EDIT_TYPE
        self.call = Call()
        self.live = LiveRun(lease, sent_s, answered=self._answered)

    @property
    def cancelled(self) -> bool:
        """Whether the work is no longer wanted: its end was requested, or the lease is lost."""
        return self.live.stop_event.is_set() or self.live.overdue

    def _answered(self) -> None:
        if self.cancelled:
            self.call.cancel()


class _ClaimedTask:
    """The data of a task for every executor."""

    def __init__(
        self,
        seen: PlanView,
        key: str,
        run: CallableRun,
        service: Service,
        before: Mapping[str, int],
        caller: FunctionCaller,
    ) -> None:
        """`before` are the items of the tasks that this one waited for, by key, in the plan `seen`."""
        item = run.lease.item
        self.plan = seen.id
        self.key = key
        self.item, self.title, self.type = item.id, item.title, item.type
        self.payload: Mapping[str, Any] = item.payload or {}
        self.attempt = item.attempt
        self.fence = run.lease.fence
        self._before = before
        self._revision = seen.revision
        self._run = run
        self._service = service
        self._caller = caller

    def __repr__(self) -> str:
        return f"<task {self.key} of plan {self.plan}, attempt {self.attempt}>"

    @property
    def messages(self) -> tuple[MessageView, ...]:
        """The messages of the task from before this attempt."""
        return self._run.lease.messages

    @property
    def handle(self) -> str:
        """The secret that lets this run write, for commands that the executor starts."""
        return self._run.handle

    @property
    def cancelled(self) -> bool:
        """Whether the work is no longer wanted. An `async` executor is cancelled then."""
        return self._run.cancelled

    def _inputs(self) -> dict[str, Any]:
        if self._service.plan_history(self.plan, after=self._revision, limit=1):
            # The plan was edited, perhaps before the claim. A started task keeps its edges.
            seen = self._service.plan(self.plan)
            items = {task.key: task.item for task in seen.tasks}
            self._before = {e.source: items[e.source] for e in seen.edges if e.target == self.key}
            self._revision = seen.revision
        return {key: self._result(item) for key, item in self._before.items()}

    def _result(self, item: int) -> Any:
        runs = self._service.show(item).runs
        return next((run.result for run in reversed(runs) if run.status == "succeeded"), None)


class TaskRun(_ClaimedTask):
    """A task that was claimed for an executor."""

    def inputs(self) -> dict[str, Any]:
        """The results of the tasks that this one waited for, by key; null for one that did not complete."""
        self._caller.refuse_on_loop("inputs", "Declare the executor with `async def` and await `inputs()`.")
        return self._inputs()


class AsyncTaskRun(_ClaimedTask):
    """A task that was claimed for an `async` executor."""

    async def inputs(self) -> dict[str, Any]:
        """The results of the tasks that this one waited for, by key; null for one that did not complete."""
        return await in_thread(self._inputs)


class _ClaimedEdit:
    """The data of a pending edit for every editor."""

    def __init__(
        self,
        batch: BatchView,
        run: CallableRun,
        service: Service,
        refused: tuple[str, ...],
        caller: FunctionCaller,
    ) -> None:
        #: Why the previous answer was refused, if there was one.
        self.refused = refused
        self.revision, self.through = batch.revision, batch.through
        self.deadline_at = batch.deadline_at
        self._batch = batch
        self._run = run
        self._service = service
        self._caller = caller

    @cached_property
    def _plan(self) -> PlanView:
        return self._service.plan(self._batch.plan)

    @property
    def completions(self) -> tuple[CompletionView, ...]:
        """Every end since the last edit, oldest first, with results and errors."""
        return self._batch.completions

    @property
    def cancelled(self) -> bool:
        return self._run.cancelled


class EditRequest(_ClaimedEdit):
    """The ends of tasks that an editor must answer, and the plan as it is now."""

    @property
    def plan(self) -> PlanView:
        """The whole plan as it is now; read on first use."""
        self._caller.refuse_on_loop("plan", "Declare the editor with `async def` and await `plan()`.")
        return self._plan


class AsyncEditRequest(_ClaimedEdit):
    """The ends of tasks that an `async` editor must answer, and the plan as it is now."""

    async def plan(self) -> PlanView:
        """The whole plan as it is now; read on first use."""
        return await in_thread(lambda: self._plan)


def edit_of_answer(answer: object) -> EditFile:
    """The edit that an editor returned: nothing, operations, a graph, or one of these as in a plan file."""
    if answer is None:
        return EditFile(operations=())
    if isinstance(answer, EditFile):
        return answer
    if isinstance(answer, Graph):
        return EditFile(graph=answer)
    if isinstance(answer, Mapping):
        return edit_of(answer)
    if isinstance(answer, Sequence) and all(isinstance(one, EditOperation) for one in answer):
        return EditFile(operations=tuple(answer))
    return edit_of({"operations": answer})
