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
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from interlock.contract import AddView, ChangeView, LaneView, LeaseView, MessageView, Report, RunView
from interlock.core import names
from interlock.core.checking import (
    check_batch,
    check_report,
    checked,
    checked_wish,
    given_reason,
    signed,
)
from interlock.core.claiming import MESSAGES_AT_ONCE, Claim, renewed, started, wanted
from interlock.core.commands import Cancel, Finish, Moved, Outcome, TakeBack, Tell
from interlock.core.ending import explain_loss
from interlock.core.errors import InvalidInput, ItemEnded, LeaseLost, NotFound, Refusal, UnknownRun
from interlock.core.handles import handle_numbers
from interlock.core.model import Item, ItemId, Mode, NewItem, RunId
from interlock.core.states import ItemStatus
from interlock.core.timing import Timing, to_us
from interlock.itemview import ItemView, moment
from interlock.presenting import (
    add_view,
    ended_view,
    holder_view,
    kept_view,
    message_view,
    refused_view,
)
from interlock.refusals import RefMove
from interlock.store import git_story
from interlock.store.clock import wall_us
from interlock.store.git_documents import ActionsRun, Owner, Queue, read_owner, read_queue
from interlock.store.git_lane import Deadlines, HasEnded, Lane
from interlock.store.git_remote import OWNERS, QUEUES, Change, LaneRemote, Unread
from interlock.store.git_sight import Sight

LEASE_MIN_S = 900.0
MARGIN_SHARE = 0.1
#: Who waits looks less and less often, down to this share: a remote is not to be flooded by those who wait.
SLOWER, SLOWEST = 1.5, 10.0
LINE_SHOWN = 20


