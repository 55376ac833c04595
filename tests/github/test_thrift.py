"""How many requests GitHub gets: for one issue from opened to merged, and in an idle hour of a repository.

The table in docs/explanation/performance.md has these figures; `python -m bench requests` prints them all.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.github.thrift import house, shown

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "performance.md"


_COUNTS = ("sent", "counted by GitHub", "creations")


def published(comments: bool) -> tuple[int, int, int]:
    """Sent, counted against the allowance, and created, as the page says."""
    issue = "an issue, " + ("with a comment for each item" if comments else "by default")
    page = PAGE.read_text()
    found = [re.search(rf"\| {issue}: {what} \| (\d+) \|", page) for what in _COUNTS]
    sent, counted, created = (int(each[1]) for each in found if each is not None)
    return sent, counted, created


@pytest.mark.parametrize("comments", [False, True], ids=["by default", "with comments"])
def test_requests_for_one_issue_are_those_that_are_published(tmp_path: Path, comments: bool) -> None:
    with house(tmp_path, comments=comments) as made:
        made.issue("first")  # what is read for the first time costs a little more
        made.spent()
        made.issue("second")
        spent = made.spent()
        for now, said in zip((spent.sent, spent.counted, spent.creations), published(comments), strict=True):
            assert 0.8 * said <= now <= 1.2 * said, shown(spent)
        # Ten issues an hour with a job's token, three in each of 20 repositories with one token.
        assert 10 * spent.counted <= 1_000
        assert 20 * 3 * spent.counted <= 5_000
        assert 20 * spent.creations <= 500


def test_an_idle_hour_costs_nothing_of_the_allowance(tmp_path: Path) -> None:
    with house(tmp_path, comments=True) as made:
        made.issue("one")
        made.idle_hour()
        made.spent()
        made.idle_hour()
        spent = made.spent()
        assert (spent.counted, spent.creations) == (0, 0), shown(spent)
        assert spent.sent <= 7 * 6, "a reconcile every ten minutes asks seven times at most"
