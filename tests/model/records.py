"""What the reference keeps: plain records, and the few numbers that the contract fixes.

Nothing here moves anything; the rules are in `tests.model.reference`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.core.model import A_PERSON, ArrivalDecision, NewItem, Policy, Reason, Sender
from interlock.core.states import ItemStatus, RunStatus

SECOND = 1_000_000
#: Without a claim for so long an agent is gone, and to so much its last claim is known.
GONE_S, SEEN_S = 60.0, 3.75
LEASE_S = 60
CANCEL_GRACE_S = 15
BACK_OFF_FIRST_S = 10
BACK_OFF_MAX_S = 3_600
BACK_OFF_SPREAD = 0.25
RELEASES_IN_A_ROW = 3
KEY_KEPT_S = 30 * 24 * 3600
OVERDUE_S = 60
WAKES_MAX = 2

ACTIVE = (ItemStatus.PENDING, ItemStatus.IN_PROGRESS)
ENDED = (
    ItemStatus.COMPLETED,
    ItemStatus.FAILED,
    ItemStatus.CANCELLED,
    ItemStatus.SUPERSEDED,
    ItemStatus.COALESCED,
)


def micro(seconds: float) -> int:
    return round(seconds * SECOND)


@dataclass
class Message:
    ticket: int
    text: str
    author: str
    origin: int
    at_us: int
    sender: Sender = A_PERSON


@dataclass
class Run:
    number: int
    item: int
    agent: str
    worker: str | None
    attempt: int
    started_us: int
    #: Neither, if the run is external.
    lease_s: float | None
    lease_until_us: int | None
    delivered: int
    seen: int = 0
    revoke_us: int | None = None
    cancel_into: ItemStatus | None = None
    cancel_why: str | None = None
    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    ended_us: int | None = None


@dataclass
class Item:
    id: int
    new: NewItem
    title: str
    agent: str
    lane: str | None
    observed_lane: str | None
    ticket: int
    created_us: int
    max_attempts: int
    payload: str | None
    status: ItemStatus
    reason: str
    #: When a waiting item, or a pending one that keeps its lane through a back-off, comes back.
    wakes_us: int | None = None
    attempt: int = 0
    releases: int = 0
    run: Run | None = None
    first_in_line: bool = False
    promoted_from: int | None = None
    absorbed_by: int | None = None
    cancel_why: str | None = None
    first_claimed_us: int | None = None
    ended_us: int | None = None
    #: When it was last offered to be claimed.
    offered_us: int = 0
    messages: list[Message] = field(default_factory=list)
    #: The agent of its last run.
    last_agent: str = ""
    #: Wake-ups in a row, if it has no lane.
    streak: int = 0

    @property
    def policy(self) -> Policy:
        return self.new.policy

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    @property
    def tried(self) -> bool:
        return self.attempt > 0 or self.releases > 0

    @property
    def in_back_off(self) -> bool:
        return self.wakes_us is not None and self.tried

    @property
    def scheduled(self) -> bool:
        return self.status is ItemStatus.WAITING and not self.tried and not self.over_wake_limit

    @property
    def over_wake_limit(self) -> bool:
        """Waiting for a person."""
        return self.status is ItemStatus.WAITING and self.reason == Reason.LOOP

    def unmoved_by(self, sender: Sender) -> bool:
        """Whether our bot writes, an outsider, or the agent that has it, had it last or is to have it."""
        return sender.kind in ("bot", "outsider") or (
            sender.kind == "agent" and sender.agent == (self.last_agent or self.agent)
        )

    @property
    def deadline_us(self) -> int | None:
        """When its run is over, or when it comes back."""
        if self.run is None:
            return self.wakes_us
        ends = [self.run.lease_until_us, self.run.revoke_us]
        if self.new.timeout_s is not None:
            ends.append(self.run.started_us + micro(self.new.timeout_s))
        return min((end for end in ends if end is not None), default=None)

    @property
    def claim_by_us(self) -> int | None:
        """When it ends if nobody has claimed it: only while it is ready."""
        ready = self.status is ItemStatus.PENDING and self.wakes_us is None
        within_s = self.new.claim_within_s
        return self.offered_us + micro(within_s) if ready and within_s is not None else None

    @property
    def moves_us(self) -> int | None:
        """When time alone moves this item, in one way or the other."""
        return self.claim_by_us if self.deadline_us is None else self.deadline_us


@dataclass
class Agent:
    name: str
    max: int | None = None
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    paused: bool = False
    #: When it last asked for work.
    seen_us: int | None = None

    def can_do(self, new: NewItem) -> bool:
        """Whether it does this type, and has all the labels."""
        return (not self.types or new.type in self.types) and set(new.labels) <= set(self.labels)


@dataclass
class Added:
    """The answer to an arrival. Holder and item are read when the whole batch is through."""

    verdict: ArrivalDecision
    reason: str
    item: int | None
    arrival: int | None
    holder: int | None = None
    place: int | None = None


@dataclass
class Finished:
    status: RunStatus | None
    promoted: list[int]


@dataclass
class Swept:
    expired: int = 0
    reentered: int = 0
    promoted: int = 0
    forgotten_keys: int = 0
    #: Nothing here is old enough.
    pruned: int = 0


@dataclass(frozen=True, order=True)
class Line:
    """One line of the history, as far as it is compared."""

    kind: str
    reason: str
    item: int
    run: int
    promoted_from: int = 0


class Refused(Exception):
    """The command changes nothing; `code` is the code of the error that a store answers with."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def key_of(agent: str) -> str:
    return agent.strip().lower()
