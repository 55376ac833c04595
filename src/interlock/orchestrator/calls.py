"""One turn of a callable: it is called with its task or its request, and what came of it is reported.

Whatever a callable does, its run ends: with its result, with its error, or given back. Only a store that
stays away longer than a lease can prevent that, and then the lease has run out by itself.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from interlock.core.checking import check_report
from interlock.core.commands import Outcome
from interlock.core.errors import (
    CycleExpired,
    EditRefused,
    InterlockError,
    InvalidInput,
    LeaseLost,
    PlanEnded,
    StoreBusy,
    StoreUnavailable,
)
from interlock.core.names import BATCH_MAX
from interlock.orchestrator.caller import Callables
from interlock.orchestrator.requests import EditRequest, Running, TaskRun, edit_of_answer
from interlock.process.command import now_s
from interlock.service.contract import Report, RunView, Service
from interlock.service.planview import BatchView, EditView

_T = TypeVar("_T")
_P = ParamSpec("_P")
#: What a store that is away may raise.
AWAY = (StoreUnavailable, StoreBusy)
#: What cancelling an awaitable raises, in its own thread and in the one that waits for it.
_CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)
AGAIN_S = 0.25
#: How often an editor may answer in one run; after that the run has failed.
ANSWERS_MAX = 3
_ERROR_MAX_CHARS = 16_000

#: Hears of what went wrong: where, about which task, and what was raised.
Note = Callable[[str, str, BaseException], None]


@dataclass(frozen=True, slots=True)
class _Owed:
    outcome: Outcome
    report: Report
    answer: Future[RunView]


class Ends:
    """Ends of runs on their way to the store, one call at a time. What comes meanwhile goes together with the
    next: one commit for all of them, and nobody waits for others to come."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sending, self._adding = threading.Lock(), threading.Lock()
        #: What is not on its way yet.
        self.owed: list[_Owed] = []

    def send(self, outcome: Outcome, report: Report) -> RunView:
        """Report an end; the store's answer to it, or what the store raised."""
        mine = _Owed(outcome, report, Future())
        with self._adding:
            self.owed.append(mine)
        with self._sending:
            while not mine.answer.done():  # else somebody has sent it along
                self._deliver(outcome, self._taken(outcome))
        return mine.answer.result()

    def _taken(self, outcome: Outcome) -> list[_Owed]:
        batch: list[_Owed] = []
        others: list[_Owed] = []
        with self._adding:
            for owed in self.owed:
                (batch if owed.outcome is outcome and len(batch) < BATCH_MAX else others).append(owed)
            self.owed = others
        return batch

    def _deliver(self, outcome: Outcome, batch: Sequence[_Owed]) -> None:
        try:
            views: list[RunView] = getattr(self._service, outcome)([owed.report for owed in batch])
        except BaseException as error:
            if len(batch) > 1 and not isinstance(error, AWAY):  # one of them spoils the batch
                for owed in batch:
                    self._deliver(outcome, [owed])
                return
            for owed in batch:
                owed.answer.set_exception(error)
        else:
            for owed, view in zip(batch, views, strict=True):
                owed.answer.set_result(view)


