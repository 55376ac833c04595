"""Agents call some commands before and after every tool use: what these commands must not import.

Exact and not timed: `python -m bench start` measures what it costs.
"""

import os
import pty
import subprocess

import pytest

from tests.acceptance.command import PROGRAM, Command

#: Of no use to a program that reads JSON, or to a run that is no task of a plan.
NEVER = (
    *("typer", "rich", "pydantic", "dataclasses", "inspect", "ast", "asyncio", "logging", "subprocess"),
    *("psycopg", "yaml", "filelock", "tomllib", "gidgethub", "httpx2", "jwt", "mcp", "interlock.mcp"),
    *("secrets", "hmac", "base64", "shlex", "tempfile", "socket"),
    *(f"interlock.core.plans.{name}" for name in ("cycle", "edit", "history", "plan_rules", "validation")),
    *(
        "interlock.cli.glossary",
        "interlock.cli.parser",
        "interlock.cli.views.words",
        "interlock.service.plan_view_builders",
    ),
    *("interlock.git", "interlock.gitlanes", "interlock.plans", "interlock.worker"),
    "interlock.store.postgres",
)
#: What people read needs words, but no library that draws; `show` looks where the log of a run is.
NEVER_FOR_TEXT = {*NEVER} - {"interlock.cli.views.words"}
#: Nor do these when the store is not asked, as at most calls of the hook.
NO_STORE = ("apsw", "interlock.app", "interlock.service.local", "interlock.store")

LOOK = (
    "import sys\n"
    "from interlock.cli.main import main\n"
    "code = main(sys.argv[1:])\n"
    "print(*sys.modules, file=sys.stderr)\n"
    "sys.exit(code)\n"
)
EVENT = '{"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {}}'


def imported(
    il: Command, *args: str, stdin: str = "", terminal: int | None = None, **environ: str
) -> set[str]:
    """The modules that a command has imported when it ends."""
    done = subprocess.run(
        [PROGRAM[0], "-c", LOOK, *args],
        cwd=il.directory,
        env=il.environment(environ),
        input=stdin,
        stdout=subprocess.PIPE if terminal is None else terminal,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    modules = done.stderr.splitlines()[-1].split()
    return {
        ".".join(parts[:n]) for parts in (m.split(".") for m in modules) for n in range(1, len(parts) + 1)
    }


@pytest.mark.parametrize(
    "command", ["show", "next", "renew", "done", "fail", "release", "inbox", "ls", "add"]
)
def test_what_agents_call_often_imports_only_what_it_needs(il: Command, command: str) -> None:
    il.ok("add", "a", "--lane", "l:1")
    args = {"show": ["1"], "ls": [], "add": ["b"], "next": ["--agent", "coder"]}.get(command)
    if args is None:
        args = [il.claim()["run"]]
    found = imported(il, "--json", command, *args)
    assert found.isdisjoint(NEVER), sorted(found.intersection(NEVER))


def test_a_hook_that_has_just_looked_opens_no_store(il: Command) -> None:
    il.ok("add", "a")
    run = il.claim()["run"]
    first = imported(il, "hook", stdin=EVENT, INTERLOCK_RUN=run)
    again = imported(il, "hook", stdin=EVENT, INTERLOCK_RUN=run)
    without_a_run = imported(il, "hook", stdin=EVENT)
    assert first.isdisjoint(NEVER), sorted(first.intersection(NEVER))
    assert "apsw" in first
    for found in (again, without_a_run):
        assert found.isdisjoint({*NEVER, *NO_STORE}), sorted(found.intersection({*NEVER, *NO_STORE}))


@pytest.mark.parametrize("on_terminal", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        "show",
        "next",
        "renew",
        "done",
        "fail",
        "release",
        "inbox",
        "ls",
        "add",
        "why",
        "events",
        "msg",
        "cancel",
    ],
)
def test_text_imports_nothing_that_draws(il: Command, command: str, on_terminal: bool) -> None:
    """Lines that must be wrapped, letters of any kind and the messages of a claim among it."""
    title = "A page that can hardly be read on a small screen, and the größte Überschrift: " + "word " * 30
    il.ok("add", title, "--lane", "l:1", "--message", title)
    args = {
        "show": ["1"],
        "why": ["1"],
        "ls": [],
        "events": [],
        "msg": ["1", "hello"],
        "add": ["b"],
        "next": ["--agent", "coder"],
        "cancel": ["1", "--reason", "no"],
    }.get(command)
    if args is None:
        args = [il.claim()["run"]]
    ours, theirs = pty.openpty()
    try:
        found = imported(
            il, command, *args, terminal=theirs if on_terminal else None, TERM="xterm-256color", LINES="24"
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert found.isdisjoint(NEVER_FOR_TEXT), sorted(found.intersection(NEVER_FOR_TEXT))
