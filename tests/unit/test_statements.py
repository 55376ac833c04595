"""Statements in several variants: the lines asked for, and short enough for the driver to know them again."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH, MAX_CACHED_STATEMENT_PARAMS

from interlock.core.names import BATCH_MAX
from interlock.store.statements import Statements

FILTERS = ("only", "types", "no_edits")


@pytest.mark.parametrize("how", [("items",), ("items", "freely"), ("tasks",)], ids=" ".join)
@pytest.mark.parametrize("filters", [f for n in range(4) for f in combinations(FILTERS, n)], ids=" ".join)
def test_every_claim_is_short_enough_to_be_prepared_once(
    how: tuple[str, ...], filters: tuple[str, ...]
) -> None:
    text = Statements("postgres").variant("claim", frozenset((*how, *filters)), limit=BATCH_MAX)
    assert len(text) <= MAX_CACHED_STATEMENT_LENGTH
    assert "--" not in text
    assert ("plan.edit" in text) is ("no_edits" in filters and "items" in how)


USUAL = [
    ("settle_alike",),
    ("settle_alike", "heirs"),
    ("settle", "over"),
    ("settle", "over", "promoted", "after"),
]


@pytest.mark.parametrize("name", USUAL, ids="+".join)
def test_a_usual_finish_is_a_statement_that_the_driver_keeps(name: tuple[str, ...]) -> None:
    """It takes one with more parameters or more bytes than that apart anew for every call."""
    text = Statements("postgres").variant(name[0], frozenset(name[1:]))
    named = set(re.findall(r"%\((\w+)\)s", text))
    assert text.count("%s") + len(named) <= MAX_CACHED_STATEMENT_PARAMS
    assert len(text) <= MAX_CACHED_STATEMENT_LENGTH


def test_what_is_asked_for_once_is_not_made_again() -> None:
    statements = Statements("postgres")
    one = statements.variant("claim", frozenset({"items"}), limit=1)
    assert statements.variant("claim", frozenset({"items"}), limit=1) is one
    assert statements.variant("claim", frozenset({"items"}), limit=2) != one
