"""Sends queued effects to GitHub: each at least once, and exactly once where GitHub lets us recognise it.

An effect that was taken before may have been sent: it is looked for by its mark or id first, unless sending
twice is harmless. The lease is checked before each request that must not be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable
from interlock.github.client import GitHub
from interlock.github.effects import Sending, read_effect
from interlock.github.lookup import Reader
from interlock.github.status_publisher import StatusPublisher
from interlock.service.relay import (
    EffectFailed,
    EffectLimited,
    EffectOutcome,
    EffectUnavailable,
    Relay,
    SenderRefused,
    SendPass,
)
from interlock.store.outbox import LeasedEffect, OutboxStore

if TYPE_CHECKING:
    from interlock.github.traces import Traces

#: The lease for one effect, and the part of it that must remain before a request that is not repeated.
LEASE_S, LAST_REQUEST_S = 300.0, 60.0
#: How long one request may wait for GitHub. A slower effect is postponed, and other numbers continue.
PATIENCE_S = 5.0
#: The outcomes of runs that lost their lease.
LOST = ("lost", "timed_out", "cancelled")


class OutboxRelay:
    """Sends the queued effects of one database to GitHub, in the name of one account."""

    def __init__(
        self,
        github: GitHub,
        outbox: OutboxStore,
        *,
        publisher: StatusPublisher | None = None,
        traces: Traces | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._github, self._outbox, self._publisher = github, outbox, publisher
        self._reader = Reader(github)
        traced = None if traces is None else traces.sent
        self._relay = Relay(outbox, self._carried_out, lease_s=LEASE_S, traced=traced, clock=clock)

    def send(self, limit: int, *, again: bool = False) -> SendPass:
        """Send up to `limit` due effects. With `again`, dead effects are queued again first."""
        if again:
            self._outbox.retry(limit)
        if self._publisher is not None:
            self._publisher.enqueue()
        try:
            return self._relay.send(limit)
        except SenderRefused as refused:  # the token is invalid
            assert refused.__cause__ is not None
            raise refused.__cause__ from None

    # One effect

    def _carried_out(self, taken: LeasedEffect) -> EffectOutcome:
        try:
            return self._carry_out(taken)
        except GitHubLimited as limited:
            raise EffectLimited(str(limited), limited.wait_s) from limited
        except GitHubUnavailable as error:
            raise EffectUnavailable(str(error), maybe_sent=error.uncertain) from error
        except GitHubRefused as refused:
            if refused.status == 401:
                raise SenderRefused(str(refused)) from refused
            raise EffectFailed(str(refused)) from refused

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
        return self._relay.lease_left_s < LAST_REQUEST_S
