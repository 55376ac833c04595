"""What counts as read: what the claim brought, and what `inbox` printed. All else becomes a follow-up."""

import pytest

from tests.acceptance.command import PROGRAM, Command


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["text", "json"])
def test_what_inbox_printed_is_read_and_becomes_nothing_at_done(any_il: Command, json: tuple[str, ...]):
    any_il.ok("add", "work", "--message", "with the claim")
    run = any_il.claim()["run"]
    any_il.ok("msg", 1, "first")
    any_il.ok("msg", 1, "second")
    printed = any_il("inbox", run, *json).out
    assert printed.index("first") < printed.index("second")
    assert any_il.ok("inbox", run) == {"messages": []}
    any_il.ok("msg", 1, "third")
    assert [m["text"] for m in any_il.ok("inbox", run)["messages"]] == ["third"]
    (ended,) = any_il.ok("done", run)["runs"]
    assert (ended["unread"], ended["follow_up"]) == (0, None)
    assert any_il.ok("ls")["items"] == []


def test_a_renewals_count_is_no_reading_and_done_says_what_became_of_the_messages(any_il: Command):
    any_il.ok("add", "work")
    run = any_il.claim()["run"]
    any_il.ok("msg", 1, "first")
    any_il.ok("msg", 1, "second")
    assert any_il.ok("renew", run)["runs"][0]["unread"] == 2
    said = any_il("done", run).out
    lease = any_il.claim()
    assert said.endswith(f"\n  2 unread messages became item {lease['item']['id']}.\n")
    assert [m["text"] for m in lease["messages"]] == ["first", "second"]
    any_il.ok("msg", lease["item"]["id"], "third")
    (ended,) = any_il.ok("done", lease["run"])["runs"]
    assert ended["unread"] == 1
    assert any_il.claim()["item"]["id"] == ended["follow_up"]


def test_a_worker_says_what_became_of_messages_that_its_run_did_not_read(il: Command):
    il.ok("add", "work")
    told = f"env -u INTERLOCK_RUN {' '.join(PROGRAM)} msg 1 hello --author sam"
    worker = il("work", "--agent", "coder", "--limit", "1", "--", "sh", "-c", told)
    follow_up = il.claim()["item"]["id"]
    assert f"item 1 is completed; 1 unread message became item {follow_up}" in worker.out


@pytest.mark.parametrize("command", ["done", "inbox", "renew"])
def test_a_read_mark_above_the_last_message_is_refused(any_il: Command, command: str):
    """It would drop what a person writes later."""
    any_il.ok("add", "work", "--message", "one")
    run = any_il.claim()["run"]
    assert "has no message 9: the last is 1" in any_il("--json", command, run, "--seen", 9).error["message"]
    any_il.ok("msg", 1, "two")
    assert any_il.ok("done", run, "--seen", 1)["runs"][0]["follow_up"] is not None
