"""The fenced push on real repositories: zombies, rivals, conflicts and back-off.

The guards were removed by hand once, in a copy of the sources. Without the fence in the push, or without
`--atomic`, the zombie's commit lands in the window on the server. Without the pins (a plain `--force`) it
lands when the heir arms between the zombie's look and its push, and a rival's commit is overwritten; between
advertisement and update git compares by itself. The tests named for those windows failed then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.app import open_service
from interlock.core.errors import GitFailed, LeaseLost, PushFailed, RebaseConflict, UnreadableState
from interlock.core.model import NewItem
from interlock.git.checkout import Checkout
from interlock.git.plumbing import GitRepository
from interlock.git.refusals import RefMove
from interlock.push.fence import LaneRun, arm, fence_guard, fence_ref, read_fence
from interlock.push.fenced_push import RETRY_AFTER_S, FencedPush, Pushed
from interlock.service.contract import LeaseView, Service
from tests.git_fixtures import (
    Window,
    bare_repository,
    clone,
    commit,
    git,
    git_identity,
    http_remote,
    log,
    remote_url,
    write_hook,
)
from tests.patience import PATIENCE_S

__all__ = ["bare_repository", "git_identity", "http_remote", "remote_url"]

LANE = "issue:acme/app#42"
PROGRAM = (sys.executable, "-m", "interlock")


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lanes.db"


@pytest.fixture
def store(store_url: str) -> Iterator[Service]:
    service = open_service(store_url)
    yield service
    service.close()


def claim(store: Service, agent: str, lane: str = LANE) -> LeaseView:
    """A run on the lane, whose item is added first."""
    store.add([NewItem(title="work", lane=lane, agent=agent)])
    (lease,) = store.next(agent)
    return lease


def take_over(store: Service, lease: LeaseView) -> LeaseView:
    """The same item, taken from its run and claimed by another: the first one is a zombie from here on."""
    store.take_back(lease.item.id, why="it does not answer")
    (heir,) = store.next(lease.item.agent or "coder")
    return heir


def lane_run(lease: LeaseView) -> LaneRun:
    return LaneRun(lane=lease.item.lane or "", handle=lease.run, agent=lease.item.run_agent or "")


def start_push(
    tree: Path, lease: LeaseView, store_url: str, *args: str, new_group: bool = False
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, "push", *args],
        cwd=tree,
        env=os.environ | {"INTERLOCK_RUN": lease.run, "INTERLOCK_URL": store_url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0 if new_group else None,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    return process.returncode, err


class _Watched(Checkout):
    """Lets something happen once, after the push has looked at the remote and before it connects again."""

    def __init__(self, repository: GitRepository, after_look: Callable[[], object] | None) -> None:
        super().__init__(repository)
        self._after_look = after_look

    def contains(self, oid: str) -> bool:
        if self._after_look is not None:
            happen, self._after_look = self._after_look, None
            happen()
        return super().contains(oid)


class Push:
    """One push of an armed run through the real thing, but for the clock."""

    def __init__(self, tree: Path, lease: LeaseView, after_look: Callable[[], object] | None = None) -> None:
        self.slept: list[float] = []
        self.told: list[str] = []
        #: The ends of the spread, in turn.
        self._ends = 0
        repository = GitRepository(tree)
        arm(repository, "origin", lane_run(lease))
        self.push = FencedPush(
            _Watched(repository, after_look),
            remote="origin",
            branch="main",
            guard=fence_guard(repository, "origin", lane_run(lease)),
            renew=lambda: None,
            tell=self.told.append,
            sleep=self.slept.append,
            spread=self._spread,
        )

    def run(self) -> Pushed:
        return self.push.run()

    def _spread(self, low: float, high: float) -> float:
        self._ends += 1
        return (low, high)[self._ends % 2]


# -- zombies


def test_a_zombies_push_is_refused_by_the_server_in_the_window_before_the_update(
    bare_repository: Path, remote_url: str, store: Service, store_url: str, tmp_path: Path
) -> None:
    tree = clone(remote_url, tmp_path / "tree")
    heirs = GitRepository(clone(remote_url, tmp_path / "heirs"))
    lease = claim(store, "coder")
    arm(GitRepository(tree), "origin", lane_run(lease))
    window = Window(bare_repository)
    commit(tree, {"a": "zombie"}, "from the zombie")
    zombie = start_push(tree, lease, store_url)
    with window.open():
        heir = take_over(store, lease)
        arm(heirs, "origin", lane_run(heir))
    code, err = ended(zombie)
    assert code == 5, err
    assert f"Run {heir.fence} of coder armed {LANE} at " in err
    assert "Stop" in err
    assert log(bare_repository) == ["first"]
    assert git(tree, "status", "--porcelain") == ""
    # and the heir is not disturbed
    commit(heirs.directory, {"a": "heir"}, "from the heir")
    code, err = ended(start_push(heirs.directory, heir, store_url))
    assert code == 0, err
    assert log(bare_repository) == ["from the heir", "first"]


def test_a_zombies_push_is_refused_when_the_heir_arms_between_its_look_and_its_push(
    bare_repository: Path, store: Service, tmp_path: Path
) -> None:
    tree = clone(str(bare_repository), tmp_path / "tree")
    heirs = GitRepository(clone(str(bare_repository), tmp_path / "heirs"))
    lease = claim(store, "coder")
    commit(tree, {"a": "zombie"}, "from the zombie")
    zombie = Push(tree, lease, after_look=lambda: arm(heirs, "origin", lane_run(take_over(store, lease))))
    with pytest.raises(LeaseLost, match="Run 2 of coder armed"):
        zombie.run()
    assert zombie.slept == []
    assert log(bare_repository) == ["first"]


def test_a_zombie_whose_store_is_gone_is_refused_by_the_fence_alone(
    bare_repository: Path, store: Service, store_url: str, tmp_path: Path
) -> None:
    tree = clone(str(bare_repository), tmp_path / "tree")
    lease = claim(store, "coder")
    environ = os.environ | {
        "INTERLOCK_RUN": lease.run,
        "INTERLOCK_LANE": LANE,
        "INTERLOCK_URL": "postgresql://nobody@127.0.0.1:9/none?connect_timeout=2",
        "INTERLOCK_BUSY_TIMEOUT_S": "1",
    }

    def push() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, "push"], cwd=tree, env=environ, capture_output=True, text=True, check=False
        )

    commit(tree, {"a": "1"}, "alive")
    answer = push()
    assert answer.returncode == 0, answer.stderr
    assert "Only the fence in git is checked." in answer.stderr
    heir = take_over(store, lease)
    arm(GitRepository(tree), "origin", lane_run(heir))
    commit(tree, {"a": "2"}, "dead")
    answer = push()
    assert answer.returncode == 5, answer.stderr
    assert log(bare_repository) == ["alive", "first"]


def test_a_zombie_that_arms_late_does_not_lower_the_fence(
    bare_repository: Path, store: Service, tmp_path: Path
) -> None:
    place = GitRepository(clone(str(bare_repository), tmp_path / "tree"))
    lease = claim(store, "coder")
    heir = take_over(store, lease)
    fence = arm(place, "origin", lane_run(heir))
    with pytest.raises(LeaseLost, match=f"Run {heir.fence} of coder"):
        arm(place, "origin", lane_run(lease))
    assert read_fence(place, "origin", LANE) == fence


def test_runs_of_one_number_in_two_stores_do_not_pass_for_each_other(
    bare_repository: Path, tmp_path: Path
) -> None:
    place = GitRepository(clone(str(bare_repository), tmp_path / "tree"))
    arm(place, "origin", LaneRun(lane=LANE, handle="7.1." + "a" * 16, agent="one"))
    with pytest.raises(LeaseLost):
        arm(place, "origin", LaneRun(lane=LANE, handle="7.1." + "b" * 16, agent="two"))


def test_a_store_whose_numbers_fell_back_arms_again_once_they_are_above_the_fence(
    bare_repository: Path, tmp_path: Path
) -> None:
    """After a failover the store counts on from its clock, in microseconds. A fence shows no bits."""
    place = GitRepository(clone(str(bare_repository), tmp_path / "tree"))
    before, behind, ahead = (
        LaneRun(lane=LANE, handle=f"{number}.1.{digit * 16}", agent="coder")
        for number, digit in ((900, "a"), (5, "b"), (1_763_000_000_000_000, "c"))
    )
    arm(place, "origin", before)
    with pytest.raises(LeaseLost, match="Run 900 of coder armed"):
        arm(place, "origin", behind)
    assert arm(place, "origin", ahead).run == ahead.number
    with pytest.raises(LeaseLost):
        arm(place, "origin", before)
    written = git(bare_repository, "log", "--format=%B", fence_ref(LANE))
    assert not any(run.handle.rpartition(".")[2] in written for run in (before, ahead))


@pytest.mark.parametrize("refuses", [False, True], ids=["the server agrees", "the server refuses"])
def test_a_long_chain_of_a_fence_is_cut_by_a_run_that_arms(
    bare_repository: Path, tmp_path: Path, refuses: bool
) -> None:
    if refuses:
        guard = 'case "$1" in */history/*) echo x >> tried; exit 1;; esac'
        write_hook(bare_repository, "update", f"#!/bin/sh\n{guard}\n")
    place = GitRepository(clone(str(bare_repository), tmp_path / "tree"))
    runs = [LaneRun(lane=LANE, handle=f"{n}.1.{'a' * 16}", agent="coder") for n in range(1, 8)]
    for run in runs:
        assert arm(place, "origin", run, cut_beyond=3).run == run.number
    histories = git(bare_repository, "for-each-ref", "--format=%(refname)", "refs/interlock/history").split()
    chains = [log(bare_repository, ref) for ref in (fence_ref(LANE), *reversed(histories))]
    assert [line for chain in chains for line in chain] == [
        f"run {n} of coder armed" for n in range(7, 0, -1)
    ]
    assert [len(chain) for chain in chains] == ([7] if refuses else [1, 3, 3])
    if refuses:
        assert (bare_repository / "tried").read_text().split() == ["x", "x"], "at 3 and at 6 commits"
    with pytest.raises(LeaseLost):
        arm(place, "origin", runs[0], cut_beyond=3)


def test_arming_twice_moves_nothing_and_arming_at_once_leaves_the_greatest(
    bare_repository: Path, remote_url: str, store: Service, store_url: str, tmp_path: Path
) -> None:
    place = GitRepository(clone(remote_url, tmp_path / "tree"))
    lease = claim(store, "coder")
    fence = arm(place, "origin", lane_run(lease))
    assert arm(place, "origin", lane_run(lease)) == fence
    heir = take_over(store, lease)
    window = Window(bare_repository)
    late = start_push(place.directory, heir, store_url, "--arm")
    with window.open():
        # another clone arms for the same run while the first is on its way: both are right
        assert arm(place, "origin", lane_run(heir)).run == heir.fence
    assert ended(late)[0] == 0
    assert log(bare_repository, fence_ref(LANE)) == ["run 2 of coder armed", "run 1 of coder armed"]


def test_a_fence_that_was_changed_by_hand_lets_nobody_through(
    bare_repository: Path, store: Service, tmp_path: Path
) -> None:
    place = GitRepository(clone(str(bare_repository), tmp_path / "tree"))
    lease = claim(store, "coder")
    strange = place.commit_json({"run": "many"}, subject="s")
    assert place.push("origin", [RefMove(ref="refs/heads/strange", old_oid=None, new_oid=strange)]) is None
    for oid in (strange, git(bare_repository, "rev-parse", "main")):
        git(bare_repository, "update-ref", fence_ref(LANE), oid)
        with pytest.raises(UnreadableState, match=fence_ref(LANE)) as caught:
            arm(place, "origin", lane_run(lease))
        assert f"git push origin :{fence_ref(LANE)}" in caught.value.hint


# -- rivals


def rival_in_the_window(bare: Path, times: int) -> None:
    """In so many pushes, somebody else's commit comes to the branch just before they would land."""
    write_hook(
        bare,
        "pre-receive",
        f"""#!/bin/sh
unset GIT_QUARANTINE_PATH $(git rev-parse --local-env-vars)
n=$(cat rivals 2>/dev/null || echo 0)
[ "$n" -lt {times} ] || exit 0
echo $((n + 1)) > rivals
git update-ref refs/heads/main "$(git commit-tree 'main^{{tree}}' -p main -m "rival $n")"
""",
    )


