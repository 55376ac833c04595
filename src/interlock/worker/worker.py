"""A worker: it claims items for an agent and runs a command for each, as many at once as it has slots.

The claim loop is the caller's thread. A heartbeat keeps all leases, a reporter delivers all ends, and each
run has a thread of its own (`Attempt`). A slot is free again when the store has acknowledged the end of its
run, not before.

Draining: it claims no more, and ends when what runs has ended. Asked a second time, it ends what runs through
the cancel ladder and gives it back; a third time, at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from interlock.core.errors import CommandUnusable, Exit, InterlockError, InvalidInput
from interlock.core.names import BATCH_MAX, agent_key, check_name
from interlock.process.command import Agent, check_command, not_in_worktree, now_s
from interlock.process.heartbeat import Heartbeat
from interlock.service.contract import LeaseView, RunView, Service
from interlock.worker.hindrance import Hindrance
from interlock.worker.job import Job, Notice, told_to_end
from interlock.worker.log import prune
from interlock.worker.recovery import Aftermath
from interlock.worker.reports import Reporter
from interlock.worker.run import Attempt
from interlock.worker.rundirectory import Home, Trace
from interlock.worker.salvage import Kept
from interlock.worker.spool import End
from interlock.worker.verdict import verdict
from interlock.worker.worktrees import Workspaces

#: How long one claim waits for work. A worker that is told to drain while idle ends within this time.
CLAIM_WAIT_S = 1.0
#: After a claim that failed because the store was away.
CLAIM_AGAIN_FIRST_S, CLAIM_AGAIN_MAX_S = 0.25, 5.0
#: How often what dead runs left on this host is looked for.
CLEAR_EVERY_S = 30.0
#: How long a worker that ends waits for a store that is away, before it leaves ends in the spool.
LEAVE_AFTER_S = 5.0
#: Supervisors that wait for a command, so that a run begins at once.
WARM_MAX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a worker is to do."""

    agent: str
    command: tuple[str, ...]
    slots: int = 1
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    lease_s: float | None = None
    worktree: bool = False
    #: End after so many runs.
    limit: int | None = None
    #: End when nothing runs and nothing can be claimed.
    exit_when_idle: bool = False


