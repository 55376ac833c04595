"""A hold's wait for its turn on a lane.

An arrival is claimed by its number, and only by the process that waits for it. A follow-up holds the unread
messages of an earlier, ended hold. Its own process may be dead, so a hold that arrives at the lane or waits
for it takes over the follow-up: it gets one turn for the old messages and its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from interlock.core.cures import Cure
from interlock.core.errors import Held, InterlockError, ItemEnded, NotFound
from interlock.core.model import A_PERSON, HOLD, NewItem, Policy, Reason, Sender, SenderKind
from interlock.core.names import TIMEOUT_MAX_S, WAIT_MAX_S, safe_name
from interlock.process.clock import now_s
from interlock.process.live_run import LiveRun
from interlock.process.workplace import workplace
from interlock.service.contract import HolderView, HoldView, LaneService, LaneView, LeaseView, MessageView
from interlock.service.item_view import ItemView

#: A waiter that does not claim its item within this many leases, and at least this many beats, counts as
#: dead. A waiter also looks at the line once a beat, so that it sees a follow-up without a claim.
CLAIM_WITHIN_LEASES, CLAIM_WITHIN_BEATS = 2, 3
#: After these ends of its item a waiter queues again: it was considered dead.
_LATE = (Reason.UNCLAIMED, Reason.ATTEMPTS_EXHAUSTED)
_WHY_MAX_CHARS = 200


class IfHeld(StrEnum):
    """What to do when the lane is taken."""

    WAIT = "wait"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The options of a hold: the lane, the command and the limits."""

    lane: str
    command: Sequence[str]
    agent: str
    #: The store, for the command's INTERLOCK_URL.
    url: str
    if_held: IfHeld = IfHeld.WAIT
    #: The longest wait; None: no limit.
    wait_s: float | None = None
    #: None: the default of the store.
    lease_s: float | None = None
    default_lease_s: float
    timeout_s: float | None = None
    message: str | None = None
    author: str = ""
    sender: Sender = A_PERSON
    #: The pause between renewals.
    beat_s: float
    #: Reports the account that a run uses for its writes.
    report_account: Callable[[LeaseView], None] = lambda _: None

    @property
    def span_s(self) -> float:
        return self.default_lease_s if self.lease_s is None else self.lease_s

    @property
    def look_s(self) -> float:
        """How often a waiter looks at the line."""
        return min(self.beat_s, self.span_s, WAIT_MAX_S)

    @property
    def claim_within_s(self) -> float:
        return max(CLAIM_WITHIN_LEASES * self.span_s, CLAIM_WITHIN_BEATS * self.beat_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Our run on the lane, and the messages of its item so far."""

    live: LiveRun
    messages: Sequence[MessageView]


class Waiter:
    """One hold, from its arrival to its turn."""

    def __init__(self, lanes: LaneService, options: Hold, tell: Callable[[str], None]) -> None:
        self._lanes = lanes
        self._options = options
        self._tell = tell
        #: Our item in the line, until it is claimed.
        self._item: int | None = None
        #: A follow-up that we left for the waiters before us.
        self._theirs: int | None = None
        #: Whether we have said why we may not start on a free lane.
        self._said = False

    def wait(self) -> Turn | HoldView:
        """Wait for our turn. Returns how the hold ended if it was skipped; raises `Held`."""
        options, wait_s = self._options, 0.0
        give_up_s = None if options.wait_s is None else now_s() + options.wait_s
        found = self._queue_up()
        while found is None:
            found = self._claim_own_item(wait_s)
            left_s = WAIT_MAX_S if give_up_s is None else give_up_s - now_s()
            if found is None and left_s <= 0:
                self._refuse()
            wait_s = max(0.0, min(left_s, options.look_s))
        return found

    def follow_up(self, item: int) -> Turn | None:
        """Wait for the turn of a follow-up of our own; None if another took it over and ended it."""
        wait_s = 0.0
        with contextlib.suppress(ItemEnded):
            while (turn := self._claim(item, self._options.agent, wait_s)) is None:
                wait_s = WAIT_MAX_S
            return turn
        return None

    def leave(self, why: str = "its holder was interrupted") -> None:
        """Give up our place now. If that fails, it is lost when its time to claim expires."""
        if self._item is not None:
            with contextlib.suppress(InterlockError):
                self._lanes.cancel(self._item, why=why, by=self._options.author, force=True)
            self._item = None

    def _queue_up(self) -> Turn | HoldView | None:
        """Queue for the lane; returns a turn if we could take over a follow-up, or how the hold ended."""
        options = self._options
        while True:
            answer = self._lanes.add([self._new_item()])[0]
            holder = answer.holder
            if answer.arrival is not None:
                self._item = answer.arrival
                if holder is not None and answer.decision == "queued" and not _is_unclaimed_follow_up(holder):
                    self._tell(f"Waiting: {self._held(holder, waits=self._item)}")
                return None
            assert holder is not None, "only a taken lane is refused"
            turn = self._take_over(holder)
            if turn is not None:
                return turn
            if options.if_held is IfHeld.FAIL:
                unstarted = holder.item if holder.run is None else None
                raise Held(self._held(holder), _how_to_wait(options.lane, unstarted))
            skipped = HoldView(status="skipped", lane=options.lane, item=holder.item, run=None, exit_code=0)
            if options.message is None:
                self._tell(f"Skipped: {self._held(holder)}")
                return skipped
            with contextlib.suppress(ItemEnded):  # it has just ended: the lane may now be free
                sent = self._lanes.msg(
                    holder.item, options.message, author=options.author, sender=options.sender
                )
                self._tell(f"Skipped: item {sent.item.id} has the message{self._reader(sent.item)}.")
                return skipped

    def _reader(self, item: ItemView) -> str:
        """The reader of our message, as a clause."""
        if item.run is None:
            return ", and its next run gets it"
        who, sender = f"{item.run_agent} (run {item.run})", self._options.sender
        own = sender.kind is SenderKind.AGENT and sender.agent == item.run_agent
        if own or sender.kind in (SenderKind.BOT, SenderKind.OUTSIDER) or item.type != HOLD:
            return f", and {who} can read it"
        return f", and the hold of {who} runs its command again for it before it gives the lane up"

    def _new_item(self) -> NewItem:
        options = self._options
        timeout_s = None
        if options.timeout_s is not None:  # the store's timeout applies if this process cannot act
            timeout_s = min(options.timeout_s + options.span_s, TIMEOUT_MAX_S)
        return NewItem(
            # Without the command's arguments, which may be secret.
            title=f"{HOLD}: {safe_name(Path(options.command[0]).name)}",
            type=HOLD,
            agent=options.agent,
            lane=options.lane,
            labels=(HOLD,),
            policy=Policy.QUEUE if options.if_held is IfHeld.WAIT else Policy.REJECT,
            message=options.message,
            author=options.author,
            sender=options.sender,
            lease_s=options.lease_s,
            timeout_s=timeout_s,
            claim_within_s=options.claim_within_s,
            max_attempts=1,
        )

    def _claim_own_item(self, wait_s: float) -> Turn | HoldView | None:
        """Claim our item, else take over a follow-up that blocks the lane."""
        assert self._item is not None
        try:
            turn = self._claim(self._item, self._options.agent, wait_s)
        except ItemEnded as ended:
            self._item = None
            if ended.reason not in _LATE:
                raise
            return self._queue_up()  # this process was suspended so long that we lost our place
        if turn is not None:
            self._item = None
            return turn
        obstacle = self._obstacle()
        if obstacle is not None:
            return self._cannot_start(obstacle)
        lane = self._lane()
        if lane is None or lane.holder is None or not _is_unclaimed_follow_up(lane.holder):
            return None
        # Waiters before us go first. If none has started by our next look, none is alive.
        mine = lane.line[:1] == (self._item,) or self._theirs == lane.holder.item
        self._theirs = lane.holder.item
        return self._take_over(lane.holder) if mine else None

    def _take_over(self, holder: HolderView) -> Turn | None:
        """Claim a follow-up and add our own message to it; None without one, or if another was faster.

        The run counts as a run of the follow-up's agent."""
        if not _is_unclaimed_follow_up(holder):
            return None
        try:
            turn = self._claim(holder.item, holder.agent or self._options.agent, 0.0)
        except ItemEnded:
            return None
        if turn is None:
            return None
        self._tell(f"Taking over item {holder.item}: messages that an earlier hold did not read.")
        messages = [*turn.messages]
        options = self._options
        if options.message is not None:
            self._lanes.msg(holder.item, options.message, author=options.author, sender=options.sender)
            messages += self._lanes.inbox(turn.live.handle, seen=last_of(messages))
        self.leave(f"it runs with item {holder.item}")
        return Turn(live=turn.live, messages=messages)

    def _claim(self, item: int, agent: str, wait_s: float) -> Turn | None:
        """Claim this item if it is claimable now."""
        options = self._options
        sent_s = now_s()
        found = self._lanes.next(
            agent,
            types=(HOLD,),
            labels=(HOLD,),
            item=item,
            wait_s=wait_s,
            lease_s=options.lease_s,
            worker=safe_name(f"{workplace(os.environ)}.{os.getpid()}"),
        )
        if not found:
            return None
        (lease,) = found
        deadline_s = None if options.timeout_s is None else now_s() + options.timeout_s
        live = LiveRun(lease, sent_s, beat_s=options.beat_s, deadline_s=deadline_s)
        return Turn(live=live, messages=lease.messages)

    def _obstacle(self) -> str | None:
        """Why we may not start on a free lane: our agent or project is blocked."""
        found = None if self._item is None else self._lanes.hindered(self._item)
        return None if found is None else f"Lane {self._options.lane} is free, but {found}."

    def _cures(self) -> tuple[Cure, ...]:
        """The commands that let us start."""
        return () if self._item is None else self._lanes.why(self._item).cures

    def _cannot_start(self, obstacle: str) -> HoldView | None:
        """Our turn came and we may not start: wait or leave, as with a taken lane."""
        options, item = self._options, self._item
        assert item is not None
        if options.if_held is IfHeld.FAIL:
            raise Held(obstacle, _how_to_wait(options.lane), self._cures())
        if options.if_held is IfHeld.SKIP:
            self.leave(f"it could not start: {obstacle}"[:_WHY_MAX_CHARS])
            kept = (
                "" if options.message is None else f" The message was not read; it is kept with item {item}."
            )
            self._tell(f"Skipped: {obstacle}{kept}")
            return HoldView(status="skipped", lane=options.lane, item=item, run=None, exit_code=0)
        if not self._said:
            self._said = True
            self._tell(f"Waiting: {obstacle}")
        return None

    def _lane(self) -> LaneView | None:
        lane = self._options.lane
        return next((view for view in self._lanes.lanes(prefix=lane) if view.lane == lane), None)

    def _held(self, holder: HolderView, waits: int | None = None) -> str:
        """Who holds the lane, since when and until when, and what happens to the lane or to the waiter."""
        held = _held(self._options.lane, holder)
        with contextlib.suppress(NotFound):  # it has ended and, in git, is not kept
            why = self._lanes.why(holder.item if waits is None else waits)
            after = why.lane if waits is None else why.next
            if waits is not None and after is not None and after.startswith("it "):
                after = f"item {waits} {after.removeprefix('it ')}"
            return f"{held} {after[0].upper()}{after[1:]}." if after else held
        return held

    def _refuse(self) -> NoReturn:
        name, obstacle = self._options.lane, self._obstacle()
        if obstacle is not None:
            raise Held(f"{obstacle} The wait timed out.", _how_to_wait(name), self._cures())
        lane = self._lane()
        if lane is None or lane.holder is None or lane.holder.item == self._item:
            raise Held(f"The wait for lane {name} timed out.", "Try again.")
        longer = "`interlock lanes` shows its line; a longer --wait waits longer."
        raise Held(f"{self._held(lane.holder)} It did not become free in time.", longer)


def last_of(messages: Sequence[MessageView]) -> int:
    """The number of the last of these messages."""
    return max((message.n for message in messages), default=0)


def _is_unclaimed_follow_up(holder: HolderView) -> bool:
    """Whether it is an unclaimed follow-up, left by an ended hold."""
    return holder.run is None and holder.follow_up


def _held(lane: str, holder: HolderView) -> str:
    """Who holds the lane, since when and until when."""
    who = f"{holder.agent} " if holder.agent else ""
    since = f"{holder.since.astimezone():%Y-%m-%d %H:%M:%S}"
    if holder.run is None:
        return f"Lane {lane} is kept for item {holder.item} {f'of {who}' if who else ''}since {since}."
    run = f"{'external ' if holder.external else ''}run {holder.run}"
    held = f"Lane {lane} is held by {who}({run}) since {since}"
    if holder.expires_at is None:
        return f"{held}, until its end is reported."
    end = "at the latest" if holder.external else "unless renewed"
    end = "and was asked to stop by then" if holder.cancel_requested else end
    return f"{held}, until {holder.expires_at.astimezone():%H:%M:%S} {end}."


def _how_to_wait(lane: str, unstarted: int | None = None) -> str:
    wait = f"interlock lanes shows its line; interlock hold {lane} --if-held wait -- … waits for it"
    return f"{wait}." if unstarted is None else f"{wait}, or overtakes item {unstarted} where it may."
