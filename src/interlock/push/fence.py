"""The fence of a lane in a git repository: which run may push.

A lane that lives in a database says nothing to a git server. So a run *arms* before its worktree exists: it
puts its number into `refs/interlock/fence/<lane>` by compare-and-swap, and is refused if a greater number is
there. Each push of the run moves that ref as well, in the same atomic push and pinned to what it was. Once a
later run has armed, the server refuses every push of an earlier one as a whole.

A lane that lives in git itself needs no arming: its owner commit is moved instead.

Not promised: anything about plain `git push`, or about a run whose successor has not armed yet.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol, runtime_checkable

from interlock.core.errors import GitFailed, LeaseLost, PushFailed, RemoteUnavailable, UnreadableState
from interlock.core.handles import run_number
from interlock.core.names import lane_key
from interlock.git.plumbing import Repository, lane_ref_id
from interlock.git.refusals import PushRefusal, RefMove, RefusalKind, printable, without_secrets
from interlock.service.contract import LaneService

FENCES = "refs/interlock/fence/"
ARM_TRIES = 5
ARM_PAUSE_MIN_S, ARM_PAUSE_MAX_S = 0.2, 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRun:
    """A run and the lane it holds, in a database."""

    lane: str
    handle: str
    agent: str

    @property
    def number(self) -> int:
        return run_number(self.handle)

    @property
    def mark(self) -> str:
        """Tells runs of the same number in two stores apart, and gives no handle away."""
        return sha256(self.handle.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What a fence ref says: the last run that armed the lane."""

    ref: str
    oid: str
    run: int
    agent: str
    #: When that run armed, by the clock of its machine.
    since: str
    mark: str


class Guard(Protocol):
    """What moves together with the branch, so that only the lane's holder can push."""

    @property
    def environ(self) -> Mapping[str, str]:
        """What git must know to find the commit of `move`."""
        ...

    def check(self) -> None:
        """Raise `LeaseLost` if the lane is another run's by now; changes nothing."""
        ...

    def move(self) -> RefMove | None:
        """A new commit for the guarding ref, pinned to what the ref is now. `LeaseLost` if it is another's.

        None where nothing in git guards the push.
        """
        ...


@runtime_checkable
class LanesInGit(LaneService, Protocol):
    """A store of lanes on a git remote, with what a push needs of it."""

    @property
    def objects(self) -> Path:
        """The directory of git objects in which the commits of `touch` lie."""
        ...

    def touch(self, handle: str) -> RefMove:
        """A new owner commit for the lane this handle holds, not yet pushed; raises `LeaseLost`."""
        ...


def fence_ref(lane: str) -> str:
    """The ref that fences a lane."""
    return f"{FENCES}{lane_ref_id(lane)}"


def read_fence(repository: Repository, remote: str, lane: str) -> Fence | None:
    """The fence of a lane as the remote has it now; None if nobody ever armed."""
    ref = fence_ref(lane)
    oid = repository.ls_remote(remote, ref).get(ref)
    if oid is None:
        return None
    if not repository.has(oid):
        repository.fetch(remote, ref)
    try:
        document = repository.read_json(oid)
        return Fence(
            ref=ref,
            oid=oid,
            run=int(document["run"]),
            agent=printable(str(document["agent"])),
            since=printable(str(document["since"])),
            mark=str(document["mark"]),
        )
    except (UnreadableState, KeyError, TypeError, ValueError):
        raise UnreadableState(
            f"The fence {ref} was not written by Interlock, so nobody may push through it.",
            f"If no run is at work on the lane, remove it with git push {without_secrets(remote)} :{ref}.",
        ) from None


def arm(
    repository: Repository, remote: str, run: LaneRun, *, pause: Callable[[float], None] = time.sleep
) -> Fence:
    """Raise the fence to this run, before its worktree is made; then fetch. Repeating it changes nothing.

    `LeaseLost` if a later run has armed the lane.
    """
    tries = 0
    while True:
        fence = read_fence(repository, remote, run.lane)
        check_fence(run, fence)
        if fence is not None and fence.run == run.number:
            return fence
        raised = _raised(repository, run, fence, "armed")
        refusal = repository.push(remote, [_move(fence, raised)])
        if refusal is None:
            return raised
        tries += 1
        if refusal.kind not in (RefusalKind.STALE, RefusalKind.NETWORK) or tries == ARM_TRIES:
            raise failed_push(remote, refusal)
        pause(random.uniform(ARM_PAUSE_MIN_S, ARM_PAUSE_MAX_S))  # noqa: S311  (spreads, hides nothing)