class GitLanes:
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
        self.remote = LaneRemote(url, directory, pause=pause)
        self._timing = timing or Timing()
        self._lease_min_s = lease_min_s
        self._margin_share = margin_share
        self._poll_s = poll_s
        self._actions = actions
        self._has_ended = has_ended
        self._now = now
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
            return Change(after=after, answer=views, happened=git_story.told(decision.events))

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
        deadline_s = time.monotonic() + wait_s
        pause_s = self._poll_s
        while True:
            leases = self._claim(wish)
            left_s = deadline_s - time.monotonic()
            if leases or left_s <= 0:
                return leases
            self._pause(min(left_s, pause_s * random.uniform(0.75, 1.25)))  # noqa: S311  (not a secret)
            pause_s = min(pause_s * SLOWER, self._poll_s * SLOWEST)

    def _claim(self, wish: Claim) -> list[LeaseView]:
        ref_ids = [self.remote.find(wish.item)] if wish.item is not None else self._worth_a_look(wish)
        leases: list[LeaseView] = []
        for ref_id in ref_ids:
            lease = self.remote.transact(ref_id, lambda lane: self._begin(lane, wish))
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

    def _begin(self, lane: Lane, wish: Claim) -> Change[LeaseView | None]:
        now_us = self._now()
        seen = lane.seen_items(self._deadlines(lane, now_us))
        decision, after = lane.decide(seen, lane.overdue(seen, now_us), now_us, self._timing)
        happened = git_story.told(decision.events)
        if wish.item is not None:
            _require_unended(after, wish.item)
        item = next((i for i in after.queue.items.values() if wanted(wish, i)), None)
        if item is None:
            return Change(after=after, answer=None, happened=happened)
        lease_s = max(wish.lease_s or item.spec.lease_s or self._timing.lease_s, self._lease_min_s)
        item = started(item, wish, RunId(after.owner.last_run + 1), lease_s, now_us)
        handle = f"{item.state.run}.{item.id}.{secrets.token_hex(8)}"
        after = after.begun(item, _digest(handle), self._actions)
        lease = self._lease(handle, item, after, lane)
        return Change(after=after, answer=lease, happened=(*happened, git_story.began(item)))

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

    # -- the holder's writes --------------------------------------------------------------------------

    def done(self, reports: Sequence[Report]) -> list[RunView]:
        """The work of these runs is done."""
        return self._finish(reports, Outcome.DONE)

    def fail(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs failed; their items are tried again while attempts are left."""
        return self._finish(reports, Outcome.FAIL)

    def release(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs give their items back unworked."""
        return self._finish(reports, Outcome.RELEASE)

    def _finish(self, reports: Sequence[Report], outcome: Outcome) -> list[RunView]:
        """Each run ends in a commit of its own; runs of two lanes have nothing to do with each other."""
        _check_reports(reports)
        return [self._finish_one(report, outcome) for report in reports]

    def _finish_one(self, report: Report, outcome: Outcome) -> RunView:
        run, item = handle_numbers(report.run)
        command = Finish(
            run=run,
            item=item,
            outcome=outcome,
            seen=report.seen,
            result=report.result,
            error=report.error,
            retry=report.retry,
            jitter=random.random(),  # noqa: S311  (spreads retries; nothing secret)
        )

        def step(lane: Lane) -> Change[RunView]:
            refused = _refusal(lane, report.run)
            if refused is not None:
                return Change(after=lane, answer=refused)
            decision, after = lane.decide(lane.items, [command], self._now(), self._timing)
            view = ended_view(report.run, decision.answers[0], decision.after)
            return Change(after=after, answer=view, happened=git_story.told(decision.events))

        return self.remote.transact(self.remote.find(item), step, urgent=True)

    def renew(self, reports: Sequence[Report]) -> list[RunView]:
        """Keep the leases of these runs, and learn of cancel requests and unread messages."""
        _check_reports(reports)
        return [self._renew(report) for report in reports]

    def _renew(self, report: Report) -> RunView:
        item = handle_numbers(report.run)[1]

        def step(lane: Lane) -> Change[RunView]:
            refused = _refusal(lane, report.run)
            if refused is not None:
                return Change(after=lane, answer=refused)
            before = lane.items[item]
            kept = self._kept(before, report.seen)
            if self._is_news(before, kept):
                after = lane.kept(kept)
                return Change(
                    after=after, answer=kept_view(report.run, kept), happened=(git_story.kept(kept),)
                )
            return Change(after=lane, answer=kept_view(report.run, before))

        return self.remote.transact(self.remote.find(item), step, urgent=True)

    def _kept(self, item: Item, seen: int) -> Item:
        """The running item renewed. With the first renewal after a cancel request its grace begins."""
        now_us = self._now()
        if item.state.cancel_into is not None and item.state.revoke_us is None:
            revoke_us = now_us + to_us(self._timing.cancel_grace_s)
            item = item._replace(state=item.state._replace(revoke_us=revoke_us))
        return renewed(item, seen, now_us)

    def _is_news(self, before: Item, after: Item) -> bool:
        """Whether a renewal is worth a commit. One right after another is not: a holder that believes in it
        all the same is wrong by less than the margin."""
        old, new = before.state, after.state
        assert (
            old.lease_until_us is not None and new.lease_until_us is not None and new.run_lease_s is not None
        )
        gained_us = new.lease_until_us - old.lease_until_us
        soon = 0 <= gained_us < to_us(new.run_lease_s * self._margin_share / 2)
        return not soon or new.seen > old.seen or new.revoke_us != old.revoke_us

    def touch(self, handle: str) -> RefMove:
        """A new owner commit for the lane this handle holds, not yet pushed; raises `LeaseLost`.

        Pushed together with a branch in one atomic push, it lets only the lane's owner push.
        """
        item = handle_numbers(handle)[1]
        lane = self.remote.read(self.remote.find(item))
        refused = _refusal(lane, handle)
        if refused is not None and refused.refusal is not None:
            raise LeaseLost(refused.refusal.message, refused.refusal.hint)
        kept = self._kept(lane.items[item], 0)
        happened = (f"{git_story.kept(kept)} and pushes",)
        return self.remote.commits(lane, Change(after=lane.kept(kept), answer=None, happened=happened))[0]

    def inbox(self, run: str, *, seen: int = 0) -> list[MessageView]:
        """Unread messages of a run; `seen` moves its read mark first. Reading is fenced like writing."""
        view = self.renew([Report(run=run, seen=seen)])[0]
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, view.refusal.hint)
        assert view.item is not None
        item = ItemId(view.item.id)
        lane = self.remote.read(self.remote.find(item))
        after = view.item.messages - view.unread
        return [message_view(m) for m in lane.messages(item, after, MESSAGES_AT_ONCE)]

    # -- messages, operators and looking --------------------------------------------------------------

    def msg(self, item: int, text: str, *, author: str = "", from_bot: bool = False) -> ChangeView:
        """Tell an item something; if it was absorbed, its absorber is told."""
        names.check_text("message", text)
        names.check_text("author", author, names.NAME_MAX_CHARS)

        def tell(lane: Lane) -> Tell:
            target = _last_absorber(lane, ItemId(item))
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
            _require(lane, command.item)
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
            return Change(after=after, answer=view, happened=git_story.told(decision.events))

        return self.remote.transact(self.remote.find(item), step)

    def lanes(self, *, prefix: str = "", limit: int = 100) -> list[LaneView]:
        """Lanes that are held or have a line, and those whose state cannot be read: they count as held."""
        names.check_number("limit", limit, 1, names.BATCH_MAX)
        views = []
        for lane in self.remote.read_all():
            if isinstance(lane, Unread):
                views.append(_unread_view(lane))
                continue
            self._sight.look(lane.ref_id, lane.sights())
            if lane.holder is not None or lane.line:
                views.append(_lane_view(lane))
        return [view for view in views if view.lane.startswith(prefix)][:limit]

    def mend(self, lane: str, *, why: str, by: str = "") -> LaneView:
        """Rebuild a lane whose state cannot be read, from the last state in its history that can be.

        A run that held it has lost it. Its item, if it is still known, is offered again.
        """
        name, why = names.lane_key(lane), given_reason(why)
        ref_id = self.remote.ref_id(name)
        seen = self.remote.look(ref_id)
        if isinstance(seen, Lane):
            raise InvalidInput(
                f"The lane {name} can be read; there is nothing to mend.",
                "`interlock lanes` shows who holds it.",
            )
        _, queue = self.remote.last_readable(f"{QUEUES}{ref_id}", read_queue) or ("", Queue())
        _, owner = self.remote.last_readable(f"{OWNERS}{ref_id}", read_owner) or ("", Owner())
        now_us = self._now()
        # Where no number can be read, the seconds since 1970 are greater than any count of runs.
        last_run = RunId(
            max(queue.last_run, owner.last_run) + 1
            if owner.last_run or queue.last_run
            else now_us // 1_000_000
        )
        blank = Lane(
            name=name, ref_id=ref_id, owner=Owner(last_run=last_run), queue=replace(queue, last_run=last_run)
        )
        items, running = _with_run(queue, owner, now_us)
        taken = [TakeBack(item=running.id, why=why, by=signed(by))] if running is not None else []
        decision, mended = blank.decide(items, taken, now_us, self._timing)
        who = f" by {by}" if by else ""
        happened = (f"the lane was mended{who}: {why}", *git_story.told(decision.events))
        self.remote.replace(seen, mended, happened)
        return _lane_view(mended)

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


