"""A webhook delivery and the issues it names. Its claims are not trusted: the issue is read again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.record import Record
from interlock.github.facts import login

BODY_MAX_BYTES = 25 * 1024 * 1024
_NUMBERS_END = 1 << 63
_EVENT = re.compile(r"[a-z0-9_]{1,64}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}", re.ASCII)
_SHA = re.compile(r"[0-9a-f]{40,64}", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)


class Delivery(Record):
    """One event that GitHub sent."""

    id: str
    #: `issues`, and the action that makes it `issues.labeled`.
    event: str
    action: str
    #: None for an event of an organization or an app.
    repository: int | None
    name: str
    #: Issues and pull requests whose facts may have changed.
    numbers: tuple[int, ...]
    sender: str
    payload: Mapping[str, Any]

    @property
    def checked(self) -> str | None:
        """The commit whose checks it reports; None if it reports none. Check runs of Actions jobs are
        ignored: their workflow runs are reported too."""
        told = self.payload if self.event == "status" else _part(self.payload, self.event)
        if self.event not in (*_CHECKS, "status"):
            return None
        if self.event == "check_run" and _part(told, "app").get("slug") == "github-actions":
            return None
        sha = told.get("sha" if self.event == "status" else "head_sha")
        return sha if isinstance(sha, str) and _SHA.fullmatch(sha) else None

    @property
    def kind(self) -> str:
        return f"{self.event}.{self.action}" if self.action else self.event


def read(event: str, delivery: str, body: bytes) -> Delivery:
    """Read a delivery. Any field may be missing."""
    if not _EVENT.fullmatch(event):
        raise InvalidInput(
            f"{event[:80]!r} is not a valid event name.",
            "GitHub sends it in X-GitHub-Event: issues, without the action.",
        )
    if not _ID.fullmatch(delivery):
        raise InvalidInput(
            f"{delivery[:80]!r} is not a valid delivery id.",
            "GitHub sends it in X-GitHub-Delivery: at most 128 letters, digits and _.:-",
        )
    if len(body) > BODY_MAX_BYTES:
        raise TooLarge("The delivery is too large.", f"At most {BODY_MAX_BYTES:,} bytes are allowed.")
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput(
            "The delivery is not valid JSON.", "Let the webhook send application/json."
        ) from None
    if not isinstance(payload, dict):
        raise InvalidInput("The delivery is not a JSON object.", "Pass the body as GitHub sent it.")
    repository = _part(payload, "repository")
    action, known = payload.get("action"), _number(repository.get("id"))
    return Delivery(
        id=delivery,
        event=event,
        action=action if isinstance(action, str) else "",
        repository=known,
        name=name if _NAME.fullmatch(name := str(repository.get("full_name", ""))) else "",
        numbers=tuple(sorted(set(_numbers(payload)))) if known is not None else (),
        sender=_sender(payload),
        payload=payload,
    )


def _sender(payload: Mapping[str, Any]) -> str:
    sender = _part(payload, "sender")
    if sender and not isinstance(sender.get("login"), str):
        raise InvalidInput("The payload's 'sender' has no 'login'.", "Pass the body as GitHub sent it.")
    return login(sender or None)


#: The fields of each event, and fields that only other events have.
_SHAPES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "issues": (("issue",), ("comment", "pull_request")),
    "issue_comment": (("issue", "comment"), ()),
    "pull_request": (("pull_request",), ("comment", "review", "thread")),
    "pull_request_review": (("pull_request", "review"), ()),
    "pull_request_review_comment": (("pull_request", "comment"), ()),
    "workflow_run": (("workflow_run",), ()),
    "check_run": (("check_run",), ("workflow_run",)),
    "check_suite": (("check_suite",), ("check_run",)),
    "status": (("sha", "state"), ("deployment", "check_run")),
}


def check_event(delivery: Delivery) -> None:
    """Refuse a payload that clearly belongs to another event."""
    has, lacks = _SHAPES.get(delivery.event, ((), ()))
    missing = next((part for part in has if part not in delivery.payload), None)
    strange = next((part for part in lacks if part in delivery.payload), None)
    if missing is None and strange is None:
        return
    what = f"lacks '{missing}'" if missing is not None else f"has '{strange}'"
    raise InvalidInput(
        f"The payload does not belong to event '{delivery.event}': it {what}.",
        "Pass what GitHub sent in X-GitHub-Event for this delivery.",
    )


#: Where payloads keep an issue or pull request.
_NUMBERED = ("issue", "pull_request", "parent_issue", "sub_issue", "blocked_issue", "blocking_issue")
#: Where they keep an object that lists its pull requests.
_CHECKS = ("workflow_run", "check_run", "check_suite")


def part_of(delivery: Delivery, number: int) -> Mapping[str, Any] | None:
    """A delivery's data about a number; if it has both forms, that of the pull request."""
    payload = delivery.payload
    found = (
        _part(payload, name)
        for name in ("pull_request", *_NUMBERED)
        if _repository_of(payload, name) in (None, delivery.repository)
    )
    return next((each for each in found if each.get("number") == number), None)


def _numbers(payload: Mapping[str, Any]) -> Iterator[int]:
    here = _part(payload, "repository").get("id")
    for name in _NUMBERED:
        found = _part(payload, name)
        # A sub-issue or a blocker may be another repository's.
        number = _number(found.get("number"))
        if number is not None and _repository_of(payload, name) in (None, here):
            yield number
    for name in _CHECKS:
        pulls = _part(payload, name).get("pull_requests")
        for pull in pulls if isinstance(pulls, list) else ():
            number = _number(pull.get("number")) if isinstance(pull, dict) else None
            # For a fork, the list names pull requests of others.
            base = _part(_part(pull, "base"), "repo").get("id") if number is not None else None
            if number is not None and base in (None, here):
                yield number


def _repository_of(payload: Mapping[str, Any], name: str) -> int | None:
    owner = f"{name}_repo" if name != "parent_issue" else "parent_issue_repo"
    found = _part(payload, owner).get("id")
    return found if isinstance(found, int) else None


def _number(value: object) -> int | None:
    """A number of GitHub's that a database can keep."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value < _NUMBERS_END else None


def _part(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = payload.get(name)
    return found if isinstance(found, dict) else {}
