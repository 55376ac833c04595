"""Worktrees of real repositories: each run gets its own, and work that was not pushed outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.core.model import NewItem
from interlock.git.plumbing import GitRepository
from interlock.push.fence import LaneRun, arm
from interlock.worker.changes import FILE_MAX_BYTES
from tests.faults.processes import wait_until
from tests.faults.workers import Site, until_gone

LANE = "issue:acme/app#1"
#: Changes a tracked file, adds one, and leaves a third that git ignores.
EDIT = "echo more >> page; mkdir -p deep; echo new > 'deep/näw file'; echo x > noise.log"


class Clone:
    """A clone with a remote, and workers in it."""

    def __init__(self, directory: Path) -> None:
        self.remote = directory / "remote.git"
        self.path = directory / "clone"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.remote], check=True)
        subprocess.run(["git", "clone", "-q", self.remote, self.path], check=True, capture_output=True)
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")
        self.git("checkout", "-q", "-B", "main")
        (self.path / "page").write_text("one\n")
        (self.path / ".gitignore").write_text("*.log\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "a page")
        self.git("push", "-q", "-u", "origin", "main")
        self.site = Site(self.path, f"sqlite:///{self.path}/.interlock/interlock.db")

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def refs(self, prefix: str) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname)", prefix).split()

    def worktrees(self) -> int:
        return len(self.git("worktree", "list").splitlines()) - 1


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    clone = Clone(tmp_path)
    clone.site.file(".interlock").mkdir()
    clone.site.file(".interlock/.gitignore").write_text("*\n")
    yield clone
    clone.site.close()


def test_github_is_owed_a_comment_on_work_that_a_run_left(clone: Clone) -> None:
    """By a worker without a token, and once, though a second run leaves the same for the next."""
    with clone.site.service() as service:
        service.store.github.repository(7, "acme/app")
        payload = json.dumps({"repository": "acme/app", "issue_number": 1})
        (added,) = service.add([NewItem(title="work", lane=LANE, max_attempts=1, payload=payload)])
        assert added.item is not None
    worker = clone.site.work(f"{EDIT}; exit 3", "--worktree", "--limit", "1")
    worker.until("salvaged")
    assert worker.ended() == 0
    with clone.site.service() as service:
        (owed,) = service.store.github.outbox.effects(7, 1, 10)
        taken = service.store.github.outbox.take(60)
    assert (owed.kind, owed.name) == ("comment", "salvage:run-1")
    assert taken is not None
    assert "`refs/interlock/salvage/1`" in json.loads(taken.data)["text"]


def test_a_run_that_fails_leaves_its_work_to_the_next_on_its_lane(clone: Clone) -> None:
    """The next one is another item of another agent: what they share is the lane."""
    (clone.path / "mine").write_text("the user's own, half staged\n")
    clone.git("add", "mine")
    before = (clone.path / ".git/index").read_bytes()
    clone.site.add(lane=LANE, max_attempts=1)
    first = clone.site.work(
        f"{EDIT}; git commit -qam wip; echo even more >> page; exit 3", "--worktree", "--limit", "1"
    )
    assert first.until("salvaged")["ref"] == "refs/interlock/salvage/1"
    assert first.ended() == 0
    kept = "refs/interlock/salvage/1"
    assert clone.git("show", f"{kept}:page") == "one\nmore\neven more"
    assert clone.git("show", f"{kept}:deep/näw file") == "new"
    assert "noise.log" not in clone.git("ls-tree", "-r", "--name-only", kept)
    assert clone.git("log", "--format=%s", f"main..{kept}").splitlines()[1:] == ["wip"]
    assert (clone.path / ".git/index").read_bytes() == before
    assert clone.worktrees() == 0
    assert clone.refs("refs/heads") == ["refs/heads/main"]

    clone.site.add("the same issue again", lane=LANE)
    read = "cp $INTERLOCK_MESSAGES told; mv told $OLDPWD/told; echo $INTERLOCK_SALVAGE > $OLDPWD/salvage"
    second = clone.site.work(
        f"cd $PWD && OLDPWD={clone.path}; {read}", "--worktree", "--limit", "1", agent="other"
    )
    assert second.until("ended")["status"] == "succeeded"
    assert second.ended() == 0
    assert clone.site.file("salvage").read_text() == f"{kept}\n"
    (message,) = json.loads(clone.site.file("told").read_text())
    assert kept in message["text"]
    assert clone.refs("refs/interlock/salvage") == []
    assert clone.refs("refs/interlock/salvaged") == ["refs/interlock/salvaged/1"]


def test_work_of_a_worker_that_was_killed_is_found_by_the_next_worker(clone: Clone) -> None:
    """The next worker is another process that knows nothing but what lies on disk."""
    item = clone.site.add(lease_s=2.0)
    first = clone.site.work(f"{EDIT}; echo $$ > {clone.path}/agent.pid; sleep 300", "--worktree")
    first.until("started")
    agent = clone.site.number_in("agent.pid")
    first.kill()
    until_gone(agent)
    assert clone.worktrees() == 1
    second = clone.site.work(f"echo $INTERLOCK_SALVAGE > {clone.path}/told", "--worktree", "--limit", "1")
    assert second.until("salvaged")["run"] == 1
    assert second.until("ended")["status"] == "succeeded"
    assert clone.site.file("told").read_text() == "refs/interlock/salvage/1\n"
    assert [run.status for run in clone.site.runs(item)] == ["lost", "succeeded"]
    assert clone.worktrees() == 0
    assert second.ended() == 0


def test_a_run_begins_with_the_newest_remote_commit_and_arms_its_lane(clone: Clone) -> None:
    other = clone.path.parent / "other"
    subprocess.run(["git", "clone", "-q", clone.remote, other], check=True, capture_output=True)
    identity = ["-c", "user.name=Bob", "-c", "user.email=bob@example.org"]
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "newer"], cwd=other, check=True)
    subprocess.run(["git", "push", "-q", "origin", "HEAD:main"], cwd=other, check=True)
    clone.site.add(lane=LANE)
    worker = clone.site.work(f"git log -1 --format=%s > {clone.path}/base", "--worktree", "--limit", "1")
    assert worker.until("ended")["status"] == "succeeded"
    assert clone.site.file("base").read_text() == "newer\n"
    assert "refs/interlock/fence/" in clone.git("ls-remote", "origin")


def test_commits_of_a_run_that_succeeded_stay_on_its_branch(clone: Clone) -> None:
    clone.site.add(lane=LANE)
    commit = "git add -A; git -c user.name=A -c user.email=a@b.c commit -qm done"
    worker = clone.site.work(f"{EDIT}; {commit}; echo stray > left", "--worktree", "--limit", "1")
    assert worker.until("ended")["status"] == "succeeded"
    assert clone.git("log", "-1", "--format=%s", "interlock/run-1") == "done"
    assert clone.git("show", "refs/interlock/salvaged/1:left") == "stray"
    assert clone.refs("refs/interlock/salvage") == []
    assert clone.worktrees() == 0


def test_pushed_work_leaves_nothing_behind(clone: Clone) -> None:
    clone.site.add(lane=LANE)
    commit = "git add -A; git -c user.name=A -c user.email=a@b.c commit -qm done"
    worker = clone.site.work(f"{EDIT}; {commit}; git push -q origin HEAD:main", "--worktree", "--limit", "1")
    assert worker.until("ended")["status"] == "succeeded"
    assert clone.refs("refs/heads") == ["refs/heads/main"]
    assert clone.refs("refs/interlock/salvage") == []
    assert clone.refs("refs/interlock/salvaged") == []
    assert clone.worktrees() == 0


#: A commit that another pushes meanwhile, near the one of the run; then the run's own, pushed on top of it.
REBASED = (
    "echo zero > page; echo one >> page; git commit -qam theirs; git push -q origin HEAD:main;"
    " git reset -q --hard HEAD^; seq 1 3 > made; seq 4 6 >> page; git add made; git commit -qam mine;"
    f" {sys.executable} -m interlock push origin HEAD:main"
)


@pytest.mark.parametrize("code", [0, 3])
def test_work_that_a_push_has_rebased_is_not_called_unpushed(clone: Clone, code: int) -> None:
    """Taken out: `_pushed_again`. The commit before the rebase is on no remote, and was kept as unpushed."""
    clone.site.add(lane=LANE, max_attempts=1)
    clone.git("config", "user.useConfigOnly", "true")
    worker = clone.site.work(f"{REBASED} && exit {code}", "--worktree", "--limit", "1")
    assert worker.until("ended")["status"] == ("failed" if code else "succeeded")
    assert worker.ended() == 0
    assert clone.git("ls-remote", "origin", "main").split()[0]
    clone.git("fetch", "-q", "origin")
    assert clone.git("log", "--format=%s", "origin/main").splitlines()[:2] == ["mine", "theirs"]
    assert "salvaged" not in worker.kinds()
    assert clone.refs("refs/interlock/salvage") == clone.refs("refs/interlock/salvaged") == []


@pytest.mark.parametrize(
    "change",
    ["seq 1 3 | sed 's/^/ /' > made", "chmod +x made", "git commit -q --amend -m 'a better message'"],
)
def test_a_commit_that_differs_from_the_pushed_one_by_little_is_kept(clone: Clone, change: str) -> None:
    """Git's own patch ids ignore blanks, and every comparison of patches ignores messages."""
    clone.site.add(lane=LANE, max_attempts=1)
    script = f"{REBASED} && {change} && git add -A && git commit -q --amend --no-edit; exit 3"
    worker = clone.site.work(script, "--worktree", "--limit", "1")
    kept = worker.until("salvaged")["ref"]
    assert worker.ended() == 0
    clone.git("fetch", "-q", "origin")
    assert clone.git("log", "-1", "--format=%s", "origin/main") == "mine"
    if "message" in change:
        assert clone.git("log", "-1", "--format=%s", f"{kept}^") == "a better message"
    else:
        assert clone.git("diff", "--stat", "origin/main", kept, "--", "made")


