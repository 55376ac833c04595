"""The values of items, runs, messages and events. Frozen, with no behaviour beyond their fields.

Rows are named tuples in column order: a batch makes thousands of them, and they are made and changed several
times faster than records. Everything else is a record.

Times are whole microseconds since 1970 on the *store's* clock (`_us`), spans are seconds (`_s`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NewType

from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.core.states import ACTIVE, TERMINAL, ItemStatus, RunStatus

ItemId = NewType("ItemId", int)
RunId = NewType("RunId", int)
PlanId = NewType("PlanId", int)

#: Sorts after every real position: for items in order of arrival.
UNPOSITIONED = 2**31 - 1
NO_AGENT = ""
US_PER_S = 1_000_000
#: The project of an arrival without one.
DEFAULT_PROJECT = "default"
#: Items ahead of another are counted up to this: a longer line must not make an answer dearer.
AHEAD_MAX = 1_000
#: Type and label of a hold, which only the command that added it claims.
HOLD = "hold"
#: The start of a follow-up's title.
FOLLOW_UP = "Follow-up: "


class Policy(StrEnum):
    """What an arriving item does when its lane is taken."""

    QUEUE = "queue"
    COALESCE = "coalesce"
    SUPERSEDE = "supersede"
    LATEST = "latest"
    REJECT = "reject"


#: Policies that let an item absorb or replace another.
ABSORBING = frozenset({Policy.COALESCE, Policy.SUPERSEDE, Policy.LATEST})


#: Policies that let a newer item replace an older one.
REPLACEABLE = frozenset({Policy.SUPERSEDE, Policy.LATEST})


class Mode(StrEnum):
    """How strictly lanes are kept, per project or lane prefix."""

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"


class RetryLane(StrEnum):
    """What happens to the lane while a failed item waits out its back-off."""

    YIELD = "yield"
    KEEP = "keep"


class ArrivalDecision(StrEnum):
    """The decision on an arrival."""

    ADMITTED = "admitted"
    QUEUED = "queued"
    COALESCED = "coalesced"
    SUPERSEDING = "superseding"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"
    OBSERVED = "observed"


class SenderKind(StrEnum):
    """The kind of a message's sender. It decides what the message may start."""

    PERSON = "person"
    AGENT = "agent"
    BOT = "bot"
    SYSTEM = "system"
    #: May write but not start work, such as a stranger on a public issue.
    OUTSIDER = "outsider"


class Sender(NamedTuple):
    """Who wrote a message: the kind, the key of an agent, and the lane of the run in which it was written."""

    kind: SenderKind = SenderKind.PERSON
    agent: str = NO_AGENT
    run: RunId | None = None
    lane: str | None = None


#: The default sender.
A_PERSON = Sender()
OUR_BOT = Sender(SenderKind.BOT)
ANOTHER_SYSTEM = Sender(SenderKind.SYSTEM)
AN_OUTSIDER = Sender(SenderKind.OUTSIDER)


