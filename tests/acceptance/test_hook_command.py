"""`interlock hook` as an agent's program calls it, and its place in that program's settings."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import Answer, Command, CommandHere


@pytest.fixture
def here(tmp_path: Path) -> Command:
    """The command in this process: what is typed matters here, not how it is started."""
    return CommandHere(tmp_path)


def event(name: str, **more: Any) -> str:
    common = {
        "session_id": "abc",
        "transcript_path": "/tmp/t.jsonl",
        "cwd": ".",
        "permission_mode": "default",
    }
    return json.dumps({**common, "hook_event_name": name, **more})


def call(il: Command, run: str, name: str, **more: Any) -> Answer:
    return il("hook", stdin=event(name, **more), env={"INTERLOCK_RUN": run})


def push(il: Command, run: str) -> dict[str, Any]:
    answer = call(il, run, "PreToolUse", tool_name="Bash", tool_input={"command": "git push"})
    assert answer.code == 0, answer
    return dict(answer.json["hookSpecificOutput"]) if answer.out else {}


def test_outside_of_a_run_nothing_happens(il: Command):
    for env in ({}, {"INTERLOCK_RUN": " "}):
        answer = il("hook", stdin=event("PreToolUse"), env=env)
        assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert list(il.directory.iterdir()) == []


def test_a_session_from_its_start_to_a_lost_lease(il: Command):
    il.ok("add", "Fix the login", "--lane", "issue:acme/app#42", "--message", "see the log")
    run = il.claim("coder", "--lease", "2s")["run"]
    start = call(il, run, "SessionStart", source="startup").json["hookSpecificOutput"]
    assert start["hookEventName"] == "SessionStart"
    assert "Fix the login" in start["additionalContext"]
    assert "see the log" in start["additionalContext"]
    assert push(il, run) == {}
    il.ok("release", "--item", 1, "--reason", "taken over")
    other = il.claim("other")["run"]
    refused = push(il, run)
    assert refused["permissionDecision"] == "deny"
    assert "git push is refused" in refused["permissionDecisionReason"]
    assert "permissionDecision" not in push(il, other)
    assert call(il, run, "Stop", stop_hook_active=False).out == ""


def test_an_apostrophe_in_a_commit_message_hides_no_push(here: Command):
    """Claude Code writes its commits like this."""
    here.ok("add", "Fix the login")
    run = here.claim("coder")["run"]
    here.ok("release", "--item", 1, "--reason", "taken over")
    script = "git commit -m \"$(cat <<'EOF'\nDon't ask twice\nEOF\n)\" && git push"
    asked = [("Bash", {"command": script}), ("mcp__github__push_files", {"branch": "main"})]
    for tool, given in asked:
        answer = call(here, run, "PreToolUse", tool_name=tool, tool_input=given)
        assert answer.json["hookSpecificOutput"]["permissionDecision"] == "deny"
    read = call(here, run, "PreToolUse", tool_name="mcp__github__pull_request_read", tool_input={})
    assert "permissionDecision" not in read.out


def test_an_unusable_store_is_a_warning(il: Command):
    il.ok("add", "Fix the login")
    run = il.claim()["run"]
    (il.directory / ".interlock" / "interlock.db").write_bytes(b"this is no database, and never was one" * 40)
    answer = call(il, run, "PostToolUse", tool_name="Read", tool_input={})
    assert answer.code == 0
    assert "cannot be used right now" in answer.json["hookSpecificOutput"]["additionalContext"]


def test_lanes_in_git_are_served_too(il: Command):
    remote = il.directory / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)
    il.url = f"git+file://{remote}"
    spy = "interlock hook < event.json; printf %s $INTERLOCK_RUN > run"
    (il.directory / "event.json").write_text(event("SessionStart"))
    program = il.directory / "interlock"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m interlock "$@"\n')
    program.chmod(0o755)
    path = {"PATH": f"{il.directory}:{os.environ['PATH']}"}
    held = il("hold", "issue:acme/app#42", "--message", "see the log", "--", "sh", "-c", spy, env=path)
    assert "issue:acme/app#42" in held.json["hookSpecificOutput"]["additionalContext"]
    assert "see the log" in held.json["hookSpecificOutput"]["additionalContext"]
    assert push(il, (il.directory / "run").read_text())["permissionDecision"] == "deny"  # the hold is over


@pytest.mark.parametrize(
    ("stdin", "env"),
    [
        ("", {}),
        ("hello", {}),
        ("[1]", {}),
        ('{"hook_event_name": 7}', {}),
        (b"\xff\xfe", {}),
        (event("PreToolUse"), {"INTERLOCK_LEASE_S": "soon"}),
    ],
)
def test_what_cannot_be_understood_never_blocks_the_agent(here: Command, stdin, env):
    answer = here("hook", stdin=stdin, env={"INTERLOCK_RUN": "1.1.0123456789abcdef", **env})
    assert answer.code == 1  # 2 would block whatever the agent is about to do
    assert answer.out == ""
    assert answer.err.count("\n") == 2


@pytest.mark.parametrize("name", ["SessionStart", "PreToolUse"])
def test_a_malformed_handle_is_reported_and_blocks_nothing(here: Command, name: str):
    answer = here("hook", stdin=event(name), env={"INTERLOCK_RUN": "seven"})
    assert (answer.code, answer.out) == (1, "")
    assert "'seven' is not a handle" in answer.err


def test_an_unknown_store_url_never_blocks_the_agent(here: Command):
    env = {"INTERLOCK_RUN": "1.1.0123456789abcdef", "INTERLOCK_URL": "nosuch://x"}
    assert here("hook", stdin=event("PreToolUse"), env=env).code == 0


# -- settings -----------------------------------------------------------------------------------------

OTHERS: dict[str, Any] = {
    "model": "opus",
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh"}]}],
        "Notification": [{"hooks": [{"type": "command", "command": "say hi"}]}],
    },
    "permissions": {"allow": ["Bash(ls)"], "note": "ü"},
}


def settings(il: Command) -> Path:
    return il.directory / ".claude" / "settings.json"


def test_install_adds_what_is_missing_and_keeps_the_rest(here: Command):
    path = settings(here)
    path.parent.mkdir()
    path.write_text(json.dumps(OTHERS, indent=4, ensure_ascii=False) + "\n")
    path.chmod(0o640)
    before = path.read_text()
    assert here.ok("hook", "install")["written"]
    found = json.loads(path.read_text())
    assert list(found) == list(OTHERS)
    assert found["permissions"] == OTHERS["permissions"]
    said, ours = found["hooks"]["Notification"]
    assert [said] == OTHERS["hooks"]["Notification"]
    assert ours == found["hooks"]["Stop"][-1]
    assert found["hooks"]["PreToolUse"][0] == OTHERS["hooks"]["PreToolUse"][0]
    assert {"SessionStart", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"} <= set(found["hooks"])
    assert path.stat().st_mode & 0o777 == 0o640
    assert '\n    "hooks"' in path.read_text()  # as it was indented

    once = path.read_text()
    assert not here.ok("hook", "install")["changed"]
    assert path.read_text() == once
    assert here.ok("hook", "uninstall")["written"]
    assert path.read_text() == before
    assert not here.ok("hook", "uninstall")["changed"]


def test_what_is_installed_is_what_the_agent_can_run(il: Command):
    il.ok("hook", "install")
    (entry,) = json.loads(settings(il).read_text())["hooks"]["Stop"]
    (hook,) = entry["hooks"]
    assert hook["type"] == "command"
    il.under = ("sh", "-c", hook["command"])
    assert il().code == 0  # outside of a run the shell ends it, and needs no interlock


def test_dry_run_shows_the_difference_and_writes_nothing(here: Command):
    answer = here("hook", "install", "--dry-run")
    assert answer.code == 0
    assert '+  "hooks": {' in answer.out
    assert not settings(here).exists()
    here.ok("hook", "install", "--settings", "mine.json")
    assert here("hook", "uninstall", "--dry-run", "--settings", "mine.json").out.count("\n-") > 10
    assert "interlock hook" in (here.directory / "mine.json").read_text()


@pytest.mark.parametrize("place", ["nope/x.json", "nope/.claude/settings.json"])
@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_install_makes_no_directory_but_dot_claude(here: Command, place, dry_run):
    answer = here("--json", "hook", "install", "--settings", place, *dry_run)
    assert answer.code == 2
    assert "There is no directory nope" in answer.error["message"]
    assert not (here.directory / "nope").exists()
    (here.directory / "sub").mkdir()
    assert here.ok("hook", "install", "--settings", "sub/.claude/settings.json")["written"]


def test_install_warns_if_interlock_is_not_on_the_path(here: Command):
    nowhere = {"PATH": str(here.directory)}
    answer = here("hook", "install", env=nowhere)
    assert (answer.code, answer.err.count("\n")) == (0, 2)
    assert "which is not on the PATH here" in answer.err
    assert str(here.directory) not in settings(here).read_text()
    assert not here("--json", "hook", "install", env=nowhere).json["on_path"]
    program = here.directory / "interlock"
    program.touch(mode=0o755)
    assert here("hook", "install", env=nowhere).err == ""
    assert here("--json", "hook", "install", env=nowhere).json["on_path"]


def test_from_a_subdirectory_install_uses_the_repositorys_settings(here: Command):
    (here.directory / ".git").mkdir()
    below = here.directory / "src"
    below.mkdir()
    assert CommandHere(below).ok("hook", "install")["path"] == str(settings(here))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"hooks": []}', "hooks"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop"),
        ("// comment\n{}", "JSON"),
        (b"\xff", "JSON"),
        (" " * (1 << 20) + "{}", "bytes"),
    ],
)
def test_a_file_that_cannot_be_understood_is_not_touched(here: Command, text, word):
    path = settings(here)
    path.parent.mkdir()
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(data)
    answer = here("--json", "hook", "install")
    assert answer.code == 2
    assert word in answer.error["message"]
    assert path.read_bytes() == data


def test_odd_entries_of_others_are_left_alone(here: Command):
    path = settings(here)
    path.parent.mkdir()
    odd = {"hooks": {"Stop": [7, {"hooks": 3}, {"hooks": [5, {"command": None}]}]}}
    path.write_text(json.dumps(odd))
    here.ok("hook", "install")
    assert json.loads(path.read_text())["hooks"]["Stop"][:3] == odd["hooks"]["Stop"]
    here.ok("hook", "uninstall")
    assert json.loads(path.read_text()) == odd


def test_a_prompt_of_the_agents_program_is_shown_and_answered_elsewhere(il: Command):
    il.ok("add", "Fix the login")
    run = il.claim()["run"]
    tool = {"tool_name": "Bash", "tool_input": {"command": "npm install"}}
    prompted = call(il, run, "PermissionRequest", **tool)
    assert (prompted.code, prompted.out, prompted.err) == (0, "", "")
    assert "1 asks: May the agent use Bash? npm install" in il("ls", "--asking").out
    il.ok("msg", 1, "Use pnpm")
    told = call(il, run, "PostToolUse", **tool).json["hookSpecificOutput"]["additionalContext"]
    assert "from alice: Use pnpm" in told
    assert il.ok("ls", "--asking") == {"items": []}