def test_two_runs_at_once_have_two_worktrees(clone: Clone) -> None:
    clone.git("remote", "remove", "origin")  # without one they begin with what is checked out
    for n in range(2):
        clone.site.add(lane=f"issue:acme/app#{n}")
    meet = f"touch {clone.path}/here-$INTERLOCK_ITEM; until [ -e {clone.path}/go ]; do sleep 0.02; done; pwd"
    worker = clone.site.work(meet, "--worktree", "--max", "2", "--limit", "2")
    wait_until(lambda: all(clone.site.file(f"here-{n}").exists() for n in (1, 2)), "both are at work")
    assert clone.worktrees() == 2
    clone.site.file("go").touch()
    assert worker.ended() == 0
    assert worker.kinds().count("ended") == 2
    assert clone.worktrees() == 0


def test_a_file_that_is_too_large_is_named_and_left_out(clone: Clone) -> None:
    clone.site.add(lane=LANE, max_attempts=1)
    huge = f"truncate -s {FILE_MAX_BYTES + 1} huge; git init -q nested; echo small > small; exit 1"
    worker = clone.site.work(huge, "--worktree", "--limit", "1")
    worker.until("salvaged")
    kept = "refs/interlock/salvage/1"
    assert clone.git("ls-tree", "-r", "--name-only", kept).splitlines() == [".gitignore", "page", "small"]
    document = json.loads(clone.git("log", "-1", "--format=%b", kept).split("\n\n")[0])
    assert document["left_out"] == ["huge", "nested/"]
    stays = worker.until("stays")
    assert "huge, nested/ could not be kept" in stays["text"]
    assert (Path(stays["path"]) / "huge").exists()
    assert worker.ended() == 0


