"""Workflow runs of GitHub Actions: which of them go on, whether an attempt has ended, and how to end one."""

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

#: The states of a run that goes on. One that never had a job is in none of them that matters to us.
_GOING_ON = ("in_progress", "queued", "waiting", "pending")
#: Of each state, how many runs of a workflow are looked at.
RUNS_MAX = 500
_RUN = "/repos/{+repo}/actions/runs/{run_id}"


class WorkflowRun(Record):
    """A workflow run in its newest attempt, or in the attempt that was asked for."""

    id: int
    attempt: int
    #: The workflow's file, without its folder.
    workflow: str
    ended: bool
    #: `success`, `cancelled`, `failure`…; null while it goes on.
    conclusion: str | None
    #: When the workflow run came to be, and when this attempt began.
    created_at: datetime
    started_at: datetime
    #: By GitHub's clock; of an ended attempt about when it ended.
    updated_at: datetime
    url: str


def going_on(github: GitHub, repo: str, workflow: str) -> Iterator[WorkflowRun]:
    """The runs of a workflow, named by its file, that have not ended."""
    route = "/repos/{+repo}/actions/workflows/{workflow_id}/runs"
    for status in _GOING_ON:
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
    """Ask a run to end, or end it whatever its steps say; False if it has ended by itself."""
    try:
        # To cancel what is cancelled already changes nothing.
        github.send(
            "POST", f"{_RUN}/{'force-cancel' if force else 'cancel'}", again=True, repo=repo, run_id=run
        )
    except GitHubRefused as refused:
        if refused.status == 409:
            return False
        raise _explained(refused, f"run {run}") from None
    return True


class Endings:
    """Whether attempts have ended, by GitHub. When in doubt, they have not.

    Made for a caller that asks every second: GitHub is asked about one attempt every `again_s` at most, and
    after a failure not at all for `rest_s`.
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
                # No token, one that may not look, a run that was deleted, an answer of something else: its
                # lease decides, as if nobody had asked.
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
    """The refusal in the words of whoever has to change the workflow."""
    if refused.status == 403:
        return GitHubRefused(
            "The token may not see and cancel workflow runs: it needs the permission actions: write.",
            "In a workflow, give the job  permissions: { actions: write }.",
            status=403,
        )
    if refused.status == 404:
        return GitHubRefused(
            f"GitHub knows no {what} here, or the token may not see it.",
            "Name the workflow by its file, as in agent.yml, and the repository as OWNER/NAME; "
            "a token needs the permission actions: write.",
            status=404,
        )
    return refused
