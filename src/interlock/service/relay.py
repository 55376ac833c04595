"""Sends effects of the outbox: each at least once, in the order of its queue, by one sender at a time.

    take       lease the next effect of a queue
    carry out  send it: the one step that is different for GitHub and for a receiver of notices
    settle     mark it as done, postponed, or waiting for a person, with a reason

If a relay dies between two steps, the next one takes the effect when the lease has expired. A relay that is
paused for longer than its lease could still send.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from interlock.core.record import MutableRecord, Record
from interlock.core.timing import doubled_s
from interlock.store.outbox import LeasedEffect, OutboxStore

#: The wait of an effect after its first failure; it doubles with each further one. GitHub's reads may lag
#: behind its writes, so a look right after a lost answer could miss the write.
FIRST_WAIT_S, LONGEST_WAIT_S = 15.0, 3600.0
#: The failures after which a person is asked: refusals, which seldom go away, and outages.
REFUSALS, FAULTS = 5, 20
#: This many effects in a row with a fault are an outage: the rest waits.
OUTAGE = 3


class EffectOutcome(Record):
    """An effect that was sent or proved unneeded."""

    outcome: str
    #: GitHub's id of what it made.
    made: int | None = None
    dropped: bool = False


class EffectFailed(Exception):
    """The other side answered, but the effect did not happen. It is retried, then becomes a dead letter."""


class EffectUncertain(Exception):
    """Only a person can say whether it happened."""


class EffectUnavailable(Exception):
    """The other side is unreachable or failing. `maybe_sent`: it may have been carried out."""

    def __init__(self, sentence: str, *, maybe_sent: bool = False) -> None:
        super().__init__(sentence)
        self.maybe_sent = maybe_sent


class EffectLimited(Exception):
    """The other side takes nothing for `wait_s`."""

    def __init__(self, sentence: str, wait_s: float) -> None:
        super().__init__(sentence)
        self.wait_s = wait_s


class SenderRefused(Exception):
    """The sender itself is refused, so no effect can be sent. The effect waits, and this is not a failure of
    it."""


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


class Relay:
    """Sends queued effects to one place: to GitHub, or to one receiver of notices."""

    def __init__(
        self,
        outbox: OutboxStore,
        carry_out: Callable[[LeasedEffect], EffectOutcome],
        *,
        lease_s: float,
        receiver: int | None = None,
        traced: Callable[[LeasedEffect, int, str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox, self._carry_out, self._traced, self._clock = outbox, carry_out, traced, clock
        self._lease_s, self._receiver = lease_s, receiver
        self._leased_at = 0.0

    @property
    def lease_left_s(self) -> float:
        """How long the lease of the effect that is being sent lasts."""
        return self._leased_at + self._lease_s - self._clock()

    def send(self, limit: int, *, within_s: float | None = None) -> SendPass:
        """Send up to `limit` due effects. With `within_s`, none is begun after that time."""
        passed, faults = SendPass(), 0
        ends_at = None if within_s is None else time.monotonic() + within_s
        for _ in range(limit):
            if ends_at is not None and time.monotonic() >= ends_at:
                break
            self._leased_at = self._clock()
            taken = self._outbox.take(self._lease_s, self._receiver)
            if taken is None:
                break
            stopped, fault = self._send_one(taken, passed)
            faults = faults + 1 if fault else 0
            passed.stopped = stopped or (fault if faults >= OUTAGE else "")
            if passed.stopped:
                break
        passed.next_s = self._outbox.next_s(self._receiver)
        return passed

    def _send_one(self, taken: LeasedEffect, passed: SendPass) -> tuple[str, str]:
        """Send one effect. Gives why no more can be sent, and the fault, each empty if there is none."""
        refusals, begun_us = taken.tries + 1 >= REFUSALS, time.time_ns() // 1000
        try:
            done = self._carry_out(taken)
            self._settle(taken, passed, done)
            if self._traced is not None:
                self._traced(taken, begun_us, done.outcome)
        except EffectLimited as limited:
            self._put_off(taken, passed, limited.wait_s, limited, failed=False)
            return str(limited), ""
        except EffectUnavailable as error:
            wait_s = None if taken.tries + 1 >= FAULTS else _back_off_s(taken.tries)
            self._put_off(taken, passed, wait_s, error, maybe_sent=error.maybe_sent)
            return "", str(error)
        except SenderRefused as refused:
            self._put_off(taken, passed, FIRST_WAIT_S, refused, failed=False)
            raise
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


def _back_off_s(tries: int) -> float:
    return doubled_s(FIRST_WAIT_S, tries, LONGEST_WAIT_S, random.random())  # noqa: S311
