"""Workflow runs that go on for nothing: the store took their lane, or a newer item superseded theirs.

A run says in its worker's name in which workflow run *and attempt* it is. A workflow run whose own run ended
by its own word is left alone: its later steps are its own business. So is one that has another run at work,
and a later attempt of one that lost its lane.
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

#: How old an attempt must be. Whoever lost a lane is about to learn it; nobody else needs to step in at once.
OLDER_THAN_S = 600.0
#: How long GitHub gives a cancelled workflow run before it ends it by force itself.
FORCE_AFTER_S = 300.0
LOOK_AGAIN_S = 10.0


class Swept(Record):
    """A workflow run that goes on for nothing, and what was done about it."""

    workflow_run: int
    attempt: int
    workflow: str
    url: str
    lane: str | None
    run: int
    #: Why it goes on for nothing: a clause that begins with its subject.
    why: str
    #: `would_cancel`, `cancelled`, `forced`, or `ended`: it ended by itself.
    did: str


def strays(runs: Iterable[RecentRunView]) -> dict[tuple[int, int], RecentRunView]:
    """Attempts of workflow runs whose newest run was taken from them, and that have none at work.

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
        if attempt not in at_work and why_stray(run) is not None
    }


def why_stray(run: RecentRunView) -> str | None:
    """What took a run's lane or item from it: a clause. None if it ended by its own word."""
    what = run.lane or f"item {run.item}"
    if run.item_status == ItemStatus.SUPERSEDED:
        return f"a newer item superseded it on {what}"
    if run.status == RunStatus.LOST:
        return f"it lost {what}, for its lease ran out"
    if run.status == RunStatus.TIMED_OUT:
        return f"it lost {what}, for its time was up"
    if run.reason == Reason.CANCEL_GRACE_OVER:
        return f"it lost {what}, for it was asked to stop and did not"
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
) -> list[Swept]:
    """Cancel the strays among the runs of these workflows, and force those that do not end.

    Without a stray in the store GitHub is not asked at all.
    """
    wanted = strays(runs)
    if not wanted:
        return []
    found = [run for workflow in workflows for run in workflow_runs.going_on(github, repo, workflow)]
    oldest_s = clock() + (github.limits.skew_s or 0.0) - older_than_s
    done: list[Swept] = []
    for run in {run.id: run for run in found}.values():
        taken = wanted.get((run.id, run.attempt))
        if taken is not None and run.started_at.timestamp() <= oldest_s:
            done.append(_cancelled(github, repo, run, taken, dry_run=dry_run))
    return done if dry_run else _ended(github, repo, done, force_after_s, tell, pause)


def _cancelled(github: GitHub, repo: str, run: WorkflowRun, taken: RecentRunView, *, dry_run: bool) -> Swept:
    swept = Swept(
        workflow_run=run.id,
        attempt=run.attempt,
        workflow=run.workflow,
        url=run.url,
        lane=taken.lane,
        run=taken.run,
        why=why_stray(taken) or "",
        did="would_cancel",
    )
    if dry_run:
        return swept
    # A cancel ends whichever attempt there is: it must still be the one that lost its lane.
    now = workflow_runs.look(github, repo, run.id)
    meant = not now.ended and now.attempt == run.attempt
    cancelled = meant and workflow_runs.cancel(github, repo, run.id)
    return replace(swept, did="cancelled" if cancelled else "ended")


def _ended(
    github: GitHub,
    repo: str,
    done: Sequence[Swept],
    force_after_s: float,
    tell: Callable[[str], None],
    pause: Callable[[float], None],
) -> list[Swept]:
    """Wait until the cancelled ones have ended, and force those that have not after the delay."""
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
