"""The cancel ladder, and how long a command may run without a renewal.

    run_until = sent + lease - ladder - margin

`sent` is the moment just before the last renewal was sent: the lease began no earlier.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.settings import CANCEL_INTERRUPT_S, CANCEL_TERMINATE_S

#: A ladder takes at most this share of its lease.
LADDER_SHARE = 1 / 4
#: The margin: the store's clock may run faster than ours, and a kill takes time.
MARGIN_SHARE, MARGIN_MAX_S = 1 / 20, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The steps to stop a command: SIGINT, a pause, SIGTERM, a pause, SIGKILL to its whole group."""

    interrupt_s: float = CANCEL_INTERRUPT_S
    terminate_s: float = CANCEL_TERMINATE_S

    @property
    def total_s(self) -> float:
        return self.interrupt_s + self.terminate_s

    def within(self, lease_s: float) -> Ladder:
        """The same ladder, shortened in proportion if the lease is short."""
        share = min(1.0, lease_s * LADDER_SHARE / self.total_s)
        return Ladder(interrupt_s=share * self.interrupt_s, terminate_s=share * self.terminate_s)

    def unrenewed_s(self, lease_s: float) -> float:
        """How long a command may run after a renewal was sent, without the next renewal."""
        return lease_s - self.total_s - min(MARGIN_SHARE * lease_s, MARGIN_MAX_S)
