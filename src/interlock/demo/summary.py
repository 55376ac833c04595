"""The end of the demo: what happened, what was checked, and whether it held. All from the store's events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Console
from rich.text import Text

from interlock.demo import checks
from interlock.demo.checks import Evidence
from interlock.demo.history import most_at_once, seconds
from interlock.demo.scenes import COMMENTS, LIMITED, LIMITED_MAX, LIMITED_PROCESSES, Cast
from interlock.demo.stage import Stage
from interlock.service.contract import CheckView

_QUIET = "bright_black"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoAgents:
    """One issue, two agents: the second waited and was promoted."""

    first: str
    second: str
    #: From the end of the first run to the start of the second.
    handover_s: float
    waited_s: float
    coalesced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FiveComments:
    """Quick comments that replace each other."""

    sent: int
    superseded: int
    runs: int
    #: Texts in the hands of the run that succeeded, in the order in which they were sent.
    messages: tuple[str, ...]
    in_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """An agent that was killed in mid-run."""

    agent: str
    lease_s: float
    #: How long its lock stood after it was dead.
    lock_outlived_s: float
    recovered: bool
    recovered_by: str
    #: From the kill to the recorded result of whoever took over.
    recovered_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Zombie:
    """An agent that was paused beyond its lease and then reported success."""

    agent: str
    #: What it wanted to write and could not, in order.
    refused: tuple[str, ...]
    taken_over_by: str
    result_stands_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """Priority, capacity and retry."""

    overtook: int
    limit: int
    most_at_once: int
    processes: int
    attempts: int
    back_off_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything the demo found, and what `--json` prints."""

    ok: bool
    seconds: float
    store: str
    project: str
    processes: int
    events: int
    items_added: int
    items_completed: int
    items_superseded: int
    items_coalesced: int
    runs: int
    runs_failed: int
    leases_lost: int
    writes_refused: int
    promotions: int
    two_agents: TwoAgents
    five_comments: FiveComments
    crash: Crash
    zombie: Zombie
    others: Others
    checks: tuple[CheckView, ...]
    kept_url: str | None


def outcome(stage: Stage, cast: Cast) -> Outcome:
    """Read the whole story once more from the store."""
    stage.headline = "Checking what happened"
    stage.narrate("Every number that follows comes from the store's events.")
    evidence = checks.gather(stage, cast)
    found = tuple(checks.check(evidence))
    count = evidence.history.count
    return Outcome(
        ok=all(check.ok for check in found),
        seconds=round(evidence.history.span_s, 1),
        store=stage.url.partition(":")[0],
        project=stage.project,
        processes=len(stage.crew.agents),
        events=len(evidence.history.events),
        items_added=count("item.added", "item.coalesced"),
        items_completed=count("run.succeeded"),
        items_superseded=count("item.superseded"),
        items_coalesced=count("item.coalesced"),
        runs=count("run.started"),
        runs_failed=count("run.failed"),
        leases_lost=count("run.lost"),
        writes_refused=count("run.refused"),
        promotions=count("lane.promoted"),
        two_agents=_two_agents(stage, evidence),
        five_comments=_five_comments(evidence),
        crash=_crash(stage, evidence),
        zombie=_zombie(stage, evidence),
        others=_others(evidence),
        checks=found,
        kept_url=stage.url if stage.keep and stage.url.startswith("sqlite") else None,
    )


def _two_agents(stage: Stage, evidence: Evidence) -> TwoAgents:
    history, cast = evidence.history, evidence.cast
    first, second = history.succeeded(cast.first), history.succeeded(cast.second)
    assert first is not None and first.ended is not None and second is not None
    asked = next(e for e in history.events if e.kind == "item.added" and e.item == cast.second)
    return TwoAgents(
        first=stage.shown(first.agent),
        second=stage.shown(second.agent),
        handover_s=round(seconds(first.ended, history.runs_of(cast.second)[0].started), 3),
        waited_s=round(seconds(asked, history.runs_of(cast.second)[0].started), 1),
        coalesced=sum(
            e.kind == "item.coalesced" and e.data["into_item"] == cast.first for e in history.events
        ),
    )


def _five_comments(evidence: Evidence) -> FiveComments:
    history, comments = evidence.history, evidence.cast.comments
    read = [text for run in evidence.shows[comments[-1]].runs if run.result for text in run.result["read"]]
    mine = tuple(text for text in read if text in COMMENTS)
    return FiveComments(
        sent=len(comments),
        superseded=sum(e.kind == "item.superseded" and e.item in comments for e in history.events),
        runs=sum(len(history.runs_of(item)) for item in comments),
        messages=mine,
        in_order=mine == COMMENTS,
    )


def _crash(stage: Stage, evidence: Evidence) -> Crash:
    history, blow = evidence.history, evidence.cast.crash
    assert blow is not None
    rescue = history.succeeded(blow.item)
    assert rescue is not None and rescue.ended is not None
    return Crash(
        agent=blow.agent,
        lease_s=evidence.lease_s,
        lock_outlived_s=round(history.outlived_s(blow), 2),
        recovered=history.runs[blow.run].how == "lost" and rescue.run != blow.run,
        recovered_by=stage.shown(rescue.agent),
        recovered_after_s=round(seconds(history.told(blow.item, blow.note), rescue.ended), 2),
    )


