"""Mending: rebuild a lane that somebody broke, from the last readable state in its history or from a list.

An operator asks for it; until then the lane counts as held, unless its holder can prove that it holds it
(`history.held_state`). The rebuilt lane has a new owner commit, so the former holder is refused from then on.
Its item, if still known, is offered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from interlock.core.claiming import Claim, started
from interlock.core.commands import TakeBack
from interlock.core.errors import InvalidInput
from interlock.core.model import Item, ItemId, NewItem, RunId
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus
from interlock.core.timing import Timing
from interlock.git.refusals import FINAL
from interlock.gitlanes.commit_message import event_lines, started_line
from interlock.gitlanes.documents import Owner, Queue
from interlock.gitlanes.history import LaneHistory
from interlock.gitlanes.lane import Lane, UnreadableLane, missing_lane
from interlock.gitlanes.remote import TRIES, LaneRemote


def mended(remote: LaneRemote, name: str, why: str, by: str | None, now_us: int, timing: Timing) -> Lane:
    """The lane after it was mended."""
    ref_id = remote.ref_id(name)
    seen = remote.look(ref_id)
    if isinstance(seen, Lane):
        raise InvalidInput(
            f"The lane {name} can be read; there is nothing to mend.",
            "`interlock lanes` shows who holds it.",
        )
    _check_age(seen, name)
    history = LaneHistory(remote.repository, seen)
    queue, owner = history.whole_queue, next(iter(history.owners), Owner())
    last_run = _above(max(queue.last_run, owner.last_run), now_us)
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


class Rebuilding(NamedTuple):
    """What a lane is to be, by somebody who knows it from elsewhere."""

    name: str
    #: Who is active, if anybody: its run is external, and of this agent.
    active: NewItem | None
    agent: str
    #: The digest of its handle, which nobody gets.
    handle: str
    line: Sequence[NewItem]
    #: The first line of the commit.
    why: str


def rebuilt(remote: LaneRemote, wish: Rebuilding, now_us: int, timing: Timing) -> Lane:
    """The lane after it was rebuilt: one that is missing or cannot be read, not from its own history but from
    what somebody found elsewhere.

    Run numbers go on above all that are known. If two do it at once, the first one's lane is the answer.
    """
    tries = 0
    while True:
        seen = remote.look(remote.ref_id(wish.name))
        if isinstance(seen, Lane):
            if seen.name:
                return seen
            seen = missing_lane(seen.ref_id, wish.name)
        _check_age(seen, wish.name)
        before, after, lines = _rebuilding(remote, seen, wish, now_us, timing)
        refusal = remote.write_over(before, after, (wish.why, *lines))
        if refusal is None:
            return after
        tries += 1
        if tries == TRIES or refusal.kind in FINAL:
            raise remote.failed(refusal)


def _rebuilding(
    remote: LaneRemote, seen: UnreadableLane, wish: Rebuilding, now_us: int, timing: Timing
) -> tuple[Lane, Lane, tuple[str, ...]]:
    """The lane as it is now, without its items, and as it is to be."""
    history = LaneHistory(remote.repository, seen)
    old = next(iter(history.queues), Queue())
    known = max((owner.last_run for owner in history.owners), default=old.last_run)
    last_run = _above(max(known, old.last_run), now_us)
    if not known:  # perhaps it had more runs than these
        last_run = RunId(max([last_run, *(run + 1 for run in remote.former_runs(seen.ref_id))]))
    queue = replace(old, last_run=last_run, items={}, payloads={}, messages=(), keys=(), handles={})
    before = Lane(name=wish.name, ref_id=seen.ref_id, owner=Owner(last_run=last_run), queue=queue)
    line = sorted(wish.line, key=lambda new: (new.position is None, new.position or 0))
    arrivals = [*([] if wish.active is None else [wish.active]), *line]
    decision, after = before.decide({}, [], now_us, timing, arrivals=arrivals)
    lines = event_lines(decision.events)
    if wish.active is not None:
        first = after.holder
        assert first is not None
        item = started(first, Claim(agent=wish.agent, external=True), RunId(last_run + 1), 0.0, now_us)
        after, lines = after.with_start(item, wish.handle, None), (*lines, started_line(item))
    return replace(before, owner_oid=seen.owner_oid, queue_oid=seen.queue_oid), after, lines


def _check_age(seen: UnreadableLane, name: str) -> None:
    if seen.newer:
        raise InvalidInput(
            f"The lane {name} was written by a newer Interlock; it is not broken.",
            "Use that version here too.",
        )


def _above(known: int, now_us: int) -> RunId:
    """A number above all runs. If none is known, the seconds since 1970: greater than any count of runs."""
    return RunId(known + 1 if known else now_us // 1_000_000)


def _with_run(queue: Queue, owner: Owner, now_us: int) -> tuple[dict[ItemId, Item], Item | None]:
    """The items of a queue and the running one, with what is still known of its run."""
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
