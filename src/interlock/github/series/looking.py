"""What GitHub says of the series of a repository: one list of its open issues, and what follows from it.

A repository of 160 open issues costs two requests, and none of the allowance while nothing changes. What is
in no list costs one each: an issue that left, a dependency elsewhere, the blockers of an issue that has some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from interlock.core.errors import GitHubRefused, GitHubUnavailable, InterlockError, InvalidInput, NotFound
from interlock.core.record import Record
from interlock.core.series.document import LABEL
from interlock.core.series.needs import NO_NEEDS, Needs, needs
from interlock.core.series.standing import Facts, How, Member
from interlock.core.series.titles import Place, Titles
from interlock.github.client import GitHub
from interlock.github.closing import closes
from interlock.github.facts import login, one_line
from interlock.github.reading import Reader
from interlock.github.remarks import ACTIONS_BOT

_REPO = "/repos/{+repo}"
_ISSUE = _REPO + "/issues/{number}"
#: How many open issues of a repository are looked at, how many blockers of one, how much of a history.
OPEN_MAX, BLOCKERS_MAX, TIMELINE_MAX = 5_000, 50, 1_000
STATE_ISSUES_MAX = 1_000
#: How many issues are followed in search of a cycle of dependencies.
CYCLE_MAX = 300
_GONE = (404, 410)
#: What in an issue's history brings it back into its series.
_RETURNS = ("reopened", "renamed")


class Watched(Record):
    """Which issues and whose assignments count."""

    titles: Titles = Titles()
    #: Logins in lower case; empty: everybody's.
    logins: frozenset[str] = frozenset()
    #: The label that makes an issue a member whoever has written it, if somebody with write access set it.
    label: str = ""


class Repository(Record):
    """A repository by the name it has now."""

    id: int
    name: str


def find(github: GitHub, name: str) -> Repository:
    """The repository, also by a former name."""
    found = github.get(_REPO, repo=name).body
    return Repository(id=found["id"], name=found["full_name"])


def series_of(github: GitHub, repository: Repository, watched: Watched, number: int) -> str | None:
    """The series that the title of an open issue names, whoever wrote it. Raises if there is no issue."""
    try:
        issue = github.get(_ISSUE, repo=repository.name, number=number).body
    except GitHubRefused as refused:
        if refused.status not in _GONE:
            raise
        issue = None
    if issue is None or "pull_request" in issue or _where(issue) != repository.name.lower():
        raise NotFound(f"There is no issue #{number} in {repository.name}.", "Look at its number.")
    place = _place(issue, watched.titles)
    if place is not None and issue["state"] != "open":
        raise InvalidInput(f"#{number} is closed.", "Reopen it first.")
    return None if place is None else place.series


class Authors:
    """Who may write to a repository; each is asked for once. What an issue says of its author is no proof:
    MEMBER and COLLABORATOR may be readers."""

    def __init__(self, github: GitHub, repository: Repository) -> None:
        self._reader, self._name = Reader(github), repository.name
        self._known: dict[str, bool] = {}

    def may_write(self, name: str) -> bool:
        """Workflows of the repository may too: only those with write access make them."""
        if name == ACTIONS_BOT:
            return True
        if name not in self._known:
            self._known[name] = self._reader.may_write(self._name, name)
        return self._known[name]


class Look:
    """One look at a repository. What is asked twice is read once."""

    def __init__(self, github: GitHub, repository: Repository, watched: Watched, authors: Authors) -> None:
        self._github, self._watched, self.repository = github, watched, repository
        self.authors = authors
        self._others: dict[tuple[str, int], Mapping[str, Any] | None] = {}
        self._timelines: dict[int, list[Mapping[str, Any]]] = {}
        self._waits: dict[int, set[tuple[str, int]]] = {}
        query = {"state": "open", "sort": "created", "direction": "asc"}
        listed = list(github.pages(_REPO + "/issues", limit=OPEN_MAX + 1, query=query, repo=repository.name))
        #: Whether there are more open issues than are looked at.
        self.truncated = len(listed) > OPEN_MAX
        self.open: dict[int, Mapping[str, Any]] = {
            each["number"]: each for each in listed[:OPEN_MAX] if "pull_request" not in each
        }
        #: Open issues whose titles name a series, and why they are no members of it.
        self._ignored: dict[str, dict[int, str]] = {}
        #: Series of which nobody knows who belongs to them.
        self._unknown: dict[str, InterlockError] = {}
        #: Dependencies that cannot be read, as sentences, by the issue that waits for them.
        self._unread: dict[int, list[str]] = {}
        self._places: dict[int, Place] = {}
        for issue in self.open.values():
            self._put(issue)

    def _put(self, issue: Mapping[str, Any]) -> None:
        """Give an open issue its place, if it is a member."""
        place = _place(issue, self._watched.titles)
        if place is None:
            return
        try:
            why = self._outsider(issue)
        except (GitHubRefused, GitHubUnavailable) as error:
            self._unknown[place.series] = error
            return
        if why:
            self._ignored.setdefault(place.series, {})[issue["number"]] = why
        else:
            self._places[issue["number"]] = place

    def _outsider(self, issue: Mapping[str, Any]) -> str:
        """Why an issue is no member whatever its title says; empty if it is one."""
        author = login(issue["user"])
        if self.authors.may_write(author):
            return ""
        label = self._watched.label.lower()
        if label and any(_name(each) == label for each in issue["labels"]):
            vouched = self._vouched(issue["number"], label)
            return "" if vouched else f"nobody who may write set the label {label}"
        vouch = f", and it has no label {label}" if label else ""
        return f"{author} may not write to {self.repository.name}{vouch}"

    def _vouched(self, number: int, label: str) -> bool:
        """Whether somebody with write access set the label, and nobody without changed the title later."""
        vouched = False
        for entry in self._timeline(number):
            who = login(entry["actor"]) if entry.get("actor") else ""
            named = _name(entry["label"]) if entry.get("event") == "labeled" else ""
            if named == label and self.authors.may_write(who):
                vouched = True
            elif entry.get("event") == "renamed" and not self.authors.may_write(who):
                vouched = False
        return vouched

    def place(self, number: int) -> tuple[Place | None, str]:
        """The place of an open issue; or why it has none although its title names a series."""
        if number not in self.open:
            other = self._other(self.repository.name, number)
            if other is not None and other["state"] == "open" and self._is_here(other, number):
                self.open[number] = other
                self._put(other)
        place = self._places.get(number)
        named = _place(self.open[number], self._watched.titles) if number in self.open else None
        if place is None and named is not None and named.series in self._unknown:
            raise self._unknown[named.series]
        why = next((found[number] for found in self._ignored.values() if number in found), "")
        return place, why

    @property
    def series(self) -> tuple[str, ...]:
        """Every series with an open issue that is a member, and those of which nobody knows."""
        return tuple(sorted({*self._unknown, *(place.series for place in self._places.values())}))

    def ignored(self, series: str) -> dict[int, str]:
        """Open issues that are no members, and why; and members whose dependencies do not count."""
        lines = {n: self._unheard(n) for n, place in self._places.items() if place.series == series}
        return {**self._ignored.get(series, {}), **{number: why for number, why in lines.items() if why}}

    def issue(self, number: int) -> Mapping[str, Any] | None:
        """An issue of this repository, open or not; None if it is gone."""
        return self.open.get(number) or self._other(self.repository.name, number)

    def facts(
        self,
        series: str,
        known: Iterable[int],
        active: int | None,
        *,
        left: Mapping[int, str] | None = None,
        watch: bool = False,
    ) -> Facts:
        """The members, and how those have left that were known before.

        `left` says when others were seen to have left: a list that shows an older state of them is stale.
        With `watch` the history of the active issue is asked for if nobody is assigned to it.
        """
        if series in self._unknown:
            raise self._unknown[series]
        for number in known:
            self.place(number)  # one that the list lacks: it is cut off, or stale
        numbers = sorted(number for number, place in self._places.items() if place.series == series)
        stale = {n for n in numbers if n in (left or {}) and self._is_stale(n, (left or {})[n])}
        numbers = [number for number in numbers if number not in stale]
        members = tuple(self._member(number, series, watch=watch and number == active) for number in numbers)
        gone = sorted(set(known) - set(numbers))
        return Facts(
            members=members,
            left={
                number: How.ABANDONED if number in stale else self._left(number, exactly=number == active)
                for number in gone
            },
        )

    def left_at(self, number: int) -> str | None:
        """When an issue was last changed that has left; None if it is gone."""
        issue = self._other(self.repository.name, number) or self.open.get(number)
        return None if issue is None else str(issue["updated_at"])

    def _is_stale(self, number: int, left_at: str) -> bool:
        """Whether an issue is listed as it was before it left."""
        if str(self.open[number]["updated_at"]) > left_at:
            return False
        entries = self._timeline(number)
        return not any(
            each.get("event") in _RETURNS and str(each["created_at"]) >= left_at for each in entries
        )

    def _member(self, number: int, series: str, *, watch: bool) -> Member:
        issue = self.open[number]
        blockers = self._blockers(number)
        own = {n for where, n in blockers if where == self._here and self._series_of(n) == series}
        words = {f"#{n}" if where == self._here else f"{where}#{n}" for where, n in blockers}
        words |= self._needed_series(number) - {series}
        assigned = self._assigned(issue)
        return Member(
            number=number,
            micro=self._places[number].micro,
            title=one_line(issue["title"] or ""),
            assigned=assigned,
            needs=tuple(sorted(words)),
            needs_own=tuple(sorted(own)),
            unassigned_s=self._unassigned_s(number) if watch and not assigned else None,
        )

    def _unassigned_s(self, number: int) -> float | None:
        """When the last assignee was removed, if nobody was assigned since."""
        entries = [each for each in self._timeline(number) if each.get("event") in ("assigned", "unassigned")]
        if not entries or entries[-1]["event"] != "unassigned":
            return None
        return datetime.fromisoformat(entries[-1]["created_at"]).timestamp()

    def problems(self, series: str) -> tuple[str, ...]:
        """What people must put right: too many issues, dependencies that cannot be read, cycles."""
        found = []
        if self.truncated:
            found.append(
                f"{self.repository.name} has more than {OPEN_MAX:,} open issues: only the oldest {OPEN_MAX:,}"
                " are read."
            )
        members = sorted(number for number, place in self._places.items() if place.series == series)
        found += [f"#{number} waits: {why}" for number in members for why in self._unread.get(number, ())]
        return (*found, *self._cycles(members))

    def _cycles(self, members: Iterable[int]) -> list[str]:
        """Issues that wait for each other, each cycle once."""
        found: dict[frozenset[int], str] = {}
        for start in members:
            path = self._way_back(start)
            if path is not None and frozenset(path) not in found:
                words = " → ".join(f"#{number}" for number in (*path, path[0]))
                found[frozenset(path)] = f"Dependency cycle: {words}. Remove one of these dependencies."
        return list(found.values())

    def _way_back(self, start: int) -> list[int] | None:
        """The shortest way from an issue over its dependencies back to itself."""
        came_from: dict[int, int] = {}
        ahead = [start]
        for number in ahead:
            for needed in sorted(self._needed(number)):
                if needed == start:
                    path = [number]
                    while path[-1] != start:
                        path.append(came_from[path[-1]])
                    return path[::-1]
                if needed not in came_from and len(ahead) < CYCLE_MAX:
                    came_from[needed] = number
                    ahead.append(needed)
        return None

    def _needed(self, number: int) -> set[int]:
        """The open issues of this repository that an open issue waits for, members of series included."""
        if number not in self.open:
            return set()
        series = self._needed_series(number)
        here = {n for where, n in self._blockers(number) if where == self._here}
        return here | {n for n, place in self._places.items() if place.series in series} - {number}

    @property
    def _here(self) -> str:
        return self.repository.name.lower()

    def _series_of(self, number: int) -> str | None:
        place = self._places.get(number)
        return None if place is None else place.series

    def _assigned(self, issue: Mapping[str, Any]) -> tuple[str, ...]:
        names = sorted({login(user) for user in issue.get("assignees") or () if user})
        return tuple(name for name in names if not self._watched.logins or name in self._watched.logins)

    def _named(self, number: int) -> Needs:
        """What the lines of an issue's text name. Those of somebody who may not write name nothing."""
        issue = self.open[number]
        named = needs(issue.get("body") or "", self.repository.name, self._watched.titles)
        if named == NO_NEEDS or self.authors.may_write(login(issue["user"])):
            return named
        return NO_NEEDS

    def _unheard(self, number: int) -> str:
        """Why the lines of an issue's text do not count; empty if they do, or if it has none."""
        issue = self.open[number]
        author, text = login(issue["user"]), issue.get("body") or ""
        if needs(text, self.repository.name, self._watched.titles) == self._named(number):
            return ""
        return f'its "Depends on" lines do not count: {author} may not write to {self.repository.name}'

    def _needed_series(self, number: int) -> set[str]:
        own = self._series_of(number)
        return {other for other in self._named(number).series if other in self.series and other != own}

    def _blockers(self, number: int) -> set[tuple[str, int]]:
        """Open issues that must come first, as (repository, number)."""
        if number in self._waits:
            return self._waits[number]
        issue = self.open[number]
        found: set[tuple[str, int]] = set()
        if (issue.get("issue_dependencies_summary") or {}).get("blocked_by"):
            found |= self._listed(number, "dependencies/blocked_by")
        parts = issue.get("sub_issues_summary") or {}
        if parts.get("total", 0) > parts.get("completed", 0):
            found |= self._listed(number, "sub_issues")
        named = self._named(number)
        asked = {(self._here, n) for n in named.numbers} | set(named.elsewhere)
        found |= {each for each in asked if self._is_open(number, *each)}
        self._waits[number] = found - {(self._here, number)}
        return self._waits[number]

    def _listed(self, number: int, what: str) -> set[tuple[str, int]]:
        listed = self._github.pages(
            _ISSUE + "/" + what, limit=BLOCKERS_MAX, repo=self.repository.name, number=number
        )
        return {(_where(each), each["number"]) for each in listed if each["state"] == "open"}

    def _is_open(self, waiting: int, where: str, number: int) -> bool:
        """Whether an issue is open for which another waits. One that cannot be read counts as open."""
        if where == self._here and number in self.open:
            return True
        try:
            other = self._other(where, number)
        except (GitHubRefused, GitHubUnavailable) as error:
            self._unread.setdefault(waiting, []).append(f"{where}#{number} cannot be read. {error.sentence}")
            return True
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
        if any(number in found for found in self._ignored.values()):
            return How.IGNORED
        if number in self.open:  # of another series now, or of none
            return How.RETITLED
        issue = self._other(self.repository.name, number)
        if issue is None:
            return How.DELETED
        if not self._is_here(issue, number):
            return How.TRANSFERRED
        return self._ended(number, issue) if exactly else How.ABANDONED

    def _is_here(self, issue: Mapping[str, Any], number: int) -> bool:
        return _where(issue) == self._here and issue["number"] == number

    def _timeline(self, number: int) -> list[Mapping[str, Any]]:
        """An issue's history; empty if it is gone."""
        if number not in self._timelines:
            try:
                found = self._github.pages(
                    _ISSUE + "/timeline", limit=TIMELINE_MAX, repo=self.repository.name, number=number
                )
                self._timelines[number] = list(found)
            except GitHubRefused as refused:
                if refused.status not in _GONE:
                    raise
                self._timelines[number] = []
        return self._timelines[number]

    def _ended(self, number: int, issue: Mapping[str, Any]) -> How:
        """Whether a merged pull request, or a commit, closed it; or what else did."""
        entries = self._timeline(number)
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
