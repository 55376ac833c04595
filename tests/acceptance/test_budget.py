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
    assert "is used up" not in il("cost", handle, "--usd", "0.20").out
    assert (
        "The budget of agent coder is used up: $0.50 of $0.50 per month."
        in il("cost", handle, "--usd", "0.50").out
    )
    told = il("budget", "ls").out
    assert "agent:coder  month" in told
    assert "A run of type task reserves $0.10." in told
    nothing = il("next", "--agent", "coder")
    assert nothing.code == Exit.NO_WORK
    assert nothing.out.startswith("No work for coder: its budget of $0.50 per month is used up until 20")
    assert "`interlock budget set agent:coder --per month --usd N` raises it." in nothing.out
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
        (("set", "agent:coder", "--usd", "1", "--when-spent", "cancl"), "--when-spent cannot be 'cancl'."),
        (("time-zone", "Mars/Olympus"), "no time zone"),
    ],
    ids=["scope", "team", "amount", "period", "then", "zone"],
)
def test_a_wrong_budget_is_refused(il: Command, words: tuple[str, ...], told: str) -> None:
    answer = il("budget", *words)
    assert answer.code == Exit.USAGE
    assert told in answer.err


def test_a_used_up_project_is_named_only_where_work_waits(il: Command) -> None:
    handle = il.ok("add", "Fix the login", "--project", "acme/app") and il.claim()["run"]
    il.ok("budget", "set", "project:acme/app", "--usd", "1")
    told = il("cost", handle, "--usd", "1.50").out
    assert "The budget of project acme/app is used up: $1.50 of $1.00 per day." in told
    assert il("next", "--agent", "coder").out == "No work for coder right now.\n"
    il.ok("add", "Fix the search", "--project", "acme/app")
    told = il("next", "--agent", "coder").out
    assert told.startswith("No work for coder right now. The budget of project acme/app of $1.00 per day is")


def test_a_budget_of_an_unknown_name_is_accepted_and_told(il: Command) -> None:
    il.ok("add", "work") and il.claim()
    for whose, told in (
        ("agent:bert", "Agent bert has never asked for work.\n"),
        ("agent:coder", ""),
        ("pool:account", "There is no pool account yet.\n"),
        ("project:acme/web", "Project acme/web has no items yet.\n"),
    ):
        answer = il("budget", "set", whose, "--usd", "1")
        assert (answer.code, answer.err) == (Exit.OK, told)
    assert "Did you mean" in il("budget", "set", "agent:codr", "--usd", "1").err.replace("did", "Did")
