"""Exit codes and where answers go: programs branch on the first, people read the second."""

import json
import subprocess
from pathlib import Path

import apsw
import pytest

from tests.acceptance.command import PROGRAM, Command, CommandHere, interrupt
from tests.patience import PATIENCE_S


def test_no_work_is_3_with_an_empty_list(any_il: Command):
    answer = any_il("next", "--agent", "coder", "--json")
    assert (answer.code, answer.json, answer.err) == (3, {"leases": []}, "")
    assert any_il("next", "--agent", "coder", "--wait", "0.2").code == 3


def test_a_rejected_arrival_is_4_and_names_the_holder(any_il: Command):
    any_il.ok("add", "a", "--lane", "branch:x")
    lease = any_il.claim()
    answer = any_il("--json", "add", "b", "--lane", "branch:x", "--policy", "reject")
    assert (answer.code, answer.json["decision"], answer.json["item"]) == (4, "rejected", None)
    assert answer.json["holder"]["run"] == lease["fence"]
    said = any_il("add", "b", "--lane", "branch:x", "--policy", "reject")
    assert said.code == 4
    for word in ("coder", f"run {lease['fence']}", "since", "until", "next", "--policy queue"):
        assert word in said.out
    assert [item["title"] for item in any_il.ok("ls", "--all")["items"]] == ["a"]


def test_a_refused_write_is_5_and_the_others_of_the_batch_are_done(any_il: Command):
    any_il.ok("add", "a")
    any_il.ok("add", "b")
    first, second = (any_il.claim()["run"] for _ in range(2))
    any_il.ok("done", first)
    answer = any_il("--json", "done", first, second)
    assert answer.code == 5
    refused, done = answer.json["runs"]
    assert (refused["status"], refused["refusal"]["code"]) == ("refused", "lease_lost")
    assert refused["refusal"]["message"]
    assert refused["refusal"]["hint"]
    assert (done["status"], done["refusal"]) == ("succeeded", None)
    for verb in ("renew", "release", "fail", "done"):
        said = any_il(verb, first)
        assert said.code == 5
        assert said.out == ""
        assert "refused" in said.err
        assert "interlock next" in said.err
    assert any_il("inbox", first).code == 5


def test_a_handle_that_no_run_has_is_5_alone_and_what_is_no_handle_is_2_for_all(any_il: Command):
    any_il.ok("add", "a")
    run, foreign = any_il.claim()["run"], "7.1.0123456789abcdef"
    answer = any_il("--json", "renew", foreign, run)
    assert answer.code == 5
    refused, kept = answer.json["runs"]
    assert (refused["refusal"]["code"], refused["item"], kept["status"]) == ("lease_lost", None, "running")
    for verb in ("renew", "release", "fail", "done", "inbox", "show", "why"):
        said = any_il(verb, foreign)
        assert (said.code, said.out) == (5, "")
        assert said.err.startswith("There is no run 7 with this handle in this store; nothing was changed.")
        assert "Check the handle for typing errors" in said.err
        assert "or is another one" in said.err
    answer = any_il("--json", "done", run, "7.1")
    assert (answer.code, answer.error["code"]) == (2, "unknown_run")
    assert any_il.ok("done", run)["runs"][0]["status"] == "succeeded"


def test_json_is_understood_before_and_after_the_command(il: Command):
    for args in (("--json", "ls"), ("ls", "--json"), ("--json", "ls", "--json")):
        assert il(*args).json == {"items": []}
    for args in (("--json", "agents"), ("agents", "--json")):
        assert il(*args).json == {"agents": []}
    assert il("agents", "set", "x", "--json").json["name"] == "x"
    assert il("agents", "--json", "set", "x").json["name"] == "x"
    # What stands in an option's place is a value, not an option.
    assert il.ok("add", "t", "--message", "--json")["item"]["messages"] == 1


def test_the_url_is_taken_before_and_after_the_command(il: Command):
    il.ok("--url", "sqlite:///one.db", "add", "a")
    il.ok("add", "b", "--url", "sqlite:///one.db")
    il.ok("msg", 2, "look", "--url", "sqlite:///one.db")
    assert [i["title"] for i in il.ok("ls", "--url", "sqlite:///one.db")["items"]] == ["a", "b"]
    assert il.ok("ls")["items"] == []
    assert (il.directory / "one.db").is_file()


