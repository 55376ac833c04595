"""Checks the remote before runs use it: is it readable, and which stores own its fences?"""

from __future__ import annotations

import shutil
from pathlib import Path

from interlock.core.continuity import Ancestor, Lineage
from interlock.core.errors import GitFailed, GitMissing, NoRemote, NoRepository, UnreadableState
from interlock.git.checkout import push_remote_of, remote_of
from interlock.git.plumbing import GitRepository
from interlock.git.refusals import without_secrets
from interlock.push.fence import FENCES, Fence, fence_at, two_stores
from interlock.service.contract import CheckView

#: The most fences to check: each is a commit to fetch.
FENCES_MAX = 100
#: How many faulty fences are named.
NAMED_MAX = 3
#: The disk space for a worktree, its log and its salvage.
ROOM_MIN_BYTES = 100 << 20


def lineage_check(known: Lineage) -> CheckView:
    """The name of the store, for comparison with the fences."""
    copied = [name for name, state in known.ancestors.items() if state is Ancestor.COPIED]
    detail = f"This is the store {known.store}."
    if copied:
        detail += f" It is a copy of {', '.join(copied)}, which may still be in use."
    return CheckView(name="lineage", ok=True, detail=detail)


def remote_checks(directory: Path, known: Lineage) -> list[CheckView]:
    """Checks of this repository and its remote for runs with worktrees; none outside a repository."""
    try:
        repository = GitRepository.containing(directory)
    except (NoRepository, GitMissing):
        return []
    return [_disk_space(directory), *_remote(repository, known)]


def _disk_space(directory: Path) -> CheckView:
    free = shutil.disk_usage(directory).free
    return CheckView(
        name="disk_space",
        ok=free >= ROOM_MIN_BYTES,
        detail=f"{free >> 20:,} MiB are free for worktrees.",
        mend="" if free >= ROOM_MIN_BYTES else "Free some space; runs could not be started.",
    )


def _remote(repository: GitRepository, known: Lineage) -> list[CheckView]:
    try:
        remote_of(repository)
    except NoRemote:
        told = "There is no remote: worktrees start from the checked-out commit, and nothing can be pushed."
        return [CheckView(name="remote", ok=True, detail=told)]
    try:
        remote = push_remote_of(repository)
        refs = sorted(repository.ls_remote(remote, f"{FENCES}*").items())
        fences = _read(repository, remote, refs[:FENCES_MAX])
    except GitFailed as error:
        return [CheckView(name="remote", ok=False, detail=error.sentence, mend=error.hint, cures=error.cures)]
    name = without_secrets(remote)
    read = CheckView(name="remote", ok=True, detail=f"The remote {name!r} can be read.")
    return [read, _fence_owners(fences, len(refs), known)]


def _read(
    repository: GitRepository, remote: str, refs: list[tuple[str, str]]
) -> list[tuple[str, Fence | None]]:
    missing = [ref for ref, oid in refs if not repository.has(oid)]
    if missing:
        repository.fetch(remote, *missing)
    found: list[tuple[str, Fence | None]] = []
    for ref, oid in refs:
        try:
            found.append(fence_at(repository, remote, ref, oid))
        except UnreadableState:
            found.append((ref, None))
    return found


def _fence_owners(fences: list[tuple[str, Fence | None]], count: int, known: Lineage) -> CheckView:
    faults, mends = [], []
    ahead = 0
    for lane, fence in fences:
        if fence is None:
            faults.append(f"{lane} was not written by Interlock.")
            mends.append(f"If no run works on its lane, remove it with git push REMOTE :{lane}.")
        elif (fence.store and not known.goes_on_from(fence.store)) or (
            not fence.store and fence.run > known.last_run
        ):
            error = two_stores(lane, fence, known)
            faults.append(error.sentence)
            mends.append(error.hint)
        elif fence.run > known.last_run:
            ahead += 1
    looked = f"{len(fences)} of {count:,} fences" if count > len(fences) else f"{count} fences"
    if not faults:
        told = f"{looked} on the remote belong to this store or its ancestors."
        if ahead:
            told += f" {ahead} are ahead of its run numbers, which leap past them at the next run."
        return CheckView(name="fences", ok=True, detail=told if count else "No lane has a fence yet.")
    more = f" And {len(faults) - NAMED_MAX} more." if len(faults) > NAMED_MAX else ""
    return CheckView(
        name="fences",
        ok=False,
        detail=" ".join(faults[:NAMED_MAX]) + more,
        mend=" ".join(dict.fromkeys(mends[:NAMED_MAX])),
    )
