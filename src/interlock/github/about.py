"""The issue or pull request that an item is about, by its payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.record import Record
from interlock.github.effects import Subject

_REMARKS = {"issue_comment": "comment", "pull_request_review_comment": "review_comment"}


class About(Record):
    """An issue or a pull request."""

    repository: str
    number: int
    pull: bool
    #: The event that made the item, such as `issues.opened`; empty if somebody else made it.
    event: str
    #: What a reaction to it is on. A review can have none by itself: the pull request gets it.
    subject: Subject


def about(payload: Mapping[str, Any] | None) -> About | None:
    """What an item is about; None if that is no number of GitHub."""
    if not isinstance(payload, Mapping):
        return None
    repository, pull, event = payload.get("repository"), "pr_number" in payload, payload.get("event_type")
    number = payload.get("pr_number" if pull else "issue_number")
    if not isinstance(repository, str) or not isinstance(number, int) or number < 1:
        return None
    event = event if isinstance(event, str) else ""
    kind, remark = _REMARKS.get(event.partition(".")[0]), payload.get("comment_id")
    known = kind is not None and isinstance(remark, int)
    subject = Subject(kind or "", remark or 0) if known else Subject("issue", number)
    return About(repository=repository, number=number, pull=pull, event=event, subject=subject)
