"""The state issue of a series on GitHub: finds, creates, updates and repairs it.

The state issue decides nothing. The next reconcile reverts any edit and comments on it. If the issue has an
unknown version, its series is skipped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from interlock.core.errors import GitHubRefused, InvalidInput
from interlock.core.record import Record
from interlock.core.series.document import (
    LABEL,
    Corrupt,
    Document,
    StateIssueContent,
    UnknownVersion,
    read,
    render,
    same,
    title,
)
from interlock.github import effects
from interlock.github.client import GitHub
from interlock.github.facts import login
from interlock.github.lookup import Reader
from interlock.github.series.effects import SeriesEffects
from interlock.github.series.issues import GONE, ISSUE, REPO, RepositoryIssues

STATE_ISSUES_MAX = 1_000
#: How long GitHub may need to show an issue that was just created.
NEW_S = 600.0


class KnownStateIssue(Record):
    """Our knowledge of a state issue."""

    number: int | None = None
    #: When Interlock created it; 0 if it did not.
    made_s: float = 0.0
    #: Hashes of the texts that we wrote, to detect manual edits. GitHub may show any of them.
    bodies: tuple[str, ...] = ()


class StateIssueUpdate(Record):
    """A state issue after an update."""

    number: int
    #: A hash of the text that we wrote; empty if the issue was unchanged.
    body: str = ""
    #: Whether it is new.
    made: bool = False
    #: The repairs, as sentences.
    mended: tuple[str, ...] = ()


class StateIssues:
    """The state issues of a repository at one moment."""

    def __init__(self, github: GitHub, issues: RepositoryIssues) -> None:
        self._github, self._issues = github, issues
        self._name = issues.repository.name
        self._reader = Reader(github)
        query = {"labels": LABEL, "state": "all", "sort": "created", "direction": "asc"}
        listed = github.pages(REPO + "/issues", limit=STATE_ISSUES_MAX, query=query, repo=self._name)
        self._labelled = [each for each in listed if "pull_request" not in each]

    def found(self, series: str) -> list[Mapping[str, Any]]:
        """The state issues of a series. The first one stays."""
        wanted = title(series)
        labelled = [each for each in self._labelled if (each["title"] or "").strip() == wanted]
        if labelled:
            return sorted(labelled, key=lambda each: (each["state"] != "open", each["number"]))
        named = (each for each in self._issues.open.values() if (each["title"] or "").strip() == wanted)
        # Anyone can write a title. Only accounts with write access set a label.
        return [each for each in named if self._reader.may_write(self._name, login(each["user"]))]

    def check(self, series: str) -> None:
        """Raise if a state issue has an unknown version: a newer Interlock manages this series."""
        for each in self.found(series):
            known = read(each.get("body"))
            if isinstance(known, UnknownVersion):
                raise InvalidInput(
                    f"The state issue #{each['number']} of {series} has version {known.version!r}, which this"
                    " version of Interlock does not support.",
                    "Use the tool that wrote it, or close the issue and remove its label.",
                )

    def left_by_another(self, series: str) -> Document | None:
        """The state of an older tool, if its author or the setter of its label has write access."""
        for each in self.found(series):
            known = read(each.get("body"))
            if isinstance(known, Document) and each["state"] == "open" and self._is_trusted(each):
                return known
        return None

    def _is_trusted(self, issue: Mapping[str, Any]) -> bool:
        who = {login(issue["user"])}
        if any(self._reader.may_write(self._name, each) for each in who):
            return True
        labellers = {
            login(each["actor"])
            for each in self._issues.timeline(issue["number"])
            if each.get("event") == "labeled"
            and (each.get("label") or {}).get("name", "").lower() == LABEL
            and each.get("actor")
        }
        return any(self._reader.may_write(self._name, each) for each in sorted(labellers - who))

    def keep(
        self, shown: StateIssueContent, series_effects: SeriesEffects, known: KnownStateIssue, now_s: float
    ) -> StateIssueUpdate:
        """Bring the state issue up to date."""
        series = shown.document.series
        there = self.found(series)
        mended = []
        if not there and known.number is not None:
            unlisted, status = self._read(known.number)
            if status == 404 and now_s - known.made_s < NEW_S:
                return StateIssueUpdate(number=known.number)  # GitHub does not show it yet
            there = [] if unlisted is None else [unlisted]
        if not there:
            number, text = self._make(shown)
            if known.number is not None:
                mended.append(f"Replaces #{known.number}, which is gone.")
                self._say(series_effects, number, mended)
            return StateIssueUpdate(number=number, body=_hash(text), made=True, mended=tuple(mended))
        first, *others = there
        number = int(first["number"])
        for other in others:
            if other["state"] == "open":
                mended.append(f"Closed #{other['number']}, a duplicate state issue of {series}.")
                self._edit(int(other["number"]), {"state": "closed", "state_reason": "not_planned"})
        if (first["title"] or "").strip() != title(series):
            mended.append("Restored the title.")
            self._edit(number, {"title": title(series)})
        if first["state"] != "open":
            mended.append("Reopened.")
            self._edit(number, {"state": "open"})
        if not any(str(label["name"]).lower() == LABEL for label in first["labels"]):
            effects.LabelAddition(labels=[LABEL]).request(self._name, number).send(self._github)
        text, written = first.get("body") or "", ""
        if not same(text, shown):
            mended += _edited(text, known, number)
            written = render(shown)
            self._edit(number, {"body": written})
        self._say(series_effects, number, mended)
        return StateIssueUpdate(number=number, body=_hash(written) if written else "", mended=tuple(mended))

    def _read(self, number: int) -> tuple[Mapping[str, Any] | None, int]:
        """Read an issue missing from the lists; None if it is gone or elsewhere. Also gives the answer's
        status."""
        try:
            answer = self._github.get(ISSUE, repo=self._name, number=number)
        except GitHubRefused as refused:
            if refused.status in GONE:
                return None, refused.status
            raise
        found: Mapping[str, Any] = answer.body
        return (None if answer.moved or found["number"] != number else found), answer.status

    def _say(self, series_effects: SeriesEffects, number: int, mended: list[str]) -> None:
        if mended:
            text = "\n".join(mended)
            stamp = self._issues.open.get(number, {}).get("updated_at", "")
            series_effects.comment(number, f"series-mended:{_hash(text + str(stamp))}", text)

    def _make(self, shown: StateIssueContent) -> tuple[int, str]:
        text = render(shown)
        body = {"title": title(shown.document.series), "body": text, "labels": [LABEL]}
        made = self._github.send("POST", REPO + "/issues", body, again=False, repo=self._name)
        return int(made.body["number"]), text

    def _edit(self, number: int, fields: Mapping[str, object]) -> None:
        self._github.send("PATCH", ISSUE, dict(fields), again=True, repo=self._name, number=number)


def _edited(text: str, known: KnownStateIssue, number: int) -> list[str]:
    """The comment on a manual edit of the body."""
    if _hash(text) in known.bodies:
        return []
    was = read(text)
    if isinstance(was, Corrupt):
        return [f"Rewrote the body: {was.why}."]
    by_hand = known.number == number and known.bodies
    return ["Overwrote a manual edit of the body."] if by_hand else []


def _hash(text: str) -> str:
    return hashlib.sha256(text.replace("\r\n", "\n").strip().encode(errors="replace")).hexdigest()[:16]
