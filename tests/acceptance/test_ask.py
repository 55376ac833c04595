"""`interlock ask`: a command asks a person, a person answers, and the next run has both."""

import json
import sys

import pytest

from tests.acceptance.command import Command


def test_a_worker_says_that_its_command_asked(il: Command):
    il.ok("add", "some work")
    script = '"$0" -m interlock ask "Which branch?"; exit 0'
    said = il("work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", script, sys.executable).out
    assert "Run 1 asked a person, whose answer brings its item back\n" in said


def test_a_workers_command_asks_and_its_next_run_has_the_answer(il: Command):
    il.ok("add", "some work", "--lane", "branch:main")
    il.ok("add", "behind it", "--lane", "branch:main")
    script = '"$0" -m interlock ask "Which branch?"; exit 0'
    work = ("--json", "work", "--agent", "coder", "--limit", 1, "--", "sh", "-c")
    answer = il(*work, script, sys.executable)
    events = [json.loads(line) for line in answer.out.splitlines() if line.startswith("{")]
    assert [e["event"] for e in events] == ["ready", "started", "ended", "stopped"]
    assert events[2]["status"] == "released"
    shown = il.ok("show", 1)
    assert (shown["item"]["status"], shown["item"]["question"]) == ("pending", "Which branch?")
    listed = il("ls", "--asking").out
    assert "1 asks: Which branch?" in listed
    assert "interlock msg 1 TEXT" in listed
    assert il.ok("ls", "--asking")["items"][0]["question"] == "Which branch?"
    assert "Which branch?" in il("why", 1).out
    assert "item 1 asks: Which branch?" in il("top").out
    assert "item 1 asks a person" in il("lanes").out
    assert il.ok("lanes")["lanes"][0]["holder"]["asking"] is True
    assert il("next", "--agent", "reviewer").code == 3, "its lane is kept"
    behind = il("add", "more", "--lane", "branch:main").out
    assert "item 1 for any agent, asking a person, since" in behind
    il.ok("msg", 1, "main")
    il(*work, "cat $INTERLOCK_MESSAGES")
    told = json.loads(il.ok("show", 1)["runs"][-1]["result"]["stdout"])
    assert [m["text"] for m in told] == ["Which branch?", "main"]
    assert told[0]["author"] == "coder"
    assert il.ok("ls", "--asking") == {"items": []}


def test_what_cannot_be_asked_is_refused_in_words(il: Command):
    il.ok("add", "some work")
    run = il.ok("next", "--agent", "coder")["leases"][0]["run"]
    assert il("--json", "ask", run, " ").code == 2
    assert il("--json", "ask", run, "why?", "--timeout", "soon").code == 2
    assert il("--json", "ask", "why?").code == 2
    il.ok("done", run)
    late = il("--json", "ask", run, "why?")
    assert (late.code, late.json["runs"][0]["status"]) == (5, "refused")


def test_it_says_what_it_asks_and_who_answers(il: Command):
    il.ok("add", "some work", "--lane", "branch:main")
    run = il.ok("next", "--agent", "coder")["leases"][0]["run"]
    alone = il("ask", run)
    assert (alone.code, alone.err.splitlines()[0]) == (2, "QUESTION is missing.")
    assert il("ask", run, "too", "many").code == 2
    asked = il("ask", run, "Which branch?").out
    assert asked.startswith("Item 1 asks: Which branch?\n")
    assert "(in 3 d)" in asked
    assert "interlock msg 1 TEXT" in asked
    assert il("ls").out.splitlines()[1].split()[-1] == "asks"
    assert "is answered" not in il("msg", 1, "CI is red", "--from-system").out
    assert il("msg", 1, "main").out == "Message 3 is with item 1; it is answered and ready.\n"


