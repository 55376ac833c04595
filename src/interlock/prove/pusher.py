"""Fenced pushes of one process to a bare repository, in a clone of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from interlock.core.errors import GitFailed, LeaseLost
from interlock.git.checkout import Checkout
from interlock.git.plumbing import GitRepository
from interlock.git.refusals import RefMove
from interlock.prove.journal import ProcessJournal
from interlock.push.fence import FenceStore, Guard, LaneRun, arm, fence_guard
from interlock.push.fenced_push import FencedPush
from interlock.service.contract import LeaseView

BRANCH = "work"
_REF = f"refs/heads/{BRANCH}"
_PERSON = ("-c", "user.name=prove", "-c", "user.email=prove@localhost", "-c", "commit.gpgsign=false")


def make_remote(directory: Path) -> str:
    """A bare repository with one commit on the branch; its address."""
    bare = GitRepository.make_bare(directory)
    tree = bare.text("hash-object", "-t", "tree", "-w", "--stdin")
    first = bare.text(*_PERSON, "commit-tree", tree, "-m", "run 0")
    bare.text("update-ref", _REF, first)
    bare.text("symbolic-ref", "HEAD", _REF)
    return str(directory)


def pushed_runs(remote: str) -> list[dict[str, str]]:
    """The commits of the branch, oldest first: commit and subject."""
    text = GitRepository(Path(remote)).text("log", "--reverse", "--topo-order", "--format=%H %s", BRANCH)
    return [dict(zip(("commit", "subject"), line.split(" ", 1), strict=True)) for line in text.splitlines()]


class Pusher:
    """One process that pushes to the branch under the fence of its lane."""

    def __init__(self, clone: Path, remote: str, journal: ProcessJournal, *, fenced: bool) -> None:
        self._remote, self._journal, self._fenced = remote, journal, fenced
        subprocess.run(["git", "clone", "--quiet", remote, str(clone)], check=True, capture_output=True)
        self._repository = GitRepository(clone)
        self._checkout = Checkout(self._repository)

    def prepare(
        self, lease: LeaseView, agent: str, store: FenceStore, beat: Callable[[], object]
    ) -> Callable[[], None]:
        """Arm and commit; gives the push, prepared as by a process that is stopped just before it sends it.

        `beat` renews the lease between the steps, which take long on a busy machine. Raises `LeaseLost` if a
        later run has armed the lane.
        """
        assert lease.item.lane is not None
        run = LaneRun(lane=lease.item.lane, handle=lease.run, agent=agent)
        facts = {"run": lease.fence, "item": lease.item.id}
        if self._fenced:
            n = self._journal.attempt("arm", **facts)
            try:
                arm(self._repository, self._remote, run, store)
            except LeaseLost:
                self._journal.note("refused", "arm", n=n, **facts)
                raise
            self._journal.note("ack", "arm", n=n, **facts)
            beat()
        self._repository.fetch(self._remote, _REF)
        tip = self._repository.ls_remote(self._remote, _REF)[_REF]
        self._repository.text("reset", "--quiet", "--hard", tip)
        self._repository.text(
            *_PERSON, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", f"run {lease.fence}"
        )
        moves = [RefMove(ref=_REF, old_oid=tip, new_oid=self._checkout.head())]
        if self._fenced:
            move = fence_guard(self._repository, self._remote, run).move()
            assert move is not None
            moves.append(move)

        beat()

        def push() -> None:
            n = self._journal.attempt("push", **facts)
            refusal = self._repository.push(self._remote, moves)
            if refusal is None:
                self._journal.note("ack", "push", n=n, commit=moves[0].new_oid, **facts)
                return
            self._journal.note("refused", "push", n=n, by="git server", code=str(refusal.kind), **facts)
            self._push_again(run, facts)

        return push

    def _push_again(self, run: LaneRun, facts: dict[str, int]) -> None:
        """Push as `interlock push` does while its store is unreachable: only git decides."""
        guard = fence_guard(self._repository, self._remote, run) if self._fenced else Guard()
        n = self._journal.attempt("push", **facts)
        try:
            pushed = FencedPush(
                self._checkout,
                remote=self._remote,
                branch=BRANCH,
                guard=guard,
                renew=lambda: None,
                tell=lambda _: None,
                sleep=lambda _: None,
            ).run()
        except LeaseLost as lost:
            self._journal.note("refused", "push", n=n, by="fence", code=lost.code, **facts)
        except GitFailed as error:
            self._journal.note("unsure", "push", n=n, code=error.code, **facts)
        else:
            self._journal.note("ack", "push", n=n, commit=pushed.commit, **facts)
