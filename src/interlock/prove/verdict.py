"""The first judge: the history checker, fed with the events and with what the processes were told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.proof.checker import History, LoggedEvent, Violation
from interlock.prove.journal import Line
from interlock.prove.span import longest_gap_s


def judge(
    events: Sequence[LoggedEvent], statuses: Mapping[int, str], lines: Sequence[Line], *, now_us: int
) -> list[Violation]:
    """The violations that the history checker finds."""
    history = History(events)
    acks = [line for line in lines if line["state"] == "ack"]
    added = [line for line in acks if line["op"] == "add"]
    arrived = [line["arrival"] for line in added if line["arrival"] is not None]
    history.check_inputs(arrived)
    history.check_acknowledged((line["run"], line["item"]) for line in acks if line["op"] == "done")
    history.check_store(statuses)
    history.check_keys(
        (line["key"], line["item"] if line["arrival"] is None else line["arrival"])
        for line in added
        if line["key"] is not None and line["decision"] != "rejected"
    )
    promised: dict[int, int] = {}
    lease_us: dict[int, int] = {}
    unsure: set[int] = set()
    for line in lines:
        if line["op"] in ("claim", "renew") and line["state"] == "ack" and "until_us" in line:
            promised[line["run"]] = line["until_us"]
            lease_us[line["run"]] = line["lease_us"]
            unsure.discard(line["run"])
        elif line["op"] == "renew":
            (unsure.discard if line["state"] == "refused" else unsure.add)(line["run"])
    slack_us = round((longest_gap_s(lines) + 0.25) * 1e6)
    history.check_leases(
        {
            run: (until_us, until_us + slack_us + (lease_us[run] if run in unsure else 0))
            for run, until_us in promised.items()
        },
        now_us=now_us,
    )
    history.check_pushes(
        armed=[(line["t"], line["run"]) for line in acks if line["op"] == "arm"],
        pushed=_pushed(lines),
    )
    return history.violations


def _pushed(lines: Sequence[Line]) -> list[tuple[float, int]]:
    """When each accepted push was sent, and by which run."""
    sent = {(line["who"], line["n"]): line["t"] for line in lines if line["state"] == "attempt"}
    found = [line for line in lines if line["op"] == "push" and line["state"] == "ack"]
    return [(sent[line["who"], line["n"]], line["run"]) for line in found]
