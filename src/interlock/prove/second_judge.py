"""The second judge: the same promises, judged from plain JSON by other means than the first.

It imports nothing of Interlock. The history checker replays the events through a model of items; this judge
draws the span of each run and each item, and compares spans, journals and commits with each other. A test
asserts that it imports the standard library alone.

    python second_judge.py DIRECTORY     judges what `interlock prove --evidence DIRECTORY` has kept
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

RULES = {
    "one_run_a_lane": "two runs had one lane at the same time",
    "one_run_an_item": "two runs had one item at the same time",
    "runs_grow": "a later run of a lane has a smaller number",
    "ends_once": "a run ended twice, or never began",
    "no_late_write": "a write of a run was accepted after the run had ended",
    "refused_is_not_applied": "a refused write was carried out",
    "acknowledged_is_kept": "something that was acknowledged is not in the history",
    "one_item_a_key": "two items have one dedupe key",
    "one_winner": "an item of the race was claimed by several processes, or by none",
    "leases_end_in_time": "a lane outlived its dead holder by more than the lease and a sweep",
    "leases_last": "a run lost its lease before the lease was over",
    "ended_stays_ended": "an item started again after its end, and nobody retried it",
    "nothing_lost": "an item has not ended, or is missing",
    "no_late_push": "a push of a run was accepted after a later run had armed the lane",
    "pushed_is_kept": "an acknowledged push is not on the branch, or a refused one is",
}
ENDINGS = ("succeeded", "failed", "cancelled", "timed_out", "lost", "released")
#: How a run is recorded that was ended so.
MEANT = {"done": "succeeded", "fail": "failed", "release": "released"}
ENDED = ("completed", "failed", "cancelled", "superseded", "coalesced")
#: The resolution of clocks, and the time between a sweep's first look and its commit.
TICK_US = 250_000


class Case:
    """The evidence of one proof, and what is wrong with it."""

    def __init__(self, directory: Path) -> None:
        def read(name: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = json.loads((directory / f"{name}.json").read_text("utf-8"))
            return found

        self.events = sorted(read("events"), key=lambda event: event["seq"])
        self.items = {item["id"]: item for item in read("items")}
        self.commits = read("commits")
        self.now_us = read("time")[0]["now_us"]
        self.lines: list[dict[str, Any]] = []
        for file in sorted(directory.glob("*.jsonl")):
            whole = file.read_bytes().rpartition(b"\n")[0]
            self.lines += [json.loads(line) for line in whole.splitlines()]
        self.lines.sort(key=lambda line: line["t"])
        self.found: list[dict[str, Any]] = []
        self.runs: dict[int, dict[str, Any]] = {}
        self.of_item: dict[int, list[dict[str, Any]]] = defaultdict(list)
        self._draw()

    def acknowledged(self, *ops: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["state"] == "ack" and line["op"] in ops]

    def report(self, rule: str, text: str, **about: object) -> None:
        self.found.append({"rule": rule, "text": text, **about})

    def _draw(self) -> None:
        """The span of each run, from its start to the event that ended it."""
        for event in self.events:
            kind, _, what = event["kind"].partition(".")
            if event["item"] is not None:
                self.of_item[event["item"]].append(event)
            if kind != "run":
                continue
            if what == "started":
                known = {"from": event["seq"], "to": None, "end": None, "item": event["item"]}
                self.runs[event["run"]] = known | {
                    "lane": event["lane"],
                    "run": event["run"],
                    "at": event["at"],
                }
            elif what in ENDINGS:
                run = self.runs.get(event["run"])
                if run is None or run["to"] is not None:
                    self.report("ends_once", f"run {event['run']} is {what} in event {event['seq']}")
                else:
                    run |= {"to": event["seq"], "end": what, "ended_us": micros(event["at"])}


def judge(directory: Path) -> list[dict[str, Any]]:
    """What is wrong with the evidence in a directory: rule and text of each violation."""
    case = Case(directory)
    for look in (spans, writes, renewals, refusals, keys, race, leases, endings, lost, pushes):
        look(case)
    return case.found


def spans(case: Case) -> None:
    """Runs of one lane, and runs of one item, come one after the other, with growing numbers."""
    for name, rule in (("lane", "one_run_a_lane"), ("item", "one_run_an_item")):
        groups: dict[object, list[dict[str, Any]]] = defaultdict(list)
        for run in case.runs.values():
            if run[name] is not None:
                groups[run[name]].append(run)
        for key, runs in groups.items():
            runs.sort(key=lambda run: run["from"])
            open_run = None
            for run in runs:
                if open_run is not None and (open_run["to"] is None or open_run["to"] > run["from"]):
                    text = f"run {run['run']} began on {name} {key} before run {open_run['run']} had ended"
                    case.report(rule, text, runs=[open_run["run"], run["run"]])
                if open_run is not None and run["run"] < open_run["run"]:
                    case.report("runs_grow", f"run {run['run']} came after run {open_run['run']} on {key}")
                if open_run is None or open_run["to"] is not None:
                    open_run = (
                        run if open_run is None or (run["to"] or 1 << 62) > open_run["to"] else open_run
                    )


def writes(case: Case) -> None:
    """What was acknowledged is in the history."""
    for line in case.acknowledged(*MEANT):
        run = case.runs.get(line["run"])
        if run is None:
            case.report("acknowledged_is_kept", f"{line['op']} of run {line['run']}, which never began")
        elif run["end"] != MEANT[line["op"]] and not (run["end"] == "cancelled" and line["op"] == "release"):
            late = run["end"] in ("lost", "timed_out", "cancelled")
            rule = "no_late_write" if late else "acknowledged_is_kept"
            text = f"{line['op']} of run {line['run']} was acknowledged; the run is {run['end']}"
            case.report(rule, text, runs=[line["run"]], item=line["item"])
    known = set(case.of_item)
    for line in case.acknowledged("add"):
        for item in {line["item"], line["arrival"]} - {None}:
            if item not in known:
                case.report("acknowledged_is_kept", f"item {item} was acknowledged and has no event")


def renewals(case: Case) -> None:
    """No run was renewed after its end."""
    for line in case.acknowledged("renew"):
        run, until_us = case.runs.get(line["run"]), line.get("until_us")
        if run is not None and until_us is not None and run["to"] is not None:
            renewed_us = until_us - line["lease_us"]
            if renewed_us > run["ended_us"] + TICK_US and run["end"] == "lost":
                late_s = (renewed_us - run["ended_us"]) / 1e6
                text = f"run {line['run']} was renewed {late_s:.1f} s after its end"
                case.report("no_late_write", text, runs=[line["run"]])


def refusals(case: Case) -> None:
    """What was refused is not in the history."""
    unsure = {(line["who"], line.get("run")) for line in case.lines if line["state"] == "unsure"}
    for line in case.lines:
        if line["state"] != "refused" or line["op"] not in MEANT:
            continue
        run = case.runs.get(line["run"])
        if run is None or run["to"] is None:
            case.report("refused_is_not_applied", f"run {line['run']} was refused and had not ended")
        elif run["end"] == MEANT[line["op"]] and (line["who"], line["run"]) not in unsure:
            text = f"{line['op']} of run {line['run']} was refused, and the run is {run['end']}"
            case.report("refused_is_not_applied", text, runs=[line["run"]])


def keys(case: Case) -> None:
    """All arrivals with one dedupe key got one item."""
    items: dict[str, set[int]] = defaultdict(set)
    for line in case.acknowledged("add"):
        if line["key"] is not None and line["decision"] != "rejected":
            mine = line["arrival"] if line["arrival"] is not None else line["item"]
            items[line["key"]].add(mine)
    for key, found in sorted(items.items()):
        if len(found) > 1:
            case.report("one_item_a_key", f"key {key} has {len(found)} items{named(found)}")


def named(items: set[int], most: int = 5) -> str:
    """Which they are: `: 1, 2 and 3`, or `, the first are 1, 2 and 3`."""
    *others, last = map(str, sorted(items)[:most])
    return f"{', the first are' if len(items) > most else ':'} {', '.join(others)} and {last}"


def race(case: Case) -> None:
    """In each round of the race one process claimed, once."""
    winners: dict[int, list[str]] = defaultdict(list)
    doubtful = {line["race"] for line in case.lines if line["state"] == "unsure" and "race" in line}
    for line in case.acknowledged("claim"):
        if "race" in line:
            winners[line["race"]] += [line["who"]] if line["item"] is not None else []
    for number, who in sorted(winners.items()):
        if len(who) > 1 or (not who and number not in doubtful):
            case.report(
                "one_winner", f"round {number} of the race has {len(who)} winners: {', '.join(who[:5])}"
            )


def leases(case: Case) -> None:
    """A lease lasts as long as it was promised, and ends with the next sweep after that."""
    if not case.events:
        return
    sweeps = [line["t"] for line in case.acknowledged("sweep")]
    began = [line["t"] for line in case.lines if line["op"] == "sweep" and line["state"] == "attempt"]
    gap_us = longest_gap_us(began, sweeps)
    until: dict[int, int] = {}
    lease_us: dict[int, int] = {}
    open_renewals: set[int] = set()
    for line in case.lines:
        if line["op"] in ("claim", "renew") and line["state"] == "ack" and line.get("until_us"):
            until[line["run"]] = max(until.get(line["run"], 0), line["until_us"])
            lease_us[line["run"]] = line["lease_us"]
            open_renewals.discard(line["run"])
        elif line["op"] == "renew" and line["state"] == "attempt":
            open_renewals.add(line["run"])
        elif line["op"] == "renew" and line["state"] == "refused":
            open_renewals.discard(line["run"])
    now_us = case.now_us
    moved = any(event["kind"].startswith(("clock.", "store.")) for event in case.events)
    for number, run in case.runs.items():
        if number not in until:
            continue
        slack_us = gap_us + TICK_US + (lease_us[number] if number in open_renewals else 0)
        limit_us, ended_us = until[number] + slack_us, run.get("ended_us")
        if (ended_us or now_us) > limit_us and run["end"] in (None, "lost") and not moved:
            by_s = ((ended_us or now_us) - until[number]) / 1e6
            state = "is still open" if ended_us is None else "ended"
            case.report(
                "leases_end_in_time",
                f"run {number} of {run['lane'] or 'no lane'} {state} {by_s:.1f} s after its lease",
                runs=[number],
            )
        if run["end"] == "lost" and ended_us is not None and ended_us < until[number] - TICK_US:
            early_s = (until[number] - ended_us) / 1e6
            case.report("leases_last", f"run {number} was lost {early_s:.1f} s before its lease was over")


def longest_gap_us(began: list[float], ended: list[float]) -> int:
    """The longest time from the beginning of a sweep to the end of the next one."""
    longest, at = 0.0, 0
    for earlier, later in pairwise(ended):
        while at + 1 < len(began) and began[at + 1] <= earlier:
            at += 1
        longest = max(longest, later - (began[at] if began else earlier))
    return round(longest * 1e6)


def endings(case: Case) -> None:
    """After an item has ended, no run of it starts unless the item came back."""
    for item, events in case.of_item.items():
        ended = False
        for event in events:
            kind = event["kind"]
            if kind in ("item.cancelled", "item.superseded", "item.coalesced", "run.succeeded"):
                ended = True
            elif kind == "item.reentered":
                ended = False
            elif kind == "run.started" and ended:
                text = f"run {event['run']} of item {item} started after the item had ended"
                case.report("ended_stays_ended", text, runs=[event["run"]])


def lost(case: Case) -> None:
    """Every item of the history is in the store, and has ended."""
    for item in sorted(case.of_item):
        row = case.items.get(item)
        if row is None:
            case.report("nothing_lost", f"item {item} is in the history and not in the store")
        elif row["status"] not in ENDED:
            case.report("nothing_lost", f"item {item} is {row['status']} in the end")


def pushes(case: Case) -> None:
    """Pushes of a lane come in the order of its runs, and none after a later run has armed."""
    place = {commit["commit"]: n for n, commit in enumerate(case.commits)}
    order = [int(commit["subject"].split()[-1]) for commit in case.commits]
    for earlier, later in pairwise(order):
        if later < earlier:
            text = f"the branch has a commit of run {later} on top of one of run {earlier}"
            case.report("no_late_push", text, runs=[earlier, later])
    armed = [(line["t"], line["run"]) for line in case.acknowledged("arm")]
    for line in case.acknowledged("push"):
        if line["commit"] not in place:
            case.report("pushed_is_kept", f"the acknowledged push of run {line['run']} is not on the branch")
        sent = next(
            each["t"]
            for each in case.lines
            if each["who"] == line["who"] and each["state"] == "attempt" and each.get("n") == line["n"]
        )
        by = [run for t, run in armed if run > line["run"] and t < sent]
        if by:
            text = f"a push of run {line['run']} was accepted after run {max(by)} had armed"
            case.report("no_late_push", text, runs=[line["run"], max(by)])
    accepted = {line["run"] for line in case.acknowledged("push")}
    unsure = {line["run"] for line in case.lines if line["op"] == "push" and line["state"] == "unsure"}
    for line in case.lines:
        refused = line["op"] == "push" and line["state"] == "refused" and line["run"] in order
        if refused and line["run"] not in accepted | unsure:
            case.report("pushed_is_kept", f"a refused push of run {line['run']} is on the branch")


def micros(text: str) -> int:
    """A time of an event, in microseconds."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(moment.timestamp() * 1e6)


if __name__ == "__main__":
    for violation in judge(Path(sys.argv[1])):
        sys.stdout.write(f"{violation['rule']}: {violation['text']}\n")
