"""Reports ends of runs: first to disk, then to the store in batches, with retries during an outage.

A worker also reports the ends in spools of dead workers on this host.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from interlock.core.errors import InterlockError, InvalidInput, NotAllowed, NoToken, StoreReplaced
from interlock.core.model import EventKind, Reason
from interlock.core.record import replace
from interlock.process.heartbeat import BackgroundLoop
from interlock.process.report_queue import ReportQueue
from interlock.service.contract import EndedRunView, RunView, Service
from interlock.worker.rundirectory import Home
from interlock.worker.spool import RunEnd, Spool, orphans

#: How long a batch waits for more ends.
GATHER_S = 0.007
AGAIN_FIRST_S, AGAIN_MAX_S = 0.1, 2.0
#: How often to look for spools of workers that died on this host.
ORPHANS_EVERY_S = 30.0

#: The store's answer to an end, or the error with which the store will always refuse it.
Answer = RunView | InterlockError


class Reporter:
    """Reports ends until it is stopped."""

    def __init__(
        self,
        service: Service,
        home: Home,
        *,
        worker: str,
        trouble: Callable[[InterlockError | None], None],
        unkept: Callable[[RunEnd, OSError], None],
        refused: Callable[[RunEnd, InterlockError], None] = lambda _end, _error: None,
        answered: Callable[[RunEnd, Answer], None],
        crashed: Callable[[Exception], None],
    ) -> None:
        """`trouble` gets each error of the store, and None when it answers again.

        `unkept` gets an end that could not be written to disk, only the first in a row. `refused` gets an end
        on disk that the server refuses from this token, once. `answered` gets the answers to ends of dead
        workers. An end of another agent's worker stays on disk for such a worker.
        """
        self.queue = ReportQueue(service, gather_s=GATHER_S)
        self._home = home
        self._trouble = trouble
        self._tell_unkept = unkept
        self._refused = refused
        self._answered = answered
        self._spool = Spool.make(home.spool, worker)
        #: Ends that could not be written to disk, with the error; and whether the last one failed.
        self._unkept: dict[int, OSError] = {}
        self._full = False
        #: Ends on disk that were already reported as refused for this token.
        self._told_refused: set[int] = set()
        self._leaving = threading.Event()
        self._thread = BackgroundLoop(self._deliver_orphans, "interlock-orphans", crashed)

    def start(self) -> None:
        self._thread.start()

    def keep(self, end: RunEnd) -> None:
        """Write an end to disk before it is reported."""
        try:
            self._spool.keep(end)
            self._unkept.pop(end.fence, None)
            self._full = False
        except OSError as error:  # for example a full disk: the end can still be reported
            self._unkept[end.fence] = error
            if not self._full:
                self._full = True
                self._tell_unkept(end, error)

    def unkept(self, fence: int) -> OSError | None:
        """Why the end of a run is not on disk; None if it is."""
        return self._unkept.get(fence)

    def report(self, end: RunEnd) -> Answer | None:
        """Report a kept end; None if the store stays unreachable until this worker leaves."""
        answer = self._deliver(end, self._spool)
        if answer is None and end.fence in self._unkept:
            self.keep(end)
        return answer

    def leave(self) -> None:
        """Try once more to report the pending ends, and leave the rest on disk."""
        self._leaving.set()

    def close(self, timeout_s: float) -> None:
        """Close after `leave`. A slower call to the store is abandoned: reporting twice does no harm."""
        self._thread.join(timeout_s)
        self._spool.close()

    def _deliver(self, end: RunEnd, spool: Spool) -> Answer | None:
        pause_s, last_try = 0.0, False
        while True:
            answer: Answer
            try:
                answer = self.queue.send(end.outcome, end.report)
            except InvalidInput as error:
                answer = error
            except InterlockError as error:
                refused = isinstance(error, NoToken | NotAllowed)
                if not isinstance(error, NotAllowed) or spool is self._spool:  # otherwise of another agent
                    self._trouble(error)
                if refused and end.fence not in self._unkept and end.fence not in self._told_refused:
                    self._told_refused.add(end.fence)
                    self._refused(end, error)
                if last_try or refused or isinstance(error, StoreReplaced):
                    return None
                pause_s = min(max(2 * pause_s, AGAIN_FIRST_S), AGAIN_MAX_S)
                last_try = self._leaving.wait(pause_s)
                continue
            self._trouble(None)
            spool.drop(end)
            return answer

    def _deliver_orphans(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                for spool in (s for d in {self._home.spool, self._home.former_spool} for s in orphans(d)):
                    with contextlib.closing(spool):
                        for end in (end for end in spool.ends() if end.store in self._home.stores):
                            if (answer := self._deliver(end, spool)) is not None:
                                self._answered(end, answer)
            if self._leaving.wait(ORPHANS_EVERY_S):
                return


def ended_run(service: Service, *, item: int, run: int) -> EndedRunView | None:
    """A run that has ended in the store; None if it continues or the store is unreachable."""
    with contextlib.suppress(InterlockError):
        return next((view for view in service.show(item).runs if view.run == run and view.ended_at), None)
    return None


def reported_run(service: Service, *, item: int, run: int) -> EndedRunView | None:
    """The same, if a report ended the run, not the store or an operator. A question is then the reason."""
    ended = ended_run(service, item=item, run=run)
    if ended is None or ended.reason != Reason.REPORTED:
        return None
    with contextlib.suppress(InterlockError):
        asked = (e for e in service.show(item).events if e.kind == EventKind.QUESTION_ASKED and e.run == run)
        if any(not e.data.get("live") for e in asked):  # a live run went on after its question
            return replace(ended, reason=Reason.ASKED.value)
    return ended
