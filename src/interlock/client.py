"""Interlock for Python programs: `with interlock.connect() as il: with il.next(agent="coder") as lease: …`.

A lease taken here renews itself in the background for as long as its block runs. It cannot promise that
the block *stops* when the lease is lost; look at `lease.lost` and `lease.cancel_requested` between steps,
and rely on the fence: nothing a lost lease writes is accepted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from interlock.core.errors import Closed, CycleExpired, InterlockError, InvalidInput, LeaseLost
from interlock.core.model import A_PERSON, Sender
from interlock.core.names import (
    NAME_MAX_CHARS,
    TIMEOUT_MAX_S,
    USUAL_FIELDS,
    LaneFields,
    check_flag,
    check_list,
    check_number,
    check_text,
    lane_key,
)
from interlock.core.timing import LEASE_DEFAULT_S
from interlock.process.clock import now_s
from interlock.process.heartbeat import Heartbeat
from interlock.process.live_run import BEAT_MAX_S, LiveRun
from interlock.process.outcome import error_text, result_text
from interlock.service.contract import (
    AddView,
    ChangeView,
    CostView,
    EventView,
    HoldView,
    ItemFilter,
    LeaseView,
    MessageView,
    NextWish,
    Report,
    RunView,
    Service,
    ShowView,
    StatsView,
    WhyView,
)
from interlock.service.item_fields import (
    checked_types,
    item_changes,
    new_item,
    quota_limit,
    signature,
    stated_sender,
)
from interlock.service.item_view import ItemView
from interlock.settings import TypeDefaults

#: The run whose `with` block this thread is in.
_WORKING: ContextVar[tuple[Service, str] | None] = ContextVar("interlock_working", default=None)


class ItemFields(TypedDict, total=False):
    """What `Interlock.add` takes besides a title. One that is None counts as not given."""

    project: str | None
    type: str | None
    agent: str | None
    lane: str | None
    no_lane: bool | None
    #: A `Policy`, or its name.
    policy: str | None
    priority: int | None
    position: int | None
    #: An object, or its JSON text.
    payload: Mapping[str, Any] | str | None
    message: str | None
    author: str | None
    #: Why the message came, by a name such as `issue_commented`, and where it was written.
    reason: str | None
    url: str | None
    #: Sorts the messages of one source as they were written there, such as a time with a number.
    said: str | None
    dedupe_key: str | None
    labels: Sequence[str] | None
    #: A time (local, if it has no zone), its ISO 8601 text, or a delay such as `+5m`.
    run_at: datetime | str | None
    #: Spans are seconds, or texts such as `90s` and `2h`.
    run_after_s: float | str | None
    lease_s: float | str | None
    timeout_s: float | str | None
    claim_within_s: float | str | None
    max_attempts: int | None
    #: A `RetryLane`, or its name.
    retry_lane: str | None
    #: Who wrote the message, if not this program: at most one of them.
    from_person: bool | None
    from_agent: str | None
    from_bot: bool | None
    from_system: bool | None
    from_outsider: bool | None


class ItemChanges(TypedDict, total=False):
    """What `Interlock.edit` changes: what is given."""

    title: str
    type: str
    #: None: any agent.
    agent: str | None
    labels: Sequence[str] | None
    priority: int
    #: None: only arrival orders it.
    position: int | None
    #: As in `ItemFields`; None: now.
    run_at: datetime | str | None


class Lease:
    """The right to work on one item until it ends, is lost, or is given back."""

    def __init__(
        self, il: Interlock, live: LiveRun, heartbeat: Heartbeat, wish: NextWish | None, *, renew: bool
    ) -> None:
        """`wish` is how it was claimed; a hold has none."""
        self._il = il
        self._live = live
        self._heartbeat = heartbeat
        self._wish, self._renew = wish, renew
        self.item = live.lease.item
        self.payload: Mapping[str, Any] = live.lease.item.payload or {}
        self.ended = False
        #: Whether a call of the block's own has raised that the lease is lost: once is enough.
        self._loss_told = False

    def __repr__(self) -> str:
        now = "ended" if self.ended else "lost" if self.lost else "held"
        lane = f" on {self.item.lane}" if self.item.lane else ""
        return f"<lease of item {self.item.id} {self.item.title!r}{lane}, run {self.fence}, {now}>"

    @property
    def lost(self) -> bool:
        """Whether the item may be another's by now: the store refused a write, or no renewal succeeded
        for as long as the lease is."""
        return self._live.lost is not None or (self._live.overdue and not self.ended)

    @property
    def cancel_requested(self) -> bool:
        """Whether this run was asked to stop."""
        return self._live.cancel_reason is not None

    @property
    def unread(self) -> int:
        """How many messages wait, as of the last renewal."""
        return self._live.unread

    @property
    def messages(self) -> tuple[MessageView, ...]:
        """The messages of the item from before this run began."""
        return self._live.lease.messages

    @property
    def handle(self) -> str:
        """The secret that lets a run write. Pass it only to the program that works on the item."""
        return self._live.lease.run

    @property
    def fence(self) -> int:
        """The run's number: greater than that of every earlier holder of the lane."""
        return self._live.lease.fence

    def done(self, result: Any = None) -> RunView:
        """The work is done; `result` is kept as JSON."""
        return self._end(self._il.service.done, self._live.renewal._replace(result=result_text(result)))

    def done_and_next(self, result: Any = None) -> Claimed:
        """The work is done, and the next item is claimed as this one was, in the same transaction.

        Returns what `next` returns, for a block of its own. The work is done even if there is no next item.
        """
        wish, service = self._wish, self._il.service
        if wish is None:
            raise InvalidInput("A hold has no next item.", "Use done().")
        sent_s, leases = now_s(), list[LeaseView]()

        def end(reports: Sequence[Report]) -> list[RunView]:
            found = service.done(reports, next=wish)
            leases.extend(found.leases)
            return found.runs

        self._end(end, self._live.renewal._replace(result=result_text(result)))
        if not leases:  # a claim by itself looks further
            sent_s = now_s()
            leases = service.next(**wish._asdict())
        return Claimed(self._il, leases[0] if leases else None, sent_s, wish=wish, renew=self._renew)

    def fail(self, error: str = "", *, retry: bool = True) -> RunView:
        """The attempt failed; it is tried again while attempts are left, unless `retry` is false."""
        return self._end(
            self._il.service.fail,
            Report(run=self.handle, seen=self._live.seen, error=None if error == "" else error, retry=retry),
        )

    def release(
        self,
        *,
        until: datetime | str | None = None,
        for_s: float | str | None = None,
        whole_agent: bool = False,
        whole_pool: bool = False,
        reason: str = "",
    ) -> RunView:
        """Give the item back unworked. With `until` or `for_s` it waits until then, as at a quota limit, and
        with `whole_agent` so does all other work of the agent, with `whole_pool` that of its whole pool."""
        limit = quota_limit(
            until,
            for_s,
            why=reason,
            whole_agent=check_flag("whole_agent", whole_agent),
            whole_pool=check_flag("whole_pool", whole_pool),
        )
        return self._end(self._il.service.release, self._live.renewal._replace(wall=limit))

    def ask(
        self,
        question: str,
        *,
        timeout_s: float | None = None,
        yield_lane: bool = False,
        keep_lease: bool = False,
    ) -> RunView:
        """End the run with a question to a person; the item comes back with the answer. With `keep_lease` the
        run goes on, and `inbox` has the answer when it is there."""
        service = self._il.service
        if keep_lease:
            return service.ask(
                self.handle, question, timeout_s=timeout_s, yield_lane=yield_lane, keep_lease=True
            )

        def ask(reports: Sequence[Report]) -> list[RunView]:
            return [service.ask(r.run, question, timeout_s=timeout_s, yield_lane=yield_lane) for r in reports]

        return self._end(ask, self._live.renewal)

    def cost(
        self,
        *,
        usd: float | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> CostView:
        """Report what the run has used so far, in all. It may have ended or lost its lease."""
        return self._il.service.cost(
            self.handle, usd=usd, input_tokens=input_tokens, output_tokens=output_tokens
        )

    def close_question(self) -> RunView:
        """The open question was answered here: the run is no longer asking."""
        return self._il.service.close_question(self.handle)

    def inbox(self) -> list[MessageView]:
        """Messages that came since the last call; the next call marks these as read."""
        try:
            found = self._il.service.inbox(self.handle, seen=self._live.seen)
        except (CycleExpired, LeaseLost):
            self._loss_told = True
            raise
        self._live.seen = max([self._live.seen, *(m.n for m in found)])
        return found

    def renew(self) -> RunView:
        """Keep the lease now. The heartbeat does this in the background already."""
        sent_s = now_s()
        view = self._il.service.renew([self._live.renewal])[0]
        self._live.renewed(view, sent_s)
        return view

    def beat(self) -> bool:
        """Renew unless the run is over; returns whether there is a lease left to renew."""
        if self._live.beats:
            self.renew()
        return self._live.beats

    def _end(self, how: Callable[[Sequence[Report]], list[RunView]], report: Report) -> RunView:
        self._heartbeat.finish(self._live)
        try:
            view = how([report])[0]
        except BaseException:
            self._live.ending = self.ended  # the run goes on
            raise
        if view.refusal is not None:
            self._live.lost, self._loss_told = view.refusal, True
            raise view.refusal.error()
        self.ended = True
        return view


class Claimed:
    """What `next` returns: a context whose value is a lease, or None if there was no work.

    Leaving the block finishes the run: done, or failed with the exception that left it, or released on
    Ctrl-C. The exception is passed on. If the lease was lost, leaving raises `LeaseLost`, or `CycleExpired`
    for an edit of a plan that came too late, unless a call in the block has raised it already.
    """

    def __init__(
        self,
        il: Interlock,
        view: LeaseView | None,
        sent_s: float,
        *,
        renew: bool,
        wish: NextWish | None = None,
        beat_s: float = math.inf,
    ) -> None:
        self.lease: Lease | None = None
        self._service = il.service
        self._working: Token[tuple[Service, str] | None] | None = None
        self._heartbeat: Heartbeat | None = None
        if view is not None:
            assert view.renew_within_s is not None
            timeout_s = view.item.timeout_s
            deadline_s = None if timeout_s is None else sent_s + view.waited_s + timeout_s
            live = LiveRun(view, sent_s, beat_s=min(beat_s, view.renew_within_s), deadline_s=deadline_s)
            heartbeat = Heartbeat(il.service, lambda: [live])
            self.lease = Lease(il, live, heartbeat, wish, renew=renew)
            self._heartbeat = heartbeat if renew else None

    def __bool__(self) -> bool:
        return self.lease is not None

    def __repr__(self) -> str:
        return "<no work>" if self.lease is None else f"<claimed: {self.lease!r}>"

    def __enter__(self) -> Lease | None:
        if self._heartbeat is not None:
            self._heartbeat.start()
        if self.lease is not None:
            self._working = _WORKING.set((self._service, self.lease.handle))
        return self.lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._working is not None:
            _WORKING.reset(self._working)
        if self._heartbeat is not None:
            self._heartbeat.stop()
        lease = self.lease
        if lease is None or lease.ended or lease._loss_told or (lease._live.lost and error is not None):
            return
        if error is None:
            lease.done()
            return
        try:
            if isinstance(error, Exception):
                lease.fail(error_text(error))
            else:
                lease.release()
        except InterlockError:
            return  # the block's own exception matters more, and the lease ends by itself


class Interlock:
    """A connection to a store, for adding and taking work.

    `types` are the defaults of items by their type, `lanes` the fields of payloads that give items their
    lanes, `actor` signs messages and cancellations. `run` is the
    handle of the run that this program works for: what it writes is its agent's. So is what a `with` block
    of `next` writes.
    """

    def __init__(
        self,
        service: Service,
        *,
        types: Mapping[str, TypeDefaults] | None = None,
        lanes: LaneFields = USUAL_FIELDS,
        actor: str = "",
        place: str = "",
        run: str | None = None,
        lease_s: float = LEASE_DEFAULT_S,
        beat_s: float = BEAT_MAX_S,
    ) -> None:
        """`place` says in a `repr` where the store is. A hold has a lease of `lease_s` unless it wants
        another, and checks every `beat_s` whether it was asked to stop."""
        self._service = service
        self._place = place
        self._closed = False
        self.types = checked_types({} if types is None else types)
        self.lanes = lanes
        self.actor = check_text("actor", actor, NAME_MAX_CHARS)
        self._run = run
        self._lease_s = lease_s
        self._beat_s = beat_s

    def __repr__(self) -> str:
        return f"<interlock{f' on {self._place}' if self._place else ''}{', closed' if self._closed else ''}>"

    @property
    def service(self) -> Service:
        """Everything that the command line can do, in batches. Raises `Closed` once this is closed."""
        if self._closed:
            raise Closed("This connection to the store is closed.", "Open another with interlock.connect().")
        return self._service

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the database connections back. Every later call raises `Closed`, also one of a lease."""
        if not self._closed:
            self._closed = True
            self._service.close()

    def add(self, title: str, **fields: Unpack[ItemFields]) -> AddView:
        """Add one item: lane, agent, type, priority, message, … as the command's options name them."""
        given = {**fields, "title": title}
        new = new_item(given, author=self.actor, sender=self._sender(), types=self.types, lanes=self.lanes)
        return self.service.add([new])[0]

    def next(
        self,
        agent: str,
        *,
        types: Sequence[str] = (),
        labels: Sequence[str] = (),
        wait_s: float = 0.0,
        lease_s: float | None = None,
        worker: str | None = None,
        item: int | None = None,
        renew: bool = True,
    ) -> Claimed:
        """Claim one item, or that item, for the length of a `with` block."""
        check_flag("renew", renew)
        sent_s = now_s()
        wish = NextWish(agent, types, labels, lease_s=lease_s, worker=worker)
        views = self.service.next(**wish._asdict(), wait_s=wait_s, item=item)
        return Claimed(self, views[0] if views else None, sent_s, renew=renew, wish=wish)

    def hold(
        self,
        lane: str,
        *,
        agent: str,
        wait_s: float | None = 0.0,
        lease_s: float | None = None,
        message: str | None = None,
    ) -> Claimed:
        """Hold a lane for the length of a `with` block, as `interlock hold` does for a command.

        Waits up to `wait_s` for its turn, without end if that is None, and raises `Held` if it does not come.
        """
        from interlock.hold.turn import Hold, IfHeld, Waiter  # noqa: PLC0415  (for this alone)

        if wait_s is not None:
            check_number("wait", wait_s, 0, TIMEOUT_MAX_S)
        options = Hold(
            lane=lane_key(lane),
            command=(sys.argv[0] or "python",),
            agent=agent,
            url="",
            if_held=IfHeld.FAIL if wait_s == 0 else IfHeld.WAIT,
            wait_s=wait_s,
            lease_s=lease_s,
            default_lease_s=self._lease_s,
            message=message,
            author=self.actor,
            sender=self._sender(),
            beat_s=self._beat_s,
        )
        waiter = Waiter(self.service, options, lambda _: None)
        try:
            turn = waiter.wait()
        except BaseException:
            waiter.leave()
            raise
        assert not isinstance(turn, HoldView), "only a hold that may skip is skipped"
        return Claimed(self, turn.live.lease, turn.live.renewed_s, renew=True, beat_s=self._beat_s)

    def edit(self, item: int, **changes: Unpack[ItemChanges]) -> ChangeView:
        """Change an item that has not started. None takes its agent, labels or position away, or its time."""
        return self.service.edit(item, item_changes(changes), by=self.actor, sender=self._sender())

    def msg(
        self,
        item: int,
        text: str,
        *,
        author: str | None = None,
        from_person: bool = False,
        from_agent: str | None = None,
        from_bot: bool = False,
        from_system: bool = False,
        from_outsider: bool = False,
        reason: str = "",
        url: str = "",
    ) -> ChangeView:
        """Send a message to an item. The sender is this program's user, unless `from_…` names another."""
        stated = stated_sender(
            from_person=check_flag("from_person", from_person),
            from_agent=from_agent,
            from_bot=check_flag("from_bot", from_bot),
            from_system=check_flag("from_system", from_system),
            from_outsider=check_flag("from_outsider", from_outsider),
        )
        who, signed = signature(stated, author, caller=self.actor, sender=self._sender())
        return self.service.msg(item, text, author=signed, sender=who, reason=reason, url=url)

    def _sender(self) -> Sender:
        """Who writes here: the agent of the innermost `with` block of `next`, or of the run given."""
        service, run = _WORKING.get() or (None, None)
        run = run if service is self.service and run is not None else self._run
        return A_PERSON if run is None else self.service.sender_of(run)

    def cancel(self, item: int, *, why: str, force: bool = False) -> ChangeView:
        """End an item; a running one gets its grace unless `force`."""
        return self.service.cancel(item, why=why, by=self.actor, force=force)

    def ls(
        self,
        *,
        all: bool = False,  # noqa: A002  (as the command names it)
        statuses: Sequence[str] = (),
        lane: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        type: str | None = None,  # noqa: A002
        ci: str | None = None,
        label: str | None = None,
        text: str | None = None,
        limit: int = 100,
    ) -> list[ItemView]:
        """Items in their order of arrival: unfinished ones, unless `all`, `statuses` or `ci` are given."""
        wanted = ItemFilter(
            all=all,
            statuses=check_list("statuses", statuses),
            lane=lane,
            agent=agent,
            project=project,
            type=type,
            ci=ci,
            label=label,
            text=text,
            limit=limit,
        )
        return self.service.items(wanted)

    def show(self, item: int) -> ShowView:
        """Everything about one item: its runs, messages and history, and why it is where it is."""
        return self.service.show(item)

    def why(self, item: int) -> WhyView:
        """What an item waits for, and what will move it."""
        return self.service.why(item)

    def events(
        self,
        *,
        after: int = 0,
        limit: int = 1_000,
        item: int | None = None,
        lane: str | None = None,
        newest: bool = False,
        before: int | None = None,
        kinds: Sequence[str] = (),
        agent: str | None = None,
        run: int | None = None,
    ) -> list[EventView]:
        """The history between two numbers, filtered; with `newest`, the last lines of it."""
        return self.service.events(
            after=after,
            limit=limit,
            item=item,
            lane=lane,
            newest=newest,
            before=before,
            kinds=kinds,
            agent=agent,
            run=run,
        )

    def stats(self, *, window_s: float = 3600.0, by: str | None = None) -> StatsView:
        """Counts now, rates and spans over the window, and its runs by `project`, `type` or `agent`."""
        return self.service.stats(window_s=window_s, by=by)
