"""`interlock fleet`: workers from one file, started, shown, started again and stopped."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.fleet.recipes import RECIPES
from tests.acceptance.command import PROGRAM, Command, CommandHere
from tests.fleets import FleetSite, gone, make_site, wait_until
from tests.git_fixtures import IDENTITY, git
from tests.patience import PATIENCE_S

ONE = '[workers.coder]\ncommand = ["sh", "-c", "exit 0"]\n'


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FleetSite]:
    directory = tmp_path / "app"
    directory.mkdir()
    made = make_site(directory)
    yield made
    made.close()


def test_one_file_is_a_fleet_until_down(site: FleetSite) -> None:
    site.script("agent.sh", 'echo "$INTERLOCK_AGENT says $WORD, $MORE"')
    site.write(
        """
        [environment]
        WORD = "hello"

        [workers.coder]
        command = ["./agent.sh"]
        max = 2
        environment = {MORE = "more"}

        [workers.tester]
        agent = "checker"
        command = ["./agent.sh"]
        types = ["test"]
        labels = ["gpu"]
        lease = "2m"
        environment.MORE = "less"
        """
    )
    never = site.il("fleet", "logs")
    assert (never.code, never.out) == (0, "")
    assert never.err.endswith("has not been started yet. interlock fleet up starts it.\n")
    up = site.il("fleet", "up", "--detach")
    assert up.code == 0, up
    assert "interlock fleet down stops it" in up.out
    assert "RUNNING" in site.il("fleet", "status").out
    site.il.ok("add", "code it")
    site.il.ok("add", "test it", "--type", "test", "--agent", "checker", "--label", "gpu")
    site.until_item(1, "completed")
    site.until_item(2, "completed")
    assert site.il.ok("show", 1)["runs"][0]["result"]["stdout"] == "coder says hello, more\n"
    assert site.il.ok("show", 2)["runs"][0]["result"]["stdout"] == "checker says hello, less\n"
    idle = site.until(lambda found: {w["state"] for w in found["workers"]} == {"idle"}, "both are idle")
    assert [(w["worker"], w["agent"], w["restarts"]) for w in idle["workers"]] == [
        ("coder", "coder", 0),
        ("tester", "checker", 0),
    ]
    assert {w["slots"] for w in site.il.ok("workers")["workers"]} == {1, 2}
    logs = site.il("fleet", "logs", "coder").out
    assert re.search(
        r"^\S+ (\d) \| coder says hello, more\n\S+ Run \1 succeeded; item 1 is completed$", logs, re.M
    )
    assert "checker" not in logs
    assert re.search(r"^\S+ tester \d \| checker says hello, less$", site.il("fleet", "logs").out, re.M)
    pids = [w["pid"] for w in idle["workers"]] + [idle["pid"]]
    assert "is down; 2 workers were stopped" in site.down().out
    assert site.processes() == []
    wait_until(lambda: all(map(gone, pids)), "its supervisor has ended, too")
    assert site.il.ok("workers")["workers"] == []
    assert "does not run" in site.il("fleet", "status").out
    assert "does not run" in site.down().out


def test_a_worker_that_ends_is_started_again_later_and_later(site: FleetSite) -> None:
    """Taken out: the back-off. A worker that cannot start would start several times a second."""
    site.write(f'{ONE}environment = {{INTERLOCK_URL = "nonsense"}}\n')
    site.up()
    site.until(lambda found: found["workers"][0]["restarts"] >= 2, "it was started again twice")
    ended = [line["text"] for line in site.said() if line["event"] == "crashed"]
    assert ended[0].startswith("The worker has ended with exit code 2: The store's URL has no scheme.")
    assert ended[0].endswith("It is started again in 1 s.")
    assert ended[1].endswith("It is started again in 2 s.")
    crashed = site.until_state("crashed")
    assert crashed["pid"] is None
    site.write(ONE)
    site.down()
    assert site.processes() == []


def test_a_killed_worker_comes_back(site: FleetSite) -> None:
    site.write(ONE)
    site.up()
    first = site.until_state("idle")
    os.kill(first["pid"], signal.SIGKILL)
    again = site.until(lambda found: found["workers"][0]["restarts"] == 1, "it was started again")
    assert again["workers"][0]["pid"] != first["pid"]
    site.il.ok("add", "work")
    site.until_item(1, "completed")
    assert "The worker was killed by SIGKILL. It is started again in 1 s." in site.il("fleet", "logs").out


def test_a_second_fleet_of_the_same_file_is_refused(site: FleetSite) -> None:
    site.write(ONE)
    first = site.up()
    link = site.directory.parent / "same"
    link.symlink_to(site.directory)
    for words in (("fleet", "up"), ("fleet", "up", "-d"), ("fleet", "up", "--file", f"{link}/./fleet.toml")):
        refused = site.il(*words)
        assert refused.code == 4
        assert refused.err == (
            f"The fleet of {site.file} is already running in process {first.pid}.\n"
            "interlock fleet status shows it, interlock fleet down stops it.\n"
        )
    assert len(site.processes()) == 1


def test_ctrl_c_drains_and_a_second_one_gives_items_back(site: FleetSite) -> None:
    site.write('[workers.coder]\ncommand = ["sh", "-c", "echo $$ > pid; exec sleep 300"]\n')
    site.il.ok("add", "long work")
    up = site.up()
    site.until_state("working")
    up.send_signal(signal.SIGINT)
    site.until_state("draining")
    assert site.item(1)["status"] == "in_progress"
    up.send_signal(signal.SIGINT)
    assert up.wait(PATIENCE_S) == 0
    assert (site.item(1)["status"], site.runs(1)) == ("pending", ["released"])
    assert gone(site.number_in("pid"))
    out = (site.directory / "up.out").read_text()
    assert "coder Run 1 started on item 1: long work" in out
    assert out.endswith("The fleet is down.\n")


def test_a_worker_that_stops_does_not_take_again_what_it_gives_back(site: FleetSite) -> None:
    """Taken out: the wait for the last claim of a free slot. That claim gets the item at once."""
    site.write('[workers.coder]\ncommand = ["sleep", "300"]\nmax = 2\n')
    site.il.ok("add", "long work")
    site.up()
    site.until_state("working")
    site.down()
    assert (site.item(1)["status"], site.runs(1)) == ("pending", ["released"])


def test_down_waits_for_runs_if_asked(site: FleetSite) -> None:
    site.write('[workers.coder]\ncommand = ["sh", "-c", "while [ ! -e go ]; do sleep 0.1; done"]\n')
    site.il.ok("add", "long work")
    site.up()
    site.until_state("working")
    waiting = site.il.start("fleet", "down", "--drain")
    site.until_state("draining")
    (site.directory / "go").touch()
    assert waiting.wait(PATIENCE_S) == 0
    waiting.communicate()
    assert site.runs(1) == ["succeeded"]
    assert site.processes() == []


def test_pools_are_set(site: FleetSite) -> None:
    site.write(f'{ONE}pool = "account"\n[pools.account]\nmax = 3\n')
    site.up()
    (pool,) = site.il.ok("pools")["pools"]
    assert (pool["name"], pool["max"], pool["agents"]) == ("account", 3, ["coder"])
    before = len(site.il.ok("events", "--limit", "1000")["events"])
    site.down()
    site.up()
    assert len(site.il.ok("events", "--limit", "1000")["events"]) == before, "nothing was set again"


def test_the_program_is_found_beside_the_file_and_not_in_the_worktree(site: FleetSite) -> None:
    """Taken out: the path beside the file. A worktree has only what was committed, here an old one."""
    git(site.directory, "init", "-q", "-b", "main")
    (site.directory / "tools").mkdir()
    site.script("tools/agent.sh", "exit 1")
    git(site.directory, "add", "tools")
    git(site.directory, "commit", "-q", "-m", "first")
    site.script("tools/agent.sh", "pwd")
    site.write('[workers.coder]\ncommand = ["tools/agent.sh"]\nworktree = true\n')
    site.il.ok("add", "work")
    site.up()
    site.until_item(1, "completed")
    assert ".interlock/worktrees/run-1" in site.il.ok("show", 1)["runs"][0]["result"]["stdout"]


def test_a_fleet_is_found_from_below_and_by_name(site: FleetSite) -> None:
    git(site.directory, "init", "-q", "-b", "main")
    site.write(ONE)
    site.up()
    below = site.directory / "src"
    below.mkdir()
    inside = Command(below, env=site.il.env)
    assert inside("--json", "fleet", "status").json["running"]
    outside = Command(site.directory.parent, env=site.il.env)
    assert outside("--json", "fleet", "status", "--file", "app/fleet.toml").json["running"]
    assert outside("fleet", "down", "--file", "app/fleet.toml").code == 0
    assert site.processes() == []


# -- what is refused, with nothing started ------------------------------------------------------------------


def test_a_file_that_came_with_a_clone_needs_trust(site: FleetSite) -> None:
    site.file.write_text(ONE)
    refused = site.il("fleet", "up")
    assert refused.code == 1
    assert refused.err == (
        f"{site.file} names commands, and you do not trust it yet.\n"
        "Look at the file and its scripts, then run interlock trust.\n"
    )
    assert not (site.directory / ".interlock").exists()
    trusted = site.il("trust")
    assert '  workers.coder.command = ["sh", "-c", "exit 0"]' in trusted.out
    site.up()
    site.down()
    site.file.write_text(f'{ONE}environment = {{ASKS = "yes"}}\n')
    assert site.il("fleet", "up").code == 1, "the file has changed"
    assert '  workers.coder.environment.ASKS = "yes"' in site.il("trust").out
    assert site.il("trust", "--withdraw").out == f"{site.file} is no longer trusted.\n"
    assert site.il("fleet", "up").code == 1
    assert site.il("fleet", "up", "--file", "fleet.toml", "--detach").code == 0, "the user has named it"
    site.down()


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        ("[workers.coder\n", "is not valid TOML: Expected ']'", "Fix the line"),
        (
            f"{ONE}labls = []\n",
            "workers.coder.labls in {file}, line 3: the key is unknown.",
            "Did you mean labels?",
        ),
        (f'{ONE}pool = "gpu"\n', "workers.coder.pool in {file}: there is no pool gpu.", "[pools.gpu]"),
        (f"{ONE}worktree = true\n", "workers.coder.worktree in {file}: this is not a git repository.", ""),
        (
            '[workers.coder]\ncommand = ["./no.sh"]\n',
            "line 2: the command '{dir}/no.sh' cannot be",
            "spelling",
        ),
        ('[workers.coder]\ncommand = ["./fleet.toml"]\n', "line 2: the command", "chmod +x"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(site: FleetSite, text: str, sentence: str, hint: str) -> None:
    site.file.write_text(text)
    for detach in ((), ("--detach",)):
        refused = site.il("fleet", "up", "--file", "fleet.toml", *detach)
        assert refused.code in (1, 2)
        first, _, rest = refused.err.partition("\n")
        assert sentence.format(file=site.file, dir=site.directory) in first
        assert hint in rest
        assert refused.err.count("\n") == 2
    assert site.processes() == []
    assert not list((site.directory / ".interlock").glob("fleets/*/*.json"))


def test_without_a_file_the_hint_writes_one(site: FleetSite) -> None:
    for command in ("up", "status", "logs", "down"):
        refused = site.il("fleet", command)
        assert refused.code == 1
        assert refused.err.startswith(f"There is no {site.file}.\ninterlock init --recipe claude writes one")


def test_a_worker_that_is_not_there_has_no_logs(site: FleetSite) -> None:
    site.write(ONE)
    site.up()
    refused = site.il("fleet", "logs", "codr")
    assert refused.code == 1
    assert "Did you mean coder?" in refused.err


# -- what is shown ------------------------------------------------------------------------------------------


def test_logs_follow_as_workers_say_more(site: FleetSite) -> None:
    site.write('[workers.coder]\ncommand = ["sh", "-c", "echo working hard"]\n')
    site.up()
    following = site.il.start("--json", "fleet", "logs", "--follow", "coder")
    assert following.stdout is not None
    site.il.ok("add", "work")
    for line in following.stdout:
        said = json.loads(line)
        if said["event"] == "output":
            assert (said["worker"], said["run"], said["text"]) == ("coder", 1, "working hard")
            break
    following.stdout.close()
    wait_until(lambda: following.poll() is not None, "it ends with its reader")
    assert following.stderr is not None
    following.stderr.close()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_screen_shows_each_worker(site: FleetSite, width: int) -> None:
    site.write(
        '[workers.coder]\ncommand = ["sh", "-c", "echo step one; while [ ! -e go ]; do sleep 0.1; done"]\n'
        '[workers.other]\nagent = "bert"\ncommand = ["false"]\n'
    )
    site.il.ok("add", "Fix the login", "--agent", "coder")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))
    process = subprocess.Popen(
        [*PROGRAM, "fleet", "up"],
        cwd=site.directory,
        env=site.il.environment({"TERM": "xterm"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    site.supervisors.append(process)
    os.close(theirs)
    seen, asked = "", False
    with contextlib.suppress(OSError):  # the terminal ends with the fleet
        while text := os.read(ours, 65536).decode(errors="replace"):
            seen += text
            if "1 working" in seen and "1 idle" in seen and not asked:
                asked = True
                process.send_signal(signal.SIGINT)
            if "Draining. Ctrl-C stops" in seen:
                (site.directory / "go").touch()
    os.close(ours)
    assert process.wait(PATIENCE_S) == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert re.search(r"Fleet \S+.* · 1 working · 1 idle", plain)
    assert re.search(r"^coder +.*● working +1 ", plain, re.M)
    assert re.search(r"^other +.*○ idle +0 ", plain, re.M)
    assert "Ctrl-C drains" in plain
    assert "Draining. Ctrl-C stops" in plain
    if width == 120:
        assert re.search(r"^other +bert +○ idle", plain, re.M)
        assert re.search(r"● working +1 +1 Fix the login +0 +[\d.]+ s +\S+ 1 \| step one", plain)
    assert max(map(len, plain.splitlines())) <= width
    assert "The fleet is down." in plain


# -- recipes ------------------------------------------------------------------------------------------------

#: A stand-in for an agent program: it keeps its arguments and edits a file.
PROGRAM_TEXT = '#!/bin/sh\nprintf "%s\\n" "$@" > "$0.args"\ncat > "$0.stdin"\necho edited > work.txt\n'
FLAGS = {
    "claude": ["-p", "PROMPT", "--permission-mode", "acceptEdits"],
    "codex": ["exec", "--sandbox", "workspace-write", "--skip-git-repo-check", "PROMPT"],
    "copilot": ["-p", "PROMPT", "-s", "--no-ask-user", "--allow-tool=write"],
    "gemini": ["-p", "PROMPT", "--approval-mode", "auto_edit"],
}


@pytest.mark.parametrize("place", ["clone", "alone", "no git"])
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works_as_it_is(tmp_path: Path, name: str, place: str) -> None:
    """Nothing of it is committed. Taken out: the trust in what init wrote."""
    directory, programs = tmp_path / "app", tmp_path / "bin"
    programs.mkdir()
    if place == "clone":
        git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
        git(tmp_path, "clone", "-q", "remote.git", "app")
    else:
        directory.mkdir()
    if place == "alone":
        git(directory, "init", "-q", "-b", "main")
    if place != "no git":
        git(directory, "commit", "-q", "--allow-empty", "-m", "first")
    if place == "clone":
        git(directory, "push", "-q", "origin", "HEAD:main")
    if (program := RECIPES[name].program) is not None:
        (programs / program).write_text(PROGRAM_TEXT)
        (programs / program).chmod(0o755)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    site = make_site(directory, {**IDENTITY, "PATH": path})
    try:
        wrote = site.il("init", "--recipe", name)
        assert wrote.code == 0, wrote
        assert "is not on the PATH" not in wrote.out
        site.il.ok(
            "add",
            "Fix the login",
            "--lane",
            "issue:acme/app#1",
            "--message",
            "Since Monday",
            "--author",
            "sam",
        )
        up = site.il("fleet", "up", "--detach")
        assert up.code == 0, up
        site.until_item(1, "completed")
        assert "1 worker was stopped" in site.down().out
        if program is None:
            prompt = site.il.ok("show", 1)["runs"][0]["result"]["stdout"]
        else:
            prompt = (programs / f"{program}.args").read_text()
            first, last = (
                FLAGS[name][: FLAGS[name].index("PROMPT")],
                FLAGS[name][FLAGS[name].index("PROMPT") + 1 :],
            )
            words = prompt.splitlines()
            assert words[: len(first)] == first
            assert words[len(words) - len(last) :] == last
            assert (programs / f"{program}.stdin").read_text() == ""
        assert "Work on this: Fix the login\nsam says: Since Monday\n" in prompt
        if program is not None and place == "no git":
            assert (directory / "work.txt").read_text() == "edited\n"
        elif program is not None:
            where = ["--git-dir=../remote.git"] if place == "clone" else []
            assert git(directory, *where, "show", "agent/item-1:work.txt") == "edited"
            assert git(directory, *where, "log", "-1", "--format=%s", "agent/item-1") == "Fix the login"
            assert not (directory / "work.txt").exists()
    finally:
        site.close()


def test_init_overwrites_nothing_and_says_so(tmp_path: Path) -> None:
    il = CommandHere(tmp_path, env={"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": os.defpath})
    (tmp_path / "agent.sh").write_text("mine\n")
    answer = il("init", "--recipe", "gemini")
    assert f"{tmp_path}/agent.sh exists and stays unchanged.\n" in answer.out
    assert f"Wrote {tmp_path}/fleet.toml.\n" in answer.out
    assert "gemini is not on the PATH" in answer.out
    assert (tmp_path / "agent.sh").read_text() == "mine\n"
    (tmp_path / "fleet.toml").write_text(ONE)
    again = il("--json", "init", "--recipe", "script").json
    assert [each["written"] for each in again["fleet"]] == [False, False]
    assert il("fleet", "up").code == 1, "what init has not written is not trusted"
    unknown = il("init", "--recipe", "claud")
    assert unknown.code == 2
    assert "Use one of claude, codex, copilot, gemini, script." in unknown.err


def test_the_script_commits_nothing_outside_of_a_worktree(tmp_path: Path) -> None:
    """A fleet without worktrees works in the clone itself, where people have changes of their own."""
    git(tmp_path, "init", "-q", "-b", "main", "app")
    directory = tmp_path / "app"
    git(directory, "commit", "-q", "--allow-empty", "-m", "first")
    site = make_site(directory, IDENTITY)
    try:
        site.il("init", "--recipe", "script")
        site.write(site.file.read_text().replace("worktree = true", "worktree = false"))
        (directory / "mine.txt").write_text("mine\n")
        site.il.ok("add", "work")
        site.up()
        site.until_item(1, "completed")
        assert git(directory, "log", "--format=%s", "--all") == "first"
        assert "?? mine.txt" in git(directory, "status", "--porcelain")
    finally:
        site.close()
