"""Names of agents: `none` is nobody's, a misspelled one is noticed, and one that nobody uses can go."""

import json
from pathlib import Path

import pytest

import interlock
from interlock import settings
from interlock.core.errors import InvalidInput
from tests.acceptance.command import Command

MEANT = "No agent is called 'codr' yet; did you mean 'coder'?\n"


def test_without_variables_the_user_database_says_who_signs(tmp_path: Path):
    import os
    import pwd

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        pytest.skip("this user has no name")
    assert settings.load(environ={}, directory=tmp_path).actor == name
    assert settings.load(environ={"LOGNAME": "eva"}, directory=tmp_path).actor == "eva"


def test_a_user_without_a_name_signs_as_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
    assert settings.load(environ={}, directory=tmp_path).actor == "operator"


def test_none_means_anyone_wherever_an_item_names_its_agent(any_il: Command, tmp_path: Path):
    il = any_il
    batch = tmp_path / "batch.jsonl"
    batch.write_text(json.dumps({"title": "b", "agent": "none"}) + "\n")
    assert il.ok("add", "a", "--agent", "None")["item"]["agent"] is None
    assert il.ok("add", "--batch", str(batch))["added"][0]["item"]["agent"] is None
    third = il.ok("add", "c", "--agent", "ann")["item"]["id"]
    il.ok("edit", third, "--agent", "none")
    assert il.ok("show", third)["item"]["agent"] is None
    assert len(il.ok("next", "--agent", "ben", "--limit", 9)["leases"]) == 3


def test_none_means_anyone_in_python_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with interlock.connect("sqlite:///x.db") as il:
        added = il.add("a", agent="none").item
        assert added is not None
        assert added.agent is None
        with pytest.raises(InvalidInput, match="none"):
            il.next(agent="none")


@pytest.mark.parametrize(
    "command",
    [
        ["next", "--agent", "none"],
        ["work", "--agent", " None ", "--", "true"],
        ["agents", "set", "none"],
        ["agents", "pause", "none", "--reason", "x"],
        ["msg", "1", "x", "--from-agent", "none"],
        ["pools", "set", "none", "--max", "1"],
    ],
)
def test_nobody_is_called_none(il: Command, command: list[str]):
    il.ok("add", "a")
    refused = il("--json", *command)
    assert refused.code == 2
    assert "name none is reserved" in refused.error["message"]


@pytest.mark.parametrize(
    "command",
    [
        ["next", "--agent", "codr"],
        ["work", "--agent", "codr", "--exit-when-idle", "--", "true"],
        ["add", "b", "--agent", "codr"],
        ["edit", "1", "--agent", "codr"],
    ],
)
def test_a_misspelled_agent_is_mentioned_and_taken(il: Command, command: list[str]):
    il.ok("agents", "set", "coder")
    il.ok("add", "a", "--agent", "coder")
    answer = il(*command)
    assert answer.err.startswith(MEANT), answer
    assert answer.code in (0, 3)
    if command[0] == "next":
        assert il(*command).err == "", "it has asked for work, so it is known now"


def test_a_typo_is_not_answered_with_another_typo(il: Command):
    il.ok("agents", "set", "coder")
    il.ok("add", "a", "--agent", "codrr")
    refused = il("--json", "agents", "pause", "codr", "--reason", "x").error
    assert refused["hint"].startswith("Did you mean coder?"), refused


@pytest.mark.parametrize("name", ["coder", "Coder ", "tester"])
def test_a_known_agent_and_one_like_no_other_are_taken_without_a_word(il: Command, name: str):
    il.ok("agents", "set", "coder")
    assert il("add", "b", "--agent", name).err == ""
    assert il("next", "--agent", name).err == ""


def test_an_agent_and_a_pool_that_nobody_uses_are_removed(any_il: Command):
    il = any_il
    il.ok("pools", "set", "gpu", "--max", 1)
    il.ok("agents", "set", "codr", "--pool", "gpu")
    held = il("--json", "pools", "remove", "gpu")
    assert (held.code, held.error["message"]) == (4, "Pool gpu is in use: codr shares it.")
    assert il.ok("agents", "remove", "CODR") == {"removed": "codr"}
    assert il.ok("agents") == {"agents": []}
    assert il.ok("pools", "remove", "GPU") == {"removed": "gpu"}
    assert il.ok("pools") == {"pools": []}
    kinds = [event["kind"] for event in il.ok("events")["events"]]
    assert kinds[-2:] == ["agent.removed", "pool.removed"]
    assert "agent.set" in kinds, "history stays"


def test_an_agent_in_use_stays(any_il: Command):
    il = any_il
    il.ok("add", "a")
    run = il.claim("coder")["run"]
    held = il("--json", "agents", "remove", "coder")
    assert (held.code, held.error["message"]) == (4, "Agent coder is in use: item 1 is in_progress.")
    il.ok("done", run)
    il.ok("add", "b", "--agent", "coder", "--run-at", "+1h")
    assert "item 2 is waiting" in il("--json", "agents", "remove", "coder").error["message"]
    il.ok("cancel", 2, "--reason", "x")
    il.ok("agents", "set", "ed")
    plan = {"name": "p", "editor": "ed", "tasks": [{"key": "k", "title": "k"}]}
    il.ok("plan", "create", "-", stdin=json.dumps(plan))
    assert "edits an unfinished plan" in il("--json", "agents", "remove", "ed").error["message"]
    assert il("agents", "remove", "coder").out == "The agent coder is removed; its history stays.\n"
    unknown = il("--json", "agents", "remove", "edd").error
    assert (unknown["code"], unknown["hint"]) == (
        "not_found",
        "Did you mean ed? `interlock agents` lists all agents.",
    )
    assert il("--json", "pools", "remove", "gpu").error["code"] == "not_found"
