"""Notes about a series: what somebody wrote there by hand breaks nothing."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interlock.github.series.series_note import (
    COUNTED,
    FORGOTTEN_S,
    counts_of,
    looks_of,
    note_data,
    numbers_of,
    problems_of,
)
from interlock.store.series_notes import Note

GOOD: dict[str, Any] = {
    "order": [3, 1],
    "looks": {"run": 4, "seen": True, "missing_since_s": 1.5},
    "released": {"7": True},
    "gave_back": {"number": 7, "why": "x"},
    "logins": {"7": "alice"},
    "assigned": ["alice"],
    "flagged": [8],
    "waiting": {"9": ["#7"]},
    "promotion": {"from": None, "to": 3, "why": "next", "at": "2026-01-01T00:00:00Z", "run": 4},
    "leaving": {"number": 2, "why": "merged"},
    "counted": [2, 4],
    "unsaid": [{"from": None, "to": 3, "why": "next", "at": "2026-01-01T00:00:00Z", "run": 4}],
    "handover": {"run": 4, "by": "workflow", "at_s": 100.0, "nth": 1, "given": False, "what": "assign.yml"},
    "ignored": {"5": "mallory has no write access to acme/app"},
    "left": {"2": "2026-01-01T00:00:00Z"},
    "problems": ["one"],
    "counts": dict.fromkeys(COUNTED, 1),
    "cycle": dict.fromkeys(COUNTED, 0),
    "state_issue": 12,
    "state_issue_at_s": 1.0,
    "bodies": ["abc"],
}

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def note(data: str) -> Note:
    return Note("series:acme/app/RFC-093", 1, data)


def test_a_whole_note_is_read_as_it_is() -> None:
    assert note_data(note(json.dumps(GOOD))) == GOOD


@given(name=st.sampled_from(sorted(GOOD)), value=values)
def test_a_part_that_makes_no_sense_is_left_out(name: str, value: Any) -> None:
    page = note_data(note(json.dumps({**GOOD, name: value})))
    assert {key: part for key, part in page.items() if key != name} == {
        key: part for key, part in GOOD.items() if key != name
    }
    looks_of(page), counts_of(page), counts_of(page, "cycle")
    for table in ("released", "logins", "waiting"):
        assert all(isinstance(number, int) for number in numbers_of(page, table))


def test_what_is_no_note_is_empty() -> None:
    for data in ("", "{", "[1]", "7", "[" * 100_000, '{"a":' * 100_000):
        assert note_data(note(data)) == {}


def test_an_assignment_that_is_late_is_a_problem_whether_or_not_anybody_reconciles() -> None:
    page = {**GOOD, "looks": {}, "problems": []}
    late_s = 100.0 + FORGOTTEN_S
    assert problems_of(page, late_s - 1) == ()
    (problem,) = problems_of(page, late_s)
    assert problem == "#3 has no assignee: assign.yml was dispatched once and has not assigned it."
    for by in ("us", "caller"):
        (problem,) = problems_of({**page, "handover": {**page["handover"], "by": by}}, late_s)
        assert problem.startswith("#3 has no assignee")
    assert problems_of({**page, "looks": {"run": 4, "seen": True}}, late_s) == ()
    assert problems_of({**page, "handover": None}, late_s) == ()
