"""The interface that every shell uses, and its answers.

`interlock.service.local` implements `Service` on a store; a remote client can implement it too. `LaneService`
is the part that a store without a database serves as well. Answers are frozen values (answers that come in
batches are named tuples, which are faster to make); `to_json` turns any of them into what `--json` prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any, Protocol

from interlock.core.commands import Wall
from interlock.core.continuity import Lineage
from interlock.core.model import A_PERSON, ModeRule, NewItem, Sender
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.core.timing import QUESTION_TIMEOUT_S
from interlock.service.itemview import ItemView
from interlock.service.planview import PlanService
from interlock.service.series import SeriesService


class HolderView(Record):
    """Who holds a lane: a run, or an owner that has not started (then `run` is null)."""

    item: int
    run: int | None
    agent: str | None
    since: datetime
    expires_at: datetime | None
    #: It was asked to stop; `expires_at` is no later than the end of its grace.
    cancel_requested: bool
    #: It was made from messages that an earlier item's run did not read.
    follow_up: bool = False
    #: The work is done outside: the run has no lease, and no `expires_at` unless it has another deadline.
    external: bool = False
    #: It waits for the answer of a person.
    asking: bool = False


class AddView(Record):
    """The answer to an arrival. `item` is null only if the arrival was rejected."""

    decision: str
    reason: str
    item: ItemView | None
    holder: HolderView | None
    position: int | None
    #: The arrival's own item, which differs from `item` if it was coalesced.
    arrival: int | None
    #: Why an arrival that would coalesce or replace another did neither; else null.
    policy_why: str | None = None


class MessageView(Record):
    """A message of an item. `origin` is the arrival it came with, if that was another item."""

    n: int
    text: str
    author: str
    at: datetime
    origin: int | None
    payload: Mapping[str, Any] | None = None
    #: `person`, `agent`, `bot`, `system` or `outsider`; and which agent.
    sender: str = "person"
    agent: str | None = None
    #: Why it came, by a name such as `issue_commented`, and where it was written.
    reason: str | None = None
    url: str | None = None


class OwedView(NamedTuple):
    """What is owed to GitHub, each counted up to a thousand."""

    owed: int
    #: What failed so often that it waits for a person.
    dead: int
    #: Since when something is due, or when it is.
    due_at: datetime | None


class LeaseView(NamedTuple):
    """A claimed item: `run` is the handle, the right to write; `fence` is the run's number.

    In JSON the handle is there under its own name too. An external run has no lease: both spans are null, and
    so is `expires_at` unless the item has a timeout.
    """

    run: str
    fence: int
    expires_at: datetime | None
    #: How long a renewal keeps it.
    lease_s: float | None
    renew_within_s: float | None
    item: ItemView
    messages: tuple[MessageView, ...]
    #: How long the call had waited before the claim: the lease began no earlier.
    waited_s: float = 0.0

    @property
    def handle(self) -> str:
        return self.run


class RefusalView(Record):
    """Why a write was refused, and what to do."""

    code: str
    message: str
    hint: str


class RunView(NamedTuple):
    """The answer to done, fail, release and renew, one for each handle."""

    run: str
    #: The run's status, or `refused`.
    status: str
    item: ItemView | None
    promoted: tuple[int, ...] = ()
    refusal: RefusalView | None = None
    expires_at: datetime | None = None
    cancel_requested: bool = False
    unread: int = 0
    #: The item made from messages that this run did not read.
    follow_up: int | None = None
    #: That item waits for a person: too many wake-ups in a row came from nobody else.
    loop: bool = False

    @property
    def handle(self) -> str:
        return self.run

    @property
    def unread_messages(self) -> str:
        return f"{self.unread} unread message{'' if self.unread == 1 else 's'}"

    @property
    def followed_up(self) -> str:
        """What the messages became that the run ended without reading; empty if there were none."""
        if self.follow_up is None:
            return ""
        waits = ", which waits for a person (loop)" if self.loop else ""
        return f"{self.unread_messages} became item {self.follow_up}{waits}"


class ChangeView(Record):
    """The answer to cancel, retry, msg and an operator's release."""

    item: ItemView
    promoted: tuple[int, ...] = ()
    #: The number of the appended message.
    n: int | None = None


