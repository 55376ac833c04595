"""A tenancy: one run's time on a lane, as the process that holds it sees it.

It turns what the store says into what the command may do: trust until a moment, or the cancel ladder.
"""

from __future__ import annotations

import threading
from datetime import datetime

from interlock.process.command import Agent, Ladder, now_s
from interlock.service.contract import LeaseView, RefusalView, RunView


class Tenancy:
    """Our run on the lane, and what the store last said of it."""

    def __init__(self, lease: LeaseView, sent_s: float, *, beat_s: float, timeout_s: float | None) -> None:
        """`sent_s` is when the claim was sent: the lease began no earlier."""
        self.handle = lease.run
        self.fence = lease.fence
        self.item = lease.item
        self.lease_s = lease.lease_s
        self._beat_s = min(beat_s, lease.renew_within_s)
        self.beat_due_s = sent_s + self._beat_s
        self.ladder = Ladder().within(self.lease_s)
        self.lost: RefusalView | None = None
        self.cancel_requested = False
        self.over = False
        self._expires_at: datetime | None = lease.expires_at
        self._trust_s = sent_s + self.ladder.trust_s(self.lease_s)
        self._deadline_s = None if timeout_s is None else now_s() + timeout_s
        self._agent: Agent | None = None
        self._lock = threading.Lock()

    @property
    def until_s(self) -> float:
        """When the command is ended by its supervisor, whatever becomes of us."""
        return self._trust_s if self._deadline_s is None else min(self._trust_s, self._deadline_s)

    @property
    def timed_out(self) -> bool:
        return self._deadline_s is not None and self._deadline_s <= min(self._trust_s, now_s())

    def watch(self, agent: Agent | None) -> None:
        """From now on the store's answers are for this command."""
        with self._lock:
            self._agent = agent
            self._pass_on()

    def renewed(self, view: RunView, sent_s: float) -> None:
        """The store's answer to a renewal that was sent at `sent_s`, also a refusal.

        A store may answer without having written: then the lease ends when it did before, and so does trust.
        """
        with self._lock:
            self.beat_due_s = sent_s + self._beat_s
            self.lost = self.lost or view.refusal
            self.cancel_requested = self.cancel_requested or view.cancel_requested
            if view.refusal is None and view.expires_at != self._expires_at:
                self._expires_at = view.expires_at
                self._trust_s = sent_s + self.ladder.trust_s(self.lease_s)
            self._pass_on()

    def _pass_on(self) -> None:
        if self._agent is None:
            return
        if self.lost is not None or self.cancel_requested:
            self._agent.stop()
        else:
            self._agent.trust(self.until_s)