class Worker:
    """One process at work. `run` returns when it was drained, or when its wish is fulfilled."""

    def __init__(
        self,
        service: Service,
        wish: Wish,
        *,
        home: Home,
        url: str,
        tell: Callable[[Notice], None],
        echo: Callable[[int, bytes], None],
    ) -> None:
        """`tell` hears what happens, `echo` what agents print; neither may wait."""
        self.wish = wish
        self.name = incarnation()
        self.tell = tell
        self.echo = echo
        self._service = service
        self._home = home
        workspaces = Workspaces(home)
        self._aftermath = Aftermath(home, workspaces, self._salvaged)
        self._job = Job(
            agent=wish.agent,
            command=wish.command,
            worker=self.name,
            url=url,
            worktree=wish.worktree,
            home=home,
            service=service,
            workspaces=workspaces,
            aftermath=self._aftermath,
        )
        self._changed = threading.Condition()
        self._attempts: dict[int, Attempt] = {}
        self._idle: list[Agent] = []
        self._started = 0
        self._asked_to_end = 0
        self._failed: Exception | None = None
        self._troubles: set[str] = set()
        self._hindrance = Hindrance()

    def attempts(self) -> list[Attempt]:
        """What is at work now, oldest first."""
        with self._changed:
            return list(self._attempts.values())

    @property
    def draining(self) -> bool:
        return self._asked_to_end > 0

    def run(self) -> int:
        """Work until drained; the exit code."""
        self._check()
        self._home.make()
        writing = threading.Lock()
        self._heartbeat = Heartbeat(
            self._service,
            lambda: [attempt for attempt in self.attempts() if attempt.beats],
            writing=writing,
            trouble=lambda error: self._trouble("renew", error),
            crashed=self.give_up,
        )
        self._reporter = Reporter(
            self._service,
            self._home.spool,
            worker=self.name,
            store=self._home.store,
            writing=writing,
            trouble=lambda error: self._trouble("report", error),
            answered=self._delivered,
            crashed=self.give_up,
        )
        self._heartbeat.start()
        self._reporter.start()
        self.tell(Notice(kind="ready", text=self._greeting(), data={"worker": self.name}))
        try:
            self._claim()
        except BaseException:
            for attempt in self.attempts():
                attempt.kill()
            raise
        finally:
            self._wait_for_slots()
            self._end()
        if self.wish.exit_when_idle and not self.draining:
            self._failed = self._failed or self._hindrance.error  # idle, but not because nothing is left
        if self._failed is not None:
            raise self._failed
        idle = self._started == 0 and self.wish.exit_when_idle and not self.draining
        return Exit.NO_WORK if idle else Exit.OK

    def drain(self) -> None:
        """Claim no more; a second time: end what runs and give it back; a third time: at once."""
        with self._changed:
            self._asked_to_end += 1
            self._changed.notify_all()
            asked, attempts = self._asked_to_end, list(self._attempts.values())
        self.tell(told_to_end(asked, len(attempts)))
        for attempt in attempts:
            if asked == 2:
                attempt.stop("the worker was told to stop")
            elif asked > 2:
                attempt.kill()

    # -- for attempts -------------------------------------------------------------------------------

    def take_agent(self) -> Agent:
        """A supervisor without a command, made ahead of time if there is one."""
        with self._changed:
            self._changed.notify_all()  # the next one is made ready while this one works
            if self._idle:
                return self._idle.pop(0)
        return Agent()

    def report(self, attempt: Attempt, end: End) -> None:
        """Owe the store this end; the slot is free when it has answered."""

        def answered(_: End, answer: RunView | InterlockError) -> None:
            self.tell(verdict(self._service, end, answer, attempt.item.lane))
            attempt.close()

        self._reporter.report(end, answered)

    def begun(self) -> None:
        with self._changed:
            recovered = self._hindrance.lift()
            self._changed.notify_all()
        if recovered:
            self.tell(Notice(kind="recovered", text="Runs can be started again."))

    def hindered(self, attempt: Attempt, error: InterlockError) -> None:
        """Claim nothing for a while. What was not started does not count as a run."""
        with self._changed:
            self._started -= 1
            new = self._hindrance.meet(error)
        if new:
            text = f"Run {attempt.fence} could not be started: {error} Nothing is claimed until that is over."
            self.tell(Notice(kind="hindered", text=text, run=attempt.fence, item=attempt.item.id))

    def over(self, attempt: Attempt) -> None:
        with self._changed:
            self._attempts.pop(attempt.fence, None)
            self._changed.notify_all()

    def _check(self) -> None:
        """Raise before anything is claimed if it cannot work."""
        if not agent_key(self.wish.agent):
            raise InvalidInput("There is no agent.", "Pass --agent NAME.")
        for what, names in (("type", self.wish.types), ("label", self.wish.labels)):
            for name in names:
                check_name(what, name)
        check_command(self.wish.command, here=not self.wish.worktree)
        if self.wish.worktree:
            self._job.workspaces.check()
            program = self.wish.command[0]
            if "/" in program and not Path(program).exists() and not self._job.workspaces.has(program):
                raise not_in_worktree(program)
            self._job.workspaces.forget()

    # -- claiming -----------------------------------------------------------------------------------

    def _claim(self) -> None:
        cleared_s, again_s = -CLEAR_EVERY_S, 0.0
        while self._may_claim():
            if time.monotonic() - cleared_s >= CLEAR_EVERY_S:
                cleared_s = time.monotonic()
                self._aftermath.clear()
                prune(self._home.logs)
            if not self._unhindered():
                continue
            sent_s = now_s()
            try:
                leases = self._next()
            except InvalidInput:
                raise
            except InterlockError as error:
                self._trouble("claim", error)
                again_s = min(max(2 * again_s, CLAIM_AGAIN_FIRST_S), CLAIM_AGAIN_MAX_S)
                with self._changed:
                    self._changed.wait(again_s)
                continue
            again_s = 0.0
            self._trouble("claim", None)
            if not leases and self.wish.exit_when_idle and not self.attempts():
                return
            self._begin(leases, sent_s)

    def _may_claim(self) -> bool:
        """Wait for a free slot; false when there is nothing more to claim."""
        with self._changed:
            while not self.draining and (len(self._attempts) >= self.wish.slots or self._at_limit_for_now):
                self._warm_up()
                self._changed.wait()
            self._warm_up()
            return not self.draining and self.wish.limit != self._started

    @property
    def _at_limit_for_now(self) -> bool:
        """Whether what is being started would be the last; if something hinders it, it does not count."""
        starting = any(attempt.state == "starting" for attempt in self._attempts.values())
        return self.wish.limit == self._started and starting

    def _unhindered(self) -> bool:
        """Wait out a hindrance, then see whether it is over, as far as that can be seen without an item."""
        with self._changed:
            if self._hindrance.error is None:
                return True
            while not self.draining and (left_s := self._hindrance.left_s):
                self._changed.wait(left_s)
            if self.draining:
                return False
        if self.wish.worktree:
            try:
                self._job.workspaces.reach()
            except InterlockError as error:
                with self._changed:
                    self._hindrance.meet(error)
                return False
        return True

    def _next(self) -> list[LeaseView]:
        with self._changed:
            free = self.wish.slots - len(self._attempts)
            if self._hindrance.error is not None:
                free = min(free, 1)  # one item tells whether it is over
            at_work = bool(self._attempts)
        if self.wish.limit is not None:
            free = min(free, self.wish.limit - self._started)
        return self._service.next(
            self.wish.agent,
            types=self.wish.types,
            labels=self.wish.labels,
            limit=min(free, BATCH_MAX),
            wait_s=0.0 if self.wish.exit_when_idle and not at_work else CLAIM_WAIT_S,
            lease_s=self.wish.lease_s,
            worker=self.name,
        )

    def _begin(self, leases: list[LeaseView], sent_s: float) -> None:
        for lease in leases:
            attempt = Attempt(self._job, self, lease, sent_s)
            with self._changed:
                taken = {other.slot for other in self._attempts.values()}
                attempt.slot = next(n for n in range(1, self.wish.slots + 1) if n not in taken)
                self._attempts[lease.fence] = attempt
                self._started += 1
            if self.draining:  # asked to end while the claim was on its way
                attempt.stop("the worker is draining")
            attempt.start()
        if leases:
            self._heartbeat.hurry()

    def _warm_up(self) -> None:
        """Have supervisors ready: for the slots that are free, and for the one that is free next."""
        free = self.wish.slots - len(self._attempts)
        with contextlib.suppress(OSError):  # a machine at its limits: the run itself will say so
            while len(self._idle) < min(max(free, 1), WARM_MAX):
                self._idle.append(Agent())

    # -- ending -------------------------------------------------------------------------------------

    def _wait_for_slots(self) -> None:
        """Until everything has ended and was acknowledged, or only a store that is away is waited for."""
        owing_since_s: float | None = None
        with self._changed:
            while self._attempts:
                owing = all(attempt.state == "reporting" for attempt in self._attempts.values())
                owing_since_s = (owing_since_s or time.monotonic()) if owing else None
                if owing_since_s is not None and time.monotonic() - owing_since_s > LEAVE_AFTER_S:
                    return
                self._changed.wait(0.5)

    def _end(self) -> None:
        self._heartbeat.stop()
        self._reporter.stop()
        for agent in self._idle:
            agent.close()
        left = self.attempts()
        if left:
            text = f"{len(left)} ends could not be delivered; the next worker here does it."
            self.tell(Notice(kind="spooled", text=text, data={"runs": [attempt.fence for attempt in left]}))
        self.tell(Notice(kind="stopped", text=f"Stopped. Runs started: {self._started}."))

    # -- what is heard ------------------------------------------------------------------------------

    def _greeting(self) -> str:
        slots = "1 slot" if self.wish.slots == 1 else f"{self.wish.slots} slots"
        return f"Worker {self.name} works for {self.wish.agent.strip()} in {slots}: {self.wish.command[0]}"

    def give_up(self, error: Exception) -> None:
        """Begin nothing more and end with this error; after a defect also what runs."""
        with self._changed:
            self._failed = self._failed or error
            self._asked_to_end += 1
            self._changed.notify_all()
        if isinstance(error, CommandUnusable):
            return  # what runs already may finish
        for attempt in self.attempts():
            attempt.stop("the worker failed")

    def _trouble(self, what: str, error: Exception | None) -> None:
        with self._changed:
            before = bool(self._troubles)
            (self._troubles.discard if error is None else self._troubles.add)(what)
            after = bool(self._troubles)
        if error is not None and not before:
            self.tell(Notice(kind="trouble", text=f"{error} Trying again."))
        elif before and not after:
            self.tell(Notice(kind="recovered", text="The store answers again."))

    def _salvaged(self, trace: Trace, kept: Kept, path: Path) -> None:
        whose = partial(Notice, run=trace.run, item=trace.item, lane=trace.lane)
        text = f"Run {trace.run} had left work that was not pushed; it is kept as {kept.ref}"
        self.tell(whose(kind="salvaged", text=text, data={"ref": kept.ref}))
        if kept.left_out:
            text = f"Run {trace.run} had left its worktree behind: {kept.rest} could not be kept; see {path}"
            self.tell(whose(kind="stays", text=text, data={"path": str(path)}))

    def _delivered(self, end: End, answer: RunView | InterlockError) -> None:
        """The end of a run of a worker that died."""
        self.tell(verdict(self._service, end, answer, None))


def incarnation() -> str:
    """A name for this process that no other process ever has."""
    host = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname()).strip("-")[:60] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