class Turns:
    """Calls and reports for one orchestrator."""

    def __init__(self, service: Service, callables: Callables, writing: threading.Lock, note: Note) -> None:
        """`writing` is held during a renewal; a run whose end is under way is not renewed."""
        self._service = service
        self._ends = Ends(service)
        self._callables = callables
        self._writing = writing
        self._note = note

    def task(self, running: Running, executor: Callable[[TaskRun], Any], given: TaskRun) -> RunView | None:
        """Let an executor do its task; the store's answer to its end."""
        try:
            value = self._callables.call(running.call, executor, given)
        except BaseException as error:
            return self._failed(running, "executor", given.key, error)
        try:
            text = _kept(value)
        except BaseException as error:  # a value may have code of its own, which runs when it is read
            self._note("executor", given.key, error)
            said = _cut(f"The result cannot be kept: {_told(error)}")
            report = Report(running.handle, error=said, retry=False)
            return self._report(running, given.key, Outcome.FAIL, report)
        return self._report(running, given.key, Outcome.DONE, Report(running.handle, result=text))

    def edit(self, running: Running, editor: Callable[[EditRequest], Any], by: str) -> EditView | None:
        """Let an editor answer; what that changed. A refused answer is asked for again, with the reasons."""
        about = running.lease.item.title
        refused: tuple[str, ...] = ()
        for _ in range(ANSWERS_MAX):
            try:
                batch = self._patiently(running, self._service.plan_batch, running.handle)
                request = EditRequest(batch, running, self._service, refused)
                answer = self._callables.call(running.call, editor, request)
            except (LeaseLost, CycleExpired) as error:
                self._note("editor", about, error)
                return None
            except BaseException as error:
                self._failed(running, "editor", about, error)
                return None
            try:
                return self._hand_in(running, batch, answer, by)
            except (LeaseLost, CycleExpired, PlanEnded, *AWAY) as error:
                self._note("editor", about, error)
                return None
            except (EditRefused, InvalidInput) as error:
                self._note("editor", about, error)
                refused = getattr(error, "reasons", (str(error),))
                running.ending = False
            except BaseException as error:
                self._failed(running, "editor", about, error)
                return None
        said = _cut(f"The edit was refused {ANSWERS_MAX} times: {' '.join(refused)}")
        self._report(running, about, Outcome.FAIL, Report(running.handle, error=said))
        return None

    def _hand_in(self, running: Running, batch: BatchView, answer: object, by: str) -> EditView:
        edit = edit_of_answer(answer)
        self._ending(running)
        return self._patiently(
            running,
            self._service.edit_plan,
            batch.plan,
            base=batch.revision,
            operations=edit.operations,
            graph=edit.graph,
            run=running.handle,
            through=batch.through,
            by=by,
        )

    def _failed(self, running: Running, where: str, about: str, error: BaseException) -> RunView | None:
        """A callable raised. If that is because we cancelled it, the work is given back and not counted."""
        if isinstance(error, _CANCELLED) and running.call.cancelled:
            return self._report(running, about, Outcome.RELEASE, Report(running.handle))
        self._note(where, about, error)
        report = Report(running.handle, error=_cut(_told(error)))
        return self._report(running, about, Outcome.FAIL, report)

    def _report(self, running: Running, about: str, outcome: Outcome, report: Report) -> RunView | None:
        """Say how a run ended; the store's answer, or nothing if it refused or stayed away."""
        self._ending(running)
        try:
            view = self._patiently(running, self._ends.send, outcome, report)
        except InterlockError as error:
            self._note("store", about, error)
            return None
        if view.refusal is None:
            return view
        running.lost = True
        self._note("store", about, LeaseLost(view.refusal.message, view.refusal.hint))
        return None

    def _ending(self, running: Running) -> None:
        with self._writing:
            running.ending = True

    def _patiently(self, running: Running, ask: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Ask again while the store is away, for as long as the run can still have its lease."""
        until_s = now_s() + running.lease.lease_s
        while True:
            try:
                return ask(*args, **kwargs)
            except AWAY as error:
                self._note("store", running.lease.item.title, error)
                if now_s() >= until_s:
                    raise
                time.sleep(AGAIN_S)


def _kept(value: Any) -> str | None:
    """A result as it is stored."""
    if value is None:
        return None
    text = json.dumps(value, allow_nan=False)
    check_report(0, text, None)
    return text


def _told(error: BaseException) -> str:
    """An error in a line, even if it cannot say what it is."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException as another:
        return f"{type(error).__name__}, which cannot be told: {type(another).__name__}"


def _cut(text: str) -> str:
    """An error that every store can keep."""
    return (
        text.encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")[:_ERROR_MAX_CHARS]
    )
