"""Links that a stranger committed: no command writes or deletes through them outside of the clone."""

import json
import os
import shutil
import stat
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import pytest

from interlock.worker.inventory import Baseline
from interlock.worker.rundirectory import Home, Trace
from tests.acceptance.command import Answer, Command, CommandHere
from tests.git_fixtures import git

#: A run that no store knows.
HANDLE = "1.1.0000000000000000"
EVENT = '{"hook_event_name": "SessionStart"}'
#: What may be in the way of a command, and what it must not touch.
OUTSIDE = {
    "5.lock": "mine",
    ".5.held": "mine",
    "settings.json": '{"model": "mine"}',
    "run-1.log": "mine",
    "interlock.db": "",
    "old.json": "mine",
    "workflows/agent.yml": "mine",
}


class Clone:
    """A stranger's repository, cloned, and what its links lead to."""

    def __init__(self, directory: Path, *, in_git: bool = True) -> None:
        self.directory = directory
        self.outside = directory / "outside"
        for name, text in OUTSIDE.items():
            path = self.outside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, (0, 0))
        self.path = directory / "clone"
        self.path.mkdir()
        home = directory / "home"
        home.mkdir()
        if in_git:
            git(self.path, "init", "--quiet")
            git(self.path, "config", "core.hooksPath", ".husky")
            git(self.path, "commit", "--quiet", "--allow-empty", "-m", "begin")
        user = {"HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
        self.il = CommandHere(self.path, env=user)
        self.before = self.seen()

    def link(self, name: str, target: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.directory / target)

    def seen(self) -> dict[str, tuple[int, int, str]]:
        """Everything around the clone: the mode, the time and the content of each file."""
        found = {}
        for path in sorted(self.directory.rglob("*")):
            if path.is_relative_to(self.path) or path.is_relative_to(self.directory / "home"):
                continue
            state = path.lstat()
            content = "" if stat.S_ISDIR(state.st_mode) else sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(self.directory))] = (state.st_mode, state.st_mtime_ns, content)
        return found


def run(clone: Clone, command: str, **environ: str) -> Answer:
    return clone.il("--json", *command.split(), stdin=EVENT, env=environ)


WORK = "work --agent a --exit-when-idle"
#: A link that the stranger made, where it leads, and a command that would write or delete through it.
DOORS = [
    *(
        (".interlock", "outside", f"session {what}")
        for what in ("lock 5 -- true", "unlock 5", "clean", "status")
    ),
    *(
        (".interlock/locks", "outside", f"session {what}")
        for what in ("lock 5 -- true", "unlock 5", "clean", "status")
    ),
    (".interlock", "outside/new", "session lock 5 -- true"),
    (".interlock/locks", "clone/.git", "session lock 5 -- true"),
    (".interlock/locks", "clone/.GIT/hooks", "session lock 5 -- true"),
    (".interlock", "outside", f"{WORK} -- true"),
    (".interlock/runs", "outside", f"{WORK} -- true"),
    (".interlock/spool", "outside", f"{WORK} -- true"),
    (".interlock/worktrees", "outside", f"{WORK} --worktree -- true"),
    (".interlock/worktrees", "outside/new", f"{WORK} --worktree -- true"),
    (".interlock", "outside", "hook"),
    (".interlock/hooks", "outside", "hook"),
    (".interlock", "outside", "add x"),
    (".interlock/interlock.db", "outside/interlock.db", "ls"),
    (".interlock/interlock.db", "outside/interlock.db", "migrate"),
    (".claude", "outside", "hook install"),
    (".claude", "outside", "hook install --settings .claude/settings.json"),
    (".claude", "outside/new", "hook install"),
    (".claude", "outside", "hook uninstall"),
    (".claude/settings.json", "outside/settings.json", "hook install"),
    (".claude/settings.json", "outside/new.json", "hook install"),
    (".claude", "outside", "init --hook"),
    (".github", "outside", "actions init"),
    (".github", "outside", "actions init --force"),
    (".github", "outside", "actions init --output .github/other.yml"),
    (".github/workflows", "outside", "actions init"),
    (".github/workflows/agent.yml", "outside/new.yml", "actions init"),
    (".github/workflows/agent.yml", "outside/workflows/agent.yml", "actions init --force"),
    (".husky", "outside", "push --install-hook"),
    (".husky/pre-push.before-interlock", "outside/new", "push --install-hook"),
]
#: The same outside of a git repository: the store and the files of runs are in `.interlock` too.
DOORS_WITHOUT_GIT = [
    *((".interlock", "outside", command) for command in ("add x", "ls", "migrate", "session status")),
    (".interlock", "outside/new", "add x"),
    (".interlock/interlock.db", "outside/new.db", "add x"),
    (".interlock/interlock.db-wal", "outside/new", "add x"),
    (".interlock/interlock.db-shm", "outside/new", "add x"),
    (".interlock/logs", "outside", f"{WORK} -- true"),
    (".interlock/logs", "outside", "prune --older-than 1d"),
    (".interlock/git", "outside", "hold l:1 -- true"),
]


