"""Workflow runs of GitHub Actions: lists running ones, checks whether an attempt has ended, cancels one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable, InterlockError
from interlock.core.record import Record
from interlock.github.client import GitHub
from interlock.process.workplace import ActionsRun

#: The states of unfinished runs. A run that never had a job has another state, which does not matter here.
_UNFINISHED = ("in_progress", "queued", "waiting", "pending")
#: The most runs of a workflow that are read for each state.
RUNS_MAX = 500
_RUN = "/repos/{+repo}/actions/runs/{run_id}"


class WorkflowRun(Record):
    """A workflow run in its newest attempt, or in the requested one."""

    id: int
    attempt: int
    #: The workflow's file, without its folder.
    workflow: str
    ended: bool
    #: `success`, `cancelled`, `failure`…; null while it runs.
    conclusion: str | None
    #: The creation of the workflow run, and the start of this attempt.
    created_at: datetime
    started_at: datetime
    #: By GitHub's clock; for an ended attempt, about the time of its end.
    updated_at: datetime
    url: str


def unfinished_runs(github: GitHub, repo: str, workflow: str) -> Iterator[WorkflowRun]:
    """The unfinished runs of a workflow, which is named by its file."""
    route = "/repos/{+repo}/actions/workflows/{workflow_id}/runs"
    for status in _UNFINISHED:
        try:
            found = [
                *github.pages(
                    route,
                    limit=RUNS_MAX,
                    within="workflow_runs",
                    query={"status": status},
                    repo=repo,
                    workflow_id=workflow,
                )
            ]
        except GitHubRefused as refused:
            raise _explained(refused, workflow) from None
        yield from map(_read, found)


def look(github: GitHub, repo: str, run: int, attempt: int | None = None) -> WorkflowRun:
    """One run, or one attempt of it."""
    if attempt is None:
        return _read(github.get(_RUN, repo=repo, run_id=run).body)
    route = f"{_RUN}/attempts/{{attempt_number}}"
    return _read(github.get(route, repo=repo, run_id=run, attempt_number=attempt).body)


def cancel(github: GitHub, repo: str, run: int, *, force: bool = False) -> bool:
    """Cancel a run, or force its end; False if it has already ended."""
    try:
        # Cancelling twice changes nothing.
        github.send(
            "POST", f"{_RUN}/{'force-cancel' if force else 'cancel'}", again=True, repo=repo, run_id=run
        )
    except GitHubRefused as refused:
        if refused.status == 409:
            return False
        raise _explained(refused, f"run {run}") from None
    return True


class AttemptEnds:
    """Whether attempts have ended, by GitHub. In doubt, they count as running.

    The caller may ask every second. GitHub is asked about one attempt every `again_s` at most, and not at all
    for `rest_s` after a failure.
    """

    def __init__(
        self,
        open_client: Callable[[], GitHub],
        *,
        again_s: float = 15.0,
        rest_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_client, self._again_s, self._rest_s, self._clock = open_client, again_s, rest_s, clock
        self._lock = threading.Lock()
        self._asked_s: dict[ActionsRun, float] = {}
        self._ended: set[ActionsRun] = set()
        self._silent_until_s = float("-inf")

    def has_ended(self, run: ActionsRun) -> bool:
        with self._lock:
            if run in self._ended:
                return True
            now_s = self._clock()
            if now_s < max(self._silent_until_s, self._asked_s.get(run, float("-inf")) + self._again_s):
                return False
            self._asked_s[run] = now_s
            try:
                with self._open_client() as github:
                    if look(github, run.repository, run.run, run.attempt).ended:
                        self._ended.add(run)
            except (GitHubUnavailable, GitHubLimited):
                self._silent_until_s = now_s + self._rest_s
            except (InterlockError, KeyError, TypeError, ValueError):
                # No token, no permission, a deleted run, or another server's answer: the lease decides, as if
                # GitHub had not been asked.
                self._asked_s[run] = now_s + self._rest_s
            return run in self._ended


def _read(answer: Mapping[str, Any]) -> WorkflowRun:
    return WorkflowRun(
        id=answer["id"],
        attempt=answer.get("run_attempt") or 1,
        workflow=str(answer["path"]).partition("@")[0].rpartition("/")[2],
        ended=answer["status"] == "completed",
        conclusion=answer["conclusion"],
        created_at=datetime.fromisoformat(answer["created_at"]),
        started_at=datetime.fromisoformat(answer.get("run_started_at") or answer["created_at"]),
        updated_at=datetime.fromisoformat(answer["updated_at"]),
        url=answer["html_url"],
    )


def _explained(refused: GitHubRefused, what: str) -> GitHubRefused:
    """The refusal, with how to change the workflow."""
    if refused.status == 403:
        return GitHubRefused(
            "Permission denied: the token needs actions: write to see and cancel workflow runs.",
            "In a workflow, give the job  permissions: { actions: write }.",
            status=403,
        )
    if refused.status == 404:
        return GitHubRefused(
            f"GitHub has no {what} here, or the token may not read it.",
            "Name the workflow by its file, as in agent.yml, and the repository as OWNER/NAME; "
            "a token needs the permission actions: write.",
            status=404,
        )
    return refused
