"""What must hold at the end: the promises, by the history checker, and the store's own invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from interlock.demo.scenes import LIMITED_MAX, most_of_limited
from interlock.demo.stage import LIMITED, Stage
from interlock.proof.history import History
from interlock.service.contract import CheckView, EndedRunView, ShowView

_CLOCK_TICK_S = 0.01
#: The checker's rules about refused and late writes, and about lost inputs. Every other rule is about lanes.
_LATE_WRITES = ("fenced", "ends_once", "refused_with_reason", "refused_changes_nothing")
_INPUTS = ("nothing_lost", "absorbed_travels", "rows_match_lines")
_RESULTS = ("acknowledged_once", "acknowledged_is_kept")


def check(stage: Stage) -> Iterator[CheckView]:
    """Every promise in turn, once all agents are idle."""
    shows = {item: stage.service.show(item) for item in stage.items}
    succeeded = [run for show in shows.values() for run in show.runs if run.status == "succeeded"]
    history = stage.history
    history.check_inputs(shows)
    history.check_acknowledged([(run, history.runs[run].item) for run in stage.acknowledged.values()])
    history.check_store({item: show.item.status for item, show in shows.items()})
    yield one_run_a_lane(history)
    yield _results_once(stage, succeeded)
    yield _late_writes(stage, succeeded)
    yield _no_input_lost(stage, shows, succeeded)
    yield _locks_end(stage)
    most = most_of_limited(stage)
    yield _check(
        "capacity is kept",
        [f"{most} runs at once of {LIMITED_MAX}"] if most > LIMITED_MAX else [],
        f"{LIMITED}: {most} at once, {LIMITED_MAX} allowed",
    )
    doctor = stage.service.doctor()
    yield _check(
        "the store's own invariants",
        [f"{c.name}: {c.detail}" for c in doctor if not c.ok],
        f"doctor looked at {len(doctor)}, all hold",
        " ".join(c.mend for c in doctor if not c.ok),
    )


def one_run_a_lane(history: History) -> CheckView:
    """No two runs of a lane overlap, each has a higher number than the one before, and moves are lawful."""
    elsewhere = {*_LATE_WRITES, *_INPUTS, *_RESULTS}
    broken = [v.text for v in history.violations if v.rule not in elsewhere]
    lanes = {run.lane for run in history.runs.values()}
    return _check(
        "one run a lane, fences grow", broken, f"{len(history.runs)} runs on {len(lanes)} lanes, no overlap"
    )


def _results_once(stage: Stage, succeeded: list[EndedRunView]) -> CheckView:
    """The store has every acknowledged result, once."""
    recorded = Counter((run.result["nonce"], run.run) for run in succeeded)
    broken = stage.history.broken(*_RESULTS)
    for nonce, run in stage.acknowledged.items():
        if recorded[nonce, run] != 1:
            broken.append(f"run {run}: {recorded[nonce, run]} times")
    detail = f"{len(stage.acknowledged)} acknowledged, {recorded.total()} recorded"
    return _check("acknowledged results stand once", broken, detail)


def _late_writes(stage: Stage, succeeded: list[EndedRunView]) -> CheckView:
    """No run was accepted after it was refused, and the store has no result of a run that did not succeed."""
    history, recorded = stage.history, {run.result["nonce"] for run in succeeded}
    broken = history.broken(*_LATE_WRITES)
    for nonce, run in stage.offered.items():
        if history.runs[run].outcome != "succeeded" and nonce in recorded:
            broken.append(f"the result of run {run}, which is {history.runs[run].outcome}, was recorded")
    return _check("late writes change nothing", broken, f"{len(history.refused)} refused, none left a trace")


def _no_input_lost(stage: Stage, shows: Mapping[int, ShowView], succeeded: list[EndedRunView]) -> CheckView:
    """Every item has ended, and a run that succeeded has read every text that was sent."""
    read = {text for run in succeeded for text in run.result["read"]}
    broken = stage.history.broken(*_INPUTS)
    broken += [f"nobody read {text!r}" for text in stage.inputs if text not in read]
    for item, show in shows.items():
        if show.item.status not in ("completed", "superseded", "coalesced"):
            broken.append(f"item {item} is {show.item.status}")
    detail = f"{len(stage.inputs)} sent, all read by runs that succeeded"
    return _check("no input is lost", broken, detail)


def _locks_end(stage: Stage) -> CheckView:
    """No lock outlived its holder by more than its lease and one sweep."""
    limit_s = stage.lease_s + stage.sweep_gap_s + _CLOCK_TICK_S
    spans_s = [stage.outlived_s(blow) for blow in stage.blows]
    broken = [f"a lock outlived its holder by {s:.1f} s" for s in spans_s if s > limit_s]
    detail = f"{max(spans_s, default=0):.1f} s at most, limit {limit_s:.1f} s"
    return _check("locks end with lease and sweep", broken, detail)


def _check(name: str, broken: list[str], well: str, mend: str = "") -> CheckView:
    detail = "; ".join(broken[:3]) if broken else well
    return CheckView(name=name, ok=not broken, detail=detail, mend=mend if broken else "")
