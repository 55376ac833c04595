"""Repair: rebuild an unreadable lane from the last readable state in its history.

An operator requests it. Until then the lane counts as held, unless its holder can prove that it holds the
lane (`history.held_state`). The rebuilt lane has a new owner commit, so the former holder is refused from
then on. Its item, if still known, is queued again.
"""

from __future__ import annotations

from dataclasses import replace

from interlock.core.commands import TakeBack
from interlock.core.errors import InvalidInput
from interlock.core.model import Item, ItemId, RunId
from interlock.core.states import ItemStatus
from interlock.core.timing import Timing
from interlock.gitlanes.commit_message import event_lines
from interlock.gitlanes.documents import Owner, Queue
from interlock.gitlanes.history import LaneHistory
from interlock.gitlanes.lane import Lane, UnreadableLane
from interlock.gitlanes.remote import LaneRemote


def repaired(remote: LaneRemote, name: str, why: str, by: str | None, now_us: int, timing: Timing) -> Lane:
    """The repaired lane."""
    ref_id = remote.ref_id(name)
    seen = remote.look(ref_id)
    if isinstance(seen, Lane):
        raise InvalidInput(
            f"Lane {name} can be read; there is nothing to repair.",
            "`interlock lanes` shows who holds it.",
        )
    _check_age(seen, name)
    history = LaneHistory(remote.repository, seen)
    queue, owner = history.whole_queue, next(iter(history.owners), Owner())
    last_run = _unused_number(max(queue.last_run, owner.last_run), now_us)
    before = Lane(
        name=name, ref_id=ref_id, owner=Owner(last_run=last_run), queue=replace(queue, last_run=last_run)
    )
    items, running = _with_run(queue, owner, now_us)
    taken = [TakeBack(item=running.id, why=why, by=by)] if running is not None else []
    decision, after = before.decide(items, taken, now_us, timing)
    signature = f" by {by}" if by else ""
    lines = (f"the lane was mended{signature}: {why}", *event_lines(decision.events))
    remote.replace(replace(before, owner_oid=seen.owner_oid, queue_oid=seen.queue_oid), after, lines)
    return after


def _check_age(seen: UnreadableLane, name: str) -> None:
    if seen.newer:
        raise InvalidInput(
            f"The lane {name} was written by a newer Interlock; it is not broken.",
            "Use that version here too.",
        )


def _unused_number(known: int, now_us: int) -> RunId:
    """A number above all run numbers. If none is known, the seconds since 1970: above any count of runs."""
    return RunId(known + 1 if known else now_us // 1_000_000)


def _with_run(queue: Queue, owner: Owner, now_us: int) -> tuple[dict[ItemId, Item], Item | None]:
    """The items of a queue and the running one, with the remaining data of its run."""
    items = dict(queue.items)
    running = next((i for i in items.values() if i.status is ItemStatus.IN_PROGRESS), None)
    if running is None:
        return items, None
    run = owner.run if owner.run is not None and owner.run.run == running.state.run else None
    state = running.state._replace(
        run_agent=run.run_agent if run else "unknown", run_started_us=run.run_started_us if run else now_us
    )
    items[running.id] = running = running._replace(state=state)
    return items, running