@pytest.mark.parametrize(("name", "target", "command"), DOORS)
def test_nothing_is_written_through_a_link_out_of_the_clone(
    tmp_path: Path, name: str, target: str, command: str
):
    clone = Clone(tmp_path)
    clone.link(name, target)
    refused(clone, name, target, command)


@pytest.mark.parametrize(("name", "target", "command"), DOORS_WITHOUT_GIT)
def test_nothing_is_written_through_a_link_out_of_a_directory_without_git(
    tmp_path: Path, name: str, target: str, command: str
):
    clone = Clone(tmp_path, in_git=False)
    clone.link(name, target)
    refused(clone, name, target, command)


def refused(clone: Clone, name: str, target: str, command: str) -> None:
    url = {"INTERLOCK_URL": "git+file:///nowhere.git"} if command.startswith("hold") else {}
    answer = run(clone, command, INTERLOCK_RUN=HANDLE, **url)
    assert clone.seen() == clone.before
    assert (answer.code, answer.error["code"]) == (1, "not_trusted")
    link, real = clone.path / name, clone.directory / target
    assert answer.error["message"] == f"{link} leads to {real}, and you do not trust it yet."
    assert answer.error["hint"] == "Remove the link; or, if it is yours, run interlock trust."


def test_a_dangling_link_in_place_of_our_gitignore_makes_no_file(tmp_path: Path):
    clone = Clone(tmp_path)
    clone.link(".interlock/.gitignore", "outside/new")
    assert run(clone, "session clean").code == 0
    clone.il("--json", "session", "lock", "5", "--", "true")
    assert (clone.path / ".interlock" / "locks").is_dir()
    assert clone.seen() == clone.before


@pytest.mark.parametrize("name", ["5.lock", ".5.held", ".guard"])
def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path, name: str):
    clone = Clone(tmp_path)
    clone.link(f".interlock/locks/{name}", "outside/5.lock")
    run(clone, "session lock 5 -- true")
    run(clone, "session unlock 5")
    run(clone, "session clean")
    assert clone.seen() == clone.before


def test_a_link_in_place_of_a_log_is_not_followed(tmp_path: Path):
    clone = Clone(tmp_path, in_git=False)
    clone.link(".interlock/logs/run-1.log", "outside/run-1.log")
    clone.il.ok("add", "x")
    done = Command(clone.path, env=clone.il.env)("work", "--agent", "a", "--limit", 1, "--", "echo", "hi")
    assert done.code == 0
    assert clone.seen() == clone.before


def test_a_link_that_stays_in_the_clone_is_followed(tmp_path: Path):
    clone = Clone(tmp_path)
    (clone.path / "kept" / "claude").mkdir(parents=True)
    (clone.path / ".interlock").symlink_to("kept")
    (clone.path / ".claude").symlink_to("kept/claude")
    assert run(clone, "session status").code == 0
    assert run(clone, "hook install").code == 0
    assert (clone.path / "kept" / "claude" / "settings.json").exists()


def test_a_link_can_be_trusted_until_it_leads_elsewhere(tmp_path: Path):
    clone = Clone(tmp_path)
    clone.link(".claude", "outside")
    link, real = clone.path / ".claude", clone.outside
    said = clone.il("trust")
    assert said.out == f"{link} is trusted as long as it leads to {real}.\n"
    assert run(clone, "hook install").code == 0
    assert "interlock hook" in (real / "settings.json").read_text()
    link.unlink()
    clone.link(".claude", "outside/workflows")
    assert run(clone, "hook install").error["code"] == "not_trusted"
    link.unlink()
    clone.link(".claude", "outside")
    assert run(clone, "trust --withdraw").json["links"] == [
        {"path": str(link), "target": str(real), "trusted": False}
    ]
    assert run(clone, "hook uninstall").error["code"] == "not_trusted"


