"""What is noted about a series: what was seen of its assignment, what was given back, counts.

Notes decide nothing about who has the lane. They are changed by compare-and-swap, each change by itself.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from interlock.core import jsontext
from interlock.core.errors import StoreBusy
from interlock.core.series.standing import Looks
from interlock.store.series_port import Note, SeriesNotes

#: What is counted, in the order of the seed.
COUNTED = ("promotion_events", "duplicate_prevented", "retries", "conflicts")
#: An issue that has no assignee so long after somebody was to assign it is assigned again.
FORGOTTEN_S = 600.0
#: How long to retry while others write: each of their writes is progress.
BEATEN_MAX_S = 120.0
_PAUSE_S, _PAUSE_MAX_S = 0.02, 1.0

Page = dict[str, Any]
Fits = Callable[[object], bool]
_ISSUE = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)


class Notebook:
    """The note of one series."""

    def __init__(self, notes: SeriesNotes, lane: str) -> None:
        self._notes, self._lane = notes, lane

    def read(self) -> Page | None:
        """What is noted; None before the first contact."""
        note = self._notes.note(self._lane)
        return None if note is None else page_of(note)

    def change(self, change: Callable[[Page], None]) -> Page:
        """Change the note, however many others do; what changes nothing is not written."""
        deadline_s, pause_s = time.monotonic() + BEATEN_MAX_S, _PAUSE_S
        while time.monotonic() < deadline_s:
            note = self._notes.note(self._lane)
            before = {} if note is None else page_of(note)
            after = json.loads(json.dumps(before))
            change(after)
            if note is not None and after == before:
                return before
            revision = 1 if note is None else note.revision + 1
            if self._notes.keep_note(Note(self._lane, revision, json.dumps(after, sort_keys=True))):
                page: Page = after
                return page
            time.sleep(pause_s * random.random())  # noqa: S311  (no secret)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        raise StoreBusy(f"Others keep writing notes about {self._lane}.", "Try again.")


def page_of(note: Note) -> Page:
    """A note as it is read. What in it cannot be read is left out, which costs a second look: in git
    everybody who may push can write there."""
    try:
        found = jsontext.parse(note.data)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if name not in _PARTS or _PARTS[name](value)}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _list_of(fits: Fits) -> Fits:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _by_issue(fits: Fits) -> Fits:
    """A table by the numbers of issues, which are texts in JSON."""

    def is_table(value: object) -> bool:
        return isinstance(value, dict) and all(_ISSUE.fullmatch(n) and fits(v) for n, v in value.items())

    return is_table


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_looks(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    since = value.get("missing_since_s")
    lawful = (since is None or _is_time(since)) and _is_time(value.get("seen_s", 0.0))
    return lawful and _is_number(value.get("run", 0)) and isinstance(value.get("seen", False), bool)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**40


def _is_handover(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, dict) or value.get("by") not in ("us", "workflow", "caller"):
        return False
    flags = all(isinstance(value.get(name, False), bool) for name in ("given", "sent"))
    numbers = all(_is_number(value.get(name)) for name in ("run", "nth"))
    return flags and numbers and _is_time(value.get("at_s"))


def _is_leaving(value: object) -> bool:
    return isinstance(value, dict) and _is_number(value.get("number")) and _is_text(value.get("why"))


def _is_promotion(value: object) -> bool:
    if not isinstance(value, dict) or not all(map(_is_text, (value.get("why"), value.get("at")))):
        return False
    try:
        datetime.fromisoformat(value["at"])
    except ValueError:
        return False
    left = value.get("from")
    return (left is None or _is_number(left)) and _is_number(value.get("to")) and _is_number(value.get("run"))


#: The parts of a note, and what each looks like.
_PARTS: dict[str, Fits] = {
    "order": _list_of(_is_number),
    "looks": _is_looks,
    "released": _by_issue(lambda value: isinstance(value, bool)),
    "gave_back": lambda value: isinstance(value, dict),
    "logins": _by_issue(_is_text),
    "assigned": _list_of(_is_text),
    "flagged": _list_of(_is_number),
    "waiting": _by_issue(_list_of(_is_text)),
    "ignored": _by_issue(_is_text),
    # Why the active issue gives the series up, and the promotion that followed last.
    "leaving": _is_leaving,
    "promotion": _is_promotion,
    # The runs whose promotions were counted, and promotions that no comment tells yet.
    "counted": _list_of(_is_number),
    "unsaid": _list_of(_is_promotion),
    # Who assigns the active issue: by us, by a workflow, or by whoever called acquire.
    "handover": _is_handover,
    # When issues left, by GitHub: what shows them as they were before is stale.
    "left": _by_issue(_is_text),
    "problems": _list_of(_is_text),
    "counts": _is_counts,
    "cycle": _is_counts,
    "state_issue": _is_number,
    "state_issue_at_s": _is_time,
    # Hashes of the texts that we wrote there, the newest last.
    "bodies": _list_of(_is_text),
}


def looks_of(page: Mapping[str, Any]) -> Looks:
    found = page.get("looks") or {}
    since = found.get("missing_since_s")
    return Looks(
        run=int(found.get("run") or 0),
        seen=bool(found.get("seen")),
        seen_s=float(found.get("seen_s") or 0.0),
        missing_since_s=None if since is None else float(since),
    )


def numbers_of(page: Mapping[str, Any], name: str) -> dict[int, Any]:
    """A table of the note whose keys are issues."""
    return {int(number): value for number, value in (page.get(name) or {}).items()}


def counts_of(page: Mapping[str, Any], name: str = "counts") -> dict[str, int]:
    found = page.get(name) or {}
    return {each: int(found.get(each) or 0) for each in COUNTED}


def late(page: Mapping[str, Any], now_s: float) -> str:
    """What is to be said of an issue that has the series and no assignee; empty if it is not late."""
    found, looks, promotion = page.get("handover") or {}, looks_of(page), page.get("promotion") or {}
    run, number = found.get("run"), promotion.get("to")
    if run is None or promotion.get("run") != run or (looks.run == run and looks.seen):
        return ""
    if found["nth"] < 2 and now_s - found["at_s"] < FORGOTTEN_S:
        return ""
    if found["by"] == "workflow":
        times = "once" if found["nth"] == 1 else f"{found['nth']} times"
        what = found.get("what") or "the workflow"
        return f"#{number} has no assignee: {what} was dispatched {times} and has not assigned it."
    if found["by"] == "us" and found["nth"] > 1:
        return f"#{number} had no assignee for ten minutes: it was assigned again."
    if found["by"] == "us":
        return f"#{number} has no assignee after ten minutes. interlock series reconcile assigns it again."
    return (
        f"#{number} has no assignee: the caller of acquire has not assigned it in ten minutes."
        f" Assign it, or run interlock series acquire {number} --no-assign again."
    )


def problems_of(page: Mapping[str, Any], now_s: float) -> tuple[str, ...]:
    """What was noted as a problem, and an assignment that has become late since then."""
    found = dict.fromkeys((*(page.get("problems") or ()), late(page, now_s)))
    return tuple(each for each in found if each)
