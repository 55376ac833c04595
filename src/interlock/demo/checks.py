"""What must hold at the end: the store's own invariants, and the promises that the scenes put to the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from interlock.demo.history import History, Run, most_at_once
from interlock.demo.scenes import LIMITED, LIMITED_MAX, Cast, everyone_idle
from interlock.demo.stage import Notes, Stage
from interlock.service.contract import CheckView, EndedRunView, ShowView

_CLOCK_TICK_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything the checks look at, gathered once all agents are idle."""

    history: History
    notes: Notes
    cast: Cast
    #: Every item with its runs, their results, and its messages, as the store has them now.
    shows: Mapping[int, ShowView]
    lease_s: float
    limited: str
    doctor: tuple[CheckView, ...]

    @property
    def succeeded(self) -> list[EndedRunView]:
        return [run for show in self.shows.values() for run in show.runs if run.status == "succeeded"]


def gather(stage: Stage, cast: Cast) -> Evidence:
    """Ask the store for everything."""
    everyone_idle(stage)
    stage.turn()
    stage.history.look()
    return Evidence(
        history=stage.history,
        notes=stage.notes,
        cast=cast,
        shows={item: stage.service.show(item) for item in stage.history.items},
        lease_s=stage.lease_s,
        limited=stage.agent(LIMITED),
        doctor=tuple(stage.service.doctor()),
    )


def check(evidence: Evidence) -> Iterator[CheckView]:
    """Every promise in turn."""
    yield one_run_a_lane(evidence.history.runs.values())
    yield results_once(evidence)
    yield late_writes(evidence)
    yield no_input_lost(evidence)
    yield locks_end(evidence)
    yield capacity(evidence)
    yield _view(
        "the store's own invariants",
        [f"{c.name}: {c.detail}" for c in evidence.doctor if not c.ok],
        f"doctor looked at {len(evidence.doctor)}, all hold",
        " ".join(c.mend for c in evidence.doctor if not c.ok),
    )


def one_run_a_lane(runs: Iterable[Run]) -> CheckView:
    """No two runs of a lane overlap, and each has a higher number than the one before."""
    lanes: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda r: r.started.at):
        lanes.setdefault(run.lane, []).append(run)
    broken = []
    for lane, line in lanes.items():
        if most_at_once(line) > 1:
            broken.append(f"{lane} had {most_at_once(line)} runs at once")
        if [run.run for run in line] != sorted({run.run for run in line}):
            broken.append(f"the fences of {lane} do not grow")
    total = sum(map(len, lanes.values()))
    return _view("one run a lane, fences grow", broken, f"{total} runs on {len(lanes)} lanes, no overlap")


def results_once(evidence: Evidence) -> CheckView:
    """What an agent was told is recorded stands in the store, once; every completed item has one result."""
    recorded = Counter((run.result["nonce"], run.run) for run in evidence.succeeded)
    acknowledged = evidence.notes.acknowledged
    broken = [
        f"run {run}: {recorded[n, run]} times" for n, run in acknowledged.items() if recorded[n, run] != 1
    ]
    wins = Counter(e.item for e in evidence.history.events if e.kind == "run.succeeded")
    for item, show in evidence.shows.items():
        wanted = 1 if show.item.status == "completed" else 0
        if wins[item] != wanted:
            broken.append(f"item {item} is {show.item.status} with {wins[item]} results")
    return _view(
        "acknowledged results stand once",
        broken,
        f"{len(acknowledged)} acknowledged, {recorded.total()} recorded",
    )


def late_writes(evidence: Evidence) -> CheckView:
    """No run was accepted after it had been refused, and no result stands of a run that did not succeed.

    A renewal may cross its own run's end and be refused after that; it is not what is looked for here.
    """
    history = evidence.history
    refused = [e for e in history.events if e.kind == "run.refused" and e.run in history.runs]
    broken = []
    for event in refused:
        ended = history.runs[event.run or 0].ended
        if ended is not None and ended.kind == "run.succeeded" and ended.at > event.at:
            broken.append(f"run {event.run} was refused and then accepted")
    recorded = {run.result["nonce"] for run in evidence.succeeded}
    for nonce, run in evidence.notes.offered.items():
        if history.runs[run].how != "succeeded" and nonce in recorded:
            broken.append(f"the result of run {run}, which is {history.runs[run].how}, was recorded")
    return _view("late writes change nothing", broken, f"{len(refused)} refused, none left a trace")


def no_input_lost(evidence: Evidence) -> CheckView:
    """Each item has ended, and each text that was sent was read by a run that succeeded."""
    read = Counter(text for run in evidence.succeeded for text in run.result["read"])
    broken = [f"nobody read {i.text!r}" for i in evidence.notes.inputs if not read[i.text]]
    ended = {"completed", "superseded", "coalesced"}
    for item, show in evidence.shows.items():
        if show.item.status not in ended:
            broken.append(f"item {item} is {show.item.status}")
    return _view(
        "no input is lost",
        broken,
        f"{len(evidence.notes.inputs)} sent, all read by runs that succeeded",
    )


def locks_end(evidence: Evidence) -> CheckView:
    """No lock outlived its holder by more than its lease and one sweep."""
    limit_s = evidence.lease_s + evidence.notes.sweep_gap_s + _CLOCK_TICK_S
    spans_s = [
        evidence.history.outlived_s(blow) for blow in (evidence.cast.crash, evidence.cast.zombie) if blow
    ]
    broken = [f"a lock outlived its holder by {s:.1f} s" for s in spans_s if s > limit_s]
    return _view(
        "locks end with lease and sweep",
        broken,
        f"{max(spans_s, default=0):.1f} s at most, limit {limit_s:.1f} s",
    )


def capacity(evidence: Evidence) -> CheckView:
    """The limited agent never had more runs than it may have."""
    most = most_at_once(r for r in evidence.history.runs.values() if r.agent == evidence.limited)
    broken = [f"{most} runs at once of {LIMITED_MAX}"] if most > LIMITED_MAX else []
    return _view("capacity is kept", broken, f"{LIMITED}: {most} at once, {LIMITED_MAX} allowed")


def _view(name: str, broken: list[str], well: str, mend: str = "") -> CheckView:
    return CheckView(
        name=name,
        ok=not broken,
        detail="; ".join(broken[:3]) if broken else well,
        mend=mend if broken else "",
    )