@pytest.mark.parametrize("policy", ["supersede", "latest"])
def test_the_event_of_a_system_leaves_the_question_open(any_il: Command, policy: str):
    event = ("--lane", "branch:main", "--agent", "coder", "--policy", policy)
    any_il.ok("add", "some work", *event)
    any_il.ok("ask", any_il.claim()["run"], "Which branch?")
    assert any_il.ok("add", "CI", *event, "--message", "red", "--from-system")["decision"] == "coalesced"
    assert [i["question"] for i in any_il.ok("ls", "--asking")["items"]] == ["Which branch?"]
    any_il.ok("add", "by hand", *event, "--message", "main")
    assert [m["text"] for m in any_il.claim()["messages"]] == ["Which branch?", "red", "main"]


@pytest.mark.parametrize("keeps", [True, False], ids=["keeps its lane", "yields its lane"])
def test_what_asks_is_shown_as_asking_and_never_as_pending_or_waiting(any_il: Command, keeps: bool):
    any_il.ok("add", "some work", "--lane", "branch:main")
    run = any_il.ok("next", "--agent", "coder")["leases"][0]["run"]
    any_il.ok("ask", run, "Which branch?", *(() if keeps else ("--yield-lane",)))
    stored = "pending" if keeps else "waiting"
    item = any_il.ok("show", 1)["item"]
    assert (item["status"], item["asking"]) == (stored, True)
    assert any_il.ok("ls")["items"][0]["asking"] is True
    assert any_il.ok("stats")["items"] == {"asking": 1}
    for command in ("ls", "show 1", "top", "stats"):
        shown = any_il(*command.split()).out.partition("Newest events")[0].partition("History")[0]
        assert "asking" in shown, command
        assert stored not in shown.replace("oldest pending", "").replace("pending by priority", ""), command
    metrics = any_il("metrics").out
    assert 'interlock_items{status="asking"} 1' in metrics
    assert f'interlock_items{{status="{stored}"}} 0' in metrics
    any_il.ok("msg", 1, "main")
    assert any_il.ok("ls")["items"][0]["asking"] is False
    assert any_il.ok("stats")["items"] == {"pending": 1}


def test_a_live_run_asks_is_answered_and_goes_on(any_il: Command):
    any_il.ok("add", "some work", "--lane", "branch:main")
    run = any_il.claim()["run"]
    asked = any_il("ask", "--keep-lease", "--timeout", "2h", run, "May I push?").out
    assert asked.startswith("Item 1 asks: May I push?\n")
    assert "(in 2 h)" in asked
    (listed,) = any_il.ok("ls", "--asking")["items"]
    assert (listed["status"], listed["asking"], listed["question"]) == ("in_progress", True, "May I push?")
    assert "run 1 asks a person" in any_il("lanes").out
    assert "the run goes on when a person answers" in any_il("why", 1).out
    any_il.ok("msg", 1, "yes")
    assert [m["text"] for m in any_il.ok("inbox", run)["messages"]] == ["May I push?", "yes"]
    assert any_il.ok("ls", "--asking") == {"items": []}
    any_il.ok("ask", "--keep-lease", run, "And merge?")
    assert any_il.ok("ask", "--close", run)["runs"][0]["status"] == "running"
    assert any_il.ok("ls", "--asking") == {"items": []}
    assert any_il.ok("done", run)["runs"][0]["status"] == "succeeded"


def test_a_live_question_lasts_as_long_as_the_setting_says(il: Command):
    il.ok("add", "some work")
    il.env["INTERLOCK_QUESTION_LEASE_S"] = "1800"
    run = il.ok("next", "--agent", "coder")["leases"][0]["run"]
    assert "(in 30 min)" in il("ask", "--keep-lease", run, "May I push?").out
    both = il("ask", "--keep-lease", "--yield-lane", run, "May I push?")
    assert (both.code, both.err.splitlines()[0]) == (2, "--yield-lane and --keep-lease cannot be combined.")
    assert il("ask", "--close", run, "What?").code == 2
    il.ok("done", run)
    late = il("--json", "ask", "--close", run)
    assert (late.code, late.json["runs"][0]["status"]) == (5, "refused")
