"""Finds webhook deliveries that trigger a reconcile of a repository's series."""

from __future__ import annotations

import json

#: Events that may change the members, queue or assignees of a series.
EVENTS = frozenset({"issues", "sub_issues", "issue_dependencies"})
_ACTIONS_NOT = frozenset({"labeled", "unlabeled", "pinned", "unpinned", "locked", "unlocked", "milestoned"})


def repository_of(event: str, body: bytes) -> str | None:
    """The repository whose series may have changed; None if none has."""
    if event not in EVENTS:
        return None
    try:
        payload = json.loads(body)
        if payload.get("action") in _ACTIONS_NOT:
            return None
        name = payload["repository"]["full_name"]
    except (ValueError, KeyError, TypeError, AttributeError):  # the intake reports the error
        return None
    return name if isinstance(name, str) else None