def test_a_worktree_that_cannot_be_salvaged_stays(clone: Clone) -> None:
    """The agent has broken it beyond what git can read; nothing in it is thrown away."""
    clone.site.add(lane=LANE, max_attempts=1)
    worker = clone.site.work(f"{EDIT}; echo nonsense > .git; exit 1", "--worktree", "--limit", "1")
    worker.until("stays")
    assert worker.until("ended")["status"] == "failed"
    assert (clone.path / ".interlock/worktrees/run-1/deep/näw file").read_text() == "new\n"


def test_a_remote_that_is_away_pauses_the_worker_until_it_is_back(clone: Clone) -> None:
    """Items are not claimed and given back again and again, and what did not start is no run. If the remote
    is asked for again with an item in hand, there are more ends (tried by hand)."""
    items = [clone.site.add(lane=f"{LANE}{n}") for n in range(2)]
    away = clone.remote.rename(clone.remote.with_suffix(".away"))
    asked = clone.remote.with_name("asked")
    answer = f'answer() {{ git-upload-pack "$@"; code=$?; echo >> "{asked}"; return $code; }}; answer'
    clone.git("config", "remote.origin.uploadpack", answer)
    worker = clone.site.work("exit 0", "--worktree", "--limit", "2", "--max", "2")
    assert "There is no repository at the remote 'origin'" in worker.until("hindered")["text"]
    for _ in items:
        assert worker.until("ended")["status"] == "released"
    wait_until(lambda: len(asked.read_text()) > len(items), "the remote is asked for again")
    away.rename(clone.remote)
    assert worker.until("recovered")["text"] == "Runs can be started again."
    assert worker.ended() == 0
    assert [said["status"] for said in worker.heard if said["event"] == "ended"][2:] == ["succeeded"] * 2
    assert worker.kinds().count("hindered") == 1
    assert [clone.site.item(item).attempt for item in items] == [1, 1]


