"""The second judge of `interlock prove`: it shares no code, and evidence breaks each of its rules."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.prove import second_judge
from interlock.prove.second_judge import RULES, judge

LANE = "prove:p/1"
LEASE_US = 1_000_000


class Evidence:
    """Two runs of one item, one after the other: run 1 was lost, run 2 was done and had pushed."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        self.commits = [{"commit": "c0", "subject": "run 0"}, {"commit": "c2", "subject": "run 2"}]
        self.status = "completed"
        self.event("item.added", 0.0)
        self.event("run.started", 1.0, 1)
        self.event("run.lost", 2.1, 1)
        self.event("run.started", 3.0, 2)
        self.event("run.succeeded", 3.5, 2)
        self.line("ack", "add", key="k", lane=LANE, decision="admitted", item=1, arrival=1)
        self.line("ack", "claim", run=1, item=1, lane=LANE, until_us=us(2.0), lease_us=LEASE_US, race=0)
        self.line("attempt", "sweep")
        self.line("ack", "sweep")
        self.line("attempt", "sweep")
        self.line("ack", "sweep")
        self.line("ack", "claim", run=2, item=1, lane=LANE, until_us=us(4.0), lease_us=LEASE_US)
        self.line("ack", "arm", run=2, item=1)
        self.line("attempt", "push", who="b", n=1, run=2, item=1)
        self.line("ack", "push", who="b", n=1, run=2, item=1, commit="c2")
        self.line("refused", "done", run=1, item=1)
        self.line("ack", "done", run=2, item=1)

    def event(self, kind: str, at_s: float, run: int | None = None, item: int = 1, lane: str = LANE) -> None:
        number = len(self.events) + 1
        about: dict[str, Any] = {"item": item, "run": run, "lane": lane, "reason": "", "data": {}}
        at = f"2026-11-19T10:00:0{at_s:.6f}Z"
        self.events.append({"seq": number, "at": at, "kind": kind, "project": "p", "agent": None, **about})

    def line(self, state: str, op: str, **facts: Any) -> dict[str, Any]:
        line = {"t": 0.1 * len(self.lines), "who": "a", "state": state, "op": op, **facts}
        self.lines.append(line)
        return line

    def rules(self, directory: Path) -> set[str]:
        items = [{"id": 1, "status": self.status, "title": "x", "lane": LANE}]
        kept = {"events": self.events, "items": items, "commits": self.commits, "time": [{"now_us": us(9.0)}]}
        for name, found in kept.items():
            (directory / f"{name}.json").write_text(json.dumps(found))
        text = "".join(json.dumps(line) + "\n" for line in self.lines)
        (directory / "all.jsonl").write_text(text + '{"t": 1, "who": "trunc')
        return {violation["rule"] for violation in judge(directory)}


def us(at_s: float) -> int:
    return second_judge.micros(f"2026-11-19T10:00:0{at_s:.6f}Z")


def second_of_two_runs_begins_early(found: Evidence) -> None:
    found.events[2]["seq"], found.events[3]["seq"] = 4, 3


def smaller_number_later(found: Evidence) -> None:
    found.event("run.started", 5.0, 0)
    found.event("run.succeeded", 5.1, 0)


def ends_again(found: Evidence) -> None:
    found.event("run.succeeded", 4.0, 2)


def late_done(found: Evidence) -> None:
    found.line("ack", "done", run=1, item=1)


def late_renewal(found: Evidence) -> None:
    found.line("ack", "renew", run=1, item=1, until_us=us(4.0), lease_us=LEASE_US)


def refused_yet_done(found: Evidence) -> None:
    found.line("refused", "done", run=2, item=1)


def acknowledged_and_unknown(found: Evidence) -> None:
    found.line("ack", "add", key=None, lane=None, decision="admitted", item=7, arrival=7)


def two_items_of_a_key(found: Evidence) -> None:
    found.line("ack", "add", key="k", lane=LANE, decision="admitted", item=2, arrival=2)