class BlockView(Record):
    """What waits for something outside: everything on a lane, or one item."""

    lane: str | None
    item: int | None
    #: What it waits for.
    blocker: str
    reason: str
    #: Where to look at the blocker.
    url: str | None
    since: datetime


class GateView(Record):
    """The gate of a lane: while it is shut, nothing there starts but exempt types."""

    lane: str
    #: The lane of the series that opens and shuts it.
    series: str
    open: bool
    #: Types that it lets through when it is shut.
    exempt: tuple[str, ...]
    #: Since when it is open or shut.
    since: datetime
    #: The run that goes on there and is not exempt. A shut gate has asked it to stop; once there is none,
    #: there is none until the gate opens.
    run: int | None = None
    #: Only in the answer to `set_gate`: why it was not opened. Another lane of the series, which is open or
    #: where a run goes on, or the lane of the series, whose run is not the one that was named.
    waits_for: str | None = None


class HoldView(Record):
    """How a hold ended: the item and run that ran last or, if skipped, the ones that got its message."""

    #: `ran` or `skipped`.
    status: str
    lane: str
    item: int
    run: int | None
    exit_code: int


class EndedRunView(Record):
    """A run in an item's history."""

    run: int
    agent: str
    worker: str | None
    attempt: int
    status: str
    reason: str
    started_at: datetime
    ended_at: datetime | None
    result: Any = None
    error: str | None = None


class RecentRunView(Record):
    """A run that goes on, or ended lately; of whichever item."""

    run: int
    item: int
    lane: str | None
    agent: str
    worker: str | None
    status: str
    reason: str
    started_at: datetime
    ended_at: datetime | None
    #: What became of its item; null if that is not known any more.
    item_status: str | None


class EventView(Record):
    """One line of the history."""

    seq: int
    at: datetime
    kind: str
    reason: str
    project: str | None
    item: int | None
    run: int | None
    lane: str | None
    agent: str | None
    data: Mapping[str, Any]


class WorkflowRunView(Record):
    """A workflow run of GitHub Actions in its newest attempt."""

    id: int
    name: str
    attempt: int
    status: str
    #: Null while it goes on.
    conclusion: str | None
    #: Its page, with its logs.
    url: str
    #: Where programs get the logs.
    logs_url: str
    #: Until when GitHub keeps them, unless its default was changed.
    logs_expire_at: datetime
    #: `{"name", "url", "expires_at"}` each.
    artifacts: tuple[Mapping[str, Any], ...]


class LinkView(Record):
    """A pull request, or a commit in none, that comes from a run, and how it fares."""

    run: int
    repository: str
    #: Null of a commit in no pull request.
    pull_request: int | None
    #: Its newest commit.
    commit: str
    branch: str
    url: str
    #: How it was found: `trailer`, `branch`, or `closes` if it closes the issue that the run worked on.
    how: str
    #: `open`, `merged` or `closed`; null of a commit.
    outcome: str | None
    #: `pending`, `success`, `failure` or `cancelled`; null if nothing checks it, or nobody knows.
    ci_outcome: str | None
    ci_why: str
    #: Since when its checks say that.
    ci_since: datetime
    #: Those of its newest commit.
    workflow_runs: tuple[WorkflowRunView, ...]


class ShowView(Record):
    """Everything about one item."""

    item: ItemView
    runs: tuple[EndedRunView, ...]
    messages: tuple[MessageView, ...]
    events: tuple[EventView, ...]
    why: str
    #: What its runs have become at GitHub; the newest first.
    links: tuple[LinkView, ...] = ()


class WhyView(Record):
    """What an item waits for and what will move it, as the store is now."""

    item: ItemView
    #: One sentence, made of the next two.
    why: str
    #: What it waits for.
    state: str
    #: What moves it next.
    next: str
    #: Whether it is ready and yet nobody can start it.
    hindered: bool
    #: What becomes of the item's lane; null unless the item holds one.
    lane: str | None
    #: How its newest pull request fares, in a sentence; null without one.
    ci: str | None = None


