"""The commands on items that `decide` takes, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from interlock.core.cures import Cure
from interlock.core.errors import Refusal
from interlock.core.model import A_PERSON, ArrivalDecision, CheckedItem, Gate, Item, ItemId, RunId, Sender
from interlock.core.plans.commands import PlanCommand
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.core.states import RunStatus


class Outcome(StrEnum):
    """How a run reports its end."""

    DONE = "done"
    FAIL = "fail"
    RELEASE = "release"
    #: Not reported by runs: observed of external runs.
    CANCEL = "cancel"
    #: The active issue of a series gives up its place: cancelled, and queued again when allowed.
    YIELD = "yield"


class Arrive(Record):
    """An item arrives. Its id and ticket were taken before the transaction began."""

    item: CheckedItem
    id: ItemId
    ticket: int


class QuotaLimit(NamedTuple):
    """A quota limit that a run has hit. It ends at a time, or after a duration."""

    until_us: int | None = None
    for_s: float | None = None
    #: Which limit, for the history.
    why: str = ""
    #: The run's agent starts nothing until then.
    whole_agent: bool = False
    #: Nor do the agents of its pool, which share the account.
    whole_pool: bool = False


class Question(NamedTuple):
    """A question of a run to a person. Its ticket was taken before the transaction began."""

    text: str
    ticket: int
    #: How long it keeps its lane.
    timeout_s: float
    #: It gives up its lane at once.
    yields: bool = False


class Finish(NamedTuple):
    """A run reports its end."""

    run: RunId
    item: ItemId
    outcome: Outcome
    seen: int = 0
    result: str | None = None
    error: str | None = None
    retry: bool = True
    jitter: float = 0.5
    #: The bits in the run's handle; null where a store checks the handle itself (lanes in git).
    bits: int | None = None
    #: With a release: the item, or its agent, waits until the quota limit ends.
    quota_limit: QuotaLimit | None = None
    #: With a release: the item waits for the answer of a person.
    question: Question | None = None
    #: With a release: a set-up fault stopped the run, and the item waits this long on its lane.
    fault_s: float | None = None
    #: The other agents of its pool, if the quota limit is the pool's.
    pool_agents: tuple[str, ...] = ()


class AskLive(NamedTuple):
    """A run asks a person and keeps its lease."""

    run: RunId
    item: ItemId
    bits: int | None
    question: str
    #: How long its lease lasts without a renewal. Not for a run with a worker, which renews.
    timeout_s: float


class CloseQuestion(NamedTuple):
    """A run goes on: its question was answered where it works, such as at its terminal."""

    run: RunId
    item: ItemId
    bits: int | None


class Expire(Record):
    """A deadline may have passed: that of a run, a back-off or a schedule."""

    item: ItemId


class Cancel(Record):
    """An operator ends an item. `force` revokes a running lease at once."""

    item: ItemId
    why: str
    #: The operator's name, for the history.
    by: str | None = None
    force: bool = False


class TakeBack(Record):
    """An operator takes the lease from a run and offers the item again."""

    item: ItemId
    why: str
    by: str | None = None
    #: Only from this run: another one may have started since the operator looked.
    run: RunId | None = None


class EndExternal(Record):
    """An external run was seen to have ended. The report needs no handle: it is accepted iff the
    item's current run has this number and is external."""

    item: ItemId
    run: RunId
    outcome: Outcome
    why: str
    by: str | None = None
    result: str | None = None


class Retry(Record):
    """An operator gives a failed or cancelled item another attempt, or ends its back-off."""

    item: ItemId
    why: str = ""
    by: str | None = None
    sender: Sender = A_PERSON


class Edit(Record):
    """Change an item that has not started."""

    item: ItemId
    #: New values of fields of its spec.
    spec: Mapping[str, Any]
    #: It is due at a time, or after a span on the store's clock; 0 is at once. None leaves it unchanged.
    run_at_us: int | None = None
    run_after_s: float | None = None
    by: str | None = None
    sender: Sender = A_PERSON
    #: The version that the caller has read: if the item has another, the edit is refused.
    expected: str | None = None


class SendMessage(Record):
    """A message for an item. Its sender decides what it may start: see `wakeups`."""

    item: ItemId
    ticket: int
    text: str
    author: str = ""
    sender: Sender = A_PERSON
    #: Why it came, by a name, and where it was written.
    reason: str = ""
    url: str = ""


class SetGate(Record):
    """A series opens or shuts the gate of a lane, or removes it."""

    lane: str
    #: Null removes the gate.
    gate: Gate | None
    why: str
    #: It opens only while the owner of the series has this run; null: any run.
    run: RunId | None = None
    by: str | None = None


class Repair(Record):
    """A lane may have lost its owner: promote the first in line if it is free. Or its owner may
    contradict its gate."""

    lane: str


class Overtake(Record):
    """Another agent's claim takes the lane from an owner that cannot start, or whose agent is gone."""

    item: ItemId
    owner: ItemId
    #: Only the silence of its agent keeps the owner from starting: this is checked again.
    gone: bool = False


Command = (
    Arrive
    | Finish
    | AskLive
    | CloseQuestion
    | Expire
    | Cancel
    | TakeBack
    | EndExternal
    | Retry
    | Edit
    | SendMessage
    | SetGate
    | Repair
    | Overtake
    | PlanCommand
)


class Arrival(Record):
    """The answer to `Arrive`."""

    verdict: ArrivalDecision
    reason: str
    #: The item that carries the input: the new one, its absorber, or the first with its dedupe key.
    item: ItemId | None
    #: The arrival's own row, if it has one.
    arrived: ItemId | None
    holder: Item | None = None
    position: int | None = None
    #: Why an arrival that would coalesce or replace another did neither.
    policy_why: str | None = None


class FinishAnswer(NamedTuple):
    """The answer to `Finish`: how the run ended, or why the report was refused."""

    run: RunId
    #: Null if the handle is not the item's: its holder must learn nothing about the item.
    item: ItemId | None
    status: RunStatus | None
    refusal: Refusal | None = None
    promoted: tuple[ItemId, ...] = ()
    #: The item made of its unread messages.
    follow_up: ItemId | None = None


class CommandAnswer(Record):
    """The answer to the operator's commands and to the sweeper: whether anything changed."""

    item: ItemId | None
    changed: bool
    refusal: str = ""
    #: What to do instead.
    hint: str = ""
    cures: tuple[Cure, ...] = ()
    promoted: tuple[ItemId, ...] = ()
    #: The item that absorbed the receiver of a message.
    forward_to: ItemId | None = None
    n: int = 0
    #: The code of the refusal; empty if it is the usual one of the command.
    code: str = ""


class GateSet(Record):
    """The answer to `SetGate`."""

    lane: str
    #: The gate as it is now; null on a lane without one.
    gate: Gate | None
    changed: bool
    #: The current run there that is not exempt. A shut lane without one starts none until it opens.
    run: RunId | None
    #: Why it was not opened: another lane of its series, or the lane of the series, which has another run.
    waits_for: str | None = None