def test_a_push_that_others_always_beat_retries_with_growing_waits_and_gives_up(
    bare_repository: Path, remote_url: str, store: Service, tmp_path: Path
) -> None:
    tree = clone(remote_url, tmp_path / "tree")
    mine = commit(tree, {"a": "1"}, "mine")
    push = Push(tree, claim(store, "coder"))
    rival_in_the_window(bare_repository, times=100)
    with pytest.raises(PushFailed, match="pushed to main first, 6 times in a row"):
        push.run()
    assert push.slept == [1.25, 1.5, 5.0, 6.0, 20.0]
    assert len(push.told) == len(RETRY_AFTER_S)
    assert push.told[1].startswith("Others pushed to main first. Retry 2 of 5 in 1.5 s.")
    assert log(bare_repository) == [f"rival {n}" for n in reversed(range(6))] + ["first"]
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "log", "-1", "--format=%s") == "mine"
    assert git(tree, "rev-parse", "HEAD") != mine


def test_a_push_that_was_overtaken_twice_lands_on_top_of_the_others(
    bare_repository: Path, remote_url: str, store: Service, tmp_path: Path
) -> None:
    tree = clone(remote_url, tmp_path / "tree")
    commit(tree, {"a": "1"}, "mine")
    push = Push(tree, claim(store, "coder"))
    rival_in_the_window(bare_repository, times=2)
    pushed = push.run()
    assert (pushed.attempts, pushed.moved, pushed.rebased) == (3, True, True)
    assert push.slept == [1.25, 1.5]
    assert log(bare_repository) == ["mine", "rival 1", "rival 0", "first"]
    assert git(tree, "rev-parse", "HEAD") == pushed.commit == git(bare_repository, "rev-parse", "main")


