"""Gates of lanes: a series lets work on its active issue start, and keeps the rest waiting."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core import names
from interlock.core.checking import checked_gate, gated_lane, given_reason, signed
from interlock.core.commands import GateSet, SetGate
from interlock.core.model import Gate, RunId
from interlock.service.answers import gate_view
from interlock.service.contract import GateView
from interlock.service.reading import Looking
from interlock.store.port import Load


class Gating(Looking):
    """The use cases of whoever decides which lane of a series may be worked on."""

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
        """Open or shut a lane. While it is shut, nothing starts there but items of exempt types; a run of
        another type is asked to stop, and its item is offered again when the gate opens.

        `series` is the lane of the series. A gate opens only while every other lane of its series is shut and
        no run goes on there, and with `run` only while the series' owner has this run. Otherwise it is shut,
        and `waits_for` says why: do the same again later. The same again writes nothing new, and puts right
        what contradicts the gate.
        """
        key, gate = gated_lane(lane), checked_gate(lane, series, open, exempt, run)
        made = self._set(key, gate, why, by, None if run is None else RunId(run))
        assert made.gate is not None
        return gate_view(made.lane, made.gate, made.run, made.waits_for)

    def remove_gate(self, lane: str, *, why: str, by: str = "") -> bool:
        """Let a lane go on without a gate. False if it had none."""
        return self._set(gated_lane(lane), None, why, by).changed

    def gates(self, *, series: str | None = None, limit: int = 100) -> list[GateView]:
        """Gates in the order of their lanes; with `series` those of one series."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        key = None if series is None else names.lane_key(series)
        return self.store.at_once(lambda: [self._view(*found) for found in self.store.gates(key, limit)])

    def _view(self, lane: str, gate: Gate) -> GateView:
        owner = self.store.owner(lane)
        counts = owner is not None and owner.spec.lane == lane and owner.spec.type not in gate.exempt
        return gate_view(lane, gate, owner.state.run if owner is not None and counts else None)

    def _set(self, lane: str, gate: Gate | None, why: str, by: str, run: RunId | None = None) -> GateSet:
        command = SetGate(lane=lane, gate=gate, why=given_reason(why), by=signed(by), run=run)
        load = Load(lanes=(lane,))
        if gate is not None:
            load = Load(lanes=(lane, gate.series), gate=(lane, gate.series))
        answer: GateSet = self.store.transact(load, lambda _: [command]).answers[0]
        return answer