class Reason(StrEnum):
    """Stable reason codes, on events and on ended items."""

    # arrivals
    LANE_FREE = "lane_free"
    NO_LANE = "no_lane"
    SCHEDULED = "scheduled"
    LANE_QUEUED = "lane_queued"
    LANE_HELD = "lane_held"
    SAME_NAME = "issue_execution_same_name"
    DEFERRED = "issue_execution_deferred"
    PROMOTED = "issue_execution_promoted"
    NEWER_ARRIVAL = "superseded_by_newer"
    DEDUPE_KEY = "dedupe_key_seen"
    WOULD_ADMIT = "would_be_admitted"
    WOULD_QUEUE = "would_be_queued"
    WOULD_COALESCE = "would_be_coalesced"
    WOULD_SUPERSEDE = "would_be_superseding"
    WOULD_REJECT = "would_be_rejected"
    UNREAD_MESSAGES = "unread_messages"
    OWN_MESSAGE = "own_message"
    OUTSIDER = "outsider"
    LOOP = "loop"
    # endings
    REPORTED = "reported"
    SEEN_OUTSIDE = "seen_outside"
    LEASE_EXPIRED = "lease_expired"
    RUN_TIMEOUT = "run_timeout"
    CANCEL_GRACE_OVER = "cancel_grace_over"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    NO_RETRY = "no_retry"
    BACK_OFF = "back_off"
    RELEASED_OFTEN = "released_often"
    QUOTA_WALL = "quota_wall"
    ASKED = "asked"
    SETUP_FAULT = "setup_fault"
    UNCLAIMED = "unclaimed"
    OPERATOR = "operator"
    UNREACHABLE = "unreachable"
    REMOVED_BY_EDIT = "removed_by_edit"
    EDIT_CYCLE_EXPIRED = "edit_cycle_expired"
    # movements
    PLANNED = "planned"
    PREDECESSORS_OPEN = "predecessors_open"
    PREDECESSORS_MET = "predecessors_met"
    EDIT_OWED = "edit_owed"
    EDIT_ANSWERED = "edit_answered"
    EDIT_FAILED = "edit_failed"
    DUE = "due"
    WOKEN = "woken_by_message"
    EDITED = "edited"
    ANSWERED = "answered"
    OVERTAKEN = "agent_cannot_start"
    AGENT_GONE = "agent_gone"
    SERIES_QUEUED = "series_queued"
    # refusals
    LEASE_LOST = "lease_lost"
    FOREIGN_HANDLE = "foreign_handle"


class EventKind(StrEnum):
    """Every kind of event."""

    ITEM_ADDED = "item.added"
    ITEM_DUPLICATE = "item.duplicate"
    ITEM_REJECTED = "item.rejected"
    ITEM_OBSERVED = "item.observed"
    ITEM_COALESCED = "item.coalesced"
    ITEM_SUPERSEDED = "item.superseded"
    ITEM_PARKED = "item.parked"
    ITEM_REENTERED = "item.reentered"
    ITEM_EDITED = "item.edited"
    ITEM_CANCELLED = "item.cancelled"
    ITEM_RETRIED = "item.retried"
    CANCEL_REQUESTED = "cancel.requested"
    MESSAGE_ADDED = "message.added"
    QUESTION_ASKED = "question.asked"
    QUESTION_ANSWERED = "question.answered"
    QUESTION_TIMED_OUT = "question.timed_out"
    WAKE_STOPPED = "wake.stopped"
    RUN_STARTED = "run.started"
    RUN_SUCCEEDED = "run.succeeded"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    RUN_TIMED_OUT = "run.timed_out"
    RUN_LOST = "run.lost"
    RUN_RELEASED = "run.released"
    RUN_REFUSED = "run.refused"
    LANE_PROMOTED = "lane.promoted"
    LANE_OVERTAKEN = "lane.overtaken"
    AGENT_SET = "agent.set"
    AGENT_REMOVED = "agent.removed"
    AGENT_PAUSED = "agent.paused"
    AGENT_RESUMED = "agent.resumed"
    AGENT_WALLED = "agent.walled"
    POOL_SET = "pool.set"
    POOL_REMOVED = "pool.removed"
    BUDGET_SET = "budget.set"
    BUDGET_REMOVED = "budget.removed"
    PROJECT_PAUSED = "project.paused"
    PROJECT_RESUMED = "project.resumed"
    MODE_SET = "mode.set"
    STORE_CHANGED = "store.changed"
    STORE_LEAPT = "store.leapt"
    CLOCK_STEPPED = "clock.stepped"
    PLAN_CREATED = "plan.created"
    PLAN_MODIFIED = "plan.modified"
    PLAN_EDIT_REFUSED = "plan.edit_refused"
    PLAN_CYCLE_OPENED = "plan.cycle_opened"
    PLAN_CYCLE_CLOSED = "plan.cycle_closed"
    PLAN_PAUSED = "plan.paused"
    PLAN_RESUMED = "plan.resumed"
    PLAN_DEADLINE_SET = "plan.deadline_set"
    PLAN_CANCELLED = "plan.cancelled"
    PLAN_ENDED = "plan.ended"
    PLAN_REOPENED = "plan.reopened"
    NOTICE_FAILED = "notice.failed"
    BLOCK_SET = "block.set"
    BLOCK_REMOVED = "block.removed"
    GATE_CLOSED = "gate.closed"
    GATE_OPENED = "gate.opened"
    GATE_REMOVED = "gate.removed"
    SERIES_YIELDED = "series.yielded"