def _digest(handle: str) -> str:
    return sha256(handle.encode()).hexdigest()


def _refusal(lane: Lane, handle: str) -> RunView | None:
    """Nothing if this handle is that of the run that the owner document names; equality, nothing else."""
    run, item = handle_numbers(handle)
    owner = lane.owner.run
    if owner is not None and (owner.run, owner.item) == (run, item):
        if compare_digest(owner.handle, _digest(handle)):
            return None
        raise UnknownRun(
            f"The handle {handle} was never issued by this store.",
            "Use the handle that was given to the run, and check INTERLOCK_URL.",
        )
    ended = next((r for r in lane.queue.ended if r.run == run), None)
    now = lane.items.get(item)
    refusal: Refusal = explain_loss(run, ended, now)
    return refused_view(handle, refusal, now)


def _check_reports(reports: Sequence[Report]) -> None:
    check_batch("runs", len(reports))
    for report in reports:
        check_report(report.seen, report.result, report.error)


def _require(lane: Lane, item: ItemId) -> Item:
    found = lane.queue.items.get(item)
    if found is None:
        raise NotFound(
            f"There is no item {item} on lane {lane.name}.",
            "If it ended long ago, git log of the lane has it.",
        )
    return found


def _require_unended(lane: Lane, item: ItemId) -> None:
    found = _require(lane, item)
    if found.terminal:
        raise ItemEnded(
            f"Item {item} has already ended as {found.status} ({found.state.reason}).",
            "git log of the lane tells more.",
            reason=found.state.reason,
        )


def _last_absorber(lane: Lane, item: ItemId) -> ItemId:
    """Where a message to an item ends up."""
    while True:
        found = _require(lane, item)
        if not found.terminal or found.state.absorbed_by is None:
            return item
        item = found.state.absorbed_by


def _with_run(queue: Queue, owner: Owner, now_us: int) -> tuple[dict[ItemId, Item], Item | None]:
    """The items of a queue, the running one with what is still known of its run."""
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
