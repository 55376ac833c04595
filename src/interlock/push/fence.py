"""The fence of a lane in a git repository: it decides which run may push.

A git server knows nothing of a lane in a database. So a run *arms* before its worktree exists: it writes its
number to `refs/interlock/fence/<lane>` by compare-and-swap, and is refused if a greater number is there. Each
push of the run moves that ref too, in the same atomic push and pinned to what it was. Once a later run has
armed, the server refuses every push of an earlier one as a whole.

The document names its store. A fence of another store means that two stores use one lane: nobody may push,
whichever number is greater. A fence of this store, or of one that it goes on from, which is ahead of a live
run shows that the store was set back: its numbers leap past the fence, and the run is given back.

A lane in git needs no arming: its owner commit moves instead.

Not promised: anything about plain `git push`, or about a run whose successor has not armed yet.
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
from interlock.git.plumbing import Repository, lane_ref_id
from interlock.git.refusals import PushRefusal, RefMove, RefusalKind, printable, without_secrets
from interlock.service.contract import LaneService, Report, RunView

FENCES = "refs/interlock/fence/"
#: The chains that fences had before: `<lane>/<run that began a new one>-<end of the old one>`.
HISTORIES = "refs/interlock/history/fence/"
#: A run that arms begins a new chain once the old one has this many commits.
CUT_BEYOND = 500
ARM_TRIES = 5
ARM_PAUSE_MIN_S, ARM_PAUSE_MAX_S = 0.2, 0.8
#: How often to look for a new ref before it counts as hidden.
LOOKS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRun:
    """A run and the lane it holds, in a database."""

    lane: str
    handle: str
    agent: str

    @property
    def number(self) -> int:
        return read_handle(self.handle).run

    @property
    def mark(self) -> str:
        """Distinguishes runs of the same number in two stores, without revealing the handle."""
        return sha256(self.handle.encode()).hexdigest()[:16]


class Fence(Record):
    """The content of a fence ref: the last run that armed the lane."""

    ref: str
    oid: str
    run: int
    agent: str
    #: When that run armed, by the clock of its machine.
    since: str
    mark: str
    #: The name of that run's store; empty if it did not write it, as versions before 0.2 and pushes without a
    #: store do.
    store: str = ""
    #: How many commits its chain had when the server refused to begin a new one; 0 if it never did.
    kept: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The ref that moves together with the branch, so that only the lane's holder can push."""

    #: Raises `LeaseLost` if another run has the lane now; changes nothing.
    check: Callable[[], object] = lambda: None
    #: A new commit for the ref, pinned to what the ref is now; `LeaseLost` if another run has the lane. None
    #: where no ref guards the push: the item has no lane.
    move: Callable[[], RefMove | None] = lambda: None
    #: Variables with which git finds the commit of `move`.
    environ: Mapping[str, str] = field(default_factory=dict)


class FenceStore(Protocol):
    """What a fence needs of the database that the lane is in."""

    def lineage(self) -> Lineage: ...

    def renew(self, reports: Sequence[Report]) -> list[RunView]: ...

    def pass_fence(self, run: str, *, fence: int, armed_us: int) -> bool: ...


@runtime_checkable
class LanesInGit(LaneService, Protocol):
    """A store of lanes on a git remote, with what a push needs of it."""

    @property
    def objects(self) -> Path:
        """The directory of git objects that has the commits made by `touch`."""
        ...

    def touch(self, handle: str) -> RefMove:
        """A new owner commit for the lane of this run, not pushed yet; raises `LeaseLost`."""
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
    return fence_at(repository, remote, ref, oid)[1]


def fence_at(repository: Repository, remote: str, ref: str, oid: str) -> tuple[str, Fence]:
    """The lane and the fence in a commit that this repository has."""
    try:
        document = repository.read_json(oid)
        return printable(str(document["lane"])), Fence(
            ref=ref,
            oid=oid,
            run=int(document["run"]),
            agent=printable(str(document["agent"])),
            since=printable(str(document["since"])),
            mark=str(document["mark"]),
            store=printable(str(document.get("store", ""))),
            kept=int(document.get("kept", 0)),
        )
    except (UnreadableState, KeyError, TypeError, ValueError):
        raise UnreadableState(
            f"The fence {ref} was not written by Interlock, so nobody may push through it.",
            f"If no run works on the lane, remove it with git push {without_secrets(remote)} :{ref}.",
        ) from None


