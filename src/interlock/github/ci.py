"""What GitHub says about the checks of a commit: each check, which are required, workflow runs, a log's end.

Each read is bounded. Data that the token may not read counts as missing. `Unreadable` is raised if none is
left to decide by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from interlock.core.ci import Check, CiOutcome, Required
from interlock.core.errors import GitHubRefused, GitHubUnavailable, InvalidInput
from interlock.core.record import Record
from interlock.github.client import GitHub
from interlock.github.effects import LANE_CONTEXT
from interlock.github.facts import one_line
from interlock.store.links import StoredWorkflowRun

_REPO = "/repos/{+repo}"
#: The most checks and runs read for a commit.
CHECKS_MAX, RUNS_MAX, ARTIFACTS_MAX, JOBS_MAX, COMMITS_MAX = 300, 20, 20, 100, 250
#: How long GitHub keeps logs by default.
LOGS_KEPT = timedelta(days=90)
#: The part at the end of a log that the agent gets.
TAIL_LINES, TAIL_BYTES = 100, 16 * 1024
#: Statuses: gone, hidden from us, or not permitted to the token.
_UNREADABLE = (403, 404, 409, 410, 422)
_ENDED = {
    "success": CiOutcome.SUCCESS,
    "neutral": CiOutcome.SUCCESS,
    "skipped": CiOutcome.SUCCESS,
    "failure": CiOutcome.FAILURE,
    "error": CiOutcome.FAILURE,
    "timed_out": CiOutcome.FAILURE,
    "startup_failure": CiOutcome.FAILURE,
    "cancelled": CiOutcome.CANCELLED,
    "stale": CiOutcome.CANCELLED,
    # It continues after a manual step.
    "action_required": CiOutcome.PENDING,
}
#: Colours and cursor moves, the time before each line, and whatever looks like a token of GitHub.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_TIME = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z ", re.MULTILINE | re.ASCII)
_TOKEN = re.compile(r"\b(?:gh[a-z]_|github_pat_)[A-Za-z0-9_]{16,}", re.ASCII)


class Unreadable(Record):
    """The token cannot read the checks."""

    why: str


class FailedJob(Record):
    """A job that failed, and the end of its log; empty if that could not be read."""

    name: str
    url: str
    log_tail: str
    #: When GitHub deletes the log, in its time format.
    log_expires_at: str


class Ci:
    """Asks GitHub for one account."""

    def __init__(self, github: GitHub) -> None:
        self._github = github

    def checks(self, repo: str, sha: str) -> list[Check] | Unreadable:
        """The newest checks and statuses of a commit, without our own status on the lane."""
        of_commit, pages = _REPO + "/commits/{sha}", self._github.pages
        kinds = ((f"{of_commit}/check-runs", "check_runs"), (f"{of_commit}/status", "statuses"))
        try:
            # A part of them would mislead: a failed check may be in the rest.
            runs, statuses = (
                list(pages(route, limit=CHECKS_MAX, within=within, repo=repo, sha=sha))
                for route, within in kinds
            )
        except GitHubRefused as refused:
            if refused.status not in _UNREADABLE:
                raise
            gone = "its checks are missing or hidden from the token"
            return Unreadable(
                why="the token has no permission to read checks" if refused.status == 403 else gone
            )
        others = (each for each in statuses if each["context"] != LANE_CONTEXT)
        return [*map(_check, runs), *map(_status, others)]

    def required(self, repo: str, branch: str) -> tuple[Required, ...]:
        """The required checks of a branch, as far as the token may read them."""
        found: dict[Required, None] = {}
        for rule in self._list(_REPO + "/rules/branches/{branch}", 100, None, repo=repo, branch=branch):
            if rule["type"] == "required_status_checks":
                for each in (rule.get("parameters") or {}).get("required_status_checks") or ():
                    found[Required(each["context"], each.get("integration_id"))] = None
        demanded = self._protection(repo, branch).get("required_status_checks") or {}
        if demanded.get("enforcement_level") != "off":
            for each in demanded.get("checks") or ():
                app = each.get("app_id")
                found[Required(each["context"], app if app and app > 0 else None)] = None
        return tuple(found)

    def _protection(self, repo: str, branch: str) -> Mapping[str, Any]:
        try:
            answer = self._github.get(_REPO + "/branches/{branch}", repo=repo, branch=branch)
        except GitHubRefused as refused:
            if refused.status in _UNREADABLE:
                return {}
            raise
        return answer.body.get("protection") or {}

    def messages(self, repo: str, number: int) -> Iterator[str]:
        """The messages of a pull request's commits."""
        route = _REPO + "/pulls/{number}/commits"
        for each in self._list(route, COMMITS_MAX, None, repo=repo, number=number):
            yield str(each["commit"]["message"])

    def workflow_runs(
        self, repository: int, repo: str, sha: str, known: Sequence[StoredWorkflowRun]
    ) -> list[StoredWorkflowRun]:
        """The workflow runs that check a commit. Data of an ended attempt is not read again."""
        before = {each.id: each for each in known}
        listed = self._list(
            _REPO + "/actions/runs", RUNS_MAX, "workflow_runs", query={"head_sha": sha}, repo=repo
        )
        return [self._workflow_run(repository, repo, each, before.get(each["id"])) for each in listed]

    def _workflow_run(
        self, repository: int, repo: str, run: Mapping[str, Any], before: StoredWorkflowRun | None
    ) -> StoredWorkflowRun:
        attempt = run.get("run_attempt") or 1
        ended = run["status"] == "completed"
        if before is not None and ended and (before.attempt, before.status) == (attempt, "completed"):
            return before
        artifacts = self._artifacts(repo, run["id"]) if ended else []
        begun = datetime.fromisoformat(run.get("run_started_at") or run["created_at"])
        return StoredWorkflowRun(
            repository=repository,
            id=run["id"],
            head=run["head_sha"],
            attempt=attempt,
            name=one_line(run.get("name") or "a workflow")[:200],
            status=one_line(run["status"] or ""),
            conclusion=run["conclusion"],
            url=run["html_url"],
            logs_url=run["logs_url"],
            logs_until_us=_us(begun + LOGS_KEPT),
            artifacts=json.dumps(artifacts),
            begun_us=_us(begun),
        )

    def _artifacts(self, repo: str, run_id: int) -> list[dict[str, Any]]:
        route = _REPO + "/actions/runs/{run_id}/artifacts"
        found = self._list(route, ARTIFACTS_MAX, "artifacts", repo=repo, run_id=run_id)
        return [
            {
                "name": one_line(each["name"])[:200],
                "url": each["archive_download_url"],
                "expires_at": each["expires_at"],
            }
            for each in found
        ]

    def failed_job(self, repo: str, run: Mapping[str, Any]) -> FailedJob | None:
        """The first failed job of a workflow run in its newest attempt, with the end of its log."""
        route = _REPO + "/actions/runs/{run_id}/jobs"
        jobs = self._list(route, JOBS_MAX, "jobs", query={"filter": "latest"}, repo=repo, run_id=run["id"])
        for job in jobs:
            if _ENDED.get(job["conclusion"] or "") is CiOutcome.FAILURE:
                begun = datetime.fromisoformat(run.get("run_started_at") or run["created_at"])
                return FailedJob(
                    name=one_line(job["name"])[:200],
                    url=job["html_url"] or run["html_url"],
                    log_tail=self._log_tail(repo, job["id"]),
                    log_expires_at=(begun + LOGS_KEPT).strftime("%Y-%m-%dT%H:%M:%SZ"),
                )
        return None

    def _log_tail(self, repo: str, job_id: int) -> str:
        """The end of a job's log; empty if it is gone or not readable. A failure here never blocks the
        caller."""
        try:
            answer = self._github.get(_REPO + "/actions/jobs/{job_id}/logs", repo=repo, job_id=job_id)
            # More than is kept, as times, colours and a partial first character are removed.
            end = self._github.end_of(answer.location, 4 * TAIL_BYTES) if answer.location else b""
        except (GitHubRefused, GitHubUnavailable, InvalidInput):
            return ""
        return tail(self._github.token.concealed(end.decode(errors="replace")))

    def _list(
        self,
        route: str,
        limit: int,
        within: str | None,
        *,
        query: Mapping[str, object] | None = None,
        **values: object,
    ) -> list[Any]:
        """The entries of a list; none if we cannot read it."""
        try:
            pages = self._github.pages
            return list(pages(route, limit=limit, within=within, background=False, query=query, **values))
        except GitHubRefused as refused:
            if refused.status in _UNREADABLE:
                return []
            raise


def tail(log: str) -> str:
    """The last lines of a log as plain text: without colours, times, control characters and tokens."""
    text = _TOKEN.sub("***", _TIME.sub("", _ESCAPES.sub("", log.replace("\r\n", "\n"))))
    # A progress bar overwrites its line: people see the last state.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip().split("\n")[-TAIL_LINES:]]
    shown = "\n".join("".join(c for c in line if c == "\t" or c.isprintable()).rstrip() for line in lines)
    cut = shown.encode()[-TAIL_BYTES:].decode(errors="ignore")
    return cut if len(cut) == len(shown) else cut.partition("\n")[2] or cut


def _check(run: Mapping[str, Any]) -> Check:
    outcome = _ENDED.get(run["conclusion"] or "", CiOutcome.PENDING)
    if run["status"] != "completed":
        outcome = CiOutcome.PENDING
    return Check(one_line(run["name"]), outcome, (run.get("app") or {}).get("id"), run["id"])


def _status(status: Mapping[str, Any]) -> Check:
    return Check(one_line(status["context"]), _ENDED.get(status["state"], CiOutcome.PENDING))


def _us(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000