def test_a_worker_that_cannot_start_any_run_does_not_exit_as_idle(clone: Clone) -> None:
    """It tries three times; then it ends, and not as if all was well."""
    item = clone.site.add(lane=LANE)
    (clone.path / ".git/worktrees").write_text("in the way")
    worker = clone.site.work("exit 0", "--worktree", "--exit-when-idle")
    worker.until("hindered")
    assert worker.ended() == 1
    assert "cannot be created" in worker.heard.pop()["error"]["message"]
    assert worker.kinds().count("hindered") == 1
    assert [run.status for run in clone.site.runs(item)] == ["released"] * 3


def test_a_lane_that_a_later_run_has_armed_is_left_alone_and_costs_the_item_no_attempt(clone: Clone) -> None:
    """As after a restore of the store: its numbers lag behind the fence, which names no store. The item is
    not to blame, and no command has run: it is given back with the reason, also on its last attempt."""
    item = clone.site.add(lane=LANE, max_attempts=1)
    arm(GitRepository(clone.path), "origin", LaneRun(lane=LANE, handle=f"99.1.{'0' * 16}", agent="later"))
    worker = clone.site.work("echo > started", "--worktree", "--limit", "1")
    assert "Run 99 of later armed" in worker.until("hindered")["text"]
    assert worker.until("ended")["status"] == "released"
    run = clone.site.runs(item)[0]
    assert run.error is not None
    assert "interlock migrate --after-restore" in run.error
    assert clone.site.item(item).attempt < 2
    assert "started" not in worker.kinds()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_git_does_not_climb_from_a_worktree_to_the_clone(clone: Clone, elsewhere: bool) -> None:
    """Without its .git a worktree is a directory in the clone, if no setting puts it elsewhere. Git of the
    command finds nothing above it, and ours does not look."""
    clone.site.add(lane=LANE, max_attempts=1)
    trees = clone.path.parent / "trees"
    script = f"rm .git; echo new > new; git status 2> {clone.path}/said; pwd > {clone.path}/place; exit 1"
    worker = clone.site.work(
        script, "--worktree", "--limit", "1", env={"INTERLOCK_WORKTREES": str(trees)} if elsewhere else {}
    )
    assert worker.until("salvaged")["ref"] == "refs/interlock/salvage/1"
    assert worker.ended() == 0
    assert "not a git repository" in clone.site.file("said").read_text()
    place = f"{trees}/clone-" if elsewhere else f"{clone.path}/.interlock/worktrees/run-1"
    assert clone.site.file("place").read_text().startswith(place)
    assert clone.git("diff", "--name-only", "main", "refs/interlock/salvage/1") == "new"


