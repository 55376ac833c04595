"""Gates of lanes: a series lets work on its active issue start, and keeps the rest waiting."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core import names
from interlock.core.commands import GateSet, SetGate
from interlock.core.model import Gate, RunId
from interlock.core.validation import checked_gate, gated_lane, given_reason, signed
from interlock.service.contract import GateView
from interlock.service.view_builders import gate_view
from interlock.store.port import Load, Store


class LaneGates:
    """The operations on gates."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def set_gate(
        self,
        lane: str,
        *,
        series: str,
        open: bool,  # noqa: A002  (the answer's name for it)
        exempt: Sequence[str] = (),
        why: str,
        by: str = "",
        run: int | None = None,
    ) -> GateView:
        """Open or shut a lane. While it is shut, only items of exempt types start there. A run of another
        type is asked to stop, and its item is offered again when the gate opens.

        `series` is the lane of the series. A gate opens only while every other lane of its series is shut and
        has no run; with `run`, only while the series' owner has this run. Otherwise it is shut, and
        `waits_for` says why: try again later. A repeated call is idempotent, and corrects items that
        contradict the gate.
        """
        key, gate = gated_lane(lane), checked_gate(lane, series, open, exempt, run)
        made = self._set(key, gate, why, by, None if run is None else RunId(run))
        assert made.gate is not None
        return gate_view(made.lane, made.gate, made.run, made.waits_for)

    def remove_gate(self, lane: str, *, why: str, by: str = "") -> bool:
        """Remove the gate of a lane. False if it had none."""
        return self._set(gated_lane(lane), None, why, by).changed

    def gates(
        self, *, series: str | None = None, lane: str | None = None, limit: int = 100
    ) -> list[GateView]:
        """Gates in the order of their lanes; with `series` those of one series, with `lane` that of one
        lane."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        key = None if series is None else names.lane_key(series)
        one = None if lane is None else names.lane_key(lane)

        def found() -> list[GateView]:
            if one is None:
                return [self._view(*each) for each in self._store.gates(key, limit)]
            views = (self._view(*each) for each in self._store.gates_of([one]).items())
            return [view for view in views if key in (None, view.series)]

        return self._store.at_once(found)

    def _view(self, lane: str, gate: Gate) -> GateView:
        owner = self._store.owner(lane)
        counts = owner is not None and owner.spec.lane == lane and owner.spec.type not in gate.exempt
        return gate_view(lane, gate, owner.state.run if owner is not None and counts else None)

    def _set(self, lane: str, gate: Gate | None, why: str, by: str, run: RunId | None = None) -> GateSet:
        command = SetGate(lane=lane, gate=gate, why=given_reason(why), by=signed(by), run=run)
        load = Load(lanes=(lane,))
        if gate is not None:
            load = Load(lanes=(lane, gate.series), gate=(lane, gate.series))
        answer: GateSet = self._store.transact(load, lambda _: [command]).answers[0]
        return answer
