"""Completion: what bash, zsh and fish offer when a person presses Tab."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from interlock.cli.completion import OFFERED
from tests.acceptance.command import PROGRAM, Command, CommandHere, interrupt
from tests.patience import PATIENCE_S

#: One shell each that loads our script, then prints what it would offer for $1.
BASH = r"""
eval "$(interlock completion bash)"
COMP_LINE=$1 COMP_POINT=${#1}
COMP_WORDS=($1) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_interlock interlock
printf '%s\n' "${COMPREPLY[@]}"
"""
FISH = r"""
interlock completion fish | source
complete --do-complete $argv[1]
"""
ZSH = r"""
autoload -Uz compinit && compinit -u -D
eval "$(interlock completion zsh)"
_describe() { print -rl -- "${(@P)2}" }
_files() { print -r -- files }
words=(${(s: :)1}) CURRENT=${#words}
[[ $1 == *' ' ]] && { words+=(''); CURRENT=$((CURRENT + 1)) }
_interlock
"""
SHELLS = {
    "bash": (BASH, ["bash", "--norc", "-c"]),
    "zsh": (ZSH, ["zsh", "-f", "-c"]),
    "fish": (FISH, ["fish", "--no-config", "-c"]),
}


class Tab:
    """A shell of a person who has our command on the path."""

    def __init__(self, shell: str, directory: Path, tools: Path) -> None:
        self.shell = shell
        self.directory = directory
        tools.mkdir()
        program = tools / "interlock"
        program.write_text(f'#!/bin/sh\nexec {PROGRAM[0]} -m interlock "$@"\n')
        program.chmod(0o755)
        il = Command(directory, env={"HOME": str(tools), "PATH": f"{tools}:{os.environ['PATH']}"})
        self.environ = il.environment(None)

    def __call__(self, line: str) -> list[str]:
        """What is offered; nothing may be printed beside it."""
        script, start = SHELLS[self.shell]
        tail = [line] if self.shell == "fish" else ["tab", line]
        done = subprocess.run(
            [*start, script, *tail], cwd=self.directory, env=self.environ, capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        offered = (entry.partition("\t")[0] for entry in done.stdout.splitlines())
        if self.shell == "zsh":
            offered = (entry.replace("\\:", "\0").partition(":")[0].replace("\0", ":") for entry in offered)
        return sorted(filter(None, offered))


@pytest.fixture(params=SHELLS)
def tab(request: pytest.FixtureRequest, tmp_path: Path) -> Tab:
    if shutil.which(request.param) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{request.param} is not installed. In CI these tests must run.")
        pytest.skip(f"{request.param} is not installed")
    (tmp_path / "here").mkdir()
    return Tab(request.param, tmp_path / "here", tmp_path / "tools")


def test_items_agents_lanes_and_plans_are_offered(tab: Tab):
    il = CommandHere(tab.directory)
    il.ok("add", 'Fix "it": all', "--lane", "issue:acme/app#42", "--agent", "coder")
    il.ok("add", "b", "--lane", "issue:acme/web#7")
    il.ok("agents", "set", "coder")
    il.ok("agents", "set", "reviewer")
    plan = il.ok("plan", "create", "-", stdin='{"name": "p", "tasks": [{"key": "a", "title": "a"}]}')
    assert tab("interlock why ") == ["1", "2", str(plan["tasks"][0]["item"])]
    assert tab("interlock ls --agent co") == ["coder"]
    assert tab("interlock plan show ") == [str(plan["id"])]
    both = ["issue:acme/app#42", "issue:acme/web#7"]
    assert tab("interlock lanes mend is") == both
    typed = tab("interlock ls --lane issue:acme/a")
    # bash replaces only what comes after the last colon.
    assert typed == (["acme/app#42"] if tab.shell == "bash" else both[:1])


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_no_script_but_ours_is_installed(il: Command, tmp_path: Path, option: str):
    answer = il(option, env={"HOME": str(tmp_path / "home"), "SHELL": "/bin/bash"})
    assert answer.code == 2
    assert not (tmp_path / "home").exists()
    assert option not in il("--help").out
    assert "_interlock" in il("completion", "bash").out


def test_where_there_is_no_store_nothing_is_offered_and_none_is_made(tab: Tab):
    assert tab("interlock why 1") in ([], ["files"])
    assert list(tab.directory.iterdir()) == []


def test_trouble_prints_nothing_into_the_prompt(tab: Tab):
    (tab.directory / "interlock.toml").write_text('url = "postgresql://stranger.example/x"\n')
    assert tab("interlock why 1") in ([], ["files"])
    (tab.directory / "interlock.toml").write_text("not toml")
    assert tab("interlock why 1") in ([], ["files"])


def test_a_bounded_number_is_offered(il: Command):
    il.ok("add", "--batch", "-", stdin="\n".join('{"title": "a"}' for _ in range(OFFERED + 30)))
    asked = {"_INTERLOCK_COMPLETE": "complete_bash", "COMP_WORDS": "interlock why ", "COMP_CWORD": "2"}
    offered = il(env=asked).out.split()
    assert len(offered) == OFFERED
    assert str(OFFERED + 30) in offered


def test_ls_can_be_watched(il: Command):
    il.ok("add", "first")
    watching = il.start("--json", "ls", "--watch", "--every", "0.1s")
    assert watching.stdout is not None
    assert b'"first"' in watching.stdout.readline()
    il.ok("add", "second")
    assert b'"second"' in watching.stdout.readline()
    assert interrupt(watching).code == 130


def test_ls_on_a_terminal_shows_what_changes_until_q(il: Command):
    il.ok("add", "first")
    master, slave = pty.openpty()
    watching = subprocess.Popen(
        [*PROGRAM, "ls", "--watch", "--every", "0.1s"],
        cwd=il.directory,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=il.environment({"TERM": "xterm-256color"}),
    )
    os.close(slave)
    seen = b""
    while b"first" not in seen:
        seen += os.read(master, 65536)
    il.ok("add", "second")
    while b"second" not in seen:
        seen += os.read(master, 65536)
    os.write(master, b"q")
    assert watching.wait(PATIENCE_S) == 0
    os.close(master)