def test_the_next_run_is_told_of_a_worktree_that_could_not_be_salvaged(clone: Clone) -> None:
    """No ref can be made, as on a full disk; once that is over, the work is salvaged."""
    clone.git("update-ref", "refs/interlock", "main")
    clone.site.add(lane=LANE, max_attempts=1)
    first = clone.site.work(f"{EDIT}; exit 1", "--worktree", "--limit", "1")
    assert "cannot be created" in first.until("stays")["text"]
    assert first.ended() == 0
    clone.site.add("the same issue again", lane=LANE)
    second = clone.site.work(f"cp $INTERLOCK_MESSAGES {clone.path}/told", "--worktree", "--limit", "1")
    assert second.until("ended")["status"] == "succeeded"
    assert second.ended() == 0
    (message,) = json.loads(clone.site.file("told").read_text())
    place = clone.path / ".interlock/worktrees/run-1"
    assert str(place) in message["text"]
    assert (place / "deep" / "näw file").read_text() == "new\n"

    clone.git("update-ref", "-d", "refs/interlock")
    third = clone.site.work("exit 0", "--worktree")
    assert third.until("salvaged")["ref"] == "refs/interlock/salvage/1"
    assert not place.exists()


def test_a_worker_killed_during_the_checkout_hands_nothing_on(clone: Clone) -> None:
    """Its git goes on for a while, like the filter that it waits for, and finds nothing to write to."""
    (clone.path / ".gitattributes").write_text("*.slow filter=slow\n")
    for name in ("a.slow", "b.slow", "c"):
        (clone.path / name).write_text(f"{name}\n")
    clone.git("add", ".")
    clone.git("commit", "-q", "-m", "slow files")
    clone.git("push", "-q")
    clone.git("config", "filter.slow.smudge", f"echo $$ > {clone.path}/filter.pid; exec sleep 300")
    clone.site.add(lane=LANE, lease_s=2.0)
    first = clone.site.work("exit 1", "--worktree", "--limit", "1")
    held = clone.site.number_in("filter.pid")
    assert clone.worktrees() == 1
    first.kill()
    clone.git("config", "filter.slow.smudge", "cat")
    second = clone.site.work(f"echo $INTERLOCK_SALVAGE > {clone.path}/told; ls", "--worktree", "--limit", "1")
    assert second.until("ended")["status"] == "succeeded"
    os.kill(held, signal.SIGKILL)
    assert clone.site.file("told").read_text() == "\n"
    assert second.ended() == 0
    assert {"salvaged", "stays"}.isdisjoint(second.kinds())
    assert clone.refs("refs/interlock/salvage") == []
    assert clone.worktrees() == 0


@pytest.mark.parametrize(
    "redirect",
    [
        'git config url."$fake".insteadOf "$(git config remote.origin.url)"',
        'git config remote."$(git config remote.origin.url)".url "$fake"',
    ],
    ids=["by a rule", "by a remote of that name"],
)
def test_a_remote_that_the_run_sent_elsewhere_proves_nothing(clone: Clone, redirect: str) -> None:
    """Before addresses were compared, both were believed: the commit was said to be pushed."""
    clone.git("remote", "set-url", "origin", f"file://{clone.remote}")
    script = (
        f'fake="{clone.remote.parent}/fake.git"; git init -q --bare "$fake"; {redirect};'
        " echo x > made; git add made; git commit -qm made;"
        ' git push -q "$(git config remote.origin.url)" HEAD:main; exit 1'
    )
    item = clone.site.add(lane=LANE, max_attempts=1)
    worker = clone.site.work(script, "--worktree", "--exit-when-idle")
    told = worker.until("salvaged", item=item)
    assert clone.git("show", f"{told['ref']}:made") == "x"
    assert worker.ended() == 0
    assert subprocess.run(["git", "cat-file", "-e", "main:made"], cwd=clone.remote, check=False).returncode


#: Leaves a commit, something staged and a file, and goes away with its worktree.
MOVE_OUT = 'echo x > made; git add made; git commit -qm made; echo y > loose; mv "$PWD" "$AWAY"'


