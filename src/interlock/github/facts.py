"""The facts of an issue or pull request that its work depends on.

Deliveries may repeat, be late, out of order or lost, so no decision relies on their content. A delivery is a
reason to read the number again. Only the facts decide the work (`desired_work`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from interlock.core.record import Record, as_dict
from interlock.github.closing_keywords import closes


class NumberState(StrEnum):
    """Whether a number is open, and if not, how it ended."""

    OPEN = "open"
    #: Closed as completed, or without a reason.
    COMPLETED = "completed"
    #: A pull request whose commits are in its base.
    MERGED = "merged"
    #: An issue that is not planned or a duplicate, or a pull request that was closed unmerged.
    DROPPED = "dropped"
    TRANSFERRED = "transferred"
    DELETED = "deleted"


#: The most issues stored for one pull request.
CLOSES_MAX = 50
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
#: Reasons for closing an issue that end the work on it.
_DROPPED = frozenset({"not_planned", "duplicate"})


class NumberFacts(Record):
    """An issue or a pull request."""

    #: The repository's number, which a rename leaves alone, and its name at that moment.
    repository: int
    name: str
    number: int
    pull: bool
    state: NumberState
    title: str
    author: str
    url: str
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    #: A hash of the text, to notice that it was edited.
    body: str = ""
    #: GitHub's time of the last change, in whole seconds. It detects a stale answer, but gives no order.
    updated_at: str = ""
    #: Open issues that block it, as `acme/app#3`.
    blockers: tuple[str, ...] = ()
    #: Its open sub-issues, likewise, if it waits for them.
    sub_issues: tuple[str, ...] = ()
    #: Whether it was ever closed, and GitHub's event of its last reopening; 0: unknown.
    reopened: bool = False
    reopening: int = 0
    # Pull requests only.
    draft: bool = False
    head: str = ""
    branch: str = ""
    base: str = ""
    reviewers: tuple[str, ...] = ()
    #: The issues of its repository that it closes when it is merged.
    closes: tuple[int, ...] = ()

    @property
    def open(self) -> bool:
        return self.state is NumberState.OPEN

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The open issues that must be closed before work on it starts."""
        return tuple(dict.fromkeys((*self.blockers, *self.sub_issues))) if self.open else ()


def from_answer(
    repository: Mapping[str, Any],
    number: Mapping[str, Any],
    blockers: Iterable[str] = (),
    sub_issues: Iterable[str] = (),
    reopening: int = 0,
) -> NumberFacts:
    """The facts in what GitHub answers about an issue or a pull request, or sends in a payload."""
    head, base = number.get("head"), number.get("base")
    pull = head is not None
    return NumberFacts(
        repository=repository["id"],
        name=repository["full_name"],
        number=number["number"],
        pull=pull,
        state=_state(number, pull=pull),
        title=one_line(number["title"] or ""),
        author=login(number.get("user")),
        url=number["html_url"],
        labels=_names(label if isinstance(label, str) else label["name"] for label in number["labels"]),
        assignees=_logins(number.get("assignees")),
        body=hashlib.sha256((number.get("body") or "").encode(errors="replace")).hexdigest()[:16],
        updated_at=_time(number["updated_at"]),
        blockers=tuple(sorted(blockers)),
        sub_issues=tuple(sorted(sub_issues)),
        reopened=is_reopened(number),
        reopening=reopening,
        draft=bool(number.get("draft")),
        head=head["sha"] if head else "",
        branch=head["ref"] if head else "",
        base=base["ref"] if base else "",
        reviewers=_logins(number.get("requested_reviewers")),
        closes=_closes(number, repository["full_name"]) if pull else (),
    )


def is_reopened(number: Mapping[str, Any]) -> bool:
    """Whether an issue was closed before. GitHub does not report this for pull requests."""
    return number.get("state_reason") == "reopened"


def to_json(facts: NumberFacts) -> dict[str, Any]:
    """The facts as they are stored."""
    return as_dict(facts)


def from_json(stored: Mapping[str, Any]) -> NumberFacts:
    """Read stored facts, also of a version with fewer or more fields."""
    known: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in stored.items() if k in NumberFacts.PARTS
    }
    return NumberFacts(**{**known, "state": NumberState(known["state"])})


def one_line(text: object) -> str:
    """A text as a title: on one line, and valid for every store."""
    shown = "".join(" " if ord(char) < 32 or ord(char) == 127 else char for char in str(text))
    return plain(" ".join(shown.split()))


def plain(text: str) -> str:
    """A text without characters that stores cannot hold: NUL and lone surrogates."""
    return text.replace("\x00", "").encode(errors="replace").decode()


def login(user: Mapping[str, Any] | None) -> str:
    """A user's login, lower case as GitHub compares it; `ghost` if the account is gone."""
    return str(user["login"]).lower() if user else "ghost"


def _time(text: object) -> str:
    """GitHub's time, unchanged. An invalid time becomes an empty text, which sorts before every time."""
    return text if isinstance(text, str) and _TIME.fullmatch(text) else ""


def _state(number: Mapping[str, Any], *, pull: bool) -> NumberState:
    if number["state"] == "open":
        return NumberState.OPEN
    if pull:
        return NumberState.MERGED if number.get("merged") or number.get("merged_at") else NumberState.DROPPED
    return NumberState.DROPPED if number.get("state_reason") in _DROPPED else NumberState.COMPLETED


def _closes(number: Mapping[str, Any], repository: str) -> tuple[int, ...]:
    text = f"{number['title'] or ''}\n{number.get('body') or ''}"
    return tuple(sorted(closes(text, repository)))[:CLOSES_MAX]


def _logins(users: Iterable[Mapping[str, Any] | None] | None) -> tuple[str, ...]:
    return _names(login(user) for user in users or () if user)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name.lower() for name in names}))
