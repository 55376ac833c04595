"""Claims over HTTP, which wait for work without a thread each.

Claims that wait for the same kind of work share a line. Only the first of a line polls the store, after an
event that may concern its agent. When it gets work, the next one polls, then two, then three, so a burst is
distributed quickly. After an empty poll, a line counts arrivals. So a single item costs one poll, even with
many waiting claims.

Other processes change the store too, and wake-ups may be incomplete. So every line also polls in the
background. Such polls are spread over time, and work that is known to be ready comes first.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from starlette.requests import ClientDisconnect

from interlock.core.names import WAIT_MAX_S, agent_key, check_number
from interlock.core.validation import checked_claim
from interlock.http.bearers import Bearer
from interlock.http.execution import OperationCall, OperationRunner
from interlock.http.problems import Problem
from interlock.service.access import no_token
from interlock.service.operations import Operation

#: The most claims that wait at once, in total and with one token.
WAITING_MAX, WAITING_PER_TOKEN_MAX = 2_000, 1_000
#: The most polls at once, in total and of one line.
POLLS_MAX, OF_LINE_MAX = 8, 4
#: The pause after a background poll, normally and while others poll for work that is known to be ready.
LATER_S, LATER_WHILE_BUSY_S = 0.003, 0.02
#: The arguments that claims of one line share, beside their agent.
_KINDS = ("types", "labels", "item")

Attempt = Callable[[], Awaitable[list[Any]]]


class ClaimRequests:
    """The claims of one server."""

    def __init__(self, execution: OperationRunner) -> None:
        self._execution = execution
        self.lines = WaitingClaims()
        #: Agents with a limit of runs; None if unknown.
        self.limited: set[str] | None = None
        #: The events that end waiting claims, by token. `_revoked` has the tokens found to be invalid.
        self.by_token: dict[str, list[asyncio.Event]] = {}
        self._revoked: Collection[str] = ()

    async def claim(self, call: OperationCall, gone: asyncio.Event) -> list[Any]:
        """The leases that a claim gets within its wait, as JSON values. `gone` ends the wait."""
        given = dict(call.given)
        wait_s = given.pop("wait_s", 0.0)
        check_number("wait", wait_s, 0, WAIT_MAX_S)
        if not wait_s:
            return await self.claim_now(call)
        self._check_room(call.bearer)
        claim = _Claim(self._execution, call._replace(given=given), gone)
        if self.lines.has_line(claim.kind):  # otherwise it polls at once
            earlier = await self._execution.in_thread(claim.check)
            if earlier is not None:
                return earlier
        token = call.bearer.token
        waits = self.by_token.setdefault(token, [])
        waits.append(gone)
        try:
            found = await self.lines.wait(claim.kind, claim.agent, claim.attempt, wait_s, gone)
        finally:
            waits.remove(gone)
            if not waits:
                del self.by_token[token]
        if not found and token in self._revoked:
            raise no_token()
        if not found:
            found, claim.waited_s = await self._kept(call), 0.0
        self.remember_owners(found)
        for lease in found:
            lease["waited_s"] += int(1000 * claim.waited_s) / 1000
        return found

    async def claim_now(self, call: OperationCall) -> list[Any]:
        """The leases that a claim gets without a wait."""
        leases: list[Any]
        leases, _ = await self._execution.run(call)
        if not leases:
            leases = await self._kept(call)
        self.remember_owners(leases)
        return leases

    async def _kept(self, call: OperationCall) -> list[Any]:
        """The leases of an earlier attempt under the key of a claim that found nothing. The answer of such an
        attempt can be lost between the database and this server."""
        if call.kept is None:
            return []
        return await self._execution.in_thread(partial(self._execution.repeated, call.kept)) or []

    def remember_owners(self, leases: Sequence[Mapping[str, Any]]) -> None:
        """Whose runs were given out."""
        for lease in leases:
            self._execution.bearers.remember_owner(lease["run"], lease["item"]["run_agent"] or "")

    async def claim_to_the_end(self, call: OperationCall) -> list[Any]:
        """The same for a caller that may be cancelled, and then still gets the claimed leases. The next
        checkpoint of anyio cancels the caller again."""
        gone = asyncio.Event()
        claim = asyncio.ensure_future(self.claim(call, gone))
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            gone.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([claim])
            return claim.result()

    def _check_room(self, bearer: Bearer) -> None:
        own = len(self.by_token.get(bearer.token, ()))
        if self.lines.waiting >= WAITING_MAX or own >= WAITING_PER_TOKEN_MAX:
            raise Problem(
                "too_many_requests", "Too many claims are waiting on this server.", "Try again in a moment."
            )

    def wake(self, operation: Operation, given: dict[str, Any], answer: Any) -> None:
        """Let waiting claims poll for items that an operation may have made ready, by its answer."""
        match operation.wakes:
            case "none":
                return
            case "added":
                named = {each["item"]["agent"] if each["item"] else "" for each in answer}
                self.lines.wake(None if None in named else named, count=len(answer))
                return
            case "finished" if not any(
                run["promoted"] or run["follow_up"] or (run["item"] or {}).get("plan")
                for run in (answer["runs"] if isinstance(answer, dict) else answer)
            ):  # it frees a run of the same agent, if that has a limit
                agents = {self._execution.bearers.owner(report.run) for report in given["reports"]}
                self.lines.wake(agents if self.limited is None else agents & self.limited)
                return
            case "limits":
                self.limited = None
            case "finished" | "all":
                pass
        self.lines.wake()

    def revoke(self, tokens: Collection[str]) -> None:
        """End the waiting claims of tokens that were revoked or have expired."""
        self._revoked = tokens
        for gone in [gone for token in tokens for gone in self.by_token.get(token, ())]:
            gone.set()

    def stop(self) -> None:
        """End all waits."""
        self.lines.stop()


class _Claim:
    """One claim: its agent, its start, and its polls of the store."""

    def __init__(self, execution: OperationRunner, call: OperationCall, gone: asyncio.Event) -> None:
        self._execution, self._gone = execution, gone
        self._call = call._replace(left=self._is_over)
        self._begun_s, self._tried = time.monotonic(), False
        self.agent = agent_key(call.given["agent"])
        #: Claims of one kind share a line.
        self.kind = (self.agent, *(str(call.given.get(name)) for name in _KINDS))
        #: How long it waited before the successful poll.
        self.waited_s = 0.0

    def check(self) -> list[Any] | None:
        """Before a claim waits behind others: refuse an invalid claim, and answer a repeated request. Runs in
        a thread."""
        call = self._call
        asked = self._execution.bearers.confined(call.operation, call.given, call.bearer.scope)
        checked_claim(
            asked["agent"],
            asked.get("types", ()),
            asked.get("labels", ()),
            asked.get("limit", 1),
            asked.get("lease_s"),
            asked.get("worker"),
            external=asked.get("external", False),
        )
        leases: list[Any] | None = None if call.kept is None else self._execution.repeated(call.kept)
        return leases

    async def attempt(self) -> list[Any]:
        """The leases available now."""
        tried_s = time.monotonic()
        try:
            found, again = await self._execution.run(self._call._replace(given=dict(self._call.given)))
        except ClientDisconnect:
            return []
        finally:
            self._tried = True
        # A lease of this request began after its attempt. One of an earlier request may have begun before.
        self.waited_s = 0.0 if again else tried_s - self._begun_s
        leases: list[Any] = found
        return leases

    def _is_over(self) -> bool:
        """Before a poll: whether its client is gone. Raises `NoToken` if its token was revoked. Runs in a
        thread."""
        if self._tried:
            self._execution.bearers.check_live(self._call.bearer)
        return self._gone.is_set()


# -- lines --------------------------------------------------------------------------------------------


class _Waiter:
    """One claim in a line. It ends at its deadline or when its client is gone."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.over = False


