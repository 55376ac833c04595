"""Inside of a run, what the command writes is the run's agent's, unless it says otherwise."""

import pytest

from tests.acceptance.command import Command


def test_a_message_says_who_wrote_it(any_il: Command):
    item = any_il.ok("add", "work")["item"]["id"]
    run = any_il.claim("coder")["run"]
    any_il("msg", str(item), "by a person", "--author", "ann")
    any_il("msg", str(item), "by CI", "--from-system")
    any_il("msg", str(item), "by a stranger", "--from-outsider", "--author", "eve")
    any_il("msg", str(item), "inside", env={"INTERLOCK_RUN": run})
    any_il("msg", str(item), "relayed", "--from-person", "--author", "bob", env={"INTERLOCK_RUN": run})
    found = any_il.ok("inbox", run)["messages"]
    assert [(m["text"], m["sender"], m["agent"]) for m in found] == [
        ("by a person", "person", None),
        ("by CI", "system", None),
        ("by a stranger", "outsider", None),
        ("inside", "agent", "coder"),
        ("relayed", "person", None),
    ]
    assert [m["author"] for m in found[3:]] == ["coder", "bob"]


def test_a_message_says_why_it_came_and_where_it_was_written(any_il: Command):
    url = "https://example.com/acme/app/issues/7#issuecomment-1"
    item = any_il.ok("add", "work")["item"]["id"]
    run = any_il.claim("coder")["run"]
    any_il("msg", str(item), "look", "--reason", "issue_commented", "--source-url", url)
    (found,) = any_il.ok("inbox", run)["messages"]
    assert (found["reason"], found["url"]) == ("issue_commented", url)
    refused = any_il("msg", str(item), "look", "--source-url", "here and there")
    assert (refused.code, refused.err) == (
        2,
        "'here and there' is not a URL.\nUse https://… or http://…, without spaces.\n",
    )


def test_people_see_both_beside_the_message(il: Command):
    url = "https://example.com/acme/app/issues/7#issuecomment-1"
    about = ("--author", "ann", "--reason", "issue_commented", "--source-url", url)
    il("add", "work", "--message", "look", *about)
    shown = il("show", "1").out
    assert ", issue_commented\n" in shown
    assert f"\n     {url}\n     look\n" in shown


def test_so_does_the_message_of_an_item_and_of_every_line_of_a_batch(il: Command):
    il("add", "work")
    run = il.claim("coder")["run"]
    lines = '{"title": "one", "message": "hello"}\n{"title": "two", "message": "hello", "from_bot": true}\n'
    il("add", "--batch", "-", stdin=lines, env={"INTERLOCK_RUN": run})
    shown = [il.ok("show", item)["messages"][0] for item in ("2", "3")]
    assert [(m["sender"], m["agent"]) for m in shown] == [("agent", "coder"), ("bot", None)]


@pytest.mark.parametrize("handle", ["7.1.0123456789abcdef", "seven"])
def test_a_handle_that_proves_nothing_is_no_error(il: Command, handle: str):
    il("add", "work")
    assert il("msg", "1", "hello", env={"INTERLOCK_RUN": handle}).code == 0
    assert il.ok("show", "1")["messages"][0]["sender"] == "system"
    assert il("msg", "1", "hello", "--from-bot", "--from-system").code == 2
    assert il("msg", "1", "hello", "--from-agent", " ").code == 2
