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
from typing import Any, ParamSpec, TypeVar

from interlock.agent import now_s
from interlock.callables import Callables
from interlock.contract import Report, RunView, Service
from interlock.core.checking import check_report
from interlock.core.errors import (
    CycleExpired,
    EditRefused,
    InterlockError,
    InvalidInput,
    LeaseLost,
    StoreBusy,
    StoreUnavailable,
)
from interlock.orchestrated import EditRequest, Running, TaskRun, edit_of_answer
from interlock.planview import BatchView

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


class Turns:
    """Calls and reports for one orchestrator."""

    def __init__(self, service: Service, callables: Callables, writing: threading.Lock, note: Note) -> None:
        """`writing` is held during a renewal; a run whose end is under way is not renewed."""
        self._service = service
        self._callables = callables
        self._writing = writing
        self._note = note

    def task(self, running: Running, executor: Callable[[TaskRun], Any], given: TaskRun) -> None:
        """Let an executor do its task."""
        try:
            value = self._callables.call(running.call, executor, given)
        except BaseException as error:
            self._failed(running, "executor", given.key, error)
            return
        try:
            text = _kept(value)
        except (InterlockError, TypeError, ValueError, RecursionError) as error:
            self._note("executor", given.key, error)
            said = f"The result cannot be kept: {type(error).__name__}: {error}"
            self._report(
                running, given.key, self._service.fail, Report(running.handle, error=said, retry=False)
            )
        else:
            self._report(running, given.key, self._service.done, Report(running.handle, result=text))

    def edit(self, running: Running, editor: Callable[[EditRequest], Any], by: str) -> None:
        """Let an editor answer. An answer that is refused is asked for again, with the reasons."""
        about = running.lease.item.title
        refused: tuple[str, ...] = ()
        for _ in range(ANSWERS_MAX):
            try:
                batch = self._patiently(running, self._service.plan_batch, running.handle)
                plan = self._patiently(running, self._service.plan, batch.plan)
                request = EditRequest(batch, plan, running, refused)
                answer = self._callables.call(running.call, editor, request)
            except (LeaseLost, CycleExpired) as error:
                self._note("editor", about, error)
                return
            except BaseException as error:
                self._failed(running, "editor", about, error)
                return
            refused = self._answered(running, batch, answer, by)
            if not refused:
                return
        said = _cut(f"The edit was refused {ANSWERS_MAX} times: {' '.join(refused)}")
        self._report(running, about, self._service.fail, Report(running.handle, error=said))

    def _answered(self, running: Running, batch: BatchView, answer: object, by: str) -> tuple[str, ...]:
        """Hand in an editor's answer; why it is to be asked for again, or nothing."""
        try:
            edit = edit_of_answer(answer)
            self._ending(running)
            self._patiently(
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
        except (EditRefused, InvalidInput) as error:
            self._note("editor", running.lease.item.title, error)
            if isinstance(error, CycleExpired):
                return ()
            running.ending = False
            return getattr(error, "reasons", (str(error),))
        except InterlockError as error:
            self._note("editor", running.lease.item.title, error)
        return ()

    def _failed(self, running: Running, where: str, about: str, error: BaseException) -> None:
        """A callable raised. If that is because we cancelled it, the work is given back and not counted."""
        if isinstance(error, _CANCELLED) and running.call.cancelled:
            self._report(running, about, self._service.release, Report(running.handle))
            return
        self._note(where, about, error)
        said = _cut(f"{type(error).__name__}: {error}")
        self._report(running, about, self._service.fail, Report(running.handle, error=said))

    def _report(
        self,
        running: Running,
        about: str,
        how: Callable[[Sequence[Report]], list[RunView]],
        report: Report,
    ) -> None:
        self._ending(running)
        try:
            view = self._patiently(running, how, [report])[0]
        except InterlockError as error:
            self._note("store", about, error)
            return
        if view.refusal is not None:
            running.lost = True
            self._note("store", about, LeaseLost(view.refusal.message, view.refusal.hint))

    def _ending(self, running: Running) -> None:
        with self._writing:
            running.ending = True

    def _patiently(self, running: Running, ask: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Ask again while the store is away, for as long as the run can still have its lease."""
        until_s = now_s() + 3 * running.lease.renew_within_s
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


def _cut(text: str) -> str:
    """An error that every store can keep."""
    return (
        text.encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")[:_ERROR_MAX_CHARS]
    )
