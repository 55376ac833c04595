"""The state issue of a series on GitHub: found by its label, then by its title; put right; taken over once.

Nobody decides by it. Whatever happens to it, the next reconcile makes it show the state again, and says so in
a comment. One of a version that we do not know is left alone, and so is its series.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from interlock.core.errors import InvalidInput
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


class Kept(Record):
    """A state issue after it was brought up to date."""

    number: int
    #: A hash of its body, by which an edit by hand is noticed.
    body: str
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

    def keep(self, shown: Shown, acting: Acting, *, known: int | None, body: str) -> Kept:
        """Bring the state issue up to date. `known` and `body` are what it was when we left it."""
        series = shown.document.series
        there = self.found(series)
        mended = []
        if not there:
            number, text = self._make(shown)
            if known is not None:
                mended.append(f"#{known} was gone, so this issue takes its place.")
                self._say(acting, number, mended)
            return Kept(number=number, body=_hash(text), mended=tuple(mended))
        first, *others = there
        number = int(first["number"])
        for other in others:
            if other["state"] == "open":
                mended.append(f"#{other['number']} was another state issue of {series}: it is closed now.")
                self._edit(int(other["number"]), {"state": "closed", "state_reason": "not_planned"})
        if first["state"] != "open":
            mended.append("It was closed: it is open again.")
            self._edit(number, {"state": "open"})
        if not any(str(label["name"]).lower() == LABEL for label in first["labels"]):
            request = effects.label(self._name, number, [LABEL])
            self._github.send(request.method, request.route, request.body, **request.options())
        text = first.get("body") or ""
        if same(text, shown):
            self._say(acting, number, mended)
            return Kept(number=number, body=_hash(text), mended=tuple(mended))
        was = read(text)
        if isinstance(was, Corrupt):
            mended.append(f"Its text could not be used ({was.why}): it is written anew.")
        elif known == number and body and body != _hash(text):
            mended.append("Its text was edited by hand: it shows the state again.")
        text = render(shown)
        self._edit(number, {"body": text})
        self._say(acting, number, mended)
        return Kept(number=number, body=_hash(text), mended=tuple(mended))

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


def _hash(text: str) -> str:
    return hashlib.sha256(text.replace("\r\n", "\n").strip().encode(errors="replace")).hexdigest()[:16]