def test_a_worktree_that_was_moved_out_is_found_and_still_works(clone: Clone) -> None:
    """Before its directory was held open, git's own for it was removed: it was no repository any more."""
    away = clone.path.parent / "a way"
    item = clone.site.add(lane=LANE, max_attempts=1)
    worker = clone.site.work(f"AWAY='{away}'; {MOVE_OUT}; exit 1", "--worktree", "--exit-when-idle")
    ref = worker.until("salvaged", item=item)["ref"]
    told = worker.until("stays", item=item)
    assert told["path"] == str(away)
    assert f"it was moved to {away}" in told["text"]
    assert worker.ended() == 0
    assert (clone.git("show", f"{ref}:made"), clone.git("show", f"{ref}:loose")) == ("x", "y")
    assert clone.git("-C", str(away), "status", "--porcelain") == "?? loose"


def test_a_worktree_that_was_moved_out_under_a_dead_worker_keeps_git_s_directory(clone: Clone) -> None:
    away = clone.path.parent / "away"
    item = clone.site.add(lane=LANE, max_attempts=1)
    script = f"AWAY='{away}'; {MOVE_OUT}; echo $$ > {clone.path}/pid; exec sleep 600"
    worker = clone.site.work(script, "--worktree")
    agent = clone.site.number_in("pid")
    worker.kill()
    until_gone(agent)
    heir = clone.site.work("true", "--type", "nothing")
    told = heir.until("stays", item=item)
    assert "where it went is unknown" in told["text"]
    assert told["path"] == str(clone.path / ".git" / "worktrees" / "run-1")
    assert clone.git("-C", str(away), "status", "--porcelain") == "?? loose"


def test_a_worktree_that_its_run_deleted_leaves_nothing(clone: Clone) -> None:
    item = clone.site.add(lane=LANE, max_attempts=1)
    worker = clone.site.work('rm -rf "$PWD"; exit 1', "--worktree", "--exit-when-idle")
    worker.until("ended", item=item)
    assert worker.ended() == 0
    assert not {"stays", "salvaged"} & set(worker.kinds())
    assert clone.worktrees() == 0
    assert clone.refs("refs/heads/interlock/") == []


@pytest.mark.parametrize("name", ["sib", "run-99"])
def test_a_worktree_that_a_run_made_beside_its_own_is_named(clone: Clone, name: str) -> None:
    item = clone.site.add(lane=LANE, max_attempts=1)
    script = f"git worktree add -q -b side ../{name}; echo x > ../{name}/loose; exit 1"
    worker = clone.site.work(script, "--worktree", "--exit-when-idle")
    beside = clone.path / ".interlock" / "worktrees" / name
    assert worker.until("stays", item=item)["path"] == str(beside)
    worker.until("ended")
    assert worker.ended() == 0
    assert (beside / "loose").read_text() == "x\n"
    clone.site.add(lane=LANE, max_attempts=1)
    later = clone.site.work("exit 0", "--worktree", "--exit-when-idle")
    later.until("ended")
    assert later.ended() == 0
    assert "stays" not in later.kinds()


def test_what_cannot_be_deleted_is_named(clone: Clone) -> None:
    tried = clone.path.parent / "tried"
    tried.touch()
    if subprocess.run(["chattr", "+i", tried], check=False, capture_output=True).returncode:
        pytest.skip("no file can be made immutable here")
    subprocess.run(["chattr", "-i", tried], check=True)
    item = clone.site.add(lane=LANE, max_attempts=1)
    worker = clone.site.work(
        "mkdir shut; echo x > shut/f; chattr +i shut/f; exit 1", "--worktree", "--exit-when-idle"
    )
    try:
        rest = Path(worker.until("stays", item=item)["path"])
        ref = worker.until("salvaged", item=item)["ref"]
        assert worker.ended() == 0
        assert clone.git("show", f"{ref}:shut/f") == "x"
        assert (rest / "worktree" / "shut" / "f").exists()
    finally:
        subprocess.run(["chattr", "-R", "-i", clone.path / ".interlock"], check=True)
