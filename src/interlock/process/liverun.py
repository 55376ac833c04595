"""A live run: a run that this process works on, and what the store last answered about it.

    trusted_until = sent + lease - ladder - margin

Whoever works on a run owns one of these: a worker, a hold, an orchestrator, a Python program. The heartbeat
renews the lease and records the answers here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from interlock.process.clock import now_s
from interlock.process.ladder import Ladder
from interlock.service.contract import LeaseView, RefusalView, Report, RunView

if TYPE_CHECKING:
    from interlock.process.command import SupervisedCommand

#: A renewal also answers whether somebody asked the run to stop, so it is sent at least this often.
BEAT_MAX_S = 2.0


class LiveRun:
    """One run of this process. All threads may use it."""

    def __init__(
        self,
        lease: LeaseView,
        sent_s: float,
        *,
        beat_s: float = BEAT_MAX_S,
        ladder: Ladder | None = None,
        deadline_s: float | None = None,
        answered: Callable[[], None] | None = None,
    ) -> None:
        """`sent_s` is when the claim was sent, `deadline_s` when the command's own time is up.

        A claim may have waited for work; the lease began no earlier than `sent_s + lease.waited_s`.

        `answered` is called after each answer to a renewal, and when a command starts; without it, a command
        is stopped once its run is cancelled or lost.
        """
        assert lease.lease_s is not None and lease.expires_at is not None, (
            "no process works on an external run"
        )
        self.lease = lease
        self.lease_s = lease.lease_s
        self.ladder = ladder or Ladder().within(lease.lease_s)
        self._deadline_s = deadline_s
        self._answered = answered or self._stop_if_unwanted
        self._beat_s = min(beat_s, lease.lease_s / 3)
        #: When the last renewal that the store accepted was sent.
        self.renewed_s = sent_s + lease.waited_s
        self._trusted_until_s = self.renewed_s + self.ladder.trust_s(lease.lease_s)
        self._expires_at: datetime | None = lease.expires_at
        #: Why the run should stop; None while nobody asked for it.
        self.cancel_reason: str | None = None
        #: Why the store refused a renewal; None while the run has its lease.
        self.lost: RefusalView | None = None
        #: Set once the run is cancelled or lost.
        self.unwanted = threading.Event()
        #: Its end is being reported, or was: it is not renewed any more.
        self.ending = False
        #: How many messages the run has not read, and the number of the last one it has read.
        self.unread = self.seen = 0
        self._command: SupervisedCommand | None = None
        self._lock = threading.Lock()

    @property
    def handle(self) -> str:
        return self.lease.run

    @property
    def beats(self) -> bool:
        """Whether its lease should be renewed."""
        return not self.ending and self.lost is None

    @property
    def beat_due_s(self) -> float:
        """When the next renewal is due, on the clock of `now_s`."""
        return self.renewed_s + self._beat_s

    @property
    def renewal(self) -> Report:
        return Report(run=self.lease.run, seen=self.seen)

    @property
    def trusted_until_s(self) -> float:
        """When the supervisor stops the command by itself, on the clock of `now_s`."""
        trusted_s = self._trusted_until_s
        return trusted_s if self._deadline_s is None else min(trusted_s, self._deadline_s)

    @property
    def overdue(self) -> bool:
        """Whether the lease is over by this machine's clock: no renewal came through in time, or the run's
        own time is up. The store has the last word: it may accept a later renewal, if nobody has taken the
        item."""
        end_s = self._trusted_until_s + self.ladder.total_s
        return now_s() >= (end_s if self._deadline_s is None else min(end_s, self._deadline_s))

    @property
    def timed_out(self) -> bool:
        """Whether the command's own time is up, and was up before its trust ended."""
        return self._deadline_s is not None and self._deadline_s <= min(self._trusted_until_s, now_s())

    def renewed(self, view: RunView, sent_s: float) -> None:
        """Record the store's answer to a renewal that was sent at `sent_s`, also a refusal.

        A store may answer without having written (lanes on a git remote). Then the lease ends when it did
        before, and so does trust.
        """
        with self._lock:
            self.unread = view.unread
            if view.refusal is not None:
                if self.lost is None and not self.ending:
                    self.lost = view.refusal
                    self.unwanted.set()
            else:
                self.renewed_s = max(self.renewed_s, sent_s)
                if view.expires_at != self._expires_at or self._ends_at_timeout(view):
                    self._expires_at = view.expires_at
                    trusted_s = sent_s + self.ladder.trust_s(self.lease_s)
                    self._trusted_until_s = max(self._trusted_until_s, trusted_s)
            if view.cancel_requested and self.cancel_reason is None:
                self.cancel_reason = (view.item.cancel_reason if view.item else None) or "cancelled"
                self.unwanted.set()
        self._act()

    def lose(self, why: RefusalView) -> None:
        """The store that gave the lease is gone, and the lease with it."""
        with self._lock:
            if self.lost is None and not self.ending:
                self.lost = why
                self.unwanted.set()
        self._act()

    def watch(self, command: SupervisedCommand | None) -> None:
        """Pass trust on to this command from now on, which runs under the lease."""
        with self._lock:
            self._command = command
        if command is not None:
            self._act()

    def stop(self, reason: str) -> None:
        """Ask the command to end: the ladder begins."""
        with self._lock:
            if self.cancel_reason is None and self.beats:
                self.cancel_reason = reason
                self.unwanted.set()
            if self._command is not None:
                self._command.stop()

    def kill(self) -> None:
        """Kill the command at once."""
        with self._lock:
            if self._command is not None:
                self._command.kill()

    def _act(self) -> None:
        with self._lock:
            if self._command is not None and self.lost is None:
                self._command.trust(self.trusted_until_s)
        self._answered()

    def _stop_if_unwanted(self) -> None:
        if self.unwanted.is_set():
            self.stop("cancelled")

    def _ends_at_timeout(self, view: RunView) -> bool:
        """Whether a renewal could not move the end of the run because its timeout comes first."""
        timeout_s, first = self.lease.item.timeout_s, self.lease.expires_at
        if timeout_s is None or view.expires_at is None or first is None:
            return False
        rest_s = max(0.0, timeout_s - self.lease_s) - 0.001  # spans are rounded
        return view.expires_at >= first + timedelta(seconds=rest_s)