def test_the_name_of_a_target_is_printed_on_one_line(tmp_path: Path):
    clone = Clone(tmp_path)
    clone.link(".claude", "outside/\n\x1b[31mAll is well.\n")
    message = run(clone, "hook install").error["message"]
    assert r"outside/\n\x1b[31mAll is well.\n'" in message


def test_a_bare_repository_in_the_clone_names_no_place_outside(tmp_path: Path):
    """Anybody can commit the files of a bare repository; git itself takes them for one."""
    clone = Clone(tmp_path)
    bare = clone.path / "sub"
    git(clone.path, "init", "--quiet", "--bare", str(bare))
    (bare / "commondir").write_text(f"{clone.outside}\n")
    inner = CommandHere(bare, env=clone.il.env)
    assert inner("add", "x").code == 0
    assert clone.seen() == clone.before
    assert (bare / "interlock" / "interlock.db").exists()
    shutil.rmtree(bare / "interlock")
    (bare / "interlock").symlink_to(clone.outside)
    answer = inner("--json", "add", "x")
    assert answer.error["message"].startswith(f"{bare / 'interlock'} leads to {clone.outside}, ")
    assert clone.seen() == clone.before


def test_no_configuration_of_git_is_taken_from_the_clone(tmp_path: Path):
    """The private repository of a git store was below `.interlock`, where a stranger can commit one."""
    clone = Clone(tmp_path)
    server = tmp_path / "server.git"
    git(tmp_path, "init", "--quiet", "--bare", str(server))
    url = f"git+file://{server}"
    name = sha256(url.removeprefix("git+").encode()).hexdigest()[:16]
    cache = clone.path / ".interlock" / "git" / name / "cache.git"
    cache.mkdir(parents=True)
    git(cache, "init", "--quiet", "--bare")
    (cache / "interlock").touch()
    done = Command(clone.path, env=clone.il.env)("hold", "l:1", "--", "true", env={"INTERLOCK_URL": url})
    assert done.code == 0, done.err
    assert (clone.path / ".git" / "interlock" / "git" / name / "cache.git").is_dir()


def test_a_worker_without_worktrees_makes_no_directory_for_them(tmp_path: Path):
    clone = Clone(tmp_path)
    il = Command(clone.path, env=clone.il.env)
    assert il("work", "--agent", "a", "--exit-when-idle", "--", "true").code == 3
    assert not (clone.path / ".interlock").exists()
    il("work", "--agent", "a", "--exit-when-idle", "--worktree", "--", "true")
    assert (clone.path / ".interlock" / "worktrees").is_dir()
    assert git(clone.path, "status", "--porcelain") == ""


def test_runs_that_a_stranger_committed_are_no_runs_of_ours(tmp_path: Path):
    """Version 0.1.0 kept its runs in `.interlock`, and they are still cleared away, with their worktrees."""
    clone = Clone(tmp_path)
    victim = tmp_path / "victim"
    other = tmp_path / "other"
    git(tmp_path, "init", "--quiet", str(other))
    git(other, "commit", "--quiet", "--allow-empty", "-m", "begin")
    git(other, "worktree", "add", "--quiet", str(victim))
    (victim / "work").write_text("mine")
    (clone.path / ".git" / "worktrees").mkdir()
    files = clone.path / ".interlock" / "runs" / "run-1"
    files.mkdir(parents=True)
    trace = Trace(
        run=1,
        item=1,
        title="x",
        lane=None,
        agent="a",
        worker="w",
        store=Home(clone.path, f"sqlite:///{clone.path}/.git/interlock/interlock.db").store,
        base=git(clone.path, "rev-parse", "HEAD"),
        branch="b",
        worktree=str(victim),
    )
    (files / "record.json").write_text(json.dumps(asdict(trace)))
    (files / "worker.lock").touch()
    (files / "agent.lock").touch()
    baseline = Baseline(
        root=(0, 0),
        admin="../../../other/.git/worktrees/victim",
        files={},
        empty=[],
        newest_ns=0,
        refs=[],
        stash=[],
        remotes={},
    )
    baseline.write(files / "baseline.json")
    git(clone.path, "add", "--force", ".interlock")
    git(clone.path, "commit", "--quiet", "-m", "a gift")
    done = Command(clone.path, env=clone.il.env)("work", "--agent", "a", "--exit-when-idle", "--", "true")
    assert done.code == 3
    assert (victim / "work").read_text() == "mine"
    assert files.is_dir()