def test_a_branch_that_is_ahead_is_rebased_onto_without_waiting(
    bare_repository: Path, store: Service, tmp_path: Path
) -> None:
    tree = clone(str(bare_repository), tmp_path / "tree")
    other = clone(str(bare_repository), tmp_path / "other")
    commit(other, {"b": "1"}, "theirs")
    git(other, "push", "--quiet", "origin", "main")
    commit(tree, {"a": "1"}, "mine")
    push = Push(tree, claim(store, "coder"))
    pushed = push.run()
    assert (pushed.attempts, pushed.rebased, push.slept) == (1, True, [])
    assert log(bare_repository) == ["mine", "theirs", "first"]
    again = Push(tree, claim(store, "second", "issue:acme/app#1")).run()
    assert (again.attempts, again.moved, again.commit) == (0, False, pushed.commit)


def test_a_rival_that_comes_between_the_look_and_the_push_is_not_overwritten(
    bare_repository: Path, store: Service, tmp_path: Path
) -> None:
    tree = clone(str(bare_repository), tmp_path / "tree")
    other = clone(str(bare_repository), tmp_path / "other")
    commit(other, {"b": "1"}, "theirs")
    commit(tree, {"a": "1"}, "mine")
    push = Push(
        tree, claim(store, "coder"), after_look=lambda: git(other, "push", "--quiet", "origin", "main")
    )
    assert push.run().attempts == 2
    assert log(bare_repository) == ["mine", "theirs", "first"]