def arm(
    repository: Repository,
    remote: str,
    run: LaneRun,
    store: FenceStore | None = None,
    *,
    pause: Callable[[float], None] = time.sleep,
    cut_beyond: int = CUT_BEYOND,
) -> Fence:
    """Raise the fence to this run, before its worktree is made; then fetch. Repeating it changes nothing.

    Raises what `check_fence` raises. A run that finds a long chain of commits begins a new one,
    and a ref of its own keeps the old one; where the server refuses that, the chain goes on.
    """
    refusal: PushRefusal | None = None
    kept = 0
    name = store.lineage().store if store is not None else ""
    for tries in range(ARM_TRIES + 1):
        fence = read_fence(repository, remote, run.lane)
        check_fence(run, fence, store)
        if fence is not None and fence.run == run.number:  # also if only the answer to our push was lost
            return fence
        if refusal is not None:
            if refusal.kind not in (RefusalKind.STALE, RefusalKind.NETWORK) or tries == ARM_TRIES:
                break
            _rest(pause)
        length = _length_to_cut(repository, fence, cut_beyond) if not kept else 0
        raised = _raised(repository, run, fence, "armed", store=name, kept=kept, cut=length > 0)
        moves = [_move(fence, raised)]
        if fence is not None and length:
            history = f"{HISTORIES}{lane_ref_id(run.lane)}/{run.number}-{fence.oid[:12]}"
            moves.append(RefMove(ref=history, old_oid=None, new_oid=fence.oid))
        refusal = repository.push(remote, moves)
        if refusal is not None and length and refusal.kind not in (RefusalKind.STALE, RefusalKind.NETWORK):
            kept = length
            raised = _raised(repository, run, fence, "armed", store=name, kept=kept)
            refusal = repository.push(remote, [_move(fence, raised)])
        if refusal is None:
            if fence is None:
                check_visible(repository, remote, raised.ref, pause=pause)
            return raised
    assert refusal is not None
    if fence is None and refusal.kind is RefusalKind.STALE:
        raise hidden_refs(remote, fence_ref(run.lane))
    raise failed_push(remote, refusal)


def _length_to_cut(repository: Repository, fence: Fence | None, beyond: int) -> int:
    """How many commits the chain of a fence has, if a run that arms should begin a new one; else 0."""
    if fence is None:
        return 0
    length = int(repository.text("rev-list", "--count", fence.oid))
    return length if length >= fence.kept + beyond else 0


def _rest(pause: Callable[[float], None]) -> None:
    pause(random.uniform(ARM_PAUSE_MIN_S, ARM_PAUSE_MAX_S))  # noqa: S311  (not a secret)


def check_visible(
    repository: Repository, remote: str, ref: str, *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Raise if the remote does not show a ref that was just made there."""
    for _ in range(LOOKS_MAX):  # a server of several machines may show it a little later
        if ref in repository.ls_remote(remote, ref):
            return
        _rest(pause)
    raise hidden_refs(remote, ref)


def check_fence(run: LaneRun, fence: Fence | None, store: FenceStore | None) -> None:
    """Raise if the fence does not let this run pass.

    `LeaseLost` if it is a later run's. `TwoStores` if it is another store's. `FenceAhead` if it is of this
    store's lineage and ahead of a live run; the store has gone on above it then. Without a store only the
    numbers count.
    """
    if fence is None or fence.mark == run.mark:
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
        f"Run {fence.run} of {fence.agent} has armed {run.lane} since {fence.since}: run {run.number} may not"
        " push to it any more.",
        "Stop and leave the branch alone; your commits stay in this clone.",
    )
    if store is None or store.renew([Report(run=run.handle)])[0].refusal is not None:
        raise later
    if known is None:
        raise two_stores(run.lane, fence, store.lineage())
    if not store.pass_fence(run.handle, fence=fence.run, armed_us=_armed_us(fence)):
        raise two_stores(run.lane, fence, known)
    raise FenceAhead(
        f"Run {fence.run} had armed {run.lane}, and this store had forgotten it: it was set back. Its run"
        f" numbers go on above {fence.run} now, but run {run.number} is behind it.",
        "Give the item back; the next run on it can push.",
    )


def two_stores(lane: str, fence: Fence, known: Lineage) -> TwoStores:
    """The error for a fence that is another store's, with both names and the cure for each case."""
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


def fence_guard(repository: Repository, remote: str, run: LaneRun, store: FenceStore | None = None) -> Guard:
    """The guard of a lane in a database: its fence.

    A run that has not armed does so by a push of its own. Arming in the same push as the branch is not safe:
    a server that hides the ref refuses it before it looks at `--atomic`, and lets the branch through.
    """

    def move() -> RefMove:
        fence = arm(repository, remote, run, store)
        return _move(fence, _raised(repository, run, fence, "pushes", store=fence.store))

    return Guard(check=lambda: check_fence(run, read_fence(repository, remote, run.lane), store), move=move)


def owner_guard(lanes: LanesInGit, handle: str) -> Guard:
    """The guard of a lane in git: its owner commit, which the store makes."""
    path = str(lanes.objects).replace("\\", r"\\").replace('"', r"\"")

    def touch() -> RefMove:
        return lanes.touch(handle)

    # To check, make a commit and do not push it. The path is quoted because it may contain a colon.
    return Guard(check=touch, move=touch, environ={"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{path}"'})


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
    """The error for a server that hides the refs in which Interlock keeps its state."""
    return PushFailed(
        f"The remote {without_secrets(remote)!r} hides {ref}, so nothing can be kept there.",
        "Let the server show refs/interlock: see transfer.hideRefs, uploadpack.hideRefs, receive.hideRefs.",
    )


def _raised(
    repository: Repository,
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
        "mark": run.mark,
        **({"store": store} if store else {}),
        **({"kept": kept} if kept else {}),
    }
    # Else a child of the last commit, because some servers accept only a fast-forward.
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
        mark=run.mark,
        store=store,
        kept=kept,
    )


def _move(old: Fence | None, new: Fence) -> RefMove:
    return RefMove(ref=new.ref, old_oid=None if old is None else old.oid, new_oid=new.oid)
