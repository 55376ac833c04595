"""Statements in several variants: the lines asked for, and short enough for the driver to know them again."""

from __future__ import annotations

from itertools import combinations

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

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


def test_what_is_asked_for_once_is_not_made_again() -> None:
    statements = Statements("postgres")
    one = statements.variant("claim", frozenset({"items"}), limit=1)
    assert statements.variant("claim", frozenset({"items"}), limit=1) is one
    assert statements.variant("claim", frozenset({"items"}), limit=2) != one