class Spec(NamedTuple):
    """What the caller asked for. After arrival, only a retry (`max_attempts`) or an edit before the start
    changes it."""

    id: ItemId
    project: str
    type: str
    title: str
    agent_key: str
    policy: Policy
    priority: int
    position: int
    ticket: int
    sort_key: int
    lane: str | None
    observed_lane: str | None
    labels: tuple[str, ...]
    lease_s: float | None
    timeout_s: float | None
    max_attempts: int
    retry_lane: RetryLane
    created_us: int
    #: Once ready, it ends if it is not claimed within this time.
    claim_within_s: float | None = None
    #: The plan it is a task of.
    plan: PlanId | None = None

    @property
    def lock_lane(self) -> str | None:
        """The lane whose row is locked before this item changes."""
        return self.lane or self.observed_lane


class State(NamedTuple):
    """The state of an item. A new value for every change."""

    status: ItemStatus
    attempt: int = 0
    releases: int = 0
    #: When time alone moves it: the next deadline of its run, or the time when it comes back.
    due_us: int | None = None
    run: RunId | None = None
    run_agent: str | None = None
    run_worker: str | None = None
    run_started_us: int | None = None
    run_lease_s: float | None = None
    lease_until_us: int | None = None
    revoke_us: int | None = None
    #: Its status after the run that was asked to stop; `pending`: it is offered again.
    cancel_into: ItemStatus | None = None
    cancel_why: str | None = None
    absorbed_by: ItemId | None = None
    message_count: int = 0
    delivered: int = 0
    seen: int = 0
    front: bool = False
    promoted_from: RunId | None = None
    first_claimed_us: int | None = None
    ended_us: int | None = None
    reason: str = ""
    #: When a ready item ends unless it is claimed. The ledger sets it when the item becomes ready.
    claim_by_us: int | None = None
    #: The bits in the handle of its run. Shown to the run's holder only. Lanes in git have only a hash.
    run_bits: int | None = None
    #: Wake-ups in a row since a person's last message. Only for items without a lane.
    streak: int = 0
    #: The agent of its last run, while it has no run.
    last_agent: str | None = None
    #: Pending, but held back by its lane's gate or a block. The ledger sets it.
    gated: bool = False
    #: A block of its own keeps it from starting, whatever its status.
    blocked: bool = False

    @property
    def ready(self) -> bool:
        """Waits only for a claim, unless a gate, a pause, a block or its plan holds it back."""
        return self.status is ItemStatus.PENDING and self.due_us is None


