"""The fence of a lane in a git repository: it decides which run may push.

A git server does not know lanes in a database. So a run *arms* before its worktree exists: it writes its
number to `refs/interlock/fence/<lane>` by compare-and-swap, and is refused if a greater number is there. Each
push of the run moves that ref too, in the same atomic push and pinned to its old commit. Once a later run has
armed, the server refuses every push of an earlier run as a whole.

The document names its store. A fence of another store means that two stores use one lane: no run may push,
with any number. A fence of this store, or of one that it continues, may be ahead of a live run. Then the
store was restored to an older state: its numbers jump past the fence, and the run is released.

A lane in git needs no arming: its owner commit moves instead.

Not promised: protection from plain `git push`, or from a run whose successor has not armed yet.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol, runtime_checkable

from interlock.core.continuity import RUN_MAX, Lineage
from interlock.core.errors import (
    FenceAhead,
    GitFailed,
    LeaseLost,
    PushFailed,
    RemoteUnavailable,
    TwoStores,
    UnreadableState,
)
from interlock.core.handles import read_handle
from interlock.core.model import US_PER_S
from interlock.core.names import lane_key
from interlock.core.record import Record
from interlock.git.plumbing import GitRepository, lane_ref_id
from interlock.git.refusals import PushRefusal, RefMove, RefusalKind, printable, without_secrets
from interlock.service.contract import LaneService, Report, RunView

FENCES = "refs/interlock/fence/"
#: Refs of the old chains of fences: `<lane>/<run that began a new one>-<end of the old one>`.
HISTORIES = "refs/interlock/history/fence/"
#: Arming begins a new chain once the old one has this many commits.
CUT_BEYOND = 500
ARM_TRIES = 5
ARM_PAUSE_MIN_S, ARM_PAUSE_MAX_S = 0.2, 0.8
#: How often to look for a new ref before it counts as hidden.
LOOKS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRun:
    """A run and the lane that it holds, in a database."""

    lane: str
    handle: str
    agent: str

    @property
    def number(self) -> int:
        return read_handle(self.handle).run

    @property
    def handle_digest(self) -> str:
        """Distinguishes runs with the same number in two stores, without revealing the handle."""
        return sha256(self.handle.encode()).hexdigest()[:16]


class Fence(Record):
    """The content of a fence ref: the last run that armed the lane."""

    ref: str
    oid: str
    run: int
    agent: str
    #: When that run armed, by the clock of its machine.
    since: str
    handle_digest: str
    #: The name of that run's store. Empty if it was not written: by versions before 0.2, and by pushes
    #: without a store.
    store: str = ""
    #: The number of commits in its chain when the server refused a new chain; 0 if it never did.
    kept: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The ref that moves with the branch, so that only the lane's holder can push."""

    #: Raises `LeaseLost` if another run holds the lane; changes nothing.
    check: Callable[[], object] = lambda: None
    #: A new commit for the ref, pinned to its current commit; raises `LeaseLost` if another run holds the
    #: lane. None if the item has no lane, so that no ref fences the push.
    move: Callable[[], RefMove | None] = lambda: None
    #: Variables with which git finds the commit of `move`.
    environ: Mapping[str, str] = field(default_factory=dict)


class FenceStore(Protocol):
    """The part of a database store that a fence needs."""

    def lineage(self) -> Lineage: ...

    def renew(self, reports: Sequence[Report]) -> list[RunView]: ...

    def pass_fence(self, run: str, *, fence: int, armed_us: int) -> bool: ...


@runtime_checkable
class LanesInGit(LaneService, Protocol):
    """A store of lanes on a git remote, with the methods that a push needs."""

    @property
    def objects(self) -> Path:
        """The directory of git objects with the commits of `new_owner_commit`."""
        ...

    def new_owner_commit(self, handle: str) -> RefMove:
        """A new owner commit for the lane of this run, not pushed yet; raises `LeaseLost`."""
        ...


