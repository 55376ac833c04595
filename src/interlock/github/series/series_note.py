"""The note of a series: its observed assignments, released issues and counts.

Notes never decide who has the lane. Each change is one compare-and-swap.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from interlock.core import jsontext
from interlock.core.cures import cure
from interlock.core.errors import StoreBusy
from interlock.core.series.snapshot import AssignmentLooks
from interlock.service.contract import CheckView
from interlock.store.series_notes import Note, SeriesNotes

#: The counters, in the order of `assignment_mutex_metrics.json`.
COUNTED = ("promotion_events", "duplicate_prevented", "retries", "conflicts")
#: After this time without an assignee, an active issue is assigned again.
FORGOTTEN_S = 600.0
#: The most series that are checked.
CHECKED_MAX = 1_000
#: How long to retry while others write: each of their writes is progress.
BEATEN_MAX_S = 120.0
_PAUSE_S, _PAUSE_MAX_S = 0.02, 1.0

NoteData = dict[str, Any]
Change = Callable[[NoteData], None]
Fits = Callable[[object], bool]
_ISSUE = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)


class SeriesNote:
    """The note of one series."""

    def __init__(self, notes: SeriesNotes, lane: str) -> None:
        self._notes, self._lane = notes, lane

    def read(self) -> NoteData | None:
        """Read the note; None before the first contact."""
        note = self._notes.note(self._lane)
        return None if note is None else note_data(note)

    def change(self, change: Change) -> NoteData:
        """Change the note, despite concurrent writers. A change without effect is not written."""
        deadline_s, pause_s = time.monotonic() + BEATEN_MAX_S, _PAUSE_S
        while time.monotonic() < deadline_s:
            note = self._notes.note(self._lane)
            before = {} if note is None else note_data(note)
            after = json.loads(json.dumps(before))
            change(after)
            if note is not None and after == before:
                return before
            revision = 1 if note is None else note.revision + 1
            if self._notes.keep_note(Note(self._lane, revision, json.dumps(after, sort_keys=True))):
                data: NoteData = after
                return data
            time.sleep(pause_s * random.random())  # noqa: S311  (no secret)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        raise StoreBusy(f"Too many concurrent writes to the note of {self._lane}.", "Try again.")


class NoteDraft:
    """The note of a series during a cycle. A change is written at once, or together with the next one.

    If a process dies before the next write, the lost changes cost another read.
    """

    def __init__(self, note: SeriesNote, data: NoteData) -> None:
        self._note, self.data = note, data
        self._as_read = json.dumps(data, sort_keys=True)
        self._unwritten: list[Change] = []
        #: Counts of this cycle.
        self.counts: Counter[str] = Counter()

    def change(self, change: Change, *, later: bool = False) -> None:
        """Change the note, now or with the next write."""
        change(self.data)
        self._unwritten.append(change)
        if not later:
            self.write()

    def count(self, name: str) -> None:
        """Increment a counter, with the next write."""
        self.counts[name] += 1
        self.change(lambda data: add_count(data, name), later=True)

    def write(self) -> None:
        """Write the changes, if they have an effect."""
        unwritten, self._unwritten = self._unwritten, []

        def change(data: NoteData) -> None:
            for each in unwritten:
                each(data)

        if unwritten and json.dumps(self.data, sort_keys=True) != self._as_read:
            self.data = self._note.change(change)
            self._as_read = json.dumps(self.data, sort_keys=True)

    def reread(self) -> None:
        """Read the note again, and repeat the unwritten changes on it."""
        self.data = self._note.read() or {}
        self._as_read = json.dumps(self.data, sort_keys=True)
        for change in self._unwritten:
            change(self.data)


def note_data(note: Note) -> NoteData:
    """The data of a note. Unreadable parts are dropped, which costs another read: in git everyone who may
    push can write there."""
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
    """A table keyed by issue numbers, which are strings in JSON."""

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


def _is_stamp(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_promotion(value: object) -> bool:
    if not isinstance(value, dict) or not all(map(_is_text, (value.get("why"), value.get("at")))):
        return False
    if not _is_stamp(value["at"]):
        return False
    left = value.get("from")
    return (left is None or _is_number(left)) and _is_number(value.get("to")) and _is_number(value.get("run"))


#: The parts of a note, with a check of each.
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
    # Why the active issue gives up the lane, and the last promotion.
    "leaving": _is_leaving,
    "promotion": _is_promotion,
    # The runs whose promotions were counted, and promotions without a comment so far.
    "counted": _list_of(_is_number),
    "unsaid": _list_of(_is_promotion),
    # Who assigns the active issue: this process, a workflow, or the caller of acquire.
    "handover": _is_handover,
    # When issues left, by GitHub's clock: data from before that is stale.
    "left": _by_issue(_is_text),
    "problems": _list_of(_is_text),
    "counts": _is_counts,
    "cycle": _is_counts,
    # When the last reconcile completed, and what it changed.
    "cycle_at": _is_stamp,
    "cycle_done": _list_of(_is_text),
    "state_issue": _is_number,
    "state_issue_at_s": _is_time,
    # Hashes of the texts that we wrote, the newest last.
    "bodies": _list_of(_is_text),
}


def looks_of(data: Mapping[str, Any]) -> AssignmentLooks:
    found = data.get("looks") or {}
    since = found.get("missing_since_s")
    return AssignmentLooks(
        run=int(found.get("run") or 0),
        seen=bool(found.get("seen")),
        seen_s=float(found.get("seen_s") or 0.0),
        missing_since_s=None if since is None else float(since),
    )


def numbers_of(data: Mapping[str, Any], name: str) -> dict[int, Any]:
    """A table of the note whose keys are issues."""
    return {int(number): value for number, value in (data.get(name) or {}).items()}


def counts_of(data: Mapping[str, Any], name: str = "counts") -> dict[str, int]:
    found = data.get(name) or {}
    return {each: int(found.get(each) or 0) for each in COUNTED}


def add_count(data: NoteData, name: str) -> None:
    """Increment a counter."""
    counts = counts_of(data)
    data["counts"] = {**counts, name: counts[name] + 1}


def late(data: Mapping[str, Any], now_s: float) -> str:
    """The problem of an active issue without an assignee for too long; empty if there is none."""
    found, looks, promotion = data.get("handover") or {}, looks_of(data), data.get("promotion") or {}
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
        return f"#{number} had no assignee for 10 minutes and was assigned again."
    if found["by"] == "us":
        return f"#{number} has no assignee after 10 minutes. The next reconcile assigns it again."
    return (
        f"#{number} has no assignee: the caller of acquire has not assigned it within 10 minutes."
        " Assign it, or acquire it again."
    )


def problems_of(data: Mapping[str, Any], now_s: float) -> tuple[str, ...]:
    """The noted problems, and an overdue assignment."""
    found = dict.fromkeys((*(data.get("problems") or ()), late(data, now_s)))
    return tuple(each for each in found if each)


def checks(notes: SeriesNotes) -> list[CheckView]:
    """The problems of all series, such as an assignment that GitHub refuses; empty without a series."""
    kept = notes.notes("", CHECKED_MAX)
    if not kept:
        return []
    now_s = time.time()
    found = {note.lane: problems for note in kept if (problems := problems_of(note_data(note), now_s))}
    if not found:
        return [CheckView(name="series", ok=True, detail=f"Series: {len(kept)}, no problems.")]
    repositories = dict.fromkeys(lane.removeprefix("series:").rpartition("/")[0] for lane in found)
    return [
        CheckView(
            name="series",
            ok=False,
            detail=" ".join([f"{lane}: {each}" for lane, of in found.items() for each in of][:5]),
            mend="Correct the cause.",
            cures=tuple(cure("reconcile_series", "tries again", repository=name) for name in repositories),
        )
    ]
