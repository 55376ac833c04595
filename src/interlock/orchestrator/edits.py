"""What Python programs ask about the edits of a plan, whoever makes them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from interlock.core.errors import StoreBusy
from interlock.core.model import PlanId
from interlock.core.plans.model import plan_lane
from interlock.process.clock import now_s
from interlock.service.contract import ItemFilter, Service
from interlock.service.itemview import ItemView
from interlock.service.planview import PlanView

PENDING_POLL_S = 0.02
SWEEP_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EditStatistics:
    """How the plan's edits went, in its whole life and whoever made them."""

    total: int
    completed: int
    timed_out: int
    refused: int
    #: Asked for, and they never came: their runs failed for good, or an operator cancelled them.
    failed: int
    rebased: int
    #: How long edit cycles were open, all together.
    lock_s: float


class EditMonitor:
    """Looks at one plan. `plan_id` is its number."""

    def __init__(self, service: Service, plan_id: int, *, actor: str = "") -> None:
        self.plan_id = plan_id
        self._service = service
        self._actor = actor

    def view(self) -> PlanView:
        """How the plan stands."""
        return self._service.plan(self.plan_id)

    def has_pending(self) -> bool:
        """Whether an edit cycle is open: ends of tasks wait for the editor, and no task is claimed."""
        return bool(self._edit_asked())

    def pending_task_ids(self) -> tuple[str, ...]:
        """The keys of the tasks whose ends wait for the editor, oldest first."""
        cycle = self.view().cycle
        return () if cycle is None else cycle.pending

    def wait_for_pending(self, timeout_s: float | None = None) -> bool:
        """Wait until no edit cycle is open, whoever edits; false if it still is after `timeout_s`."""
        began_s = sweep_s = now_s()
        while self.has_pending():
            now = now_s()
            if timeout_s is not None and now >= began_s + timeout_s:
                return False
            if now >= sweep_s:  # a deadline that has passed ends the cycle only when somebody looks
                sweep_s = now + SWEEP_EVERY_S
                with suppress(StoreBusy):
                    self._service.sweep()
            else:
                time.sleep(PENDING_POLL_S)
        return True

    def statistics(self) -> EditStatistics:
        """How the plan's edits went."""
        stats = self._service.plan_stats(self.plan_id)
        return EditStatistics(
            total=stats.edits_total,
            completed=stats.edits_completed,
            timed_out=stats.edits_timed_out,
            refused=stats.edits_refused,
            failed=stats.edits_failed,
            rebased=stats.edits_rebased,
            lock_s=stats.lock_s,
        )

    def set_timeout(self, edit_deadline_s: float) -> None:
        """How long the editor may take for an edit, from the oldest end that it has not answered."""
        self._service.set_edit_deadline(self.plan_id, edit_deadline_s, by=self._actor)

    def _edit_asked(self) -> list[ItemView]:
        """The unfinished item that asks for an edit: there is one exactly while a cycle is open."""
        return self._service.items(ItemFilter(lane=plan_lane(PlanId(self.plan_id)), limit=1))
