"""The blockers of an issue of a series: blocking issues, open sub-issues, and its `Depends on` lines."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.core.errors import GitHubRefused, GitHubUnavailable
from interlock.core.series.dependencies import NO_NEEDS, Dependencies, dependencies_of
from interlock.core.series.titles import Titles
from interlock.github.facts import login
from interlock.github.series.issues import RepositoryIssues
from interlock.github.series.members import Members

#: The most issues that are followed in search of a dependency cycle.
CYCLE_MAX = 300


class Blockers:
    """The blockers of the issues of a repository."""

    def __init__(self, issues: RepositoryIssues, members: Members, titles: Titles) -> None:
        self._issues, self._members, self._titles = issues, members, titles
        self._found: dict[int, set[tuple[str, int]]] = {}
        #: Unreadable dependencies, as sentences, by the waiting issue.
        self._unreadable: dict[int, list[str]] = {}

    def of(self, number: int) -> set[tuple[str, int]]:
        """Open issues that block an open issue, as (repository, number)."""
        if number in self._found:
            return self._found[number]
        issue, here = self._issues.open[number], self._issues.here
        found: set[tuple[str, int]] = set()
        if (issue.get("issue_dependencies_summary") or {}).get("blocked_by"):
            found |= self._issues.blockers(number, "dependencies/blocked_by")
        parts = issue.get("sub_issues_summary") or {}
        if parts.get("total", 0) > parts.get("completed", 0):
            found |= self._issues.blockers(number, "sub_issues")
        named = self._named(number)
        asked = {(here, n) for n in named.numbers} | set(named.elsewhere)
        found |= {each for each in asked if self._is_open(number, *each)}
        self._found[number] = found - {(here, number)}
        return self._found[number]

    def series(self, number: int) -> set[str]:
        """Whole series that an issue waits for."""
        own, there = self._members.series_of(number), self._members.series
        return {other for other in self._named(number).series if other in there and other != own}

    def why_ignored(self, number: int) -> str:
        """Why the `Depends on` lines of an issue are ignored; empty if they count or do not exist."""
        if self._lines(number) == self._named(number):
            return ""
        author = login(self._issues.open[number]["user"])
        where = self._issues.repository.name
        return f'its "Depends on" lines are ignored: {author} has no write access to {where}'

    def _named(self, number: int) -> Dependencies:
        """The dependencies in the lines of an issue. Lines of an author without write access have none."""
        named = self._lines(number)
        if named == NO_NEEDS or self._members.authors.may_write(login(self._issues.open[number]["user"])):
            return named
        return NO_NEEDS

    def _lines(self, number: int) -> Dependencies:
        body = self._issues.open[number].get("body") or ""
        return dependencies_of(body, self._issues.repository.name, self._titles)

    def _is_open(self, waiting: int, where: str, number: int) -> bool:
        """Whether a blocker is open. An unreadable one counts as open."""
        if where == self._issues.here and number in self._issues.open:
            return True
        try:
            other = self._issues.read(number, where)
        except (GitHubRefused, GitHubUnavailable) as error:
            why = f"{where}#{number} cannot be read. {error.sentence}"
            self._unreadable.setdefault(waiting, []).append(why)
            return True
        return other is not None and other["state"] == "open"

    def problems(self, members: Iterable[int]) -> list[str]:
        """The unreadable dependencies and the dependency cycles of these issues, each once."""
        found = [f"#{number} waits: {why}" for number in members for why in self._unreadable.get(number, ())]
        cycles: dict[frozenset[int], str] = {}
        for start in members:
            path = self._cycle_through(start)
            if path is not None and frozenset(path) not in cycles:
                words = " → ".join(f"#{number}" for number in (*path, path[0]))
                cycles[frozenset(path)] = f"Dependency cycle: {words}. Remove one of these dependencies."
        return [*found, *cycles.values()]

    def _cycle_through(self, start: int) -> list[int] | None:
        """The shortest path from an issue over its dependencies back to itself."""
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
        """The open issues of this repository that an open issue waits for, including members of series."""
        if number not in self._issues.open:
            return set()
        series = self.series(number)
        here = {n for where, n in self.of(number) if where == self._issues.here}
        return here | {n for n, place in self._members.places.items() if place.series in series} - {number}
