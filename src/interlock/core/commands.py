"""The commands on items that `decide` takes, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from interlock.core.errors import Refusal
from interlock.core.model import A_PERSON, Gate, Item, ItemId, NewItem, RunId, Sender, Verdict
from interlock.core.plans.commands import PlanCommand
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.core.states import RunStatus


class Outcome(StrEnum):
    """How a run reports its end."""

    DONE = "done"
    FAIL = "fail"
    RELEASE = "release"
    #: Nobody reports these of his own run; of an external one they are seen.
    CANCEL = "cancel"
    #: The active issue of a series gives its place back: cancelled, and in line again when it may be.
    YIELD = "yield"


class Arrive(Record):
    """An item arrives. Its id and ticket were taken before the transaction began."""

    item: NewItem
    id: ItemId
    ticket: int


class Wall(NamedTuple):
    """A limit from outside, as a quota, that a run has met. It is over at a time, or after a span."""

    until_us: int | None = None
    for_s: float | None = None
    #: Which limit, for the history.
    why: str = ""
    #: The run's agent starts nothing until then.
    whole_agent: bool = False


class Question(NamedTuple):
    """What a run asks a person, in place of an end. Its ticket was taken before the transaction began."""

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
    #: With a release: the item, or its agent, waits until the wall is over.
    wall: Wall | None = None
    #: With a release: the item waits for the answer of a person.
    question: Question | None = None
    #: With a release: a fault of the set-up met the run, and the item waits this long on its lane.
    fault_s: float | None = None


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


class EndExternal(Record):
    """Somebody saw from outside that an external run has ended. It needs no handle: it is accepted iff the
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
    """Somebody changes an item that has not started."""

    item: ItemId
    #: New values of fields of its spec.
    spec: Mapping[str, Any]
    #: It is due at a time, or after a span on the store's clock; 0 is at once. None leaves that as it is.
    run_at_us: int | None = None
    run_after_s: float | None = None
    by: str | None = None
    sender: Sender = A_PERSON
    #: The version that somebody has looked at: of another, nothing is changed.
    expected: str | None = None


class Tell(Record):
    """A message for an item. What it may start is decided by who wrote it: see `waking`."""

    item: ItemId
    ticket: int
    text: str
    author: str = ""
    sender: Sender = A_PERSON
    #: Why it came, by a name, and where it was written.
    reason: str = ""
    url: str = ""


class SetGate(Record):
    """A series opens or shuts a lane, or lets it go."""

    lane: str
    #: Null removes the gate.
    gate: Gate | None
    why: str
    #: It opens only while this is the run of the series' owner; null: whoever that is.
    run: RunId | None = None
    by: str | None = None


class Repair(Record):
    """A lane may have lost its owner: promote the first in line if nobody owns it. Or its owner may
    contradict its gate."""

    lane: str


class Overtake(Record):
    """Another agent's claim takes the lane from an owner that cannot start, or whose agent is gone."""

    item: ItemId
    owner: ItemId
    #: Nothing but the silence of its agent keeps the owner from being started: that is judged again.
    gone: bool = False


Command = (
    Arrive
    | Finish
    | Expire
    | Cancel
    | TakeBack
    | EndExternal
    | Retry
    | Edit
    | Tell
    | SetGate
    | Repair
    | Overtake
    | PlanCommand
)


class Arrival(Record):
    """The answer to `Arrive`."""

    verdict: Verdict
    reason: str
    #: The item that carries the input: the new one, its absorber, or the first with its dedupe key.
    item: ItemId | None
    #: The arrival's own row, if it has one.
    arrived: ItemId | None
    holder: Item | None = None
    position: int | None = None
    #: Why an arrival that would coalesce or replace another did neither.
    policy_why: str | None = None


class Ended(NamedTuple):
    """The answer to `Finish`: how the run ended, or why the report was refused."""

    run: RunId
    #: Null if the handle is foreign: its holder must not learn about an item of somebody else.
    item: ItemId | None
    status: RunStatus | None
    refusal: Refusal | None = None
    promoted: tuple[ItemId, ...] = ()
    #: The item made of its unread messages.
    follow_up: ItemId | None = None


class Moved(Record):
    """The answer to the operator's commands and to the sweeper: whether anything changed."""

    item: ItemId | None
    changed: bool
    refusal: str = ""
    #: What to do instead.
    hint: str = ""
    promoted: tuple[ItemId, ...] = ()
    #: The item that absorbed the one a message was for.
    forward_to: ItemId | None = None
    n: int = 0
    #: The code of the refusal; empty if it is the usual one of the command.
    code: str = ""


class GateSet(Record):
    """The answer to `SetGate`."""

    lane: str
    #: As it is now; null on a lane without a gate.
    gate: Gate | None
    changed: bool
    #: The run that goes on there and is not exempt. A shut lane without one gets none until it opens.
    run: RunId | None
    #: Why it was not opened: another lane of its series, or the lane of the series, whose run is another.
    waits_for: str | None = None