class Item(NamedTuple):
    """One piece of work."""

    spec: Spec
    state: State

    @property
    def id(self) -> ItemId:
        return self.spec.id

    @property
    def status(self) -> ItemStatus:
        return self.state.status

    def is_run_of(self, run: RunId, bits: int | None) -> bool:
        """Whether a handle is that of its current run. Number and bits are compared: a copied or restored
        store gives out the same numbers again, but not the same bits."""
        return self.state.run == run and self.state.run_bits == bits

    @property
    def active(self) -> bool:
        """Pending or in progress: on a lane, the owner."""
        return self.state.status in ACTIVE

    @property
    def terminal(self) -> bool:
        return self.state.status in TERMINAL

    @property
    def parked(self) -> bool:
        """Waiting out a back-off or a quota limit after a run, on or off its lane."""
        state = self.state
        waiting = state.status in (ItemStatus.WAITING, ItemStatus.PENDING)
        return waiting and state.due_us is not None and self.started

    @property
    def asking(self) -> bool:
        """Waiting for a person's answer to the question of its live run or of its last one."""
        return self.state.reason == Reason.ASKED and (self.asking_live or self.parked)

    @property
    def asking_live(self) -> bool:
        """Whether its live run asks a person and keeps its lease meanwhile: see `questions`."""
        return self.state.reason == Reason.ASKED and self.state.status is ItemStatus.IN_PROGRESS

    @property
    def at_quota_limit(self) -> bool:
        """Waiting until the quota limit of its last run ends."""
        return self.parked and self.state.reason == Reason.QUOTA_WALL

    @property
    def over_wake_limit(self) -> bool:
        """Waiting for a person, as it reached the wake-up limit."""
        return self.state.status is ItemStatus.WAITING and self.state.reason == Reason.LOOP

    @property
    def chain(self) -> str | ItemId:
        """Where its wake-ups are counted: on its lane or, without one, on itself."""
        return self.spec.id if self.spec.lane is None else self.spec.lane

    @property
    def worked_by(self) -> str:
        """The agent that runs it, ran it last, or is to run it."""
        return self.state.run_agent or self.state.last_agent or self.spec.agent_key

    @property
    def is_hold(self) -> bool:
        """Whether it is a hold: only the command that added it claims it."""
        return self.spec.type == HOLD and HOLD in self.spec.labels

    @property
    def follow_up(self) -> bool:
        """Whether it is a follow-up, made of another item's unread messages."""
        return self.spec.title.startswith(FOLLOW_UP)

    @property
    def has_unread(self) -> bool:
        """Whether messages have arrived since its run started."""
        return self.state.run is not None and self.state.message_count > self.state.delivered

    @property
    def comes_back(self) -> bool:
        """Whether it will enter its lane again, where a newer item may replace it."""
        spec, state = self.spec, self.state
        waits = (state.due_us is not None and state.run is None) or self.over_wake_limit
        return waits and spec.lane is not None and spec.policy in REPLACEABLE

    @property
    def external(self) -> bool:
        """Whether its run is external: work outside, without a process that renews and without a lease."""
        return self.state.run is not None and self.state.lease_until_us is None

    @property
    def expires_us(self) -> int | None:
        """When its run loses it: the earliest of lease, run timeout and cancel grace. An external run has no
        lease and may never lose it."""
        return self.state.due_us if self.state.status is ItemStatus.IN_PROGRESS else None

    def overdue(self, now_us: int) -> bool:
        """Whether time alone moves it now."""
        at_us = self.state.due_us or self.state.claim_by_us
        return at_us is not None and at_us <= now_us

    @property
    def stops_for_good(self) -> bool:
        """Whether its run was asked to stop, and the item ends with that run."""
        return self.state.cancel_into not in (None, ItemStatus.PENDING)

    @property
    def started(self) -> bool:
        """Whether a run has ever had it."""
        return self.state.first_claimed_us is not None

    @property
    def scheduled(self) -> bool:
        """Waiting for the time that its caller asked for; it has not been tried yet."""
        return self.state.status is ItemStatus.WAITING and not (self.parked or self.over_wake_limit)

    def answers_to(self, key: str) -> bool:
        """Whether it is addressed to an agent key, or a run of that agent has it."""
        return key in (self.spec.agent_key, self.state.run_agent)

    @property
    def kin(self) -> tuple[str, Policy]:
        """Agent key and policy. A policy absorbs or cancels only items with the same pair."""
        return self.spec.agent_key, self.spec.policy

    @property
    def line(self) -> tuple[bool, int, int, int]:
        """The order in which the items of a lane start. Priority has no effect."""
        return not self.state.front, self.spec.position, self.spec.ticket, self.spec.id


class NewItem(Record):
    """An arrival: what a caller asks for, before the rules have decided."""

    title: str
    project: str = DEFAULT_PROJECT
    type: str = "task"
    agent: str = NO_AGENT
    lane: str | None = None
    #: Opts out of the lane derived from a payload with a repository and a number.
    no_lane: bool = False
    policy: Policy = Policy.QUEUE
    #: The caller named no policy: the settings of the service may choose one, see `policies`.
    policy_open: bool = False
    priority: int = 0
    position: int | None = None
    payload: str | None = None
    message: str | None = None
    author: str = ""
    dedupe_key: str | None = None
    labels: tuple[str, ...] = ()
    run_at_us: int | None = None
    #: A delay instead of a time: it counts on the store's clock, not on the caller's.
    run_after_s: float | None = None
    lease_s: float | None = None
    timeout_s: float | None = None
    #: How long it may wait for a claim once it is ready. Then it ends, and the next on its lane is promoted.
    claim_within_s: float | None = None
    max_attempts: int = 3
    retry_lane: RetryLane = RetryLane.YIELD
    sender: Sender = A_PERSON
    #: Why its message came, by a name such as `issue_commented`, and where it was written.
    reason: str = ""
    url: str = ""
    #: Sorts the messages of one source in the order in which they were written there: see `message_order`.
    said: str = ""