def fence_ref(lane: str) -> str:
    """The ref that fences a lane."""
    return f"{FENCES}{lane_ref_id(lane)}"


def read_fence(repository: GitRepository, remote: str, lane: str) -> Fence | None:
    """The current fence of a lane on the remote; None if no run ever armed it."""
    ref = fence_ref(lane)
    oid = repository.ls_remote(remote, ref).get(ref)
    if oid is None:
        return None
    if not repository.has(oid):
        repository.fetch(remote, ref)
    return fence_at(repository, remote, ref, oid)[1]


def fence_at(repository: GitRepository, remote: str, ref: str, oid: str) -> tuple[str, Fence]:
    """The lane and the fence in a commit that this repository has."""
    try:
        document = repository.read_json(oid)
        return printable(str(document["lane"])), Fence(
            ref=ref,
            oid=oid,
            run=int(document["run"]),
            agent=printable(str(document["agent"])),
            since=printable(str(document["since"])),
            handle_digest=str(document["mark"]),
            store=printable(str(document.get("store", ""))),
            kept=int(document.get("kept", 0)),
        )
    except (UnreadableState, KeyError, TypeError, ValueError):
        raise UnreadableState(
            f"The fence {ref} was not written by Interlock, so every push through it is refused.",
            f"If no run works on the lane, remove it with git push {without_secrets(remote)} :{ref}.",
        ) from None


def arm(
    repository: GitRepository,
    remote: str,
    run: LaneRun,
    store: FenceStore | None = None,
    *,
    pause: Callable[[float], None] = time.sleep,
    cut_beyond: int = CUT_BEYOND,
) -> Fence:
    """Raise the fence to this run before its worktree is created, then fetch. It is idempotent.

    Raises what `check_fence` raises. If the chain of commits is long, the run begins a new one, and
    another ref keeps the old one. If the server refuses that, the old chain is continued.
    """
    refusal: PushRefusal | None = None
    kept = 0
    name = store.lineage().store if store is not None else ""
    for tries in range(ARM_TRIES + 1):
        fence = read_fence(repository, remote, run.lane)
        check_fence(run, fence, store)
        if fence is not None and fence.run == run.number:  # also if the answer to our push was lost
            return fence
        if refusal is not None:
            if refusal.kind not in (RefusalKind.STALE, RefusalKind.NETWORK) or tries == ARM_TRIES:
                break
            _pause(pause)
        length = _length_to_cut(repository, fence, cut_beyond) if not kept else 0
        raised = _new_fence(repository, run, fence, "armed", store=name, kept=kept, cut=length > 0)
        moves = [_move(fence, raised)]
        if fence is not None and length:
            history = f"{HISTORIES}{lane_ref_id(run.lane)}/{run.number}-{fence.oid[:12]}"
            moves.append(RefMove(ref=history, old_oid=None, new_oid=fence.oid))
        refusal = repository.push(remote, moves)
        if refusal is not None and length and refusal.kind not in (RefusalKind.STALE, RefusalKind.NETWORK):
            kept = length
            raised = _new_fence(repository, run, fence, "armed", store=name, kept=kept)
            refusal = repository.push(remote, [_move(fence, raised)])
        if refusal is None:
            if fence is None:
                check_visible(repository, remote, raised.ref, pause=pause)
            return raised
    assert refusal is not None
    if fence is None and refusal.kind is RefusalKind.STALE:
        raise hidden_refs(remote, fence_ref(run.lane))
    raise failed_push(remote, refusal)


def _length_to_cut(repository: GitRepository, fence: Fence | None, beyond: int) -> int:
    """The number of commits in the chain of a fence, if arming should begin a new one; else 0."""
    if fence is None:
        return 0
    length = int(repository.text("rev-list", "--count", fence.oid))
    return length if length >= fence.kept + beyond else 0


def _pause(pause: Callable[[float], None]) -> None:
    pause(random.uniform(ARM_PAUSE_MIN_S, ARM_PAUSE_MAX_S))  # noqa: S311  (not a secret)


