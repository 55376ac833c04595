"""`interlock cost` and `interlock spending`, as a person or a script types them."""

from __future__ import annotations

import re

import pytest

from interlock.core.errors import Exit
from tests.acceptance.command import Command


def claimed(il: Command) -> str:
    il.ok("add", "Fix the login page", "--project", "site")
    handle: str = il.ok("next", "--agent", "coder")["leases"][0]["run"]
    return handle


def test_a_run_reports_its_totals(il: Command) -> None:
    handle = claimed(il)
    figures = ("--usd", "0.42", "--input", "12000", "--output", "900")
    assert il.ok("cost", handle, *figures) == {"usd": 0.42, "input_tokens": 12_000, "output_tokens": 900}
    il.ok("done", handle)
    assert il("cost", handle, "--usd", "$0.40").out == (
        "The run has used $0.42, 12,000 tokens in, 900 out so far.\n"
    )
    assert re.search(r"used +\$0.42, 12,000 tokens in, 900 out", il("show", "1").out)
    told = il("spending").out
    assert "coder" in told
    assert "$0.42" in told
    assert "Spent today" in il("stats").out
    assert "Used: $0.42, 12,000 tokens in, 900 out." in il("recap").out


def test_inside_of_a_run_its_handle_is_known(il: Command) -> None:
    handle = claimed(il)
    assert il("cost", "--output", "5", env={"INTERLOCK_RUN": handle}).code == Exit.OK
    assert il.ok("spending", "--days", 1)["spending"][0]["output_tokens"] == 5


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ((), "no figure"),
        (("--usd", "much"), "not an amount"),
        (("--usd", "-1"), "out of range"),
        (("--input", "1.5"), "whole number"),
    ],
    ids=["none", "words", "negative", "fraction"],
)
def test_a_report_without_a_true_figure_says_so(il: Command, figures: tuple[str, ...], told: str) -> None:
    answer = il("cost", claimed(il), *figures)
    assert answer.code == Exit.USAGE
    assert told in answer.err
