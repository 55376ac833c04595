"""Gates of lanes: work on a lane starts only while its series allows it.

A gate is on one lane and is open or shut: `gated = pending and shut and type not in exempt`. A gated item
does not start, and otherwise stays where it is. The flag is on the item's own row and changes only under the
lane's lock, so a claim in progress when a gate shuts sees it. Shutting asks a run on the lane to stop; its
item is then offered again, and waits like the others.

A gate opens under the lock of its series' lane, and only while every other lane of the series is shut and has
no current run. So one lane of a series is worked on at a time, whatever is requested and however late. Exempt
items do not count.
"""

from __future__ import annotations

from interlock.core.commands import CommandAnswer, GateSet, Repair, SetGate
from interlock.core.lanes import ask_to_stop, promote
from interlock.core.ledger import Ledger
from interlock.core.model import EventKind, Gate, Reason
from interlock.core.states import ItemStatus


def set_gate(ledger: Ledger, command: SetGate) -> GateSet:
    """Add, change or remove the gate of a lane, and make the lane's items follow it.

    A gate that may not open yet is shut.
    """
    lane, before, wanted = command.lane, ledger.gate(command.lane), command.gate
    waits_for = None if wanted is None else _obstacle(ledger, command, wanted)
    if wanted is not None and waits_for is not None:
        wanted = wanted._replace(open=False)
    after = None if wanted is None else wanted._replace(at_us=_since_us(ledger, before, wanted))
    if after != before:
        ledger.set_gate(lane, after)
        kind = EventKind.GATE_REMOVED
        if after is not None:
            kind = EventKind.GATE_OPENED if after.open else EventKind.GATE_CLOSED
        shown = after or before
        assert shown is not None
        exempt = list(shown.exempt) or None
        ledger.event(kind, None, command.why, lane=lane, series=shown.series, exempt=exempt, by=command.by)
    obey_gate(ledger, lane)
    owner = next((i for i in ledger.active(lane) if i.spec.lane == lane), None)
    exempt_run = owner is not None and after is not None and owner.spec.type in after.exempt
    run = owner.state.run if owner is not None and not exempt_run else None
    return GateSet(lane=lane, gate=after, changed=after != before, run=run, waits_for=waits_for)


def _obstacle(ledger: Ledger, command: SetGate, wanted: Gate) -> str | None:
    """The lane that keeps a gate from opening. An open gate stays open."""
    before = ledger.gate(command.lane)
    if not wanted.open or (before is not None and before.open and before.series == wanted.series):
        return None
    owner = ledger.owner(wanted.series)
    if command.run is not None and (owner is None or owner.state.run != command.run):
        return wanted.series
    return ledger.snapshot.busy_gate


def _since_us(ledger: Ledger, before: Gate | None, wanted: Gate) -> int:
    if before is None or (before.series, before.open) != (wanted.series, wanted.open):
        return ledger.now_us
    return before.at_us


def obey_gate(ledger: Ledger, lane: str) -> bool:
    """Make the owner of a lane follow the lane's gate; true if that changed anything.

    An owner that has not started gets its flag, or loses it; a run that may not continue is asked to stop.
    """
    owner = next((i for i in ledger.active(lane) if i.spec.lane == lane), None)
    if owner is None:
        return False
    if owner.status is ItemStatus.PENDING:
        wrong = owner.state.gated is not ledger.is_withheld(owner)
        if wrong:
            ledger.change(owner)
        return wrong
    if not ledger.is_shut(lane, owner.spec.type) or owner.state.cancel_into is not None:
        return False
    # A hold ends with its process and is never claimed again.
    into = ItemStatus.CANCELLED if owner.is_hold else ItemStatus.PENDING
    ask_to_stop(ledger, owner, into, Reason.SERIES_QUEUED)
    return True


def repair(ledger: Ledger, command: Repair) -> CommandAnswer:
    """Promote the first in line of a lane without an owner; make an owner follow its lane's gate."""
    promoted = promote(ledger, command.lane, None)
    obeyed = obey_gate(ledger, command.lane)
    return CommandAnswer(item=None, changed=bool(promoted) or obeyed, promoted=promoted)
