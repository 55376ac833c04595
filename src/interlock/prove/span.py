"""Spans between the lines of journals: the gaps of the sweeper, and the recovery after each fault."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core.row import NamedTuple
from interlock.prove.journal import Line


class FaultRecovery(NamedTuple):
    """How long a fault lasted: from the signal to the next claim of the item, or to the next answer."""

    fault: str
    at_s: float
    seconds: float
    item: int | None


def longest_gap_s(lines: Sequence[Line]) -> float:
    """The longest time from the beginning of one sweep to the end of the next: what due work may wait."""
    longest_s, began_s, before_s = 0.0, 0.0, 0.0
    for line in lines:
        if line["op"] != "sweep":
            continue
        if line["state"] == "attempt":
            began_s = line["t"]
        elif line["state"] == "ack":
            if before_s:
                longest_s = max(longest_s, line["t"] - before_s)
            before_s = began_s
    return longest_s


def recoveries(lines: Sequence[Line]) -> list[FaultRecovery]:
    """The recovery after each fault that the director has noted."""
    found = []
    for at, fault in enumerate(lines):
        if fault["state"] != "fault":
            continue
        item, needs_item = fault.get("item"), fault["op"] in ("kill -9", "SIGSTOP")
        if needs_item and item is None:
            continue
        for line in lines[at + 1 :]:
            is_claim = line["op"] == "claim" and line.get("item") == item
            if line["state"] == "ack" and (is_claim if needs_item else "run" in line):
                found.append(FaultRecovery(fault["op"], fault["t"], line["t"] - fault["t"], item))
                break
    return found
