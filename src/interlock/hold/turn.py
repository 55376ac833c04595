"""A hold's wait for its turn on a lane.

An arrival is claimed by its number, and only by the process that waits for it. A follow-up holds messages
that an earlier hold ended without reading. Its own process may be dead, so whoever arrives at the lane, or
waits for it, takes the follow-up over: one turn for the old messages and the newcomer's own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from interlock.core.errors import Held, InterlockError, ItemEnded, NotFound
from interlock.core.model import A_PERSON, HOLD, NewItem, Policy, Reason, Sender, SenderKind
from interlock.core.names import TIMEOUT_MAX_S, WAIT_MAX_S, safe_name
from interlock.process.clock import now_s
from interlock.process.liverun import LiveRun
from interlock.process.workplace import workplace
from interlock.service.contract import HolderView, HoldView, LaneService, LaneView, LeaseView, MessageView
from interlock.service.itemview import ItemView

#: A waiter that does not claim its item within this many leases, and at least this many beats, is dead. A
#: beat is also how often a waiter looks at the line, so that it sees a follow-up that nobody takes.
CLAIM_WITHIN_LEASES, CLAIM_WITHIN_BEATS = 2, 3
#: After these ends of its item a waiter queues again: it was taken for dead.
_LATE = (Reason.UNCLAIMED, Reason.ATTEMPTS_EXHAUSTED)
_WHY_MAX_CHARS = 200


class IfHeld(StrEnum):
    """What to do when the lane is taken."""

    WAIT = "wait"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Which lane to hold, for which command, and how."""

    lane: str
    command: Sequence[str]
    agent: str
    #: The store, as the command will find it in INTERLOCK_URL.
    url: str
    if_held: IfHeld = IfHeld.WAIT
    #: The longest wait; None: no limit.
    wait_s: float | None = None
    #: None: the store's default.
    lease_s: float | None = None
    default_lease_s: float
    timeout_s: float | None = None
    message: str | None = None
    author: str = ""
    sender: Sender = A_PERSON
    #: The pause between renewals.
    beat_s: float
    #: Reports the account that a run writes with.
    acting: Callable[[LeaseView], None] = lambda _: None

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

    def __init__(self, lanes: LaneService, wish: Hold, tell: Callable[[str], None]) -> None:
        self._lanes = lanes
        self._wish = wish
        self._tell = tell
        #: Our item in the line, until it is claimed.
        self._item: int | None = None
        #: A follow-up that we left to the waiters before us.
        self._theirs: int | None = None
        #: Whether we have said why we may not start on a free lane.
        self._said = False

    def wait(self) -> Turn | HoldView:
        """Wait for our turn. Returns how the hold ended if it was skipped; raises `Held`."""
        wish, wait_s = self._wish, 0.0
        give_up_s = None if wish.wait_s is None else now_s() + wish.wait_s
        found = self._arrive()
        while found is None:
            found = self._come_to_turn(wait_s)
            left_s = WAIT_MAX_S if give_up_s is None else give_up_s - now_s()
            if found is None and left_s <= 0:
                self._refuse()
            wait_s = max(0.0, min(left_s, wish.look_s))
        return found

    def follow_up(self, item: int) -> Turn | None:
        """Wait for the turn of a follow-up of our own; None if another took it over and ended it."""
        wait_s = 0.0
        with contextlib.suppress(ItemEnded):
            while (turn := self._claim(item, self._wish.agent, wait_s)) is None:
                wait_s = WAIT_MAX_S
            return turn
        return None

    def leave(self, why: str = "its holder was interrupted") -> None:
        """Give our place up now. If that fails, it ends once its time to be claimed is over."""
        if self._item is not None:
            with contextlib.suppress(InterlockError):
                self._lanes.cancel(self._item, why=why, by=self._wish.author, force=True)
            self._item = None

    def _arrive(self) -> Turn | HoldView | None:
        """Queue for the lane; returns a turn if we could take a follow-up over, or how the hold ended."""
        wish = self._wish
        while True:
            answer = self._lanes.add([self._new_item()])[0]
            holder = answer.holder
            if answer.arrival is not None:
                self._item = answer.arrival
                if holder is not None and answer.decision == "queued" and not _left_over(holder):
                    self._tell(f"Waiting: {self._held(holder, waits=self._item)}")
                return None
            assert holder is not None, "only a taken lane is refused"
            turn = self._take_over(holder)
            if turn is not None:
                return turn
            if wish.if_held is IfHeld.FAIL:
                unstarted = holder.item if holder.run is None else None
                raise Held(self._held(holder), _what_to_type(wish.lane, unstarted))
            skipped = HoldView(status="skipped", lane=wish.lane, item=holder.item, run=None, exit_code=0)
            if wish.message is None:
                self._tell(f"Skipped: {self._held(holder)}")
                return skipped
            with contextlib.suppress(ItemEnded):  # it has just ended: the lane may be free now
                sent = self._lanes.msg(holder.item, wish.message, author=wish.author, sender=wish.sender)
                self._tell(f"Skipped: item {sent.item.id} has the message{self._reader(sent.item)}.")
                return skipped

    def _reader(self, item: ItemView) -> str:
        """Who gets our message: a clause."""
        if item.run is None:
            return ", and its next run gets it"
        who, sender = f"{item.run_agent} (run {item.run})", self._wish.sender
        own = sender.kind is SenderKind.AGENT and sender.agent == item.run_agent
        if own or sender.kind in (SenderKind.BOT, SenderKind.OUTSIDER) or item.type != HOLD:
            return f", and {who} can read it"
        return f", and the hold of {who} runs its command again for it before it gives the lane up"

    def _new_item(self) -> NewItem:
        wish = self._wish
        timeout_s = None
        if wish.timeout_s is not None:  # the store's timeout is for the case that this process cannot act
            timeout_s = min(wish.timeout_s + wish.span_s, TIMEOUT_MAX_S)
        return NewItem(
            title=f"{HOLD}: {safe_name(Path(wish.command[0]).name)}",  # not its arguments: they may be secret
            type=HOLD,
            agent=wish.agent,
            lane=wish.lane,
            labels=(HOLD,),
            policy=Policy.QUEUE if wish.if_held is IfHeld.WAIT else Policy.REJECT,
            message=wish.message,
            author=wish.author,
            sender=wish.sender,
            lease_s=wish.lease_s,
            timeout_s=timeout_s,
            claim_within_s=wish.claim_within_s,
            max_attempts=1,
        )

    def _come_to_turn(self, wait_s: float) -> Turn | HoldView | None:
        """Claim our item, else take over a follow-up that blocks the lane."""
        assert self._item is not None
        try:
            turn = self._claim(self._item, self._wish.agent, wait_s)
        except ItemEnded as ended:
            self._item = None
            if ended.reason not in _LATE:
                raise
            return self._arrive()  # this process was stopped for so long that the lane went on without us
        if turn is not None:
            self._item = None
            return turn
        obstacle = self._obstacle()
        if obstacle is not None:
            return self._cannot_start(obstacle)
        lane = self._lane()
        if lane is None or lane.holder is None or not _left_over(lane.holder):
            return None
        # Waiters before us go first. If none has by our next look, none is alive.
        mine = lane.line[:1] == (self._item,) or self._theirs == lane.holder.item
        self._theirs = lane.holder.item
        return self._take_over(lane.holder) if mine else None

    def _take_over(self, holder: HolderView) -> Turn | None:
        """Claim a follow-up and add our own message to it; None without one, or if another was faster.

        The run counts as one of the agent whose follow-up it is."""
        if not _left_over(holder):
            return None
        try:
            turn = self._claim(holder.item, holder.agent or self._wish.agent, 0.0)
        except ItemEnded:
            return None
        if turn is None:
            return None
        self._tell(f"Taking over item {holder.item}: messages that an earlier hold did not read.")
        messages = [*turn.messages]
        wish = self._wish
        if wish.message is not None:
            self._lanes.msg(holder.item, wish.message, author=wish.author, sender=wish.sender)
            messages += self._lanes.inbox(turn.live.handle, seen=last_of(messages))
        self.leave(f"it runs with item {holder.item}")
        return Turn(live=turn.live, messages=messages)

    def _claim(self, item: int, agent: str, wait_s: float) -> Turn | None:
        """Claim this item if it may be claimed now."""
        wish = self._wish
        sent_s = now_s()
        found = self._lanes.next(
            agent,
            types=(HOLD,),
            labels=(HOLD,),
            item=item,
            wait_s=wait_s,
            lease_s=wish.lease_s,
            worker=safe_name(f"{workplace(os.environ)}.{os.getpid()}"),
        )
        if not found:
            return None
        (lease,) = found
        deadline_s = None if wish.timeout_s is None else now_s() + wish.timeout_s
        live = LiveRun(lease, sent_s, beat_s=wish.beat_s, deadline_s=deadline_s)
        return Turn(live=live, messages=lease.messages)

    def _obstacle(self) -> str | None:
        """Why we may not start on a free lane: our agent or project may not."""
        found = None if self._item is None else self._lanes.hindered(self._item)
        return None if found is None else f"Lane {self._wish.lane} is free, but {found}"

    def _cannot_start(self, obstacle: str) -> HoldView | None:
        """Our turn came and we may not start: wait or leave, as with a taken lane."""
        wish, item = self._wish, self._item
        assert item is not None
        if wish.if_held is IfHeld.FAIL:
            raise Held(obstacle, _what_to_type(wish.lane))
        if wish.if_held is IfHeld.SKIP:
            self.leave(f"it could not start: {obstacle}"[:_WHY_MAX_CHARS])
            kept = "" if wish.message is None else f" Nobody has the message; it is kept with item {item}."
            self._tell(f"Skipped: {obstacle}{kept}")
            return HoldView(status="skipped", lane=wish.lane, item=item, run=None, exit_code=0)
        if not self._said:
            self._said = True
            self._tell(f"Waiting: {obstacle}")
        return None

    def _lane(self) -> LaneView | None:
        lane = self._wish.lane
        return next((view for view in self._lanes.lanes(prefix=lane) if view.lane == lane), None)

    def _held(self, holder: HolderView, waits: int | None = None) -> str:
        """Who holds the lane, since when and until when, and what becomes of the lane, or of who waits."""
        held = _held(self._wish.lane, holder)
        with contextlib.suppress(NotFound):  # it has ended and, in git, is not kept
            why = self._lanes.why(holder.item if waits is None else waits)
            after = why.lane if waits is None else why.next
            if waits is not None and after is not None and after.startswith("it "):
                after = f"item {waits} {after.removeprefix('it ')}"
            return f"{held} {after[0].upper()}{after[1:]}." if after else held
        return held

    def _refuse(self) -> NoReturn:
        name, obstacle = self._wish.lane, self._obstacle()
        if obstacle is not None:
            raise Held(f"{obstacle} That did not come in time.", _what_to_type(name))
        lane = self._lane()
        if lane is None or lane.holder is None or lane.holder.item == self._item:
            raise Held(f"Lane {name} could not be taken in time.", "Try again.")
        longer = "`interlock lanes` shows its line; a longer --wait waits longer."
        raise Held(f"{self._held(lane.holder)} It did not become free in time.", longer)


def last_of(messages: Sequence[MessageView]) -> int:
    """The number of the last of these messages."""
    return max((message.n for message in messages), default=0)


def _left_over(holder: HolderView) -> bool:
    """Whether it is a follow-up that nobody has claimed: the hold it belonged to has ended."""
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


def _what_to_type(lane: str, unstarted: int | None = None) -> str:
    wait = f"interlock lanes shows its line; interlock hold {lane} --if-held wait -- … waits for it"
    return f"{wait}." if unstarted is None else f"{wait}, or overtakes item {unstarted} where it may."
