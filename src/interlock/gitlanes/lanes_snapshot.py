"""A snapshot of all lanes of a remote from one fetch: their items, gates and counters."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core import names
from interlock.git.plumbing import lane_ref_id
from interlock.gitlanes.lane import Lane, UnreadableLane
from interlock.gitlanes.remote import CONFLICTS, RETRIES
from interlock.service.contract import GateView
from interlock.service.item_view import ItemView, in_line
from interlock.service.view_builders import gate_view


class LanesSnapshot:
    """The lanes at one moment. No method reads the remote again."""

    def __init__(self, lanes: Sequence[Lane | UnreadableLane]) -> None:
        self._lanes = with_gates(lanes)
        #: An unreadable lane may have lost its name; it is found by its ref.
        self._by_ref_id = {lane.ref_id: lane for lane in self._lanes}

    def on_lane(self, lane: str) -> list[ItemView]:
        """Like `GitLanes.on_lane`; raises `UnreadableState`."""
        found = self._by_ref_id.get(lane_ref_id(lane))
        if isinstance(found, UnreadableLane):
            raise found.error
        return [] if found is None else items_on(found)

    def gates(
        self, *, series: str | None = None, lane: str | None = None, limit: int = 100
    ) -> list[GateView]:
        """Gates by lane, in the state that their series gives them; with `series`, only its gates, and with
        `lane` only the gate of that lane."""
        key = None if series is None else names.lane_key(series)
        one = None if lane is None else names.lane_key(lane)
        views = [gate_of(each) for each in self._lanes if isinstance(each, Lane)]
        found = (view for view in views if view is not None)
        return [view for view in found if key in (None, view.series) and one in (None, view.lane)][:limit]

    def counts(self, lane: str) -> dict[str, int]:
        """The counters of a lane.

        `conflicts` counts pushes that were refused because another push was faster. `retries` counts pushes
        that were sent again, also after another failure. In observe mode, names such as `would_be_queued`
        count what enforcing would have done.

        Counts are written with the next push that succeeds. If the process ends before that, they are lost.
        """
        found = self._by_ref_id.get(lane_ref_id(lane))
        queue = None if found is None else found.queue
        return {CONFLICTS: 0, RETRIES: 0, **(queue.counts if queue is not None else {})}


def with_gates(lanes: Sequence[Lane | UnreadableLane]) -> list[Lane | UnreadableLane]:
    """All lanes, with their gates in the state that their series give them now."""
    by_name = {lane.name: lane for lane in lanes}

    def gated(lane: Lane) -> Lane:
        gate = lane.queue.gate
        return lane if gate is None else lane.gated_by(by_name.get(gate.series))

    return [gated(lane) if isinstance(lane, Lane) else lane for lane in lanes]


def gate_of(lane: Lane) -> GateView | None:
    """The gate of a lane, with the run that it blocks."""
    gate, held = lane.queue.gate, lane.holder
    if gate is None:
        return None
    counts = held is not None and held.spec.type not in gate.exempt
    return gate_view(lane.name, gate, held.state.run if held is not None and counts else None)


def items_on(lane: Lane) -> list[ItemView]:
    """The unfinished items of a lane, its owner first, then its line."""
    views = (
        ItemView(item, lane.queue.payloads.get(item.id)) for item in lane.items.values() if not item.terminal
    )
    return sorted(views, key=in_line)
