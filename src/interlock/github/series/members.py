"""Finds the members of a series: issues whose titles name it, by authors with write access.

Anyone can choose a title. So an issue of another author is a member only once an account with write access
has set a label on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.errors import GitHubRefused, GitHubUnavailable, InterlockError, InvalidInput, NotFound
from interlock.core.series.document import LABEL
from interlock.core.series.titles import SeriesPlace, Titles
from interlock.github.client import GitHub
from interlock.github.facts import login
from interlock.github.lookup import Reader
from interlock.github.remarks import ACTIONS_BOT
from interlock.github.series.issues import CurrentRepository, RepositoryIssues, label_name, read_issue
from interlock.github.series.options import SeriesRules


class Authors:
    """The accounts with write access to a repository; each is read once. An issue's data about its author is
    no proof: MEMBER and COLLABORATOR may be readers."""

    def __init__(self, github: GitHub, repository: CurrentRepository) -> None:
        self._reader, self._name = Reader(github), repository.name
        self._known: dict[str, bool] = {}

    def may_write(self, name: str) -> bool:
        """Whether an account may write. Workflows may: only accounts with write access create them."""
        if name == ACTIONS_BOT:
            return True
        if name not in self._known:
            self._known[name] = self._reader.may_write(self._name, name)
        return self._known[name]


def series_of(github: GitHub, repository: CurrentRepository, titles: Titles, number: int) -> str | None:
    """The series that the title of an open issue names, by any author. Raises if there is no issue."""
    issue = read_issue(github, repository, number)
    if issue is None:
        raise NotFound(f"There is no issue #{number} in {repository.name}.", "Check the number.")
    place = _place(issue, titles)
    if place is not None and issue["state"] != "open":
        raise InvalidInput(f"#{number} is closed.", "Reopen it first.")
    return None if place is None else place.series


class Members:
    """The members of all series of a repository."""

    def __init__(self, issues: RepositoryIssues, rules: SeriesRules, authors: Authors) -> None:
        self._issues, self._rules, self.authors = issues, rules, authors
        self.places: dict[int, SeriesPlace] = {}
        #: Open issues whose titles name a series, with the reasons why they are not members.
        self._ignored: dict[str, dict[int, str]] = {}
        #: Series with unknown members, because GitHub did not report who has write access.
        self._unknown: dict[str, InterlockError] = {}
        for issue in issues.open.values():
            self._put(issue)

    def _put(self, issue: Mapping[str, Any]) -> None:
        """Add an open issue at its place, if it is a member."""
        place = _place(issue, self._rules.titles)
        if place is None:
            return
        try:
            why = self._why_ignored(issue)
        except (GitHubRefused, GitHubUnavailable) as error:
            self._unknown[place.series] = error
            return
        if why:
            self._ignored.setdefault(place.series, {})[issue["number"]] = why
        else:
            self.places[issue["number"]] = place

    def _why_ignored(self, issue: Mapping[str, Any]) -> str:
        """Why an issue whose title names a series is not a member; empty if it is one."""
        author = login(issue["user"])
        if self.authors.may_write(author):
            return ""
        label = self._rules.label.lower()
        if label and any(label_name(each) == label for each in issue["labels"]):
            vouched = self._is_vouched(issue["number"], label)
            return "" if vouched else f"the label {label} was not set by an account with write access"
        more = f", and the issue has no label {label}" if label else ""
        return f"{author} has no write access to {self._issues.repository.name}{more}"

    def _is_vouched(self, number: int, label: str) -> bool:
        """Whether an account with write access set the label, and no other account changed the title
        later."""
        vouched = False
        for entry in self._issues.timeline(number):
            who = login(entry["actor"]) if entry.get("actor") else ""
            named = label_name(entry["label"]) if entry.get("event") == "labeled" else ""
            if named == label and self.authors.may_write(who):
                vouched = True
            elif entry.get("event") == "renamed" and not self.authors.may_write(who):
                vouched = False
        return vouched

    def place(self, number: int) -> tuple[SeriesPlace | None, str]:
        """The place of an open issue, or why it has none although its title names a series."""
        issues = self._issues
        if number not in issues.open:
            other = issues.read(number)
            if other is not None and other["state"] == "open" and issues.is_here(other, number):
                issues.open[number] = other
                self._put(other)
        place = self.places.get(number)
        named = _place(issues.open[number], self._rules.titles) if number in issues.open else None
        if place is None and named is not None:
            self.require(named.series)
        why = next((found[number] for found in self._ignored.values() if number in found), "")
        return place, why

    def require(self, series: str) -> None:
        """Raise if the members of a series are unknown."""
        if series in self._unknown:
            raise self._unknown[series]

    @property
    def series(self) -> tuple[str, ...]:
        """Every series with a member, and those whose members are unknown."""
        return tuple(sorted({*self._unknown, *(place.series for place in self.places.values())}))

    def of(self, series: str) -> list[int]:
        """The members of a series, by number."""
        return sorted(number for number, place in self.places.items() if place.series == series)

    def series_of(self, number: int) -> str | None:
        """The series that an issue is a member of."""
        place = self.places.get(number)
        return None if place is None else place.series

    def ignored(self, series: str) -> Mapping[int, str]:
        """Open issues whose titles name a series, with the reasons why they are not members."""
        return self._ignored.get(series, {})

    def is_ignored(self, number: int) -> bool:
        """Whether an issue is not a member of the series that its title names."""
        return any(number in found for found in self._ignored.values())


def _place(issue: Mapping[str, Any], titles: Titles) -> SeriesPlace | None:
    """The place of an issue. A state issue has none, whatever its title."""
    if any(label_name(label) == LABEL for label in issue["labels"]):
        return None
    return titles.place(issue["title"] or "")
