"""`interlock budget`, as an operator types it."""

from __future__ import annotations

import pytest

from interlock.core.errors import Exit
from tests.acceptance.command import Command


def test_a_budget_is_set_seen_kept_and_removed(any_il: Command) -> None:
    il = any_il
    assert il("budget").out.startswith("No budgets. Set one:")
    handle = il.ok("add", "Fix the login") and il.claim()["run"]
    il.ok("add", "Fix the search")
    set_ = il.ok("budget", "set", "agent:coder", "--usd", "0.50", "--per", "month", "--when-spent", "cancel")
    (made,) = set_["budgets"]
    assert (made["scope"], made["name"], made["usd"]) == ("agent", "coder", 0.5)
    il.ok("budget", "reserve", "task", "--usd", "0.10")
    il.ok("cost", handle, "--usd", "0.50")
    told = il("budget", "ls").out
    assert "agent:coder  month" in told
    assert "A run of type task reserves $0.10." in told
    assert il("next", "--agent", "coder").code == Exit.NO_WORK
    assert il.ok("budget", "rm", "agent:coder", "--per", "month")["budgets"] == []
    assert il.ok("budget", "time-zone", "Europe/Berlin")["time_zone"] == "Europe/Berlin"
    assert il("next", "--agent", "coder").code == Exit.OK


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("set", "coder", "--usd", "1"), "has no scope"),
        (("set", "team:coder", "--usd", "1"), "team"),
        (("set", "agent:coder", "--usd", "much"), "not an amount"),
        (("set", "agent:coder", "--usd", "1", "--per", "week"), "week"),
        (("time-zone", "Mars/Olympus"), "no time zone"),
    ],
    ids=["scope", "team", "amount", "period", "zone"],
)
def test_a_wrong_budget_is_refused(il: Command, words: tuple[str, ...], told: str) -> None:
    answer = il("budget", *words)
    assert answer.code == Exit.USAGE
    assert told in answer.err
