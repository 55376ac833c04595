"""The state issue of a series on GitHub: found by its label, then by its title; put right; taken over once.

Nobody decides by it. Whatever happens to it, the next reconcile makes it show the state again, and says so in
a comment. One of a version that we do not know is left alone, and so is its series.
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
    Shown,
    Unknown,
    read,
    render,
    same,
    title,
)
from interlock.github import effects
from interlock.github.client import GitHub
from interlock.github.facts import login
from interlock.github.reading import Reader
from interlock.github.series.acting import Acting
from interlock.github.series.looking import STATE_ISSUES_MAX, TIMELINE_MAX, Look

_REPO = "/repos/{+repo}"
_ISSUE = _REPO + "/issues/{number}"


#: How long GitHub may need to show an issue that was just created.
NEW_S = 600.0
_GONE = (404, 410)


class Known(Record):
    """What we know of a state issue."""

    number: int | None = None
    #: When we made it; 0 if we did not.
    made_s: float = 0.0
    #: Hashes of the texts that we wrote, by which an edit by hand is noticed. GitHub may show any of them.
    bodies: tuple[str, ...] = ()


class Kept(Record):
    """A state issue after it was brought up to date."""

    number: int
    #: A hash of the text that we wrote; empty if it was as it should be.
    body: str = ""
    #: Whether it is new.
    made: bool = False
    #: What was put right, as sentences.
    mended: tuple[str, ...] = ()


class StateIssues:
    """The state issues of a repository, as one look finds them."""

    def __init__(self, github: GitHub, look: Look) -> None:
        self._github, self._look = github, look
        self._name = look.repository.name
        self._reader = Reader(github)
        query = {"labels": LABEL, "state": "all", "sort": "created", "direction": "asc"}
        listed = github.pages(_REPO + "/issues", limit=STATE_ISSUES_MAX, query=query, repo=self._name)
        self._labelled = [each for each in listed if "pull_request" not in each]

    def found(self, series: str) -> list[Mapping[str, Any]]:
        """The state issues of a series: the one that stays comes first."""
        wanted = title(series)
        labelled = [each for each in self._labelled if (each["title"] or "").strip() == wanted]
        if labelled:
            return sorted(labelled, key=lambda each: (each["state"] != "open", each["number"]))
        named = (each for each in self._look.open.values() if (each["title"] or "").strip() == wanted)
        # Anybody can write a title; only who may write sets a label.
        return [each for each in named if self._reader.may_write(self._name, login(each["user"]))]

    def check(self, series: str) -> None:
        """Raise if a state issue has a version that we do not know: somebody newer keeps this series."""
        for each in self.found(series):
            known = read(each.get("body"))
            if isinstance(known, Unknown):
                raise InvalidInput(
                    f"#{each['number']} keeps {series} in version {known.version!r}, which this Interlock"
                    " does not know: nothing was changed.",
                    "Use the tool that wrote it, or close the issue and take its label away.",
                )

    def left_by_another(self, series: str) -> Document | None:
        """What an older tool left, if its author, or who set its label, may write."""
        for each in self.found(series):
            known = read(each.get("body"))
            if isinstance(known, Document) and each["state"] == "open" and self._is_trusted(each):
                return known
        return None

    def _is_trusted(self, issue: Mapping[str, Any]) -> bool:
        who = {login(issue["user"])}
        if any(self._reader.may_write(self._name, each) for each in who):
            return True
        entries = self._github.pages(
            _ISSUE + "/timeline", limit=TIMELINE_MAX, repo=self._name, number=issue["number"]
        )
        labellers = {
            login(each["actor"])
            for each in entries
            if each.get("event") == "labeled"
            and (each.get("label") or {}).get("name", "").lower() == LABEL
            and each.get("actor")
        }
        return any(self._reader.may_write(self._name, each) for each in sorted(labellers - who))

    def keep(self, shown: Shown, acting: Acting, known: Known, now_s: float) -> Kept:
        """Bring the state issue up to date."""
        series = shown.document.series
        there = self.found(series)
        mended = []
        if not there and known.number is not None:
            unlisted, status = self._read(known.number)
            if status == 404 and now_s - known.made_s < NEW_S:
                return Kept(number=known.number)  # GitHub does not show it yet
            there = [] if unlisted is None else [unlisted]
        if not there:
            number, text = self._make(shown)
            if known.number is not None:
                mended.append(f"#{known.number} was gone, so this issue takes its place.")
                self._say(acting, number, mended)
            return Kept(number=number, body=_hash(text), made=True, mended=tuple(mended))
        first, *others = there
        number = int(first["number"])
        for other in others:
            if other["state"] == "open":
                mended.append(f"#{other['number']} was another state issue of {series}: it is closed now.")
                self._edit(int(other["number"]), {"state": "closed", "state_reason": "not_planned"})
        if (first["title"] or "").strip() != title(series):
            mended.append("Its title was changed: it has its title again.")
            self._edit(number, {"title": title(series)})
        if first["state"] != "open":
            mended.append("It was closed: it is open again.")
            self._edit(number, {"state": "open"})
        if not any(str(label["name"]).lower() == LABEL for label in first["labels"]):
            request = effects.label(self._name, number, [LABEL])
            self._github.send(request.method, request.route, request.body, **request.options())
        text, written = first.get("body") or "", ""
        if not same(text, shown):
            mended += _edited(text, known, number)
            written = render(shown)
            self._edit(number, {"body": written})
        self._say(acting, number, mended)
        return Kept(number=number, body=_hash(written) if written else "", mended=tuple(mended))

    def _read(self, number: int) -> tuple[Mapping[str, Any] | None, int]:
        """An issue that the lists lack, and the status of the answer; None if it is gone, or elsewhere."""
        try:
            answer = self._github.get(_ISSUE, repo=self._name, number=number)
        except GitHubRefused as refused:
            if refused.status in _GONE:
                return None, refused.status
            raise
        found: Mapping[str, Any] = answer.body
        return (None if answer.moved or found["number"] != number else found), answer.status

    def _say(self, acting: Acting, number: int, mended: list[str]) -> None:
        if mended:
            text = "\n".join(mended)
            stamp = self._look.open.get(number, {}).get("updated_at", "")
            acting.comment(number, f"series-mended:{_hash(text + str(stamp))}", text)

    def _make(self, shown: Shown) -> tuple[int, str]:
        text = render(shown)
        body = {"title": title(shown.document.series), "body": text, "labels": [LABEL]}
        made = self._github.send("POST", _REPO + "/issues", body, again=False, repo=self._name)
        return int(made.body["number"]), text

    def _edit(self, number: int, fields: Mapping[str, object]) -> None:
        self._github.send("PATCH", _ISSUE, dict(fields), again=True, repo=self._name, number=number)


def _edited(text: str, known: Known, number: int) -> list[str]:
    """What is to be said of a text that is not ours."""
    if _hash(text) in known.bodies:
        return []
    was = read(text)
    if isinstance(was, Corrupt):
        return [f"Its text could not be used ({was.why}): it is written anew."]
    by_hand = known.number == number and known.bodies
    return ["Its text was edited by hand: it shows the state again."] if by_hand else []


def _hash(text: str) -> str:
    return hashlib.sha256(text.replace("\r\n", "\n").strip().encode(errors="replace")).hexdigest()[:16]