def two_winners(found: Evidence) -> None:
    found.line("ack", "claim", run=2, item=1, lane=LANE, until_us=us(4.0), lease_us=LEASE_US, race=0)


def no_winner(found: Evidence) -> None:
    found.line("ack", "claim", item=None, race=1)


def lease_too_long(found: Evidence) -> None:
    found.lines[1]["until_us"] = us(1.1)


def lease_too_short(found: Evidence) -> None:
    found.lines[1]["until_us"] = us(3.0)


def starts_after_its_end(found: Evidence) -> None:
    found.event("run.started", 4.0, 3)
    found.event("run.lost", 5.0, 3)


def never_ends(found: Evidence) -> None:
    found.status = "deferred"


def push_after_a_later_arming(found: Evidence) -> None:
    found.line("attempt", "push", who="c", n=1, run=1, item=1)
    found.line("ack", "push", who="c", n=1, run=1, item=1, commit="c2")


def earlier_run_on_top(found: Evidence) -> None:
    found.commits.append({"commit": "c1", "subject": "run 1"})


def push_that_is_gone(found: Evidence) -> None:
    found.commits.pop()


def refused_push_that_is_there(found: Evidence) -> None:
    found.commits.insert(1, {"commit": "c1", "subject": "run 1"})
    found.line("refused", "push", who="c", n=2, run=1, item=1)


BROKEN: list[tuple[str, Callable[[Evidence], None]]] = [
    ("one_run_a_lane", second_of_two_runs_begins_early),
    ("one_run_an_item", second_of_two_runs_begins_early),
    ("runs_grow", smaller_number_later),
    ("ends_once", ends_again),
    ("no_late_write", late_done),
    ("no_late_write", late_renewal),
    ("refused_is_not_applied", refused_yet_done),
    ("acknowledged_is_kept", acknowledged_and_unknown),
    ("one_item_a_key", two_items_of_a_key),
    ("one_winner", two_winners),
    ("one_winner", no_winner),
    ("leases_end_in_time", lease_too_long),
    ("leases_last", lease_too_short),
    ("ended_stays_ended", starts_after_its_end),
    ("nothing_lost", never_ends),
    ("no_late_push", push_after_a_later_arming),
    ("no_late_push", earlier_run_on_top),
    ("pushed_is_kept", push_that_is_gone),
    ("pushed_is_kept", refused_push_that_is_there),
]


def test_good_evidence_is_found_good(tmp_path: Path) -> None:
    assert Evidence().rules(tmp_path) == set()


@pytest.mark.parametrize(("rule", "harm"), BROKEN, ids=[harm.__name__ for _, harm in BROKEN])
def test_a_broken_promise_is_found(tmp_path: Path, rule: str, harm: Callable[[Evidence], None]) -> None:
    evidence = Evidence()
    harm(evidence)
    assert rule in evidence.rules(tmp_path)


def test_of_many_items_of_a_key_the_first_are_named(tmp_path: Path) -> None:
    evidence = Evidence()
    for item in range(2, 8):
        evidence.line("ack", "add", key="k", lane=LANE, decision="admitted", item=item, arrival=item)
    evidence.rules(tmp_path)
    told = [each["text"] for each in judge(tmp_path) if each["rule"] == "one_item_a_key"]
    assert told == ["key k has 7 items, the first are 1, 2, 3, 4 and 5"]


def test_every_rule_has_evidence_that_breaks_it() -> None:
    assert {rule for rule, _ in BROKEN} == set(RULES)


def test_it_imports_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(second_judge.__file__).read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert all(node.level == 0 for node in froms)
    names |= {node.module or "" for node in froms}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_it_runs_where_nothing_is_installed(tmp_path: Path) -> None:
    evidence = Evidence()
    evidence.status = "deferred"
    evidence.rules(tmp_path)
    alone = [sys.executable, "-I", "-S", second_judge.__file__, str(tmp_path)]
    answer = subprocess.run(alone, capture_output=True, text=True, check=True)
    assert answer.stdout == "nothing_lost: item 1 is deferred in the end\n"