def test_two_runs_on_different_issues_push_at_once_and_both_land(
    bare_repository: Path, remote_url: str, store: Service, store_url: str, tmp_path: Path
) -> None:
    """Two worktrees of one clone; the server lets the first go on only when the second has come as well."""
    tree = clone(remote_url, tmp_path / "tree")
    leases = {n: claim(store, f"agent{n}", f"issue:acme/app#{n}") for n in (1, 2)}
    for lease in leases.values():
        arm(GitRepository(tree), "origin", lane_run(lease))
    os.mkfifo(bare_repository / "both")
    write_hook(
        bare_repository,
        "pre-receive",
        "#!/bin/sh\nif mkdir one 2>/dev/null; then read line < both\n"
        "elif mkdir two 2>/dev/null; then echo > both\nfi\n",
    )
    pushes = []
    for n, lease in leases.items():
        place = tmp_path / f"worktree{n}"
        git(tree, "worktree", "add", "--quiet", "--detach", str(place))
        commit(place, {f"sessions/{n}.jsonl": f'{{"issue": {n}}}\n'}, f"session {n}")
        pushes.append(start_push(place, lease, store_url, "origin", "main"))
    for push in pushes:
        code, err = ended(push)
        assert code == 0, err
    assert sorted(log(bare_repository)) == ["first", "session 1", "session 2"]
    for n in (1, 2):
        assert git(bare_repository, "show", f"main:sessions/{n}.jsonl") == f'{{"issue": {n}}}'
    assert git(tree, "worktree", "list", "--porcelain").count("worktree ") == 3


