"""Orphaned workflow runs: the store took their lane, or a newer item superseded theirs.

The worker's name of a run contains its workflow run *and attempt*. A workflow run is left alone if its own
run reported its end, as its later steps may continue. So is one with another running run, and a later
attempt of one that lost its lane.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from interlock.core.model import Reason
from interlock.core.record import Record, replace
from interlock.core.states import ItemStatus, RunStatus
from interlock.github import workflow_runs
from interlock.github.client import GitHub
from interlock.github.workflow_runs import WorkflowRun
from interlock.process.workplace import attempt_of
from interlock.service.contract import RecentRunView

#: The minimum age of an attempt. A run that lost its lane usually notices by itself.
OLDER_THAN_S = 600.0
#: GitHub's grace for a cancelled workflow run before GitHub itself forces the end.
FORCE_AFTER_S = 300.0
LOOK_AGAIN_S = 10.0


class OrphanedRun(Record):
    """An orphaned workflow run, and the action taken."""

    workflow_run: int
    attempt: int
    workflow: str
    url: str
    lane: str | None
    run: int
    #: Why it is orphaned: a clause that begins with its subject.
    why: str
    #: `would_cancel`, `cancelled`, `forced`, or `ended`: it ended by itself.
    did: str


def orphaned_runs(runs: Iterable[RecentRunView]) -> dict[tuple[int, int], RecentRunView]:
    """Attempts of workflow runs that lost their newest run and have no running one.

    `runs` come newest first.
    """
    newest: dict[tuple[int, int], RecentRunView] = {}
    at_work = set()
    for run in runs:
        attempt = attempt_of(run.worker)
        if attempt is not None:
            newest.setdefault(attempt, run)
            if run.status == RunStatus.RUNNING:
                at_work.add(attempt)
    return {
        attempt: run
        for attempt, run in newest.items()
        if attempt not in at_work and why_orphaned(run) is not None
    }


def why_orphaned(run: RecentRunView) -> str | None:
    """What took a run's lane or item, as a clause. None if the run reported its own end."""
    what = run.lane or f"item {run.item}"
    if run.item_status == ItemStatus.SUPERSEDED:
        return f"a newer item superseded it on {what}"
    if run.status == RunStatus.LOST:
        return f"it lost {what}, its lease expired"
    if run.status == RunStatus.TIMED_OUT:
        return f"it lost {what}, it timed out"
    if run.reason == Reason.CANCEL_GRACE_OVER:
        return f"it lost {what}, it ignored a request to stop"
    if run.reason == Reason.OPERATOR:
        return f"an operator took {what} from it"
    return None


def sweep(
    github: GitHub,
    repo: str,
    workflows: Sequence[str],
    runs: Iterable[RecentRunView],
    *,
    older_than_s: float = OLDER_THAN_S,
    force_after_s: float = FORCE_AFTER_S,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> list[OrphanedRun]:
    """Cancel the orphaned runs of these workflows, and force the end of those that do not stop.

    Without an orphaned run in the store, GitHub is not called.
    """
    wanted = orphaned_runs(runs)
    if not wanted:
        return []
    found = [run for workflow in workflows for run in workflow_runs.unfinished_runs(github, repo, workflow)]
    oldest_s = clock() + (github.limits.skew_s or 0.0) - older_than_s
    done: list[OrphanedRun] = []
    for run in {run.id: run for run in found}.values():
        taken = wanted.get((run.id, run.attempt))
        if taken is not None and run.started_at.timestamp() <= oldest_s:
            done.append(_cancelled(github, repo, run, taken, dry_run=dry_run))
    return done if dry_run else _ended(github, repo, done, force_after_s, tell, pause)


def _cancelled(
    github: GitHub, repo: str, run: WorkflowRun, taken: RecentRunView, *, dry_run: bool
) -> OrphanedRun:
    swept = OrphanedRun(
        workflow_run=run.id,
        attempt=run.attempt,
        workflow=run.workflow,
        url=run.url,
        lane=taken.lane,
        run=taken.run,
        why=why_orphaned(taken) or "",
        did="would_cancel",
    )
    if dry_run:
        return swept
    # A cancel ends the current attempt, so that must still be the one that lost its lane.
    now = workflow_runs.look(github, repo, run.id)
    meant = not now.ended and now.attempt == run.attempt
    cancelled = meant and workflow_runs.cancel(github, repo, run.id)
    return replace(swept, did="cancelled" if cancelled else "ended")


def _ended(
    github: GitHub,
    repo: str,
    done: Sequence[OrphanedRun],
    force_after_s: float,
    tell: Callable[[str], None],
    pause: Callable[[float], None],
) -> list[OrphanedRun]:
    """Wait until the cancelled runs have ended. After the delay, force the end of the others."""
    waiting = {swept.workflow_run: swept for swept in done if swept.did == "cancelled"}
    waited_s = 0.0
    while waiting:
        for swept in [*waiting.values()]:
            now = workflow_runs.look(github, repo, swept.workflow_run)
            if now.ended or now.attempt != swept.attempt:
                del waiting[swept.workflow_run]
        if not waiting or waited_s >= force_after_s:
            break
        if waited_s == 0:
            what = "a workflow run" if len(waiting) == 1 else f"{len(waiting)} workflow runs"
            tell(f"Waiting for {what} to end, up to {force_after_s / 60:g} min.")
        pause(LOOK_AGAIN_S)
        waited_s += LOOK_AGAIN_S
    forced = {run for run in waiting if workflow_runs.cancel(github, repo, run, force=True)}
    return [replace(swept, did="forced") if swept.workflow_run in forced else swept for swept in done]