class AgentView(Record):
    """An agent: what it can do, and how much it does now."""

    name: str
    key: str
    max: int | None
    types: tuple[str, ...]
    labels: tuple[str, ...]
    paused: bool
    paused_reason: str | None
    #: It starts nothing until then, because a run of it has met a limit from outside.
    walled_until: datetime | None
    wall_reason: str | None
    #: The pool whose capacity it shares.
    pool: str | None
    running: int
    #: Pending items that name this agent, counted to 1,000.
    pending: int
    last_seen_at: datetime | None
    #: How long it may make no claim before its items can be overtaken; 0: for ever.
    overtake_after_s: float


class PoolView(Record):
    """A pool: a capacity that several agents share."""

    name: str
    max: int
    running: int
    agents: tuple[str, ...]


class LaneView(Record):
    """A lane that is held or has a line."""

    lane: str
    mode: str
    holder: HolderView | None
    #: Counted to 1,000.
    waiting: int
    #: The first of the line, at most 20.
    line: tuple[int, ...]
    #: Why it cannot be read (only in git, where people can break it by hand); it counts as held.
    unreadable: str | None = None
    #: Its gate, if it has one.
    gate: GateView | None = None


class StatsBy(StrEnum):
    """What `stats` groups runs by."""

    PROJECT = "project"
    TYPE = "type"
    AGENT = "agent"
    PRIORITY = "priority"


class GroupView(Record):
    """The runs of one project, type, agent or priority in the window."""

    name: str
    claims: int
    completions: int
    failures: int
    failure_rate_percent: float
    failed_items: int
    item_failure_rate_percent: float


class StatsView(Record):
    """Counts now, and rates and spans over the window."""

    window_s: float
    #: Items by status; those that wait for a person are `asking`.
    items: Mapping[str, int]
    #: Pending items by priority, highest first.
    depth_by_priority: Mapping[int, int]
    current_locks: int
    oldest_pending_s: float | None
    claims: int
    claims_per_s: float
    completions: int
    completions_per_s: float
    failures: int
    #: Failed runs as a share of all ended runs, in percent.
    failure_rate_percent: float
    #: Items that failed for good, and as a share of all items that completed or failed, in percent.
    failed_items: int
    item_failure_rate_percent: float
    lock_duration_avg_s: float | None
    lock_duration_p50_s: float | None
    lock_duration_p95_s: float | None
    time_to_claim_avg_s: float | None
    time_to_claim_p50_s: float | None
    time_to_claim_p95_s: float | None
    lease_losses: int
    timeouts: int
    refused_writes: int
    promotions: int
    coalesced: int
    superseded: int
    overtaken: int
    duplicates: int
    rejected: int
    #: In observe mode: what enforcing would have done, by reason.
    would_have: Mapping[str, int]
    #: What the groups are, if any were asked for; those with the most claims come first.
    by: str | None = None
    groups: tuple[GroupView, ...] = ()


class SampleView(Record):
    """One number of a metric."""

    #: Behind the metric's name: `_total`, `_bucket`, `_sum`, `_count` or nothing.
    suffix: str
    labels: Mapping[str, str]
    value: float


class MetricView(Record):
    """One family of numbers, as Prometheus takes them."""

    name: str
    #: `counter`, `gauge` or `histogram`.
    kind: str
    help: str
    samples: tuple[SampleView, ...]


class SweepView(Record):
    """What one sweep did."""

    expired: int = 0
    reentered: int = 0
    promoted: int = 0
    forgotten_keys: int = 0
    pruned: int = 0


class CheckView(Record):
    """The check of one invariant on the database."""

    name: str
    ok: bool
    detail: str
    mend: str = ""


class WorkerView(Record):
    """A worker that was seen lately."""

    name: str
    host: str
    pid: int
    folder: str
    agent: str
    #: How many runs it may have at once, and how many it had when it was seen last.
    slots: int
    runs: int
    since: datetime
    last_seen_at: datetime
    #: It reached the store within the last 30 s. It may have died since, or may be cut off from the store.
    alive: bool


class NoticeView(Record):
    """An event that a user's command must be told of, leased to whoever runs it."""

    #: The setting that has the command.
    name: str
    event: EventView
    item: ItemView | None
    #: Which try of the command for this event it is, from 1.
    attempt: int
    #: The mark before it, and the right to move that.
    after: int
    token: int


class TokenView(Record):
    """A token, with which a program on another machine is let in."""

    id: str
    name: str
    #: `admin`, `read` or `agent:NAME`.
    scope: str
    created_at: datetime
    expires_at: datetime | None
    #: As of a minute ago at most.
    last_used_at: datetime | None
    revoked_at: datetime | None
    #: The token itself, in the answer that makes it.
    token: str | None = None


