"""Sends queued effects to GitHub: each at least once, and exactly once where GitHub lets us recognise it.

    take      lease the next effect of a number; from now on it counts as sent
    look      if it was taken before, look for it (by its mark or id; not if sending twice is harmless)
    send      send the request
    settle    mark it as done, postponed, or waiting for a person, with a reason

If a relay dies between two steps, its effect counts as sent, and the next relay looks for it. A relay that
is paused for longer than its lease could still send. So the lease is checked before each request that must
not be repeated.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable
from interlock.core.record import MutableRecord
from interlock.core.timing import doubled_s
from interlock.github.client import GitHub
from interlock.github.effects import EffectFailed, EffectOutcome, EffectUncertain, Sending, read_effect
from interlock.github.lookup import Reader
from interlock.github.status_publisher import StatusPublisher
from interlock.store.outbox import LeasedEffect, OutboxStore

if TYPE_CHECKING:
    from interlock.github.traces import Traces

#: The lease for one effect, and the part of it that must remain before a request that is not repeated.
LEASE_S, LAST_REQUEST_S = 300.0, 60.0
#: How long one request may wait for GitHub. A slower effect is postponed, and other numbers continue.
PATIENCE_S = 5.0
#: The wait of an effect after its first failure; it doubles with each further one. GitHub's reads may lag
#: behind its writes, so a look right after a lost answer could miss the write.
FIRST_WAIT_S, LONGEST_WAIT_S = 15.0, 3600.0
#: The failures after which a person is asked: refusals, which seldom go away, and faults at GitHub.
REFUSALS, FAULTS = 5, 20
#: This many effects in a row with a fault are an outage: the rest waits.
OUTAGE = 3
#: The outcomes of runs that lost their lease.
LOST = ("lost", "timed_out", "cancelled")


class SendPass(MutableRecord):
    """The result of one pass."""

    #: The numbers of effects that were sent, dropped, postponed for a retry, and left to a person.
    sent: int = 0
    dropped: int = 0
    put_off: int = 0
    dead: int = 0
    #: Why the pass ended early; empty if it did not.
    stopped: str = ""
    #: The seconds until the next effect is due; None if nothing is queued.
    next_s: float | None = None

    @property
    def tried(self) -> int:
        return self.sent + self.dropped + self.put_off + self.dead


class OutboxRelay:
    """Sends the queued effects of one database, in the name of one account."""

    def __init__(
        self,
        github: GitHub,
        outbox: OutboxStore,
        *,
        publisher: StatusPublisher | None = None,
        traces: Traces | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._github, self._outbox, self._clock, self._publisher = github, outbox, clock, publisher
        self._traces = traces
        self._reader = Reader(github)
        self._leased_at = 0.0

    def send(self, limit: int, *, again: bool = False) -> SendPass:
        """Send up to `limit` due effects. With `again`, dead effects are queued again first."""
        if again:
            self._outbox.retry(limit)
        if self._publisher is not None:
            self._publisher.enqueue()
        passed, faults = SendPass(), 0
        for _ in range(limit):
            self._leased_at = self._clock()
            taken = self._outbox.take(LEASE_S)
            if taken is None:
                break
            try:
                stopped, fault = self._send_one(taken, passed)
            except GitHubRefused as refused:  # the token is invalid
                self._put_off(taken, passed, FIRST_WAIT_S, refused, failed=False)
                raise
            faults = faults + 1 if fault else 0
            passed.stopped = stopped or (fault if faults >= OUTAGE else "")
            if passed.stopped:
                break
        passed.next_s = self._outbox.next_s()
        return passed

    def _send_one(self, taken: LeasedEffect, passed: SendPass) -> tuple[str, str]:
        """Send one effect. Gives why no more can be sent, and GitHub's fault, each empty if there is none."""
        refusals, begun_us = taken.tries + 1 >= REFUSALS, time.time_ns() // 1000
        try:
            done = self._carry_out(taken)
            self._settle(taken, passed, done)
            if self._traces is not None:
                self._traces.sent(taken, begun_us, done.outcome)
        except GitHubLimited as limited:
            self._put_off(taken, passed, limited.wait_s, limited, failed=False)
            return str(limited), ""
        except GitHubUnavailable as error:
            wait_s = None if taken.tries + 1 >= FAULTS else _back_off_s(taken.tries)
            self._put_off(taken, passed, wait_s, error, maybe_sent=error.uncertain)
            return "", str(error)
        except GitHubRefused as refused:
            if refused.status == 401:
                raise
            self._put_off(taken, passed, None if refusals else _back_off_s(taken.tries), refused)
        except EffectFailed as failed:
            self._put_off(taken, passed, None if refusals else _back_off_s(taken.tries), failed)
        except EffectUncertain as unsure:
            # A person decides. If they requeue it, it is sent without another look.
            passed.dead += 1
            self._outbox.put_off(taken, None, str(unsure), failed=True, maybe_sent=False)
        return "", ""

    def _settle(self, taken: LeasedEffect, passed: SendPass, done: EffectOutcome) -> None:
        self._outbox.settle(taken, made=done.made, outcome=done.outcome)
        if done.dropped:
            passed.dropped += 1
        else:
            passed.sent += 1

    def _put_off(
        self,
        taken: LeasedEffect,
        passed: SendPass,
        wait_s: float | None,
        why: Exception,
        *,
        failed: bool = True,
        maybe_sent: bool = False,
    ) -> None:
        if wait_s is None:
            passed.dead += 1
        else:
            passed.put_off += 1
        maybe_sent = maybe_sent or taken.sent_us is not None
        self._outbox.put_off(taken, wait_s, str(why), failed=failed, maybe_sent=maybe_sent)

    # One effect

    def _carry_out(self, taken: LeasedEffect) -> EffectOutcome:
        if taken.run is not None and taken.run_status in LOST:
            told = "was cancelled" if taken.run_status == "cancelled" else "lost its lease"
            return EffectOutcome(outcome=f"not sent: run {taken.run} {told}", made=taken.made, dropped=True)
        effect = read_effect(taken.kind, taken.data)
        if effect.while_running and taken.run_status not in (None, "running"):
            return EffectOutcome(
                outcome=f"not sent: run {taken.run} has ended", made=taken.made, dropped=True
            )
        sending = Sending(taken, self._github, self._reader, self._publisher, self._is_late)
        try:
            found = effect.sent_before(sending) if taken.sent_us is not None else None
            return found if found is not None else effect.send(sending)
        except (KeyError, TypeError, ValueError) as error:
            raise EffectFailed(f"GitHub's answer cannot be read: {error!r}.") from error

    def _is_late(self) -> bool:
        return self._clock() > self._leased_at + LEASE_S - LAST_REQUEST_S


def _back_off_s(tries: int) -> float:
    return doubled_s(FIRST_WAIT_S, tries, LONGEST_WAIT_S, random.random())  # noqa: S311