def check_fence(run: LaneRun, fence: Fence | None) -> None:
    """Raise `LeaseLost` if the fence is a later run's, or one of the same number in another store."""
    if fence is None or fence.run < run.number or fence.mark == run.mark:
        return
    raise LeaseLost(
        f"Run {fence.run} of {fence.agent} has armed {run.lane} since {fence.since}: run {run.number} may not"
        " push to it any more.",
        "Stop and leave the branch alone; your commits stay in this clone. If the store was made anew or"
        " restored, its numbers lag behind: interlock migrate --after-restore.",
    )


class FenceGuard:
    """The guard of a lane in a database: its fence.

    A run that has not armed does so by a push of its own. Arming along with the branch would not do: a server
    that hides the ref refuses it before it looks at `--atomic`, and lets the branch through.
    """

    environ: Mapping[str, str] = {}

    def __init__(self, repository: Repository, remote: str, run: LaneRun) -> None:
        self.run = run
        self._repository, self._remote = repository, remote

    def check(self) -> None:
        check_fence(self.run, read_fence(self._repository, self._remote, self.run.lane))

    def move(self) -> RefMove:
        fence = arm(self._repository, self._remote, self.run)
        return _move(fence, _raised(self._repository, self.run, fence, "pushes"))


class OwnerGuard:
    """The guard of a lane in git: its owner commit, made and judged by the store."""

    def __init__(self, lanes: LanesInGit, handle: str) -> None:
        self._lanes, self._handle = lanes, handle
        # Quoted, for a path may have a colon in it.
        path = str(lanes.objects).replace("\\", r"\\").replace('"', r"\"")
        self.environ = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{path}"'}

    def check(self) -> None:
        self.move()  # a commit that is never pushed changes nothing

    def move(self) -> RefMove:
        return self._lanes.touch(self._handle)


class NoGuard:
    """For an item without a lane: nothing in git says whose turn it is."""

    environ: Mapping[str, str] = {}

    def check(self) -> None:
        pass

    def move(self) -> None:
        return None


def failed_push(remote: str, refusal: PushRefusal) -> GitFailed:
    """A refusal that no retry will change, as a sentence and a hint."""
    name, said = without_secrets(remote), refusal.detail
    match refusal.kind:
        case RefusalKind.ATOMIC_UNSUPPORTED:
            return PushFailed(
                f"The remote {name!r} cannot move two refs in one push, so no push to it can be fenced.",
                "Use a server that supports git push --atomic.",
            )
        case RefusalKind.PERMISSION if "shallow" in said:
            return PushFailed(
                f"The remote {name!r} takes no push from a shallow clone.", "Run git fetch --unshallow first."
            )
        case RefusalKind.PERMISSION:
            what = refusal.ref or "it"
            return PushFailed(
                f"You may not push {what} to the remote {name!r}: {said}.",
                "Interlock needs to write the branch and refs/interlock/*; check your access and the rules"
                " for protected refs.",
            )
        case RefusalKind.HOOK:
            return PushFailed(f"A hook refused the push: {said}.", "Mend what it says, then push again.")
        case RefusalKind.NETWORK:
            return RemoteUnavailable(
                f"The remote {name!r} was lost on the way: {said}.",
                "The push may have arrived. Run the same command again: it looks first.",
            )
        case _:
            return PushFailed(f"git could not push to the remote {name!r}: {said}.", "Try again.")


def _raised(repository: Repository, run: LaneRun, fence: Fence | None, verb: str) -> Fence:
    """The fence with a new commit of this run, which is here and not pushed yet."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    since = fence.since if fence is not None and fence.run == run.number else now
    document = {
        "lane": lane_key(run.lane),
        "run": run.number,
        "agent": run.agent,
        "since": since,
        "at": now,
        "mark": run.mark,
    }
    # A child of the last one, so that the move is a fast-forward and servers that forbid others take it.
    oid = repository.commit_json(
        document,
        subject=f"run {run.number} of {run.agent} {verb}",
        parents=[fence.oid] if fence is not None else [],
    )
    return Fence(
        ref=fence_ref(run.lane), oid=oid, run=run.number, agent=run.agent, since=since, mark=run.mark
    )


def _move(old: Fence | None, new: Fence) -> RefMove:
    return RefMove(ref=new.ref, old_oid=None if old is None else old.oid, new_oid=new.oid)
