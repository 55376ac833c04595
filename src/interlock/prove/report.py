"""The report of a proof: its numbers, for the terminal and for `--json`."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from interlock.core.record import Record
from interlock.prove.guards import CONSEQUENCES
from interlock.prove.journal import Line
from interlock.prove.second_judge import RULES
from interlock.prove.span import FaultRecovery, recoveries

FIRST, SECOND = "history checker", "second judge"
#: How many violations the terminal shows of each rule.
_SHOWN = 3
_QUIET = "bright_black"


class ProofFinding(Record):
    """A violation, and the judge that has found it."""

    judge: str
    rule: str
    text: str


class ProofReport(Record):
    """What was tried, and how it was judged."""

    ok: bool
    seed: int
    store: str
    broken: str | None
    seconds: float
    processes: int
    racers: int
    rounds: int
    winners: int
    attempts: int
    acknowledged: int
    refused: int
    #: Requests without an answer: the process or its connection was killed.
    unanswered: int
    events: int
    items: int
    runs: int
    leases_lost: int
    violations: int
    findings: tuple[ProofFinding, ...]
    #: Writes and pushes of runs that had lost their leases, all refused.
    zombies_refused: int
    pushes: int
    pushes_refused: int
    edits: int
    edits_refused: int
    kills: int
    pauses: int
    outages: int
    #: The longest time from a fault to the next claim of its item, or to the next answer of the store.
    recovery_s: float | None
    recovery_median_s: float | None
    remains: str


def summed_up(
    lines: Sequence[Line],
    kinds: Counter[str],
    findings: Sequence[ProofFinding],
    *,
    items: int,
    **facts: Any,
) -> ProofReport:
    """The numbers of a proof, from its journals and its events."""
    tried = [line for line in lines if line["op"] not in ("sweep", "work", "race")]
    states = Counter(line["state"] for line in tried)
    ops = Counter((line["op"], line["state"]) for line in tried)
    faults = Counter(line["op"] for line in tried if line["state"] == "fault")
    spans = [found.seconds for found in recoveries(lines)]
    zombies = zombie_writes(lines)
    won = [line for line in tried if line["op"] == "claim" and line["state"] == "ack" and "race" in line]
    return ProofReport(
        ok=not findings and bool(zombies),
        winners=sum(line["item"] is not None for line in won),
        attempts=states["attempt"],
        acknowledged=states["ack"],
        refused=states["refused"],
        unanswered=states["attempt"] - states["ack"] - states["refused"],
        events=kinds.total(),
        items=items,
        runs=kinds["run.started"],
        leases_lost=kinds["run.lost"],
        violations=len(findings),
        findings=tuple(findings),
        zombies_refused=len(zombies),
        pushes=ops["push", "ack"],
        pushes_refused=ops["push", "refused"],
        edits=ops["edit_plan", "ack"],
        edits_refused=ops["edit_plan", "refused"],
        kills=faults["kill -9"],
        pauses=faults["SIGSTOP"],
        outages=faults["killed backends"] + faults["restart"],
        recovery_s=round(max(spans), 3) if spans else None,
        recovery_median_s=round(statistics.median(spans), 3) if spans else None,
        **facts,
    )


def zombie_writes(lines: Sequence[Line]) -> list[Line]:
    """The refused writes and pushes of runs that had lost their leases."""
    ops = ("renew", "done", "fail", "release", "push")
    return [line for line in lines if line["state"] == "refused" and line["op"] in ops]


def slowest(lines: Sequence[Line]) -> list[FaultRecovery]:
    return sorted(recoveries(lines), key=lambda found: -found.seconds)


def write(console: Console, report: ProofReport) -> None:
    """Print the report as a table, the violations, and the verdict."""
    head = f"   {report.seconds:.0f} s, {report.processes} processes, {report.store}, seed {report.seed}"
    rows = [
        (
            "race",
            f"{report.racers} processes for one item; rounds: {report.rounds}, winners: {report.winners}",
        ),
        (
            "attempts",
            (
                f"{report.attempts:,}: {report.acknowledged:,} acknowledged, {report.refused:,} refused,"
                f" {report.unanswered:,} without an answer"
            ),
        ),
        (
            "history",
            (
                f"{report.events:,} events, {report.items:,} items, {report.runs:,} runs,"
                f" {report.leases_lost:,} leases lost"
            ),
        ),
        (
            "faults",
            f"{report.kills} x kill -9, {report.pauses} x SIGSTOP past the lease, {report.outages} outages",
        ),
        ("plans", f"{report.edits} edits while tasks were claimed, {report.edits_refused} refused"),
        ("pushes", f"{report.pushes} fenced, {report.pushes_refused} refused as late"),
        ("zombies refused", f"{report.zombies_refused} (must be more than 0)"),
        ("violations", f"{report.violations} (must be 0)"),
    ]
    if report.recovery_s is not None:
        rows.append(
            ("recovery", f"{report.recovery_median_s:.1f} s median, {report.recovery_s:.1f} s at most")
        )
    lines = [Text.assemble(("What was tried", "bold cyan"), (head, _QUIET))]
    lines += [Text.assemble((f"  {title:<17}", "bold"), told) for title, told in rows]
    for (judge, rule), found in _by_rule(report.findings).items():
        meaning = f": {RULES[rule]}" if rule in RULES else ""
        lines += [Text(), Text.assemble((rule, "bold red"), f"  {len(found)} x by the {judge}{meaning}")]
        lines += [Text(f"  {finding.text}") for finding in found[:_SHOWN]]
        if len(found) > _SHOWN:
            lines.append(Text(f"  and {len(found) - _SHOWN} more", style=_QUIET))
    if report.broken in CONSEQUENCES:
        lines += [Text(), Text(CONSEQUENCES[report.broken])]
    lines += [Text(), _verdict(report)]
    if report.remains:
        lines.append(Text(report.remains, style=_QUIET))
    for line in lines:
        console.print(line, soft_wrap=True)


def _verdict(report: ProofReport) -> Text:
    without = f" without the guard {report.broken!r}" if report.broken else ""
    if report.ok:
        return Text.assemble((" PASS ", "bold black on green"), f"  no violation{without}, by two judges")
    if report.violations:
        named = ", ".join(sorted({finding.rule for finding in report.findings}))
        return Text.assemble((" FAIL ", "bold white on red"), f"  {named}{without}")
    told = "  no late write was refused, so this shows nothing about zombies; use more --seconds"
    return Text.assemble((" FAIL ", "bold white on red"), told)


def _by_rule(findings: Sequence[ProofFinding]) -> dict[tuple[str, str], list[ProofFinding]]:
    found: dict[tuple[str, str], list[ProofFinding]] = {}
    for finding in findings:
        found.setdefault((finding.judge, finding.rule), []).append(finding)
    return found
