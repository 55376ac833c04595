"""Titles give issues their series and their place; what they depend on is in their text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.core.errors import InvalidInput
from interlock.core.series.dependencies import Dependencies, dependencies_of
from interlock.core.series.titles import PATTERN, Prefixes, SeriesPlace, Titles

TITLES = Titles()


@pytest.mark.parametrize(
    ("title", "place"),
    [
        ("RFC-093-02: Parse", SeriesPlace("RFC-093", 2)),
        ("RFC-93-2 Parse", SeriesPlace("RFC-093", 2)),
        ("rfc-0093-0002: Parse", SeriesPlace("RFC-093", 2)),
        ("  RFC-1234-12: Parse", SeriesPlace("RFC-1234", 12)),
        ("Game-RFC-093-02: Parse", SeriesPlace("Game-RFC-093", 2)),
        ("GAME-rfc-093-02: Parse", SeriesPlace("Game-RFC-093", 2)),
        ("RFC-093-00: Zero", SeriesPlace("RFC-093", 0)),
        ("RFC-093: Overview", None),
        ("RFC-093 Series State", None),
        ("RFC-093-02b: Parse", None),
        ("On RFC-093-02", None),
        ("RFC-093-1234567: too long", None),
        ("RFC-٩٣-٢: other digits", None),
        ("", None),
    ],
)
def test_the_place_of_a_title(title: str, place: SeriesPlace | None) -> None:
    assert TITLES.place(title) == place


def test_prefixes_count_together_by_choice() -> None:
    together = Titles(PATTERN, Prefixes.TOGETHER)
    assert (
        together.place("Game-RFC-093-02: x") == together.place("RFC-093-02: x") == SeriesPlace("RFC-093", 2)
    )


def test_another_pattern() -> None:
    titles = Titles("EPIC-{series}.{micro}")
    assert titles.place("epic-7.3 Do it") == SeriesPlace("EPIC-007", 3)
    assert titles.place("Game-EPIC-7.3") is None
    assert titles.series_name("epic-7") == "EPIC-007"


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "RFC",
        "{series}-{micro}",
        "RFC-{series}",
        "RFC-{series}{micro}",
        "RFC-{micro}-{series}",
        "RFC-{series}-{micro}-{micro}",
        "R(F)C-{series}-{micro}",
        "RFC-{other}-{micro}",
        "{prefix}{series}-{micro}",
    ],
)
def test_a_pattern_that_makes_no_sense_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput):
        Titles(pattern).place("RFC-1-1")


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_title(text: str) -> None:
    TITLES.place(text)
    dependencies_of(text, "acme/app", TITLES)


@settings(deadline=None)
@given(st.integers(0, 999_999), st.integers(0, 999_999), st.sampled_from(["", "Game-", "X9-"]))
def test_what_is_written_is_read(series: int, micro: int, prefix: str) -> None:
    assert TITLES.place(f"{prefix}RFC-{series:03}-{micro:02}: x") == SeriesPlace(
        f"{prefix}RFC-{series:03}", micro
    )
    assert TITLES.series_name(f"{prefix}RFC-{series}".lower()) == f"{prefix}RFC-{series:03}"


def test_a_name_that_is_none() -> None:
    with pytest.raises(InvalidInput, match="Invalid series name"):
        TITLES.series_name("everything")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Depends on #12", Dependencies(frozenset({12}))),
        (
            "- depends on: #12, #13 and acme/lib#4",
            Dependencies(frozenset({12, 13}), frozenset({("acme/lib", 4)})),
        ),
        ("**Depends on** RFC-92 and Game-RFC-1", Dependencies(series=frozenset({"RFC-092", "Game-RFC-001"}))),
        ("Depends on https://github.com/Acme/App/issues/7", Dependencies(frozenset({7}))),
        ("Depends on ACME/APP#7", Dependencies(frozenset({7}))),
        ("It depends on #12", Dependencies()),
        ("Depends on the weather, item-3", Dependencies()),
        ("```\nDepends on #12\n```\ndepends on #13", Dependencies(frozenset({13}))),
        ("", Dependencies()),
    ],
)
def test_what_an_issue_depends_on(text: str, found: Dependencies) -> None:
    assert dependencies_of(text, "acme/app", TITLES) == found
