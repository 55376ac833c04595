"""What GitHub says of the series of a repository: one list of its open issues, and what follows from it.

A repository of 160 open issues costs two requests, and none of the allowance while nothing changes. What is
in no list costs one each: an issue that left, a dependency elsewhere, the blockers of an issue that has some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.core.errors import GitHubRefused
from interlock.core.record import Record
from interlock.core.series.document import LABEL
from interlock.core.series.needs import needs
from interlock.core.series.standing import Facts, How, Member
from interlock.core.series.titles import Place, Titles
from interlock.github.client import GitHub
from interlock.github.closing import closes
from interlock.github.facts import login, one_line

_REPO = "/repos/{+repo}"
_ISSUE = _REPO + "/issues/{number}"
#: How many open issues of a repository are looked at, how many blockers of one, how much of a history.
OPEN_MAX, BLOCKERS_MAX, TIMELINE_MAX = 5_000, 50, 1_000
STATE_ISSUES_MAX = 1_000
_GONE = (404, 410)


class Watched(Record):
    """Which issues and whose assignments count."""

    titles: Titles = Titles()
    #: Logins in lower case; empty: everybody's.
    logins: frozenset[str] = frozenset()


class Repository(Record):
    """A repository by the name it has now."""

    id: int
    name: str


def find(github: GitHub, name: str) -> Repository:
    """The repository, also by a former name."""
    found = github.get(_REPO, repo=name).body
    return Repository(id=found["id"], name=found["full_name"])


def look_at(
    github: GitHub, repository: Repository, watched: Watched, number: int
) -> tuple[bool, Place | None] | None:
    """Whether an issue is open, and its place; None if there is no such issue."""
    try:
        issue = github.get(_ISSUE, repo=repository.name, number=number).body
    except GitHubRefused as refused:
        if refused.status in _GONE:
            return None
        raise
    if "pull_request" in issue or _where(issue) != repository.name.lower():
        return None
    return issue["state"] == "open", _place(issue, watched.titles)


class Look:
    """One look at a repository. What is asked twice is read once."""

    def __init__(self, github: GitHub, repository: Repository, watched: Watched) -> None:
        self._github, self._watched, self.repository = github, watched, repository
        self._others: dict[tuple[str, int], Mapping[str, Any] | None] = {}
        query = {"state": "open", "sort": "created", "direction": "asc"}
        listed = github.pages(_REPO + "/issues", limit=OPEN_MAX, query=query, repo=repository.name)
        self.open: dict[int, Mapping[str, Any]] = {
            each["number"]: each for each in listed if "pull_request" not in each
        }
        self._places: dict[int, Place] = {}
        for number, issue in self.open.items():
            place = self.place(issue)
            if place is not None:
                self._places[number] = place

    def place(self, issue: Mapping[str, Any]) -> Place | None:
        """The place of an issue."""
        return _place(issue, self._watched.titles)

    @property
    def series(self) -> tuple[str, ...]:
        """Every series with an open issue."""
        return tuple(sorted({place.series for place in self._places.values()}))

    def issue(self, number: int) -> Mapping[str, Any] | None:
        """An issue of this repository, open or not; None if it is gone."""
        return self.open.get(number) or self._other(self.repository.name, number)

    def facts(self, series: str, known: Iterable[int], active: int | None) -> Facts:
        """The members, and how those have left that were known before."""
        numbers = sorted(number for number, place in self._places.items() if place.series == series)
        members = tuple(self._member(number, series) for number in numbers)
        gone = sorted(set(known) - set(numbers))
        return Facts(
            members=members, left={number: self._left(number, exactly=number == active) for number in gone}
        )

    def _member(self, number: int, series: str) -> Member:
        issue = self.open[number]
        blockers = self._blockers(number, issue)
        own = {n for where, n in blockers if where == self._here and self._series_of(n) == series}
        words = {f"#{n}" if where == self._here else f"{where}#{n}" for where, n in blockers}
        named = needs(issue.get("body") or "", self.repository.name, self._watched.titles)
        words |= {other for other in named.series - {series} if other in self.series}
        return Member(
            number=number,
            micro=self._places[number].micro,
            title=one_line(issue["title"] or ""),
            assigned=self._assigned(issue),
            needs=tuple(sorted(words)),
            needs_own=tuple(sorted(own)),
        )

    @property
    def _here(self) -> str:
        return self.repository.name.lower()

    def _series_of(self, number: int) -> str | None:
        place = self._places.get(number)
        return None if place is None else place.series

    def _assigned(self, issue: Mapping[str, Any]) -> tuple[str, ...]:
        names = sorted({login(user) for user in issue.get("assignees") or () if user})
        return tuple(name for name in names if not self._watched.logins or name in self._watched.logins)

    def _blockers(self, number: int, issue: Mapping[str, Any]) -> set[tuple[str, int]]:
        """Open issues that must come first, as (repository, number)."""
        found: set[tuple[str, int]] = set()
        if (issue.get("issue_dependencies_summary") or {}).get("blocked_by"):
            found |= self._listed(number, "dependencies/blocked_by")
        parts = issue.get("sub_issues_summary") or {}
        if parts.get("total", 0) > parts.get("completed", 0):
            found |= self._listed(number, "sub_issues")
        named = needs(issue.get("body") or "", self.repository.name, self._watched.titles)
        asked = {(self._here, n) for n in named.numbers} | set(named.elsewhere)
        found |= {each for each in asked if self._is_open(*each)}
        return found - {(self._here, number)}

    def _listed(self, number: int, what: str) -> set[tuple[str, int]]:
        listed = self._github.pages(
            _ISSUE + "/" + what, limit=BLOCKERS_MAX, repo=self.repository.name, number=number
        )
        return {(_where(each), each["number"]) for each in listed if each["state"] == "open"}

    def _is_open(self, where: str, number: int) -> bool:
        if where == self._here and number in self.open:
            return True
        other = self._other(where, number)
        return other is not None and other["state"] == "open"

    def _other(self, where: str, number: int) -> Mapping[str, Any] | None:
        key = where.lower(), number
        if key not in self._others:
            self._others[key] = self._read(where, number)
        return self._others[key]

    def _read(self, where: str, number: int) -> Mapping[str, Any] | None:
        try:
            answer = self._github.get(_ISSUE, repo=where, number=number)
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return None
            raise
        found: Mapping[str, Any] = answer.body
        return found

    # -- who left ---------------------------------------------------------------------------------

    def _left(self, number: int, *, exactly: bool) -> How:
        """How an issue left that is no open member. Only of the active one its history is asked for."""
        issue = self._other(self.repository.name, number)
        if issue is None:
            return How.DELETED
        if _where(issue) != self._here or issue["number"] != number:
            return How.TRANSFERRED
        if issue["state"] == "open":
            return How.RETITLED
        return self._ended(number, issue) if exactly else How.ABANDONED

    def _ended(self, number: int, issue: Mapping[str, Any]) -> How:
        """Whether a merged pull request, or a commit, closed it; or what else did."""
        entries = list(
            self._github.pages(
                _ISSUE + "/timeline", limit=TIMELINE_MAX, repo=self.repository.name, number=number
            )
        )
        if any(each.get("event") == "converted_to_discussion" for each in entries):  # there is no way back
            return How.CONVERTED
        if issue.get("state_reason") in ("not_planned", "duplicate"):
            return How.ABANDONED
        closed = [each for each in entries if each.get("event") == "closed"]
        if closed and closed[-1].get("commit_id"):
            return How.COMPLETED
        # What was merged before somebody opened it again did not do.
        since = max((each["created_at"] for each in entries if each.get("event") == "reopened"), default="")
        merged = any(self._merged_here(number, each, since) for each in entries)
        return How.COMPLETED if merged else How.ABANDONED

    def _merged_here(self, number: int, entry: Mapping[str, Any], since: str) -> bool:
        if entry.get("event") != "cross-referenced":
            return False
        source = (entry.get("source") or {}).get("issue") or {}
        merged_at = (source.get("pull_request") or {}).get("merged_at")
        if not merged_at or merged_at < since:
            return False
        text = f"{source.get('title') or ''}\n{source.get('body') or ''}"
        return number in closes(text, self.repository.name)


def _place(issue: Mapping[str, Any], titles: Titles) -> Place | None:
    """A state issue has none, whatever its title."""
    if any(_name(label) == LABEL for label in issue["labels"]):
        return None
    return titles.place(issue["title"] or "")


def _where(issue: Mapping[str, Any]) -> str:
    return "/".join(str(issue["repository_url"]).rsplit("/", 2)[1:]).lower()


def _name(label: Any) -> str:
    return str(label if isinstance(label, str) else label["name"]).lower()
