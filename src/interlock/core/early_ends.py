"""Ends of runs that are decided before their items are locked.

`done` of an item without a lane and without a plan depends on few columns, and the process that claimed or
renewed the run knows them. A store may ask the rules before it locks the rows. It then writes the decision
iff these columns are unchanged on the locked rows:

==================  ================================================
run, run_bits       the fence
message_count       unread messages become a follow-up
cancel_into         the item ends otherwise, or is offered again
blocked             a block of the item ends with it
==================  ================================================

A renewal changes none of them. The time decides nothing: it is only written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.core.commands import Command, Finish, Outcome
from interlock.core.decide import decide
from interlock.core.ledger import LedgerChanges, Snapshot
from interlock.core.model import Item, ItemId, State
from interlock.core.record import replace
from interlock.core.timing import Timing

#: Where a state has the time at which its item ended.
_ENDED_US = State._fields.index("ended_us")


def decide_early(
    known: Mapping[ItemId, Item], commands: Sequence[Command], timing: Timing
) -> LedgerChanges | None:
    """The decision on `commands`, at no particular time; None if it depends on more than what is known of the
    items."""
    ended: set[ItemId] = set()
    for command in commands:
        if not isinstance(command, Finish) or command.item in ended or not _ends_early(known, command):
            return None  # a second report of a run is refused
        ended.add(command.item)
    return decide(Snapshot(items=known), commands, 0, timing)


def ended_at(decision: LedgerChanges, now_us: int) -> LedgerChanges:
    """An early decision for its callers, once it is known when it was written. Its records and events have no
    time: they were written."""
    after = {
        i: Item(spec, State._make((*state[:_ENDED_US], now_us, *state[_ENDED_US + 1 :])))
        for i, (spec, state) in decision.after.items()
    }
    return replace(decision, after=after)


def _ends_early(known: Mapping[ItemId, Item], report: Finish) -> bool:
    """Whether all that a report depends on is in the item itself, and nothing follows from it."""
    item = known.get(report.item)
    if item is None or report.outcome is not Outcome.DONE or report.seen > item.state.message_count:
        return False
    spec, state = item
    alone = spec.lane is None and spec.observed_lane is None and spec.plan is None and not state.blocked
    return alone and item.is_run_of(report.run, report.bits) and not (state.cancel_into or item.has_unread)