class ItemFilter(Record):
    """Which items to list; terminal ones only with `all`."""

    all: bool = False
    statuses: tuple[str, ...] = ()
    lane: str | None = None
    agent: str | None = None
    project: str | None = None
    type: str | None = None
    #: Only items that wait for the answer of a person.
    asking: bool = False
    #: Only items whose newest pull request's checks say this, or `none`; ended ones as well. Among the newest
    #: 10,000 links to pull requests and commits, or with `none` among the newest 10,000 items.
    ci: str | None = None
    #: Only items that arrived before this one: the page before the one that begins with it.
    before: int | None = None
    limit: int = 100


class Report(NamedTuple):
    """One run's part of a call to end, renew or read."""

    run: str
    seen: int = 0
    #: JSON text, stored with the run.
    result: str | None = None
    error: str | None = None
    #: False: fail for good even if attempts are left.
    retry: bool = True
    #: With a release: a limit from outside that the run has met.
    wall: Wall | None = None
    #: With a release: a fault of the set-up, which is in `error`, met the run. The item waits this long and
    #: keeps its lane; neither an attempt nor a release is counted.
    fault_s: float | None = None


class LaneService(Protocol):
    """What holding a lane needs: add, claim, renew, end, read and send messages. Lists in, lists out.

    Every store serves this, even one without a database. Bad input raises `InvalidInput` and changes nothing.
    Refusals are values. A store that cannot be reached raises `StoreUnavailable`.
    """

    def add(self, items: Sequence[NewItem]) -> list[AddView]: ...

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
        external: bool = False,
    ) -> list[LeaseView]: ...

    def end_external(
        self, item: int, run: int, outcome: str, *, why: str, by: str = "", result: str | None = None
    ) -> ChangeView: ...

    def renew(self, reports: Sequence[Report]) -> list[RunView]: ...

    def done(self, reports: Sequence[Report]) -> list[RunView]: ...

    def fail(self, reports: Sequence[Report]) -> list[RunView]: ...

    def release(self, reports: Sequence[Report]) -> list[RunView]: ...

    def inbox(self, run: str, *, seen: int = 0) -> list[MessageView]: ...

    def msg(
        self,
        item: int,
        text: str,
        *,
        author: str = "",
        sender: Sender = A_PERSON,
        reason: str = "",
        url: str = "",
    ) -> ChangeView: ...

    def sender_of(self, run: str) -> Sender: ...

    def cancel(self, item: int, *, why: str, by: str = "", force: bool = False) -> ChangeView: ...

    def lanes(self, *, prefix: str = "", limit: int = 100) -> list[LaneView]: ...

    def set_gate(
        self,
        lane: str,
        *,
        series: str,
        open: bool,  # noqa: A002  (the answer's name for it)
        exempt: Sequence[str] = (),
        why: str,
        by: str = "",
        run: int | None = None,
    ) -> GateView: ...

    def remove_gate(self, lane: str, *, why: str, by: str = "") -> bool: ...

    def gates(self, *, series: str | None = None, limit: int = 100) -> list[GateView]: ...

    def modes(self) -> list[ModeRule]: ...

    def set_mode(self, *, scope: str, value: str, mode: str, by: str = "") -> None: ...

    def on_lane(self, lane: str) -> list[ItemView]: ...

    def recent_runs(
        self, *, lane: str | None = None, worker: str = "", limit: int = 1_000
    ) -> list[RecentRunView]: ...

    def why(self, item: int) -> WhyView: ...

    def hindered(self, item: int) -> str | None: ...

    def doctor(self) -> list[CheckView]: ...

    def close(self) -> None: ...


