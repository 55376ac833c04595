"""Arrivals: new work is decided on and joins its lane."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core import names
from interlock.core.commands import Arrive, Command
from interlock.core.ledger import LedgerChanges
from interlock.core.model import CheckedItem, ItemId, NewItem, Policy
from interlock.core.policies import NO_POLICIES, Policies
from interlock.core.validation import checked_arrivals
from interlock.service.access import RequestNotes
from interlock.service.contract import AddView
from interlock.service.gathering import Gathering, Steps, Write, gathered, text_parts
from interlock.service.view_builders import add_view
from interlock.store.port import Load


class Arrivals:
    """Adds items, with the default policies of a store."""

    def __init__(self, gathering: Gathering, policies: Policies, notes: RequestNotes) -> None:
        self._gathering, self._policies, self._notes = gathering, policies, notes

    def policy_of(self, new: CheckedItem) -> Policy:
        """The policy of an arrival: its own, or the default if the caller named none."""
        return self._policies.applied(new).policy

    @gathered
    def add(self, items: Sequence[NewItem]) -> Steps[list[AddView]]:
        """Decide on arrivals, in order, in one transaction."""
        new = checked_arrivals(items)
        if not new:
            return []
        if self._policies is not NO_POLICIES:
            new = [self._policies.applied(each) for each in new]
        keys = tuple((n.project, n.dedupe_key) if n.dedupe_key is not None else None for n in new)
        lanes = tuple(sorted({n.lane for n in new if n.lane is not None}))
        heard = {
            (n.lane, names.agent_key(n.agent))
            for n in new
            if n.lane is not None and n.policy is Policy.COALESCE
        }
        load = Load(lanes=lanes, keys=keys, arrivals=len(new), names=tuple(sorted(heard)))

        def build(ids: Sequence[ItemId], tickets: Sequence[int]) -> list[Command]:
            return [Arrive(item=n, id=i, ticket=t) for n, i, t in zip(new, ids, tickets, strict=True)]

        def answer(decision: LedgerChanges) -> list[AddView]:
            return [add_view(a, decision.after) for a in decision.answers]

        write = Write(load, build, self._notes.note(answer), len(new))

        def parts() -> int:
            return len(new) + sum(text_parts(n.payload, n.message) for n in new)

        return answer((yield from self._gathering.transact("add", write, parts, self._notes.request)))
