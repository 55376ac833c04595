"""Notes about a series: what somebody wrote there by hand breaks nothing."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interlock.github.series.notebook import COUNTED, counts_of, looks_of, numbers_of, page_of
from interlock.store.series_port import Note

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
    "said": 4,
    "problems": ["one"],
    "counts": dict.fromkeys(COUNTED, 1),
    "cycle": dict.fromkeys(COUNTED, 0),
    "state_issue": 12,
    "body": "abc",
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
    assert page_of(note(json.dumps(GOOD))) == GOOD


@given(name=st.sampled_from(sorted(GOOD)), value=values)
def test_a_part_that_makes_no_sense_is_left_out(name: str, value: Any) -> None:
    page = page_of(note(json.dumps({**GOOD, name: value})))
    assert {key: part for key, part in page.items() if key != name} == {
        key: part for key, part in GOOD.items() if key != name
    }
    looks_of(page), counts_of(page), counts_of(page, "cycle")
    for table in ("released", "logins", "waiting"):
        assert all(isinstance(number, int) for number in numbers_of(page, table))


def test_what_is_no_note_is_empty() -> None:
    for data in ("", "{", "[1]", "7", "[" * 100_000, '{"a":' * 100_000):
        assert page_of(note(data)) == {}
