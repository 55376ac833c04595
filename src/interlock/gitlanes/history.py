"""Earlier states of a lane, read from the history of its refs if the current state is unreadable."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from interlock.core.errors import UnreadableState
from interlock.core.model import ItemId, RunId
from interlock.core.row import NamedTuple
from interlock.git.plumbing import GitRepository
from interlock.gitlanes.documents import Owner, Queue, check_pair, read_owner, read_queue
from interlock.gitlanes.lane import Document, Lane, UnreadableLane

#: How many commits to look back. Damage is recent: the next command on the lane detects it.
HISTORY_MAX = 200


class Holder(NamedTuple):
    """A run that claims to hold a lane: its numbers, and the digest of its handle."""

    run: RunId
    item: ItemId
    handle: str

    def owns(self, owner: Owner) -> bool:
        """Whether a document names exactly this run as the owner."""
        run = owner.run
        return run is not None and Holder(run.run, run.item, run.handle) == self


class LaneHistory:
    """The readable documents of a lane, newest first, from the history of its two refs."""

    def __init__(self, repository: GitRepository, seen: UnreadableLane) -> None:
        owners = _readable(repository, seen.ref_id, seen.owner_oid, read_owner)
        queues = _readable(repository, seen.ref_id, seen.queue_oid, read_queue)
        self.name = next((name for name, _ in (*owners, *queues)), seen.name or "")
        self.owners = [owner for _, owner in owners]
        self.queues = [queue for _, queue in queues]

    @property
    def whole_queue(self) -> Queue:
        """The newest queue that lost no unfinished item of the one before it: Interlock never drops one."""
        for queue, before in pairwise(self.queues):
            if all(item.terminal or item.id in queue.items for item in before.items.values()):
                return queue
        return self.queues[-1] if self.queues else Queue()


def held_state(
    repository: GitRepository, seen: UnreadableLane, holder: Holder, record: str | None
) -> Lane | None:
    """The lane as its holder may rewrite it; None if nothing proves that the run still holds it.

    A handover moves both refs at once, so one readable document is proof: the run that it names holds the
    lane. The other document comes from the history of its ref. The owner may also come from `record`, the
    last commit that the holder's machine pushed. If both are damaged, the newest states in both histories
    must agree.
    """
    history = LaneHistory(repository, seen)
    whole = [half for half in (seen.owner, seen.queue) if half is not None]
    if any(state.last_run > holder.run for state in (*whole, *history.owners, *history.queues)):
        return None  # a later run had the lane
    recorded = [owner for _, owner in _readable(repository, seen.ref_id, record, read_owner)]
    mine = next((owner for owner in (*history.owners, *recorded) if holder.owns(owner)), None)
    pairs: list[tuple[Owner, Queue]] = []
    if seen.queue is not None and mine is not None:
        pairs.append((replace(mine, last_run=seen.queue.last_run), seen.queue))
    if seen.owner is not None:
        pairs += [(seen.owner, queue) for queue in history.queues]
    if not whole and history.owners:
        pairs.append((history.owners[0], history.whole_queue))
    for owner, queue in pairs:
        if holder.owns(owner) and _agree(seen.ref_id, owner, queue):
            return Lane(
                name=seen.name or history.name,
                ref_id=seen.ref_id,
                owner=owner,
                queue=queue,
                owner_oid=seen.owner_oid,
                queue_oid=seen.queue_oid,
                broken=True,
            )
    return None


def _agree(ref_id: str, owner: Owner, queue: Queue) -> bool:
    try:
        check_pair(ref_id, owner, queue)
    except UnreadableState:
        return False
    return True


def _readable(
    repository: GitRepository, ref_id: str, tip: str | None, read: Callable[[str, Any], tuple[str, Document]]
) -> list[tuple[str, Document]]:
    """The readable documents in a commit's history, newest first, each with the lane's name."""
    found: list[tuple[str, Document]] = []
    if tip is None:
        return found
    listed = repository.run("rev-list", "--first-parent", f"--max-count={HISTORY_MAX}", tip, "--")
    for oid in listed.out.split() if not listed.code else ():
        with contextlib.suppress(UnreadableState):
            found.append(read(ref_id, repository.read_json(oid)))
    return found