def test_five_arrivals_while_the_push_is_on_its_way_do_not_disturb_it(
    bare_repository: Path, remote_url: str, store: Service, store_url: str, tmp_path: Path
) -> None:
    tree = clone(remote_url, tmp_path / "tree")
    lease = claim(store, "coder")
    arm(GitRepository(tree), "origin", lane_run(lease))
    window = Window(bare_repository)
    commit(tree, {"a": "1"}, "mine")
    push = start_push(tree, lease, store_url, "--json")
    with window.open():
        for n in range(5):
            store.add([NewItem(title=f"comment {n}", lane=LANE, agent=f"other{n}")])
    out, err = push.communicate(timeout=PATIENCE_S)
    assert push.returncode == 0, err
    assert '"attempts": 1' in out
    assert log(bare_repository) == ["mine", "first"]


def test_a_guard_that_our_own_renewal_moved_is_tried_again_at_once(
    bare_repository: Path, store: Service, store_url: str, tmp_path: Path
) -> None:
    tree = clone(str(bare_repository), tmp_path / "tree")
    lease = claim(store, "coder")
    run, other = lane_run(lease), GitRepository(clone(str(bare_repository), tmp_path / "other"))
    arm(other, "origin", run)
    window = Window(bare_repository)
    commit(tree, {"a": "1"}, "mine")
    push = start_push(tree, lease, store_url, "--json")
    with window.open():
        move = fence_guard(other, "origin", run).move()
        assert move is not None
        assert other.push("origin", [move]) is None
    out, err = push.communicate(timeout=PATIENCE_S)
    assert push.returncode == 0, err
    assert '"attempts": 2' in out
    assert err == ""