def _zombie(stage: Stage, evidence: Evidence) -> Zombie:
    history, blow = evidence.history, evidence.cast.zombie
    assert blow is not None
    winner = history.succeeded(blow.item)
    next_run = next(run for run in history.runs_of(blow.item) if run.run > blow.run)
    return Zombie(
        agent=blow.agent,
        refused=tuple(str(e.data.get("wanted")) for e in history.refused(blow.run)),
        taken_over_by=stage.shown(next_run.agent),
        result_stands_of=stage.shown(winner.agent) if winner else "nobody",
    )


def _others(evidence: Evidence) -> Others:
    history, cast = evidence.history, evidence.cast
    starts = {item: history.runs_of(item)[0].started for item in cast.chores}
    tries = history.runs_of(cast.retried)
    pauses_s = [
        seconds(a.ended, b.started) for a, b in pairwise(tries) if a.ended is not None and a.how == "failed"
    ]
    return Others(
        overtook=sum(
            item < cast.urgent and started.at > starts[cast.urgent].at for item, started in starts.items()
        ),
        limit=LIMITED_MAX,
        most_at_once=most_at_once(r for r in history.runs.values() if r.agent == evidence.limited),
        processes=LIMITED_PROCESSES,
        attempts=len(tries),
        back_off_s=round(pauses_s[0], 1) if pauses_s else None,
    )


# -- printing -----------------------------------------------------------------------------------------


def write(console: Console, found: Outcome) -> None:
    """The table, the checks, the verdict, and what to try next."""
    head = f"{found.seconds:.0f} s, {found.processes} processes, {found.store}, {found.events} events"
    lines = [Text.assemble(("What happened", "bold cyan"), (f"   {head}", _QUIET))]
    lines += [Text.assemble((f"  {name:<15}", "bold"), text) for name, text in _story(found)]
    lines += [Text(), Text("What was checked", style="bold cyan")]
    for check in found.checks:
        mark = ("✓ ", "bold green") if check.ok else ("✗ ", "bold red")
        lines.append(Text.assemble(mark, (f"{check.name:<33}", "bold"), check.detail))
        lines += [Text(f"  {check.mend}", style="cyan")] if check.mend else []
    lines += [Text(), _verdict(found), *_next_steps(found)]
    for line in lines:
        console.print(line, soft_wrap=True)


def _story(found: Outcome) -> Iterator[tuple[str, str]]:
    two, five, crash = found.two_agents, found.five_comments, found.crash
    items = f"{found.items_completed} completed, {found.items_superseded} superseded"
    yield "items", f"{found.items_added} added: {items}, {found.items_coalesced} coalesced"
    runs = f"{found.items_completed} succeeded, {found.runs_failed} failed, {found.leases_lost} lost"
    yield "runs", f"{found.runs} started: {runs}; {found.promotions} promotions"
    waited = f"{two.second} waited {two.waited_s:.1f} s behind {two.first}"
    yield "two agents", f"{waited}; {two.coalesced} comments joined {two.first}'s run"
    hands = f"{len(five.messages)} of {five.sent} messages in its hands"
    yield (
        "five comments",
        f"{five.runs} run{'' if five.runs == 1 else 's'}, {five.superseded} superseded, {hands}",
    )
    outlived = f"lock outlived {crash.agent} by {crash.lock_outlived_s:.1f} s (lease {crash.lease_s:g} s)"
    yield "kill -9", f"{outlived}; {crash.recovered_by} finished at {crash.recovered_after_s:.1f} s"
    late, rest = found.zombie, found.others
    yield (
        "zombie",
        f"{len(late.refused)} late writes of {late.agent} refused: {', '.join(late.refused)}",
    )
    kept = f"{LIMITED} kept to {rest.most_at_once} run at once"
    yield "priority", f"the urgent item went before {rest.overtook} older; {kept}"
    if rest.back_off_s is not None:
        yield "retry", f"attempt {rest.attempts} succeeded, {rest.back_off_s:.1f} s after the failed one"


def _verdict(found: Outcome) -> Text:
    held = sum(check.ok for check in found.checks)
    if found.ok:
        return Text.assemble((" PASS ", "bold black on green"), f"  all {held} checks hold")
    broken = ", ".join(check.name for check in found.checks if not check.ok)
    return Text.assemble((" FAIL ", "bold white on red"), f"  broken: {broken}")


def _next_steps(found: Outcome) -> tuple[Text, Text]:
    add = 'interlock add "Fix the login" --lane issue:acme/app#41'
    top = "interlock next --agent me"
    if found.kept_url is not None:
        add, top = (
            f"INTERLOCK_URL={found.kept_url} interlock {command}" for command in ("events", "ls --all")
        )
    return (
        Text.assemble(("Try next: ", "bold"), (add, "cyan")),
        Text.assemble("          ", (top, "cyan")),
    )
