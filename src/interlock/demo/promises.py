"""The checks at the end: the promises, by the history checker, and the store's own invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from interlock.core.record import replace
from interlock.demo.scenes import LIMITED_MAX, most_of_limited
from interlock.demo.stage import LIMITED, Stage
from interlock.proof.checker import History
from interlock.service.contract import CheckView

_CLOCK_TICK_S = 0.01
_ENDED = ("completed", "superseded", "coalesced")
#: The checker's rules about refused and late writes, and about lost inputs. All other rules are about lanes.
_LATE_WRITES = ("fenced", "ends_once", "refused_with_reason", "refused_changes_nothing")
_INPUTS = ("nothing_lost", "absorbed_travels", "rows_match_lines")
_RESULTS = ("acknowledged_once", "acknowledged_is_kept")


def check(stage: Stage) -> Iterator[CheckView]:
    """Every promise in turn, once all agents are idle."""
    history, inputs = stage.history, stage.inputs
    shows = {item: stage.service.show(item) for item in stage.items}
    statuses = {item: show.item.status for item, show in shows.items()}
    succeeded = [run for show in shows.values() for run in show.runs if run.status == "succeeded"]
    history.check_inputs(shows)
    history.check_acknowledged([(run, history.runs[run].item) for run in stage.acknowledged.values()])
    history.check_store(statuses)
    yield one_run_a_lane(history)

    # The store has every acknowledged result, once.
    recorded = Counter((run.result["nonce"], run.run) for run in succeeded)
    broken = history.broken(*_RESULTS)
    broken += [
        f"run {key[1]}: {recorded[key]} times" for key in stage.acknowledged.items() if recorded[key] != 1
    ]
    detail = f"{len(stage.acknowledged)} acknowledged, {recorded.total()} recorded"
    yield _check("acknowledged results stand once", broken, detail)

    # No refused run was accepted later, and no result of an unsuccessful run was recorded.
    broken = history.broken(*_LATE_WRITES)
    for nonce, run in stage.offered.items():
        if history.runs[run].outcome != "succeeded" and nonce in {known for known, _ in recorded}:
            broken.append(f"the result of run {run}, which is {history.runs[run].outcome}, was recorded")
    yield _check("late writes change nothing", broken, f"{len(history.refused)} refused, none left a trace")

    # Every item has ended, and a successful run has read every text that was sent.
    read = {text for run in succeeded for text in run.result["read"]}
    broken = history.broken(*_INPUTS) + [f"no run read {text!r}" for text in inputs if text not in read]
    broken += [f"item {item} is {status}" for item, status in statuses.items() if status not in _ENDED]
    yield _check("no input is lost", broken, f"{len(inputs)} sent, all read by runs that succeeded")

    # No lock outlived its holder by more than the lease and one sweep.
    limit_s = stage.lease_s + stage.sweep_gap_s + _CLOCK_TICK_S
    spans_s = [stage.outlived_s(sent) for sent in stage.signals]
    broken = [f"a lock outlived its holder by {s:.1f} s" for s in spans_s if s > limit_s]
    detail = f"{max(spans_s, default=0):.1f} s at most, limit {limit_s:.1f} s"
    yield _check("locks end with lease and sweep", broken, detail)

    most = most_of_limited(stage)
    broken = [f"{most} runs at once of {LIMITED_MAX}"] if most > LIMITED_MAX else []
    yield _check("capacity is kept", broken, f"{LIMITED}: {most} at once, {LIMITED_MAX} allowed")

    doctor = stage.service.doctor()
    broken = [f"{c.name}: {c.detail}" for c in doctor if not c.ok]
    cures = tuple(cure for c in doctor if not c.ok for cure in c.cures)
    mend = " ".join(c.mend for c in doctor if not c.ok)
    found = _check("the store's own invariants", broken, "doctor finds nothing broken", mend)
    yield replace(found, cures=cures)


def one_run_a_lane(history: History) -> CheckView:
    """No two runs of a lane overlap, run numbers increase, and all transitions are allowed."""
    elsewhere = {*_LATE_WRITES, *_INPUTS, *_RESULTS}
    broken = [v.text for v in history.violations if v.rule not in elsewhere]
    lanes = {run.lane for run in history.runs.values()}
    return _check(
        "one run a lane, fences grow", broken, f"{len(history.runs)} runs on {len(lanes)} lanes, no overlap"
    )


def _check(name: str, broken: list[str], well: str, mend: str = "") -> CheckView:
    detail = "; ".join(broken[:3]) if broken else well
    return CheckView(name=name, ok=not broken, detail=detail, mend=mend if broken else "")
