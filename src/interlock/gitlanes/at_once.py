"""All lanes of a remote as one fetch found them: items, gates and counts of many lanes, of one moment."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core import names
from interlock.git.plumbing import lane_ref_id
from interlock.gitlanes.lane import Lane, UnreadableLane
from interlock.gitlanes.remote import CONFLICTS, RETRIES
from interlock.service.answers import gate_view
from interlock.service.contract import GateView
from interlock.service.itemview import ItemView, in_line


class LanesAtOnce:
    """What the lanes were at one moment. Nothing here looks again."""

    def __init__(self, lanes: Sequence[Lane | UnreadableLane]) -> None:
        self._lanes = with_gates(lanes)
        #: A lane that cannot be read may have lost its name, and is still found by its ref.
        self._by_ref_id = {lane.ref_id: lane for lane in self._lanes}

    def on_lane(self, lane: str) -> list[ItemView]:
        """As `GitLanes.on_lane`; raises `UnreadableState`."""
        found = self._by_ref_id.get(lane_ref_id(lane))
        if isinstance(found, UnreadableLane):
            raise found.error
        return [] if found is None else items_on(found)

    def gates(self, *, series: str | None = None, limit: int = 100) -> list[GateView]:
        """Gates in the order of their lanes, as they are for their series; with `series` those of one."""
        key = None if series is None else names.lane_key(series)
        views = [gate_of(lane) for lane in self._lanes if isinstance(lane, Lane)]
        return [view for view in views if view is not None and key in (None, view.series)][:limit]

    def counts(self, lane: str) -> dict[str, int]:
        """What was counted on a lane: `conflicts`, pushes that were refused because another was faster;
        `retries`, pushes that were sent once more, also after another failure; and in observe mode what
        enforcing would have done, such as `would_be_queued`.

        They are written with the next push that succeeds; a process that ends before takes its own along.
        """
        found = self._by_ref_id.get(lane_ref_id(lane))
        queue = None if found is None else found.queue
        return {CONFLICTS: 0, RETRIES: 0, **(queue.counts if queue is not None else {})}


def with_gates(lanes: Sequence[Lane | UnreadableLane]) -> list[Lane | UnreadableLane]:
    """All lanes, with their gates as they are for their series now."""
    by_name = {lane.name: lane for lane in lanes}

    def gated(lane: Lane) -> Lane:
        gate = lane.queue.gate
        return lane if gate is None else lane.gated_by(by_name.get(gate.series))

    return [gated(lane) if isinstance(lane, Lane) else lane for lane in lanes]


def gate_of(lane: Lane) -> GateView | None:
    """The gate of a lane, with the run that it holds back."""
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
