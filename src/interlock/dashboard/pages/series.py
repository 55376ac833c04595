"""Series of issues: the active issue of each, its queue, and what blocks it."""

from __future__ import annotations

from typing import Any

from interlock.core.errors import InterlockError
from interlock.dashboard.visit import Page, Visit

#: The most series of a page, and the most issues of a queue that are listed.
SERIES_MAX, QUEUE_MAX = 100, 30
_STATES = {
    "free": ("no active issue", "quiet"),
    "promoted": ("promoted, not yet assigned", "warn"),
    "assigning": ("assigning", "busy"),
    "assigned": ("assigned", "good"),
    "unassigned": ("no longer assigned", "warn"),
    "unreadable": ("unreadable, counts as held", "bad"),
}
_STAGES = {
    "observe": "observe: nothing is enforced",
    "enforce": "enforce",
    "comment": "enforce, with comments",
}


async def series(visit: Visit) -> Page:
    """All series of a repository, or of every repository that has some."""
    repository = visit.query.get("repository", "").strip()
    found = await visit.call("series", **({"repository": repository} if repository else {}))
    shown = found[:SERIES_MAX]
    named: dict[str, list[dict[str, Any]]] = {}
    for view in shown:
        named.setdefault(view["repository"], []).append(_shown(view))
    values = {
        "repositories": [
            {"name": name, "series": views, "metrics": await _metrics(visit, name)}
            for name, views in named.items()
        ],
        "asked": repository,
        "more": len(found) - len(shown),
        "queue_max": QUEUE_MAX,
    }
    return Page("series.html", values, "Series", "series")


async def _metrics(visit: Visit, repository: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = await visit.call("series_metrics", repository=repository)
    except InterlockError:  # one broken repository hides no other
        return None
    return found


def _shown(view: dict[str, Any]) -> dict[str, Any]:
    word, kind = _STATES.get(view["state"], (view["state"], "quiet"))
    blocked = {each["number"]: each["why"] for each in view["waiting"]}
    return {
        **view,
        "state_word": word,
        "state_kind": kind,
        "stage": _STAGES.get(view["mode"], view["mode"]),
        "line": [
            {"position": n, "number": number, "why": blocked.get(number, "")}
            for n, number in enumerate(view["queue"], 1)
        ],
        "outside": [each for each in view["waiting"] if each["number"] not in view["queue"]],
    }
