"""A hold's place in the line of its lane: how it comes to its turn, or to nothing.

Arrivals are claimed by their number, and only by the process that waits for them. A follow-up is what a hold
that ended was told and did not read. Nobody may be alive who would claim it, so whoever comes to the lane, or
waits for it, takes it over: it is one turn for what was left and for what the newcomer brings.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from interlock.core.errors import Held, InterlockError, ItemEnded
from interlock.core.model import NewItem, Policy, Reason
from interlock.core.names import TIMEOUT_MAX_S, WAIT_MAX_S, safe_name
from interlock.hold.tenancy import Tenancy
from interlock.process.command import now_s
from interlock.service.contract import HolderView, HoldView, LaneService, LaneView, MessageView

#: Type and label of every hold.
TYPE = "hold"
#: A waiter that does not take the lane within so many leases, and at least so many beats, is dead. A beat is
#: also how often a waiter looks what stands before it: it must see a follow-up that nobody takes.
CLAIM_WITHIN_LEASES, CLAIM_WITHIN_BEATS = 2, 3
#: Ends of an item after which a waiter takes a new place in the line: it was taken for dead.
_LATE = (Reason.UNCLAIMED, Reason.ATTEMPTS_EXHAUSTED)
_WHY_MAX_CHARS = 200


class IfHeld(StrEnum):
    """What to do when the lane is taken."""

    WAIT = "wait"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What is asked for."""

    lane: str
    command: Sequence[str]
    agent: str
    #: The store, as the command will find it in INTERLOCK_URL.
    url: str
    if_held: IfHeld = IfHeld.WAIT
    #: The longest to wait; None: for ever.
    wait_s: float | None = None
    #: None: as the store's settings say.
    lease_s: float | None = None
    default_lease_s: float
    timeout_s: float | None = None
    message: str | None = None
    author: str = ""
    #: How often at most the store is asked whether the lane is still ours.
    beat_s: float

    @property
    def span_s(self) -> float:
        return self.default_lease_s if self.lease_s is None else self.lease_s

    @property
    def look_s(self) -> float:
        """How often a waiter looks what stands before it."""
        return min(self.beat_s, self.span_s, WAIT_MAX_S)

    @property
    def claim_within_s(self) -> float:
        return max(CLAIM_WITHIN_LEASES * self.span_s, CLAIM_WITHIN_BEATS * self.beat_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A run that is ours, and what it was told so far."""

    tenancy: Tenancy
    messages: Sequence[MessageView]


class Place:
    """Where a hold stands, from its arrival to its turn."""

    def __init__(self, lanes: LaneService, wish: Hold, tell: Callable[[str], None]) -> None:
        self._lanes = lanes
        self._wish = wish
        self._tell = tell
        #: What stands for us in the line, until it is claimed.
        self._item: int | None = None
        #: A follow-up that those before us in the line were left to take.
        self._theirs: int | None = None
        #: Whether we said what keeps us from starting although it is our turn.
        self._told = False

    def turn(self) -> Turn | HoldView:
        """Wait for our turn; where the lane is taken and we are not to wait, the end. Raises `Held`."""
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
        """Wait for the turn of what our run left unread; none if another has taken it over and ended it."""
        wait_s = 0.0
        with contextlib.suppress(ItemEnded):
            while (turn := self._claim(item, self._wish.agent, wait_s)) is None:
                wait_s = WAIT_MAX_S
            return turn
        return None

    def leave(self, why: str = "its holder was interrupted") -> None:
        """Give our place up at once; where that does not work, it is lost with its time to be claimed."""
        if self._item is not None:
            with contextlib.suppress(InterlockError):
                self._lanes.cancel(self._item, why=why, by=self._wish.author, force=True)
            self._item = None

    def _arrive(self) -> Turn | HoldView | None:
        """Take a place in the line; or what was left over there, or the end if there is nothing to do."""
        wish = self._wish
        while True:
            answer = self._lanes.add([self._new_item()])[0]
            holder = answer.holder
            if answer.arrival is not None:
                if holder is not None and answer.decision == "queued" and not _left_over(holder):
                    self._tell(f"Waiting: {_held(wish.lane, holder)}")
                self._item = answer.arrival
                return None
            assert holder is not None, "only a lane that somebody has is refused"
            turn = self._take_over(holder)
            if turn is not None:
                return turn
            if wish.if_held is IfHeld.FAIL:
                raise Held(_held(wish.lane, holder), _what_to_type(wish.lane))
            skipped = HoldView(status="skipped", lane=wish.lane, item=holder.item, run=None, exit_code=0)
            if wish.message is None:
                self._tell(f"Skipped: {_held(wish.lane, holder)}")
                return skipped
            with contextlib.suppress(ItemEnded):  # it ended in between: perhaps the lane is ours now
                told = self._lanes.msg(holder.item, wish.message, author=wish.author)
                self._tell(f"Skipped: item {told.item.id} has the message. {_held(wish.lane, holder)}")
                return skipped

    def _new_item(self) -> NewItem:
        wish = self._wish
        timeout_s = None
        if wish.timeout_s is not None:  # the store's is for the case that nobody ends the command here
            timeout_s = min(wish.timeout_s + wish.span_s, TIMEOUT_MAX_S)
        return NewItem(
            title=f"{TYPE}: {safe_name(Path(wish.command[0]).name)}",  # not its arguments: they may be secret
            type=TYPE,
            agent=wish.agent,
            lane=wish.lane,
            labels=(TYPE,),
            policy=Policy.QUEUE if wish.if_held is IfHeld.WAIT else Policy.REJECT,
            message=wish.message,
            author=wish.author,
            lease_s=wish.lease_s,
            timeout_s=timeout_s,
            claim_within_s=wish.claim_within_s,
            max_attempts=1,
        )

    def _come_to_turn(self, wait_s: float) -> Turn | HoldView | None:
        """Claim what stands for us, else take over what stands in our way and was left over."""
        assert self._item is not None
        try:
            turn = self._claim(self._item, self._wish.agent, wait_s)
        except ItemEnded as ended:
            self._item = None
            if ended.reason not in _LATE:
                raise
            return self._arrive()  # we were stopped for so long that the lane went on without us
        if turn is not None:
            self._item = None
            return turn
        hindrance = self._hindrance()
        if hindrance is not None:
            return self._meet(hindrance)
        lane = self._lane()
        if lane is None or lane.holder is None or not _left_over(lane.holder):
            return None
        # Whoever stands before us goes first; if it has not by our next look, it is not there.
        mine = lane.line[:1] == (self._item,) or self._theirs == lane.holder.item
        self._theirs = lane.holder.item
        return self._take_over(lane.holder) if mine else None

    def _take_over(self, holder: HolderView) -> Turn | None:
        """Claim what a hold that ended left unread, and let our own input join it; nothing if there is none,
        or another was faster. The run counts as one of the agent whose turn it is."""
        if not _left_over(holder):
            return None
        try:
            turn = self._claim(holder.item, holder.agent or self._wish.agent, 0.0)
        except ItemEnded:
            return None
        if turn is None:
            return None
        self._tell(f"Taking over item {holder.item}: what a hold of this lane was told and did not read.")
        messages = [*turn.messages]
        if self._wish.message is not None:
            self._lanes.msg(holder.item, self._wish.message, author=self._wish.author)
            messages += self._lanes.inbox(turn.tenancy.handle, seen=last_of(messages))
        self.leave(f"it runs with item {holder.item}")
        return Turn(tenancy=turn.tenancy, messages=messages)

    def _claim(self, item: int, agent: str, wait_s: float) -> Turn | None:
        """Claim this hold if it may be claimed; what it was told so far comes with it."""
        wish = self._wish
        sent_s = now_s()
        found = self._lanes.next(
            agent,
            types=(TYPE,),
            labels=(TYPE,),
            item=item,
            wait_s=wait_s,
            lease_s=wish.lease_s,
            worker=safe_name(f"{socket.gethostname()}.{os.getpid()}"),
        )
        if not found:
            return None
        (lease,) = found
        tenancy = Tenancy(lease, sent_s + lease.waited_s, beat_s=wish.beat_s, timeout_s=wish.timeout_s)
        return Turn(tenancy=tenancy, messages=lease.messages)

    def _hindrance(self) -> str | None:
        """What keeps us from starting although no other hold does: our agent or project may not."""
        found = None if self._item is None else self._lanes.hindered(self._item)
        return None if found is None else f"Lane {self._wish.lane} is free, but {found}"

    def _meet(self, hindrance: str) -> HoldView | None:
        """Our turn came and we may not start: as with a lane that is taken, wait or leave."""
        wish, item = self._wish, self._item
        assert item is not None
        if wish.if_held is IfHeld.FAIL:
            raise Held(hindrance, _what_to_type(wish.lane))
        if wish.if_held is IfHeld.SKIP:
            self.leave(f"it could not start: {hindrance}"[:_WHY_MAX_CHARS])
            kept = "" if wish.message is None else f" Nobody has the message; it is kept with item {item}."
            self._tell(f"Skipped: {hindrance}{kept}")
            return HoldView(status="skipped", lane=wish.lane, item=item, run=None, exit_code=0)
        if not self._told:
            self._told = True
            self._tell(f"Waiting: {hindrance}")
        return None

    def _lane(self) -> LaneView | None:
        lane = self._wish.lane
        return next((view for view in self._lanes.lanes(prefix=lane) if view.lane == lane), None)

    def _refuse(self) -> NoReturn:
        name, hindrance = self._wish.lane, self._hindrance()
        if hindrance is not None:
            raise Held(f"{hindrance} That did not come in time.", _what_to_type(name))
        lane = self._lane()
        if lane is None or lane.holder is None or lane.holder.item == self._item:
            raise Held(f"Lane {name} was not to be had in time.", "Try again.")
        raise Held(f"{_held(name, lane.holder)} It did not become free in time.", _what_to_type(name))


def last_of(messages: Sequence[MessageView]) -> int:
    """The number of the last of these messages."""
    return max((message.n for message in messages), default=0)


def _left_over(holder: HolderView) -> bool:
    """Whether nobody need be alive who would claim it: the hold that was told this has ended."""
    return holder.run is None and holder.follow_up


def _held(lane: str, holder: HolderView) -> str:
    """Who has the lane, since when and until when."""
    who = f"{holder.agent} " if holder.agent else ""
    since = f"{holder.since.astimezone():%Y-%m-%d %H:%M:%S}"
    if holder.run is None or holder.expires_at is None:
        return f"Lane {lane} is kept for item {holder.item} {f'of {who}' if who else ''}since {since}."
    until = f"{holder.expires_at.astimezone():%H:%M:%S}"
    end = "and was asked to stop by then" if holder.cancel_requested else "unless renewed"
    return f"Lane {lane} is held by {who}(run {holder.run}) since {since}, until {until} {end}."


def _what_to_type(lane: str) -> str:
    return f"interlock lanes shows its line; interlock hold {lane} --if-held wait -- … waits for it."