class _Line:
    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.waiters: deque[_Waiter] = deque()
        #: How many of its claims poll now, and how many may.
        self.polling, self.parallel = 0, 1
        #: How many items may be ready for it; None if that is unknown.
        self.maybe_ready: int | None = None
        #: The counts of arrived items, and of wake-ups without a count.
        self.arrived, self.uncounted = 0, 0

    def add(self, count: int | None) -> None:
        """Add items that may be ready; None if their number is unknown."""
        if count is None:
            self.uncounted += 1
            self.maybe_ready = None
        else:
            self.arrived += count
            self.maybe_ready = None if self.maybe_ready is None else self.maybe_ready + count


class WaitingClaims:
    """The lines of waiting claims."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}
        #: Lines that have to poll: at once, and in the background.
        self._soon: dict[_Line, None] = {}
        self._later: dict[_Line, None] = {}
        self._polls: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._stopping = False
        #: How many claims wait now.
        self.waiting = 0
        #: How often the store was polled.
        self.polls = 0

    async def wait(
        self, kind: Hashable, agent: str, attempt: Attempt, wait_s: float, gone: asyncio.Event
    ) -> list[Any]:
        """The result of an attempt within the time. `gone` ends the wait. A started attempt is never
        abandoned."""
        if wait_s <= 0 or self._stopping:
            return await attempt()
        waiter = _Waiter(attempt)
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = _Line(agent)
            self._soon[line] = None  # others of the line have polled already
        line.waiters.append(waiter)
        self.waiting += 1
        try:
            self._poll()
            return await self._answered(line, waiter, wait_s, gone)
        finally:
            self.waiting -= 1
            self._tidy(kind, line)

    async def _answered(self, line: _Line, waiter: _Waiter, wait_s: float, gone: asyncio.Event) -> list[Any]:
        hung_up = asyncio.ensure_future(gone.wait())
        either: set[asyncio.Future[Any]] = {waiter.answer, hung_up}
        try:
            await asyncio.wait(either, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hung_up.cancel()
            waiter.over = True
            if waiter in line.waiters:  # otherwise it is polling, or has polled
                line.waiters.remove(waiter)
                waiter.answer.cancel()
        return [] if waiter.answer.cancelled() else await waiter.answer

    def _tidy(self, kind: Hashable, line: _Line) -> None:
        if not line.waiters and not line.polling and self._lines.get(kind) is line:
            del self._lines[kind]
            self._soon.pop(line, None)
            self._later.pop(line, None)

    def has_line(self, kind: Hashable) -> bool:
        """Whether others already wait for this kind of work."""
        return kind in self._lines

    # -- polling ----------------------------------------------------------------------------------

    def wake(
        self, agents: Collection[str] | None = None, *, count: int | None = None, soon: bool = True
    ) -> None:
        """Items may be ready for these agents, or for any. `count` is their number, if known."""
        queue = self._soon if soon else self._later
        for line in self._lines.values():
            if agents is None or line.agent in agents:
                queue[line] = None
                line.add(count)
        self._poll()

    def stop(self) -> None:
        """End all waits."""
        self._stopping = True
        for line in self._lines.values():
            while line.waiters:
                _answer(line.waiters.popleft(), [])

    def _poll(self) -> None:
        """Start the polls that are due, as many as may run at once."""
        while len(self._polls) < POLLS_MAX and (line := self._next_line()) is not None:
            waiter = line.waiters.popleft()
            line.polling += 1
            task = asyncio.create_task(self._attempt(line, waiter))
            self._polls.add(task)
            task.add_done_callback(self._polled)

    def _polled(self, task: asyncio.Task[None]) -> None:
        self._polls.discard(task)
        self._poll()

    def _next_line(self) -> _Line | None:
        """A line that has to poll and may. It stays queued if more of its claims may poll."""
        for queue in (self._soon, self._later):
            if queue is self._later and self._pause is not None:
                continue
            for line in list(queue):
                if not line.waiters:
                    if not line.polling:  # otherwise the polling claim polls once more
                        del queue[line]
                elif line.polling < line.parallel:
                    if line.polling + 1 >= line.parallel:
                        del queue[line]
                    if queue is self._later:
                        pause_s = LATER_WHILE_BUSY_S if self._polls else LATER_S
                        self._pause = asyncio.get_running_loop().call_later(pause_s, self._go_on)
                    return line
        return None

    def _go_on(self) -> None:
        self._pause = None
        self._poll()

    async def _attempt(self, line: _Line, waiter: _Waiter) -> None:
        self.polls += 1
        arrived, uncounted = line.arrived, line.uncounted
        try:
            found = await waiter.attempt()
        except BaseException as error:
            self._soon[line] = None  # the error concerns the others of the line too
            if not waiter.answer.done():
                waiter.answer.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            if found:
                line.maybe_ready = None if line.maybe_ready is None else max(0, line.maybe_ready - len(found))
                line.parallel = 1 if line.maybe_ready == 0 else min(line.parallel + 1, OF_LINE_MAX)
                if line.maybe_ready != 0:  # more may be ready
                    self._soon[line] = None
                _answer(waiter, found)
            else:
                line.parallel = 1
                line.maybe_ready = line.arrived - arrived if line.uncounted == uncounted else None
                if waiter.over or self._stopping:
                    _answer(waiter, [])
                else:
                    line.waiters.appendleft(waiter)
        finally:
            line.polling -= 1


def _answer(waiter: _Waiter, found: list[Any]) -> None:
    if not waiter.answer.done():
        waiter.answer.set_result(found)
