"""A refusal or an error as a page: its sentence, and what helps as buttons."""

from __future__ import annotations

from interlock.core.errors import InterlockError
from interlock.dashboard.visit import Page
from interlock.service.contract import to_json

_TITLES = {
    404: "Not found",
    403: "Not allowed",
    503: "The store is unavailable",
    409: "Not done",
    410: "Too late",
}


def problem_page(error: InterlockError, status: int, *, back: str) -> Page:
    """The page of an error."""
    problem = {
        "sentence": error.sentence,
        "hint": error.hint,
        "cures": to_json(list(error.cures)),
        "reasons": [reason for reason in error.reasons if reason != error.sentence],
        "code": error.code,
    }
    title = _TITLES.get(status, "Not done")
    return Page("problem.html", {"problem": problem, "back": back}, title, "", status)