def check_visible(
    repository: GitRepository, remote: str, ref: str, *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Raise if the remote does not show a ref that was just created there."""
    for _ in range(LOOKS_MAX):  # a replicated server may show it a little later
        if ref in repository.ls_remote(remote, ref):
            return
        _pause(pause)
    raise hidden_refs(remote, ref)


def check_fence(run: LaneRun, fence: Fence | None, store: FenceStore | None) -> None:
    """Raise if the fence refuses this run.

    `LeaseLost` if a later run armed it. `TwoStores` if another store armed it. `FenceAhead` if it is of this
    store's lineage and ahead of a live run; the store has then moved its numbers above it. Without a store
    only the numbers count.
    """
    if fence is None or fence.handle_digest == run.handle_digest:
        return
    known = store.lineage() if store is not None and fence.store else None
    if known is not None and not known.goes_on_from(fence.store):
        raise two_stores(run.lane, fence, known)
    if fence.run < run.number:
        return
    if fence.run >= RUN_MAX:
        raise UnreadableState(
            f"The fence {fence.ref} has the number {fence.run}, which no store gives out.",
            f"If no run works on the lane, remove it with git push REMOTE :{fence.ref}.",
        )
    later = LeaseLost(
        f"Run {fence.run} of {fence.agent} armed {run.lane} at {fence.since}: run {run.number} may no longer"
        " push to it.",
        "Stop and leave the branch alone; your commits stay in this clone.",
    )
    if store is None or store.renew([Report(run=run.handle)])[0].refusal is not None:
        raise later
    if known is None:
        raise two_stores(run.lane, fence, store.lineage())
    if not store.pass_fence(run.handle, fence=fence.run, armed_us=_armed_us(fence)):
        raise two_stores(run.lane, fence, known)
    raise FenceAhead(
        f"Run {fence.run} armed {run.lane}, but this store was restored to an earlier state. Its run numbers"
        f" now continue above {fence.run}, and run {run.number} is stale.",
        "Release the item; the next run on it can push.",
    )


def two_stores(lane: str, fence: Fence, known: Lineage) -> TwoStores:
    """The error for a fence of another store, with both names and the cure for each case."""
    armed = f"Run {fence.run} of {fence.agent} armed {lane} at {fence.since}"
    one_url = "If both are in use, point all agents at one INTERLOCK_URL."
    if not fence.store:
        return TwoStores(
            f"{armed}, which is ahead of this store ({known.store}). Its fence names no store: an older"
            " Interlock wrote it.",
            "If this store was restored, or made again in the place of that one, run interlock migrate"
            f" --after-restore. {one_url}",
        )
    if fence.store == known.store:
        return TwoStores(
            f"{armed} in the name of this store ({known.store}), which did not give out that number: a copy"
            " of it is in use.",
            "Stop the copy, such as a cloned machine: two stores of one name cannot be told apart.",
        )
    if fence.store in known.ancestors:
        return TwoStores(
            f"{armed} for the store {fence.store}, of which this one ({known.store}) is a copy.",
            f"If that store is not in use any more, run interlock migrate --after-restore. {one_url}",
        )
    return TwoStores(
        f"{armed} for another store, {fence.store}; this one is {known.store}.",
        f"{one_url} If that store is gone for good, run interlock migrate --replaces {fence.store}.",
    )


def _armed_us(fence: Fence) -> int:
    try:
        return int(datetime.fromisoformat(fence.since).timestamp()) * US_PER_S
    except ValueError:
        return int(time.time()) * US_PER_S


def fence_guard(
    repository: GitRepository, remote: str, run: LaneRun, store: FenceStore | None = None
) -> Guard:
    """The guard of a lane in a database: its fence.

    A run that has not armed does so in a separate push. Arming in the same push as the branch is unsafe: a
    server that hides the ref refuses it before it considers `--atomic`, and lets the branch through.
    """

    def move() -> RefMove:
        fence = arm(repository, remote, run, store)
        return _move(fence, _new_fence(repository, run, fence, "pushes", store=fence.store))

    return Guard(check=lambda: check_fence(run, read_fence(repository, remote, run.lane), store), move=move)


def owner_guard(lanes: LanesInGit, handle: str) -> Guard:
    """The guard of a lane in git: its owner commit, which the store creates."""
    path = str(lanes.objects).replace("\\", r"\\").replace('"', r"\"")

    def move() -> RefMove:
        return lanes.new_owner_commit(handle)

    # The check creates a commit without pushing it. The path is quoted because it may contain a colon.
    return Guard(check=move, move=move, environ={"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{path}"'})


def failed_push(remote: str, refusal: PushRefusal) -> GitFailed:
    """The error for a refused push that is not retried."""
    name, said = without_secrets(remote), refusal.detail
    match refusal.kind:
        case RefusalKind.ATOMIC_UNSUPPORTED:
            return PushFailed(
                f"The remote {name!r} cannot move two refs in one push, so no push to it can be fenced.",
                "Use a server that supports git push --atomic.",
            )
        case RefusalKind.PERMISSION if "hidden ref" in said:
            return hidden_refs(remote, refusal.ref or "refs/interlock")
        case RefusalKind.PERMISSION if "shallow" in said:
            return PushFailed(
                f"The remote {name!r} takes no push from a shallow clone.", "Run git fetch --unshallow first."
            )
        case RefusalKind.PERMISSION:
            what = refusal.ref or "it"
            return PushFailed(
                f"You may not push {what} to the remote {name!r}: {said}.",
                "Interlock needs write access to refs/interlock/* and to the branch; check your token and the"
                " rules for protected refs.",
            )
        case RefusalKind.HOOK:
            return PushFailed(
                f"A hook refused the push: {said}.", "Fix what it names, or let it accept refs/interlock/*."
            )
        case RefusalKind.SUBMODULE:
            return PushFailed(
                f"Commits of the submodules {said} are on no remote.",
                "Push them from their own directories first; no fence guards them.",
            )
        case RefusalKind.NETWORK:
            return RemoteUnavailable(
                f"The connection to the remote {name!r} was lost: {said}.",
                "The push may have arrived. Run the same command again: it checks first.",
            )
        case _:
            return PushFailed(f"git could not push to the remote {name!r}: {said}.", "Try again.")


def hidden_refs(remote: str, ref: str) -> PushFailed:
    """The error for a server that hides Interlock's refs."""
    return PushFailed(
        f"The remote {without_secrets(remote)!r} hides {ref}, so nothing can be kept there.",
        "Let the server show refs/interlock: see transfer.hideRefs, uploadpack.hideRefs, receive.hideRefs.",
    )


def _new_fence(
    repository: GitRepository,
    run: LaneRun,
    fence: Fence | None,
    verb: str,
    *,
    store: str,
    kept: int = 0,
    cut: bool = False,
) -> Fence:
    """The fence with a new commit of this run, not pushed yet. With `cut` it begins a new chain."""
    kept = kept or (fence.kept if fence is not None and not cut else 0)
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    since = fence.since if fence is not None and fence.run == run.number else now
    document = {
        "lane": lane_key(run.lane),
        "run": run.number,
        "agent": run.agent,
        "since": since,
        "at": now,
        "mark": run.handle_digest,
        **({"store": store} if store else {}),
        **({"kept": kept} if kept else {}),
    }
    # Otherwise a child of the last commit, because some servers accept only a fast-forward.
    oid = repository.commit_json(
        document,
        subject=f"run {run.number} of {run.agent} {verb}",
        parents=[fence.oid] if fence is not None and not cut else [],
    )
    return Fence(
        ref=fence_ref(run.lane),
        oid=oid,
        run=run.number,
        agent=run.agent,
        since=since,
        handle_digest=run.handle_digest,
        store=store,
        kept=kept,
    )


def _move(old: Fence | None, new: Fence) -> RefMove:
    return RefMove(ref=new.ref, old_oid=None if old is None else old.oid, new_oid=new.oid)
