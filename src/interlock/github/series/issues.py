"""The issues of a repository as GitHub shows them. Each is read once, however often it is used.

A repository of 160 open issues costs two requests, and none of the rate limit while nothing changes. Data
outside the lists costs one request each: a departed issue, a dependency elsewhere, the blockers of an issue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.errors import GitHubRefused
from interlock.core.record import Record
from interlock.github.client import GitHub

REPO = "/repos/{+repo}"
ISSUE = REPO + "/issues/{number}"
#: The most open issues of a repository, blockers of an issue and history entries that are read.
OPEN_MAX, BLOCKERS_MAX, TIMELINE_MAX = 5_000, 50, 1_000
GONE = (404, 410)


class CurrentRepository(Record):
    """A repository under its current name."""

    id: int
    name: str


def find(github: GitHub, name: str) -> CurrentRepository:
    """Find the repository, also by a former name."""
    found = github.get(REPO, repo=name).body
    return CurrentRepository(id=found["id"], name=found["full_name"])


class RepositoryIssues:
    """The issues of one repository at one moment."""

    def __init__(self, github: GitHub, repository: CurrentRepository) -> None:
        self._github, self.repository = github, repository
        #: The repository's name in issues.
        self.here = repository.name.lower()
        self._others: dict[tuple[str, int], Mapping[str, Any] | None] = {}
        self._timelines: dict[int, list[Mapping[str, Any]]] = {}
        query = {"state": "open", "sort": "created", "direction": "asc"}
        listed = list(github.pages(REPO + "/issues", limit=OPEN_MAX + 1, query=query, repo=repository.name))
        self._truncated = len(listed) > OPEN_MAX
        self.open: dict[int, Mapping[str, Any]] = {
            each["number"]: each for each in listed[:OPEN_MAX] if "pull_request" not in each
        }

    def problems(self) -> list[str]:
        """A problem if the repository has more open issues than are read."""
        if not self._truncated:
            return []
        many = f"{self.repository.name} has more than {OPEN_MAX:,} open issues"
        return [f"{many}: only the oldest {OPEN_MAX:,} are read."]

    def issue(self, number: int) -> Mapping[str, Any] | None:
        """An issue of this repository, open or not; None if it is gone."""
        return self.open.get(number) or self.read(number)

    def assignees(self, number: int) -> list[Mapping[str, Any]]:
        """The accounts that an issue is assigned to."""
        return [user for user in (self.issue(number) or {}).get("assignees") or () if user]

    def read(self, number: int, where: str = "") -> Mapping[str, Any] | None:
        """Read one issue of this or another repository, without the list; None if it is gone."""
        key = (where or self.here).lower(), number
        if key not in self._others:
            self._others[key] = _read(self._github, where or self.repository.name, number)
        return self._others[key]

    def is_here(self, issue: Mapping[str, Any], number: int) -> bool:
        """Whether a requested issue is still in this repository."""
        return repository_of(issue) == self.here and issue["number"] == number

    def timeline(self, number: int) -> list[Mapping[str, Any]]:
        """An issue's history; empty if it is gone."""
        if number not in self._timelines:
            try:
                self._timelines[number] = self._pages(number, "timeline", TIMELINE_MAX)
            except GitHubRefused as refused:
                if refused.status not in GONE:
                    raise
                self._timelines[number] = []
        return self._timelines[number]

    def blockers(self, number: int, what: str) -> set[tuple[str, int]]:
        """Open issues that GitHub lists as blockers or sub-issues, as (repository, number)."""
        listed = self._pages(number, what, BLOCKERS_MAX)
        return {(repository_of(each), each["number"]) for each in listed if each["state"] == "open"}

    def _pages(self, number: int, what: str, limit: int) -> list[Mapping[str, Any]]:
        name = self.repository.name
        return list(self._github.pages(f"{ISSUE}/{what}", limit=limit, repo=name, number=number))


def read_issue(github: GitHub, repository: CurrentRepository, number: int) -> Mapping[str, Any] | None:
    """Read an issue of a repository without a list; None if it is not an issue, or left the repository."""
    issue = _read(github, repository.name, number)
    if issue is None or "pull_request" in issue or repository_of(issue) != repository.name.lower():
        return None
    return issue


def _read(github: GitHub, where: str, number: int) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = github.get(ISSUE, repo=where, number=number).body
    except GitHubRefused as refused:
        if refused.status in GONE:
            return None
        raise
    return found


def repository_of(issue: Mapping[str, Any]) -> str:
    """The repository that an issue is in, in lower case."""
    return "/".join(str(issue["repository_url"]).rsplit("/", 2)[1:]).lower()


def label_name(label: Any) -> str:
    """The name of a label, in lower case."""
    return str(label if isinstance(label, str) else label["name"]).lower()