class CheckedItem(NewItem):
    """An arrival checked by `validation.checked`: within all limits, its names in normal form."""


class NewMessage(NamedTuple):
    """A new message of an item, with the number `n`."""

    item: ItemId
    n: int
    ticket: int
    text: str
    author: str
    origin: ItemId
    at_us: int
    sender: SenderKind = SenderKind.PERSON
    #: The key of an agent that wrote it.
    agent: str = NO_AGENT
    #: Why it came, by a name, and where it was written.
    reason: str = ""
    url: str = ""
    said: str = ""


class Unread(NamedTuple):
    """What the rules must know of a message that no run has read."""

    n: int
    ticket: int
    sender: SenderKind
    agent: str


class Streak(NamedTuple):
    """Wake-ups in a row on a lane since a person's last message, and the last counted run."""

    wakes: int = 0
    run: RunId | None = None


NO_STREAK = Streak()


class Gate(NamedTuple):
    """The gate of a lane: while it is shut, only exempt types start there."""

    #: The lane of the series that opens and shuts it.
    series: str
    open: bool
    #: Types that a shut gate lets through.
    exempt: tuple[str, ...] = ()
    #: Since when it is open or shut.
    at_us: int = 0

    def shuts(self, type_: str) -> bool:
        """Whether it keeps items of this type from being started."""
        return not self.open and type_ not in self.exempt


class MoveMessages(NamedTuple):
    """Messages of `source` with numbers above `after` move to `target`; each number grows by `shift`."""

    source: ItemId
    target: ItemId
    after: int
    shift: int


class RunRecord(NamedTuple):
    """A run that has ended, written once."""

    run: RunId
    item: ItemId
    attempt: int
    agent: str
    worker: str | None
    started_us: int
    ended_us: int
    status: RunStatus
    reason: str
    result: str | None = None
    error: str | None = None
    #: The bits in its handle.
    bits: int | None = None


class RecentRun(NamedTuple):
    """A current or recently ended run, as others see it."""

    run: RunId
    item: ItemId
    lane: str | None
    agent: str
    worker: str | None
    status: str
    reason: str
    started_us: int
    ended_us: int | None
    #: The status of its item; null if that is no longer known.
    item_status: str | None
    #: When its item was added; null if that is not known.
    item_added_us: int | None = None


class Event(NamedTuple):
    """One line of the history, before it has its number."""

    at_us: int
    #: A newer version on the same store may have written an unknown kind.
    kind: EventKind | str
    reason: str = ""
    project: str | None = None
    item: ItemId | None = None
    run: RunId | None = None
    lane: str | None = None
    agent: str | None = None
    #: The time to claim on an item's first `run.started`; the lock duration at the end of a run.
    span_us: int | None = None
    data: Mapping[str, Any] = MappingProxyType({})


class ModeRule(Record):
    """A mode for one project or for every lane that starts with `value`."""

    scope: str
    value: str
    mode: Mode


def mode_for(rules: tuple[ModeRule, ...], project: str, lane: str) -> Mode:
    """The mode of a lane: that of its longest prefix, else of its project, else `enforce`."""
    prefixes = [r for r in rules if r.scope == "lane" and lane.startswith(r.value)]
    if prefixes:
        return max(prefixes, key=lambda r: len(r.value)).mode
    return next((r.mode for r in rules if r.scope == "project" and r.value == project), Mode.ENFORCE)


# The columns of both stores have these names.
SPEC_FIELDS = Spec._fields
STATE_FIELDS = State._fields
