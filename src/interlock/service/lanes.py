"""Lanes: who holds and waits for each, and how strictly they are kept."""

from __future__ import annotations

from interlock.core.model import Event, EventKind, ModeRule
from interlock.core.validation import checked_mode, signed
from interlock.service.contract import LaneView
from interlock.service.queries import lane_query
from interlock.service.view_builders import gate_view, lane_view
from interlock.store.port import Store


class LaneOperations:
    """The operations on lanes and their modes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def lanes(
        self, *, prefix: str = "", after: str = "", number: int | None = None, limit: int = 100
    ) -> list[LaneView]:
        """Lanes that are held or have a line, in order of their names. Who waits on each is counted to
        1,000.

        With `number`, the lanes of the issues and pull requests with this number, in all repositories."""
        query = lane_query(prefix, after, number, limit, 10_000)
        rules = self._store.modes()
        rows = self._store.lanes(query)
        found = self._store.gates_of([row.lane for row in rows])
        gates = {key: gate_view(key, gate) for key, gate in found.items()}
        return [lane_view(row, rules, gates.get(row.lane)) for row in rows]

    def modes(self) -> list[ModeRule]:
        """Every mode that was set, for projects and lane prefixes; all other lanes are enforced."""
        return list(self._store.modes())

    def set_mode(self, *, scope: str, value: str, mode: str, by: str = "") -> None:
        """Enforce, observe or switch off the lanes of a project or prefix."""
        rule = checked_mode(scope, value, mode)
        data = {"by": signed(by), "scope": rule.scope, "value": rule.value}
        event = Event(self._store.now_us(), EventKind.MODE_SET, rule.mode.value, data=data)
        self._store.set_mode(rule, event)
