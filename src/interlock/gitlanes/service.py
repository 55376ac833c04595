"""Lanes on a git remote, with no server and no database: `LaneService` on refs moved by compare-and-swap.

Each lane has two refs, `refs/interlock/owner/<id>` and `refs/interlock/queue/<id>`, each a chain of commits
that carry JSON; `git log` of them is the history. The rules are those of the databases. What is different:

- There is no store clock. A lease is over for a taker that has itself seen the owner's commit unchanged for
  the lease and a margin, or that knows the owner's workflow run to have ended.
- Tickets are given out in the order in which pushes won.
- Agents, projects and modes are not kept; every lane is enforced, and nobody is overtaken.

Anyone who may write to the remote can break a lane by hand. Handles protect against mistakes and guesses, not
against somebody who has that right and means harm.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from interlock.core import names
from interlock.core.checking import (
    check_batch,
    checked,
    checked_wish,
    given_reason,
    signed,
)
from interlock.core.claiming import MESSAGES_AT_ONCE, Claim, started, wanted
from interlock.core.commands import Cancel, Moved, Tell
from interlock.core.errors import InvalidInput, ItemEnded
from interlock.core.model import Item, ItemId, Mode, NewItem, RunId
from interlock.core.timing import Timing
from interlock.gitlanes import commit_message
from interlock.gitlanes.documents import ActionsRun
from interlock.gitlanes.first_seen import Sight
from interlock.gitlanes.holder import Keeping, digest
from interlock.gitlanes.lane import Deadlines, HasEnded, Lane
from interlock.gitlanes.mending import mended
from interlock.gitlanes.refs import Unread
from interlock.gitlanes.remote import Change, LaneRemote
from interlock.service.answers import (
    add_view,
    holder_view,
    message_view,
)
from interlock.service.contract import AddView, ChangeView, LaneView, LeaseView
from interlock.service.itemview import ItemView, moment
from interlock.store.clock import wall_us

LEASE_MIN_S = 900.0
MARGIN_SHARE = 0.1
#: Who waits looks less and less often, down to this share: a remote is not to be flooded by those who wait.
SLOWER, SLOWEST = 1.5, 10.0
LINE_SHOWN = 20


class GitLanes(Keeping):
    """The lanes of one remote. Every call is safe from several threads and processes at once."""

    def __init__(
        self,
        url: str,
        directory: Path,
        *,
        timing: Timing | None = None,
        lease_min_s: float = LEASE_MIN_S,
        margin_share: float = MARGIN_SHARE,
        poll_s: float = 1.0,
        actions: ActionsRun | None = None,
        has_ended: HasEnded = lambda _: False,
        now: Callable[[], int] = wall_us,
        sight: Sight | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(LaneRemote(url, directory, pause=pause), timing or Timing(), now)
        self._lease_min_s = lease_min_s
        self._margin_share = margin_share
        self._poll_s = poll_s
        self._actions = actions
        self._has_ended = has_ended
        self._sight = sight or Sight(self.remote.sights)
        self._pause = pause

    @property
    def objects(self) -> Path:
        """The directory of git objects in which the commits of `touch` lie."""
        return self.remote.objects

    # -- arrivals -------------------------------------------------------------------------------------

    def add(self, items: Sequence[NewItem]) -> list[AddView]:
        """Decide on arrivals on one lane, in order, in one commit."""
        check_batch("items", len(items))
        if not items:
            return []
        new = [checked(i) for i in items]
        lanes = {n.lane for n in new}
        lane_name = new[0].lane
        if lane_name is None or len(lanes) != 1:
            raise InvalidInput(
                "A store in git takes items of one lane at a time.",
                "Give every item the same --lane; work without a lane needs a database.",
            )

        def step(lane: Lane) -> Change[list[AddView]]:
            now_us = self._now()
            seen = lane.seen_items(self._deadlines(lane, now_us))
            due = lane.overdue(seen, now_us)
            decision, after = lane.decide(seen, due, now_us, self._timing, arrivals=new)
            shown = {**decision.after, **after.items}  # deadlines as written, not as counted here
            views = [add_view(a, shown) for a in decision.answers[len(due) :]]
            return Change(after=after, answer=views, happened=commit_message.told(decision.events))

        return self.remote.transact(self.remote.ref_id(lane_name), step, name=lane_name)

    # -- claims ---------------------------------------------------------------------------------------

    def next(
        self,
        agent: str,
        *,
        types: Sequence[str] = (),
        labels: Sequence[str] = (),
        limit: int = 1,
        wait_s: float = 0.0,
        lease_s: float | None = None,
        worker: str | None = None,
        item: int | None = None,
    ) -> list[LeaseView]:
        """Claim up to `limit` items, waiting up to `wait_s` for the first.

        With `item`, only that one: nothing while it cannot be claimed, an `ItemEnded` once it never can be.
        """
        wish = checked_wish(agent, types, labels, limit, lease_s, worker)
        names.check_number("wait", wait_s, 0, names.WAIT_MAX_S)
        if item is not None:
            wish = replace(wish, item=ItemId(item))
        asked_s = time.monotonic()
        deadline_s = asked_s + wait_s
        pause_s = self._poll_s
        while True:
            leases = self._claim(wish, asked_s)
            left_s = deadline_s - time.monotonic()
            if leases or left_s <= 0:
                return leases
            self._pause(min(left_s, pause_s * random.uniform(0.75, 1.25)))  # noqa: S311  (not a secret)
            pause_s = min(pause_s * SLOWER, self._poll_s * SLOWEST)

    def _claim(self, wish: Claim, asked_s: float) -> list[LeaseView]:
        ref_ids = [self.remote.find(wish.item)] if wish.item is not None else self._worth_a_look(wish)
        leases: list[LeaseView] = []
        for ref_id in ref_ids:
            lease = self.remote.transact(ref_id, lambda lane: self._begin(lane, wish, asked_s))
            leases += [lease] if lease is not None else []
            if len(leases) == wish.limit:
                break
        return leases

    def _worth_a_look(self, wish: Claim) -> list[str]:
        """Lanes on which this wish may find something, or on which time has run out: those of the highest
        priority first, of one priority the oldest."""
        found = []
        for lane in self.remote.read_all():
            if isinstance(lane, Unread):  # held by nobody knows whom
                continue
            now_us = self._now()
            seen = lane.seen_items(self._deadlines(lane, now_us))
            ready = [i for i in seen.values() if wanted(wish, i)]
            if ready or lane.overdue(seen, now_us):
                order = min(
                    ((-i.spec.priority, i.spec.created_us) for i in ready), default=(names.PRIORITY_MAX, 0)
                )
                found.append((order, lane.ref_id))
        return [ref_id for _, ref_id in sorted(found)]

    def _begin(self, lane: Lane, wish: Claim, asked_s: float) -> Change[LeaseView | None]:
        now_us, waited_s = self._now(), int(1000 * (time.monotonic() - asked_s)) / 1000
        seen = lane.seen_items(self._deadlines(lane, now_us))
        decision, after = lane.decide(seen, lane.overdue(seen, now_us), now_us, self._timing)
        happened = commit_message.told(decision.events)
        if wish.item is not None:
            after.require_unended(wish.item)
        item = next((i for i in after.queue.items.values() if wanted(wish, i)), None)
        if item is None:
            return Change(after=after, answer=None, happened=happened)
        lease_s = max(wish.lease_s or item.spec.lease_s or self._timing.lease_s, self._lease_min_s)
        item = started(item, wish, RunId(after.owner.last_run + 1), lease_s, now_us)
        handle = f"{item.state.run}.{item.id}.{secrets.token_hex(8)}"
        after = after.begun(item, digest(handle), self._actions)
        lease = self._lease(handle, item, after, lane)._replace(waited_s=waited_s)
        return Change(after=after, answer=lease, happened=(*happened, commit_message.began(item)))

    def _lease(self, handle: str, item: Item, after: Lane, before: Lane) -> LeaseView:
        state = item.state
        assert state.run is not None and state.due_us is not None and state.run_lease_s is not None
        payload = after.queue.payloads.get(item.id) or before.queue.payloads.get(item.id)
        return LeaseView(
            run=handle,
            fence=state.run,
            expires_at=moment(state.due_us),
            renew_within_s=round(state.run_lease_s / 3, 3),
            item=ItemView(item, payload),
            messages=tuple(message_view(m) for m in after.messages(item.id, 0, MESSAGES_AT_ONCE)),
        )

    # -- messages, operators and looking --------------------------------------------------------------

    def msg(self, item: int, text: str, *, author: str = "", from_bot: bool = False) -> ChangeView:
        """Tell an item something; if it was absorbed, its absorber is told."""
        names.check_text("message", text)
        names.check_text("author", author, names.NAME_MAX_CHARS)

        def tell(lane: Lane) -> Tell:
            target = lane.last_absorber(ItemId(item))
            ticket = lane.queue.last_ticket + 1
            return Tell(item=target, ticket=ticket, text=text, author=author, from_bot=from_bot)

        return self._operate(item, tell)

    def cancel(self, item: int, *, why: str, by: str = "", force: bool = False) -> ChangeView:
        """An operator ends an item; a running one gets its grace unless `force`."""
        command = Cancel(item=ItemId(item), why=given_reason(why), by=signed(by), force=force)
        return self._operate(item, lambda _: command)

    def _operate(self, item: int, build: Callable[[Lane], Tell | Cancel]) -> ChangeView:
        def step(lane: Lane) -> Change[ChangeView]:
            now_us = self._now()
            command = build(lane)
            lane.require(command.item)
            seen = lane.seen_items(self._deadlines(lane, now_us))
            decision, after = lane.decide(seen, [command], now_us, self._timing)
            moved: Moved = decision.answers[0]
            if not moved.changed:
                raise ItemEnded(moved.refusal, "git log of the lane tells more.")
            if isinstance(command, Tell):
                after = replace(after, queue=replace(after.queue, last_ticket=command.ticket))
            view = ChangeView(
                item=ItemView(decision.after[command.item]), promoted=moved.promoted, n=moved.n or None
            )
            return Change(after=after, answer=view, happened=commit_message.told(decision.events))

        return self.remote.transact(self.remote.find(item), step)

    def lanes(self, *, prefix: str = "", limit: int = 100) -> list[LaneView]:
        """Lanes that are held or have a line, and those whose state cannot be read: they count as held."""
        names.check_number("limit", limit, 1, names.BATCH_MAX)
        beginning, views = names.folded_lane(prefix), []
        for lane in self.remote.read_all():
            if isinstance(lane, Unread):
                views.append(_unread_view(lane))
                continue
            self._sight.look(lane.ref_id, lane.sights())
            if lane.holder is not None or lane.line:
                views.append(_lane_view(lane))
        return [view for view in views if view.lane.startswith(beginning)][:limit]

    def hindered(self, item: int) -> str | None:  # noqa: ARG002  (the contract's)
        """Nothing: no limits of agents are kept in git."""
        return None

    def mend(self, lane: str, *, why: str, by: str = "") -> LaneView:
        """Rebuild a lane whose state cannot be read, from the last state in its history that can be."""
        name, now_us = names.lane_key(lane), self._now()
        return _lane_view(mended(self.remote, name, given_reason(why), signed(by), now_us, self._timing))

    def close(self) -> None:
        """Nothing is kept open; what has piled up is packed."""
        self.remote.close()

    def _deadlines(self, lane: Lane, now_us: int) -> Deadlines:
        return Deadlines(
            ages=self._sight.look(lane.ref_id, lane.sights()),
            now_us=now_us,
            grace_s=self._timing.cancel_grace_s,
            margin_share=self._margin_share,
            has_ended=self._has_ended,
        )


def _lane_view(lane: Lane) -> LaneView:
    line = lane.line
    return LaneView(
        lane=lane.name,
        mode=Mode.ENFORCE.value,
        holder=holder_view(lane.holder),
        waiting=len(line),
        line=tuple(i.id for i in line[:LINE_SHOWN]),
    )


def _unread_view(lane: Unread) -> LaneView:
    return LaneView(
        lane=lane.name or lane.ref_id,
        mode=Mode.ENFORCE.value,
        holder=None,
        waiting=0,
        line=(),
        unreadable=lane.why.sentence,
    )
