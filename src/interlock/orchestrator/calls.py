"""Calls a callable with its task or its edit request, and reports the outcome.

The run of every call ends: done with a result, failed with an error, or released. The report is lost only if
the store is unreachable for longer than a lease. Then the lease has expired anyway.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from interlock.core.commands import Outcome
from interlock.core.errors import (
    CycleExpired,
    EditRefused,
    InterlockError,
    InvalidInput,
    LeaseLost,
    PlanEnded,
)
from interlock.orchestrator.caller import FunctionCaller, is_async
from interlock.orchestrator.requests import (
    AsyncEditRequest,
    AsyncTaskRun,
    CallableRun,
    EditRequest,
    TaskRun,
    edit_of_answer,
)
from interlock.process.clock import now_s
from interlock.process.heartbeat import Heartbeat
from interlock.process.outcome import cut, described, error_text, result_text
from interlock.process.report_queue import RETRYABLE_ERRORS, ReportQueue
from interlock.service.contract import LeaseView, Report, RunView, Service
from interlock.service.plan_view import BatchView, EditView

#: Executes the tasks of an agent. An `async def` executor gets an `AsyncTaskRun`.
Executor = Callable[[TaskRun], Any] | Callable[[AsyncTaskRun], Awaitable[Any]]
#: Answers the ends of tasks. An `async def` editor gets an `AsyncEditRequest`.
Editor = Callable[[EditRequest], Any] | Callable[[AsyncEditRequest], Awaitable[Any]]
_T = TypeVar("_T")
_P = ParamSpec("_P")
#: The exceptions of a cancelled awaitable, in its own thread and in the waiting thread.
_CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)
AGAIN_S = 0.25
#: How often an editor may answer in one run. After that the run fails.
ANSWERS_MAX = 3

#: Records an error: where, about which task, and the exception.
Note = Callable[[str, str, BaseException], None]


class RunCalls:
    """The calls and reports of one orchestrator."""

    def __init__(
        self,
        service: Service,
        caller: FunctionCaller,
        heartbeat: Heartbeat,
        note: Note,
        announce: Callable[[int], None],
    ) -> None:
        """`announce` tells listeners the ends that an editor's run gets, before the editor is called."""
        self._service = service
        self._reports = ReportQueue(service)
        self._caller = caller
        self._heartbeat = heartbeat
        self._note = note
        self._announce = announce
        #: The keys of the ends that an editor's run got, by the run's number, until they are announced.
        self.batches: dict[int, tuple[str, ...]] = {}

    def task(self, run: CallableRun, executor: Executor, given: TaskRun | AsyncTaskRun) -> RunView | None:
        """Call an executor with its task; returns the store's answer to the end of the run."""
        try:
            value = self._caller.call(run.call, executor, given)
        except BaseException as error:
            return self._failed(run, "executor", given.key, error)
        try:
            text = result_text(value)
        except BaseException as error:  # reading a value may run code of its own
            self._note("executor", given.key, error)
            problem = cut(f"The result cannot be kept: {described(error)}")
            report = Report(run.handle, error=problem, retry=False)
            return self._report(run, given.key, Outcome.FAIL, report)
        return self._report(run, given.key, Outcome.DONE, Report(run.handle, result=text))

    def edit(self, run: CallableRun, editor: Editor, by: str) -> EditView | None:
        """Call an editor; returns the change. If its answer is refused, it is called again."""
        about = run.lease.item.title
        kind = AsyncEditRequest if is_async(editor) else EditRequest
        refused: tuple[str, ...] = ()
        for _ in range(ANSWERS_MAX):
            try:
                batch = self._retry_while_leased(run.lease, self._service.plan_batch, run.handle)
                self.batches[run.lease.fence] = tuple(end.key for end in batch.completions)
                request = kind(batch, run, self._service, refused, self._caller)
                self._announce(run.lease.fence)
                answer = self._caller.call(run.call, editor, request)
            except (LeaseLost, CycleExpired) as error:
                self._note("editor", about, error)
                return None
            except BaseException as error:
                self._failed(run, "editor", about, error)
                return None
            try:
                return self._submit_edit(run, batch, answer, by)
            except (LeaseLost, CycleExpired, PlanEnded, *RETRYABLE_ERRORS) as error:
                self._note("editor", about, error)
                return None
            except (EditRefused, InvalidInput) as error:
                self._note("editor", about, error)
                refused = error.reasons or (str(error),)
                run.live.ending = False
            except BaseException as error:
                self._failed(run, "editor", about, error)
                return None
        problem = cut(f"The edit was refused {ANSWERS_MAX} times: {' '.join(refused)}")
        self._report(run, about, Outcome.FAIL, Report(run.handle, error=problem))
        return None

    def _submit_edit(self, run: CallableRun, batch: BatchView, answer: object, by: str) -> EditView:
        edit = edit_of_answer(answer)
        self._heartbeat.finish(run.live)
        return self._retry_while_leased(
            run.lease,
            self._service.edit_plan,
            batch.plan,
            base=batch.revision,
            operations=edit.operations,
            graph=edit.graph,
            run=run.handle,
            through=batch.through,
            by=by,
        )

    def _failed(self, run: CallableRun, where: str, about: str, error: BaseException) -> RunView | None:
        """A callable raised. If we cancelled it, its item is released; else the run has failed."""
        if isinstance(error, _CANCELLED) and run.call.cancelled:
            return self._report(run, about, Outcome.RELEASE, Report(run.handle))
        self._note(where, about, error)
        report = Report(run.handle, error=error_text(error))
        return self._report(run, about, Outcome.FAIL, report)

    def _report(self, run: CallableRun, about: str, outcome: Outcome, report: Report) -> RunView | None:
        """Report how a run ended; returns the store's answer, or None if it refused or was unreachable."""
        self._heartbeat.finish(run.live)
        try:
            view = self._retry_while_leased(run.lease, self._reports.send, outcome, report)
        except InterlockError as error:
            self._note("store", about, error)
            return None
        if view.refusal is None:
            return view
        run.live.lost = view.refusal
        self._note("store", about, view.refusal.error())
        return None

    def _retry_while_leased(
        self, lease: LeaseView, /, ask: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Retry while the store is unreachable, until the run's lease must have expired."""
        assert lease.lease_s is not None
        until_s = now_s() + lease.lease_s
        while True:
            try:
                return ask(*args, **kwargs)
            except RETRYABLE_ERRORS as error:
                self._note("store", lease.item.title, error)
                if now_s() >= until_s:
                    raise
                time.sleep(AGAIN_S)
