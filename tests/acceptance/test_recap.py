"""`interlock recap`, as text, JSON and Markdown."""

from __future__ import annotations

import pytest

from tests.acceptance.command import Command

HOSTILE = "](http://evil) <b>@octocat</b> #12 `x`\n# Heading"


@pytest.fixture
def night(any_il: Command) -> tuple[Command, int, int]:
    """A store with an item that finished and one that failed."""
    good = any_il.ok("add", "Fix the login")["item"]["id"]
    any_il.ok("done", any_il.claim()["run"])
    bad = any_il.ok("add", "Import [the] invoices")["item"]["id"]
    any_il.ok("fail", any_il.claim()["run"], "--no-retry", "--error", HOSTILE)
    return any_il, int(good), int(bad)


def test_it_says_what_happened(night: tuple[Command, int, int]) -> None:
    il, good, bad = night
    told = il("recap").out
    assert told.startswith(
        "While you were away: the last 8 h\n1 finished, 1 failed, 1 waiting for you, 2 runs"
    )
    assert f"  {good}  Fix the login" in told
    assert f"interlock retry {bad}" in told, "with its cure"
    found = il.ok("recap", "--since", "1h", "--limit", 1)
    assert [each["item"] for each in found["finished"]] == [good]
    assert [(each["item"], each["error"]) for each in found["failed"]] == [(bad, HOSTILE)]
    assert found["counts"]["runs"] == 2
    assert len(found["waits"]) == 1


def test_texts_of_users_cannot_format_markdown_or_mention_people(night: tuple[Command, int, int]) -> None:
    """Taken out: any of the two replacements."""
    il, good, bad = night
    told = il("recap", "--markdown").out
    assert told.startswith("## While you were away")
    assert f"- item {good}: **Fix the login**" in told
    assert f"- item {bad}: **Import \\[the\\] invoices**" in told
    for dangerous in (" ](http", " <b>", "@octocat", "#12", "\n# Heading"):
        assert dangerous not in told


def test_an_empty_store_has_a_short_one(any_il: Command) -> None:
    assert any_il("recap").out == "While you were away: the last 8 h\nNothing happened.\n"


@pytest.mark.parametrize(("option", "value"), [("--since", "a while"), ("--since", "0s"), ("--limit", "101")])
def test_a_wrong_value_is_refused(any_il: Command, option: str, value: str) -> None:
    answer = any_il("--json", "recap", option, value)
    assert answer.error["code"] == "invalid_input"