def test_a_push_whose_answer_is_lost_is_found_to_have_arrived(
    bare_repository: Path, store: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stays silent after the update until the client gives up."""
    tree = clone(str(bare_repository), tmp_path / "tree")
    commit(tree, {"a": "1"}, "mine")
    monkeypatch.setattr("interlock.push.fenced_push.TRANSFER_TIMEOUT_S", 1.0)
    push = Push(tree, claim(store, "coder"))
    write_hook(bare_repository, "post-receive", "#!/bin/sh\nexec sleep 3\n")
    pushed = push.run()
    assert (pushed.moved, pushed.attempts, push.slept) == (True, 1, [])
    assert log(bare_repository) == ["mine", "first"]


# -- conflicts


def test_a_conflicting_rebase_is_undone_and_names_the_files(
    bare_repository: Path, store: Service, tmp_path: Path
) -> None:
    tree = clone(str(bare_repository), tmp_path / "tree")
    other = clone(str(bare_repository), tmp_path / "other")
    commit(other, {"README": "theirs\n", "sub dir/ü": "theirs\n"}, "theirs")
    git(other, "push", "--quiet", "origin", "main")
    commit(tree, {"fine": "1"}, "mine, fine")
    mine = commit(tree, {"README": "mine\n", "sub dir/ü": "mine\n"}, "mine")
    (tree / "untracked").write_text("stays")
    lease = claim(store, "coder")
    for _ in range(2):  # nothing is left that would break a later try
        with pytest.raises(RebaseConflict, match=r"conflicts in README, sub dir/ü\.") as told:
            Push(tree, lease).run()
        assert told.value.hint.startswith("Run git pull --rebase origin main, ")
        assert git(tree, "rev-parse", "HEAD") == mine
        assert git(tree, "symbolic-ref", "--short", "HEAD") == "main"
        assert git(tree, "status", "--porcelain") == "?? untracked"
    assert log(bare_repository) == ["theirs", "first"]


def test_a_rebase_that_cannot_commit_is_undone(bare_repository: Path, store: Service, tmp_path: Path) -> None:
    tree = clone(str(bare_repository), tmp_path / "tree")
    other = clone(str(bare_repository), tmp_path / "other")
    commit(other, {"b": "1"}, "theirs")
    git(other, "push", "--quiet", "origin", "main")
    mine = commit(tree, {"a": "1"}, "mine")
    hook = tree / ".git" / "hooks" / "pre-rebase"
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(PushFailed, match="The rebase onto the new commits of main failed"):
        Push(tree, claim(store, "coder")).run()
    assert git(tree, "rev-parse", "HEAD") == mine
    assert git(tree, "status", "--porcelain") == ""


def test_an_interrupted_rebase_is_undone(
    bare_repository: Path, store: Service, store_url: str, tmp_path: Path
) -> None:
    """The rebase hangs in a hook of the clone; then somebody presses Ctrl-C."""
    tree = clone(str(bare_repository), tmp_path / "tree")
    other = clone(str(bare_repository), tmp_path / "other")
    commit(other, {"b": "1"}, "theirs")
    git(other, "push", "--quiet", "origin", "main")
    mine = commit(tree, {"a": "1"}, "mine")
    hanging = tmp_path / "hanging"
    os.mkfifo(hanging)
    hook = tree / ".git" / "hooks" / "post-checkout"
    hook.write_text(
        f"#!/bin/sh\n[ -e '{tmp_path}/once' ] && exit\n> '{tmp_path}/once'\n> '{hanging}'; sleep 60\n"
    )
    hook.chmod(0o755)
    push = start_push(tree, claim(store, "coder"), store_url, new_group=True)
    hanging.read_text()
    os.killpg(push.pid, signal.SIGINT)
    assert ended(push)[0] == 130
    assert git(tree, "rev-parse", "HEAD") == mine
    assert git(tree, "symbolic-ref", "--short", "HEAD") == "main"
    assert git(tree, "status", "--porcelain") == ""
    assert log(bare_repository) == ["theirs", "first"]


# -- servers


def test_a_server_that_hides_the_fence_lets_no_push_through(
    bare_repository: Path, store: Service, tmp_path: Path
) -> None:
    """Hidden refs are refused before the server looks at `--atomic`: the branch alone would have moved."""
    tree = GitRepository(clone(str(bare_repository), tmp_path / "tree"))
    git(bare_repository, "config", "receive.hideRefs", "refs/interlock")
    with pytest.raises(PushFailed, match="The remote 'origin' hides refs/interlock/fence/"):
        fence_guard(tree, "origin", lane_run(claim(store, "coder"))).move()
    assert log(bare_repository) == ["first"]


def test_a_server_that_forbids_forced_pushes_takes_fenced_ones(
    bare_repository: Path, remote_url: str, store: Service, tmp_path: Path
) -> None:
    for name in ("receive.denyNonFastForwards", "receive.denyDeletes", "receive.fsckObjects"):
        git(bare_repository, "config", name, "true")
    tree = clone(remote_url, tmp_path / "tree")
    lease = claim(store, "coder")
    for n in range(2):
        commit(tree, {"a": str(n)}, f"mine {n}")
        assert Push(tree, lease).run().moved
    heir = take_over(store, lease)
    arm(GitRepository(tree), "origin", lane_run(heir))
    assert log(bare_repository, fence_ref(LANE))[0] == "run 2 of coder armed"


def test_a_shallow_clone_pushes_while_its_history_reaches_far_enough(
    bare_repository: Path, remote_url: str, store: Service, tmp_path: Path
) -> None:
    other = clone(remote_url, tmp_path / "other")
    commit(other, {"b": "1"}, "second")
    git(other, "push", "--quiet", "origin", "main")
    tree = clone(bare_repository.as_uri(), tmp_path / "tree", "--depth=1")
    git(tree, "remote", "set-url", "origin", remote_url)
    commit(other, {"b": "2"}, "third")
    git(other, "push", "--quiet", "origin", "main")
    commit(tree, {"a": "1"}, "mine")
    lease = claim(store, "coder")
    assert Push(tree, lease).run().rebased
    assert log(bare_repository) == ["mine", "third", "second", "first"]
    # history was rewritten below what the clone has
    git(other, "reset", "--quiet", "--hard", "HEAD~2")
    commit(other, {"c": "1"}, "rewritten")
    git(other, "push", "--quiet", "--force", "origin", "main")
    commit(tree, {"a": "2"}, "mine too")
    with pytest.raises(GitFailed, match="This clone is shallow"):
        Push(tree, lease).run()


def test_fence_commits_read_as_a_history(bare_repository: Path, store: Service, tmp_path: Path) -> None:
    tree = clone(str(bare_repository), tmp_path / "tree")
    lease = claim(store, "coder")
    arm(GitRepository(tree), "origin", lane_run(lease))
    commit(tree, {"a": "1"}, "mine")
    Push(tree, lease).run()
    fence = read_fence(GitRepository(tree), "origin", LANE)
    assert fence is not None
    assert (fence.run, fence.agent) == (lease.fence, "coder")
    assert log(bare_repository, fence_ref(LANE)) == ["run 1 of coder pushes", "run 1 of coder armed"]
    body = git(bare_repository, "log", "-1", "--format=%b", fence_ref(LANE))
    assert f'"lane": "{LANE}"' in body
    assert lease.run not in body
