"""The issue or pull request that an item is about, by its payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.record import Record
from interlock.github.effects import ReactionTarget

_REMARKS = {"issue_comment": "comment", "pull_request_review_comment": "review_comment"}


class Subject(Record):
    """An issue or a pull request."""

    repository: str
    number: int
    pull: bool
    #: The event that made the item, such as `issues.opened`; empty if it did not come from GitHub.
    event: str
    #: The target of a reaction. A review can have none, so its pull request gets it.
    subject: ReactionTarget


def subject_of(payload: Mapping[str, Any] | None) -> Subject | None:
    """The issue or pull request of an item; None if it has none."""
    if not isinstance(payload, Mapping):
        return None
    repository, pull, event = payload.get("repository"), "pr_number" in payload, payload.get("event_type")
    number = payload.get("pr_number" if pull else "issue_number")
    if not isinstance(repository, str) or not isinstance(number, int) or number < 1:
        return None
    event = event if isinstance(event, str) else ""
    kind, remark = _REMARKS.get(event.partition(".")[0]), payload.get("comment_id")
    known = kind is not None and isinstance(remark, int)
    subject = ReactionTarget(kind or "", remark or 0) if known else ReactionTarget("issue", number)
    return Subject(repository=repository, number=number, pull=pull, event=event, subject=subject)