def test_pause_and_resume_take_the_name_of_an_agent_alone(il: Command):
    """It answered "NAME is missing."."""
    il.ok("agents", "set", "gem")
    assert il("pause", "gem", "--reason", "quota").out.startswith("Agent gem is paused")
    assert il("resume", "gem").out == "Agent gem may start again.\n"
    assert il("pause", "project", "gem", "--reason", "quota", "--create").code == 0
    assert [p["project"] for p in il.ok("pause")["projects"]] == ["gem"]
    for words in ([], ["agent"], ["team", "gem"]):
        assert il("resume", *words).code == 2


@pytest.mark.parametrize(
    "command",
    [
        *("github status 1", "github doctor", "github import", "actions sweep"),
        *("series status", "series acquire 1", "series metrics", "series reconcile", "series promote RFC-1"),
    ],
)
def test_a_repository_that_is_not_clear_is_2_everywhere(tmp_path: Path, command: str):
    il = CommandHere(tmp_path, env={"GITHUB_REPOSITORY": ""})
    il.ok("add", "a")
    answer = il("--json", *command.split())
    assert (answer.code, answer.error["code"]) == (2, "invalid_input")
    assert answer.error["hint"].endswith(" OWNER/NAME.")


def test_handles_come_from_the_environment_when_none_is_given(il: Command):
    il.ok("add", "a", "--message", "m")
    il.env["INTERLOCK_RUN"] = il.claim()["run"]
    assert il.ok("renew")["runs"][0]["status"] == "running"
    assert len(il.ok("inbox")["messages"]) == 1
    assert il.ok("show")["item"]["id"] == 1
    assert "coder" in il.ok("why")["why"]
    assert il.ok("done")["runs"][0]["status"] == "succeeded"


def test_an_operator_acting_on_several_items_gets_an_answer_for_each(il: Command):
    il.ok("add", "a")
    answer = il("--json", "cancel", 7, 1, "--reason", "x")
    assert answer.code == 1
    assert [c["item"]["status"] for c in answer.json["changes"]] == ["cancelled"]
    assert [(e["item"], e["code"]) for e in answer.json["errors"]] == [(7, "not_found")]
    said = il("cancel", 1, 7, "--reason", "x")
    assert said.code == 1
    assert "already ended" in said.err
    assert "no item 7" in said.err


def test_following_events_prints_one_object_a_line_until_interrupted(any_il: Command):
    any_il.ok("add", "a")
    process = any_il.start("--json", "events", "--follow", "--after", 0, "--item", 2)
    any_il.ok("add", "b")
    assert process.stdout is not None
    event = json.loads(process.stdout.readline())
    assert (event["kind"], event["item"]) == ("item.added", 2)
    ended = interrupt(process)
    assert (ended.code, ended.out, ended.err) == (130, "", "")


def test_sweeping_goes_on_until_interrupted_and_frees_what_was_lost(il: Command):
    il.ok("add", "a")
    il.claim("coder", "--lease", "1s")
    process = il.start("--json", "sweep", "--every", "0.1")
    assert process.stdout is not None
    while not json.loads(process.stdout.readline())["expired"]:
        pass
    assert interrupt(process).code == 130
    assert [i["status"] for i in il.ok("ls")["items"]] == ["pending"]


def test_sweeping_outlives_a_database_that_is_locked_for_a_while(il: Command):
    il.ok("add", "a")
    il.claim("coder", "--lease", "1s")
    other = apsw.Connection(str(il.directory / ".interlock" / "interlock.db"))
    other.execute("BEGIN IMMEDIATE")
    il.env["INTERLOCK_BUSY_TIMEOUT_S"] = "0.1"
    process = il.start("--json", "sweep", "--every", "0.1")
    assert process.stdout is not None
    while "error" not in json.loads(process.stdout.readline()):
        pass
    other.execute("ROLLBACK")
    other.close()
    while not json.loads(process.stdout.readline()).get("expired"):
        pass
    assert interrupt(process).code == 130


def test_a_reader_that_goes_away_is_no_error(il: Command):
    lines = "".join(f'{{"title": "item {n}"}}\n' for n in range(1000))
    il.ok("add", "--batch", "-", stdin=lines)
    process = subprocess.Popen(
        [*PROGRAM, "ls", "--limit", "1000"],
        cwd=il.directory,
        env=il.environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait(timeout=PATIENCE_S)
    process.stderr.close()