class Service(LaneService, PlanService, SeriesService, Protocol):
    """One function per use case. `by` is the operator, for the history."""

    def external(self, *, limit: int = 100) -> list[ItemView]: ...

    def take_back(self, item: int, *, why: str, by: str = "") -> ChangeView: ...

    def ask(
        self, run: str, question: str, *, timeout_s: float = QUESTION_TIMEOUT_S, yield_lane: bool = False
    ) -> RunView: ...

    def retry(self, item: int, *, why: str = "", by: str = "", sender: Sender = A_PERSON) -> ChangeView: ...

    def edit(
        self,
        item: int,
        changes: Mapping[str, Any],
        *,
        by: str = "",
        sender: Sender = A_PERSON,
        expected: str | None = None,
    ) -> ChangeView: ...

    def items(self, wanted: ItemFilter) -> list[ItemView]: ...

    def stopped(self, *, limit: int = 100) -> list[ItemView]: ...

    def owed_to_github(self) -> OwedView: ...

    def item_of(self, handle: str) -> int: ...

    def unwanted(self, run: str) -> str | None: ...

    def act_as(self, run: str, account: str) -> None: ...

    def show(self, item: int) -> ShowView: ...

    def events(
        self,
        *,
        after: int = 0,
        limit: int = 1_000,
        item: int | None = None,
        lane: str | None = None,
        newest: bool = False,
    ) -> list[EventView]: ...

    def follow(self, *, after: int | None = None) -> Iterator[EventView]: ...

    def stats(self, *, window_s: float = 3600.0, by: str | None = None) -> StatsView: ...

    def metrics(self) -> list[MetricView]: ...

    def agents(self) -> list[AgentView]: ...

    def set_agent(
        self,
        name: str,
        *,
        max_concurrency: int | None = None,
        unlimited: bool = False,
        types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        pool: str | None = None,
        overtake_after_s: float | None = None,
        by: str = "",
    ) -> AgentView: ...

    def remove_agent(self, name: str, *, by: str = "") -> str: ...

    def near_agent(self, name: str) -> str | None: ...

    def pools(self) -> list[PoolView]: ...

    def set_pool(self, name: str, *, max_concurrency: int, by: str = "") -> PoolView: ...

    def remove_pool(self, name: str, *, by: str = "") -> str: ...

    def pause_agent(
        self, name: str, *, paused: bool, why: str, by: str = "", create: bool = False
    ) -> AgentView: ...

    def pause_project(
        self, project: str, *, paused: bool, why: str, by: str = "", create: bool = False
    ) -> None: ...

    def paused_projects(self) -> Mapping[str, str]: ...

    def block(
        self,
        *,
        lane: str | None = None,
        item: int | None = None,
        blocker: str,
        why: str,
        url: str = "",
        by: str = "",
    ) -> BlockView: ...

    def unblock(
        self,
        *,
        lane: str | None = None,
        item: int | None = None,
        blocker: str | None = None,
        why: str = "",
        by: str = "",
    ) -> list[str]: ...

    def blocks(self, *, limit: int = 100) -> list[BlockView]: ...

    def sweep(self) -> SweepView: ...

    def see_worker(
        self, name: str, *, host: str, pid: int, folder: str, agent: str, slots: int, runs: int
    ) -> None: ...

    def leave_worker(self, name: str) -> None: ...

    def workers(self, *, limit: int = 100) -> list[WorkerView]: ...

    def next_notice(self, name: str) -> NoticeView | None: ...

    def end_notice(self, notice: NoticeView, *, error: str | None = None) -> bool: ...

    def lineage(self) -> Lineage: ...

    def pass_fence(self, run: str, *, fence: int, armed_us: int) -> bool: ...

    def create_token(self, name: str, *, scope: str, expires_s: float | None = None) -> TokenView: ...

    def tokens(self) -> list[TokenView]: ...

    def revoke_token(self, token: str) -> TokenView: ...


def to_json(value: Any) -> Any:
    """As JSON values: records and dataclasses as objects, times as UTC ISO 8601, enums as their text."""
    if isinstance(value, Record):
        return {name: to_json(getattr(value, name)) for name in value.PARTS}
    if isinstance(value, LeaseView | RunView):
        named = {name: to_json(getattr(value, name)) for name in value._fields}
        return {"run": value.run, "handle": value.handle, **named}
    if isinstance(value, tuple) and (parts := getattr(value, "_fields", None)) is not None:
        return {name: to_json(part) for name, part in zip(parts, value, strict=True)}
    if isinstance(value, ItemView):
        return {name: to_json(getattr(value, name)) for name in ItemView.FIELDS}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    if (fields := getattr(value, "__dataclass_fields__", None)) is not None:
        return {name: to_json(getattr(value, name)) for name in fields}
    return value
