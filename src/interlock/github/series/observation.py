"""Observes a repository at one moment: the facts of its series, from issues, members and blockers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from interlock.core.series.snapshot import Departure, Member, SeriesFacts
from interlock.github.client import GitHub
from interlock.github.closing_keywords import closes
from interlock.github.facts import login, one_line
from interlock.github.series.blockers import Blockers
from interlock.github.series.issues import CurrentRepository, RepositoryIssues
from interlock.github.series.members import Authors, Members
from interlock.github.series.options import SeriesRules

#: The history entries that bring an issue back into its series.
_RETURNS = ("reopened", "renamed")


class Observation:
    """A repository as GitHub shows it at one moment."""

    def __init__(
        self, github: GitHub, repository: CurrentRepository, rules: SeriesRules, authors: Authors
    ) -> None:
        self._logins = rules.logins
        self.issues = RepositoryIssues(github, repository)
        self.members = Members(self.issues, rules, authors)
        self._blockers = Blockers(self.issues, self.members, rules.titles)

    def ignored(self, series: str) -> dict[int, str]:
        """Open issues that are not members, and members with ignored dependencies, with the reasons."""
        lines = {number: self._blockers.why_ignored(number) for number in self.members.of(series)}
        return {**self.members.ignored(series), **{number: why for number, why in lines.items() if why}}

    def problems(self, series: str) -> tuple[str, ...]:
        """Problems for people to fix: too many issues, unreadable dependencies, dependency cycles."""
        return (*self.issues.problems(), *self._blockers.problems(self.members.of(series)))

    def facts(
        self,
        series: str,
        known: Iterable[int],
        active: int | None,
        *,
        left: Mapping[int, str] | None = None,
        watch: bool = False,
    ) -> SeriesFacts:
        """The members, and how previously known issues left.

        `left` has the times at which other issues left: a list that shows an older state of them is stale.
        With `watch`, the history of the active issue is read if it has no assignee.
        """
        self.members.require(series)
        for number in known:
            self.members.place(number)  # missing from the list, which is cut off or stale
        there, left = self.members.of(series), left or {}
        stale = {number for number in there if number in left and self._is_stale(number, left[number])}
        numbers = [number for number in there if number not in stale]
        return SeriesFacts(
            members=tuple(self._member(n, series, watch=watch and n == active) for n in numbers),
            left={
                n: Departure.ABANDONED if n in stale else self._left(n, exactly=n == active)
                for n in sorted(set(known) - set(numbers))
            },
        )

    def _member(self, number: int, series: str, *, watch: bool) -> Member:
        issue, here = self.issues.open[number], self.issues.here
        blockers = self._blockers.of(number)
        own = {n for where, n in blockers if where == here and self.members.series_of(n) == series}
        words = {f"#{n}" if where == here else f"{where}#{n}" for where, n in blockers}
        words |= self._blockers.series(number) - {series}
        assigned = self._assigned(issue)
        return Member(
            number=number,
            micro=self.members.places[number].micro,
            title=one_line(issue["title"] or ""),
            assigned=assigned,
            needs=tuple(sorted(words)),
            needs_own=tuple(sorted(own)),
            unassigned_s=self._unassigned_s(number) if watch and not assigned else None,
        )

    def _assigned(self, issue: Mapping[str, Any]) -> tuple[str, ...]:
        names = sorted({login(user) for user in issue.get("assignees") or () if user})
        return tuple(name for name in names if not self._logins or name in self._logins)

    def _unassigned_s(self, number: int) -> float | None:
        """When the last assignee was removed; None if one was assigned since."""
        kinds = ("assigned", "unassigned")
        entries = [each for each in self.issues.timeline(number) if each.get("event") in kinds]
        if not entries or entries[-1]["event"] != "unassigned":
            return None
        return datetime.fromisoformat(entries[-1]["created_at"]).timestamp()

    # -- issues that left -------------------------------------------------------------------------

    def left_at(self, number: int) -> str | None:
        """When a departed issue was last changed; None if it is gone."""
        issue = self.issues.read(number) or self.issues.open.get(number)
        return None if issue is None else str(issue["updated_at"])

    def _is_stale(self, number: int, left_at: str) -> bool:
        """Whether the list shows an issue's state from before it left."""
        if str(self.issues.open[number]["updated_at"]) > left_at:
            return False
        return not any(
            each.get("event") in _RETURNS and str(each["created_at"]) >= left_at
            for each in self.issues.timeline(number)
        )

    def _left(self, number: int, *, exactly: bool) -> Departure:
        """How an issue left that is not an open member. Only the active one's history is read."""
        if self.members.is_ignored(number):
            return Departure.IGNORED
        if number in self.issues.open:  # now in another series, or in none
            return Departure.RETITLED
        issue = self.issues.read(number)
        if issue is None:
            return Departure.DELETED
        if not self.issues.is_here(issue, number):
            return Departure.TRANSFERRED
        return self._ended(number, issue) if exactly else Departure.ABANDONED

    def _ended(self, number: int, issue: Mapping[str, Any]) -> Departure:
        """How an issue was closed: by a merged pull request, by a commit, or otherwise."""
        entries = self.issues.timeline(number)
        if any(each.get("event") == "converted_to_discussion" for each in entries):  # cannot be undone
            return Departure.CONVERTED
        if issue.get("state_reason") in ("not_planned", "duplicate"):
            return Departure.ABANDONED
        closed = [each for each in entries if each.get("event") == "closed"]
        if closed and closed[-1].get("commit_id"):
            return Departure.COMPLETED
        # A merge before the last reopening did not close the issue for good.
        since = max((each["created_at"] for each in entries if each.get("event") == "reopened"), default="")
        merged = any(self._merged_here(number, each, since) for each in entries)
        return Departure.COMPLETED if merged else Departure.ABANDONED

    def _merged_here(self, number: int, entry: Mapping[str, Any], since: str) -> bool:
        if entry.get("event") != "cross-referenced":
            return False
        source = (entry.get("source") or {}).get("issue") or {}
        merged_at = (source.get("pull_request") or {}).get("merged_at")
        if not merged_at or merged_at < since:
            return False
        text = f"{source.get('title') or ''}\n{source.get('body') or ''}"
        return number in closes(text, self.issues.repository.name)
