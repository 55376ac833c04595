"""A live run: a run that this process works on, and the store's last answer about it.

    trusted_until = sent + lease - ladder - margin

The owner of a run creates one: a worker, a hold, an orchestrator, a Python program. The heartbeat renews the
lease and records the answers here.
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

#: The answer to a renewal also reports stop requests, so a renewal is sent at least this often.
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
        """`sent_s` is when the claim was sent. `deadline_s` is the command's own timeout.

        A claim may have waited for work: the lease began no earlier than `sent_s + lease.waited_s`.

        `answered` is called after each answer to a renewal, and when a command starts. Without it, a command
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
        #: When the last accepted renewal was sent.
        self.renewed_s = self._claimed_s = sent_s + lease.waited_s
        self._run_until_s = self.renewed_s + self.ladder.unrenewed_s(lease.lease_s)
        self._expires_at: datetime | None = lease.expires_at
        #: Why the run should stop; None until it is asked to.
        self.cancel_reason: str | None = None
        #: Why the store refused a renewal; None while the run has its lease.
        self.lost: RefusalView | None = None
        #: Set once the run is cancelled or lost.
        self.stop_event = threading.Event()
        #: Whether its end is being reported, or was: it is no longer renewed.
        self.ending = False
        #: The number of unread messages, and the number of the last message that the run has read.
        self.unread = self.seen = 0
        self._command: SupervisedCommand | None = None
        self._lock = threading.Lock()

    @property
    def store_now(self) -> datetime:
        """The store's time, by the claim and this machine's time since then."""
        first, timeout_s = self.lease.expires_at, self.lease.item.timeout_s
        assert first is not None
        lease_s = self.lease_s if timeout_s is None else min(self.lease_s, timeout_s)
        return first + timedelta(seconds=now_s() - self._claimed_s - lease_s)

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
    def run_until_s(self) -> float:
        """When the supervisor stops the command by itself, on the clock of `now_s`."""
        until_s = self._run_until_s
        return until_s if self._deadline_s is None else min(until_s, self._deadline_s)

    @property
    def overdue(self) -> bool:
        """Whether the lease has expired by this machine's clock: no renewal succeeded in time, or the run has
        timed out. The store decides: it may accept a later renewal, if no other run has claimed the item."""
        end_s = self._run_until_s + self.ladder.total_s
        return now_s() >= (end_s if self._deadline_s is None else min(end_s, self._deadline_s))

    @property
    def timed_out(self) -> bool:
        """Whether the command timed out, and did so before its lease had to be renewed."""
        return self._deadline_s is not None and self._deadline_s <= min(self._run_until_s, now_s())

    def renewed(self, view: RunView, sent_s: float) -> None:
        """Record the store's answer to a renewal that was sent at `sent_s`, also a refusal.

        A store may answer without a write (lanes on a git remote). Then the end of the lease and
        `run_until_s` do not change.
        """
        with self._lock:
            self.unread = view.unread
            if view.refusal is not None:
                if self.lost is None and not self.ending:
                    self.lost = view.refusal
                    self.stop_event.set()
            else:
                self.renewed_s = max(self.renewed_s, sent_s)
                if view.expires_at != self._expires_at or self._ends_at_timeout(view):
                    self._expires_at = view.expires_at
                    until_s = sent_s + self.ladder.unrenewed_s(self.lease_s)
                    self._run_until_s = max(self._run_until_s, until_s)
            if view.cancel_requested and self.cancel_reason is None:
                self.cancel_reason = (view.item.cancel_reason if view.item else None) or "cancelled"
                self.stop_event.set()
        self._act()

    def lose(self, why: RefusalView) -> None:
        """Mark the lease as lost: the store that gave it was replaced."""
        with self._lock:
            if self.lost is None and not self.ending:
                self.lost = why
                self.stop_event.set()
        self._act()

    def watch(self, command: SupervisedCommand | None) -> None:
        """From now on, extend the time of this command, which runs under the lease."""
        with self._lock:
            self._command = command
        if command is not None:
            self._act()

    def stop(self, reason: str) -> None:
        """Ask the command to end: the ladder begins."""
        with self._lock:
            if self.cancel_reason is None and self.beats:
                self.cancel_reason = reason
                self.stop_event.set()
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
                self._command.extend(self.run_until_s)
        self._answered()

    def _stop_if_unwanted(self) -> None:
        if self.stop_event.is_set():
            self.stop("cancelled")

    def _ends_at_timeout(self, view: RunView) -> bool:
        """Whether a renewal could not extend the run because its timeout comes first."""
        timeout_s, first = self.lease.item.timeout_s, self.lease.expires_at
        if timeout_s is None or view.expires_at is None or first is None:
            return False
        rest_s = max(0.0, timeout_s - self.lease_s) - 0.001  # spans are rounded
        return view.expires_at >= first + timedelta(seconds=rest_s)
