"""The interface that every shell uses, and its answers.

`interlock.service.local` implements `Service` on a store; a remote client can implement it too. `LaneService`
is the part that a store without a database serves as well. Answers are frozen values (answers that come in
batches are named tuples, which are faster to make); `to_json` turns any of them into what `--json` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum, StrEnum
from functools import cache
from typing import Any, Protocol, overload

from interlock.core.commands import QuotaLimit
from interlock.core.continuity import Lineage
from interlock.core.cures import Cure, Spelling, hint
from interlock.core.errors import InterlockError, refusal_error
from interlock.core.model import A_PERSON, ModeRule, NewItem, Sender
from interlock.core.names import BATCH_MAX
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.service.demo import DemoView
from interlock.service.item_view import ItemView
from interlock.service.plan_view import PlanService
from interlock.service.series import SeriesService


class HolderView(Record):
    """Who holds a lane: a run, or an owner that has not started (then `run` is null)."""

    item: int
    run: int | None
    agent: str | None
    since: datetime
    expires_at: datetime | None
    #: It was asked to stop. `expires_at` is no later than the end of its grace.
    cancel_requested: bool
    #: It is a follow-up, made from unread messages of an earlier item.
    follow_up: bool = False
    #: The work is done outside: the run has no lease, and `expires_at` only with another deadline.
    external: bool = False
    #: It waits for a person's answer.
    asking: bool = False
    #: When its lease was last renewed: the lease began then.
    renewed_at: datetime | None = None
    title: str = ""


class AddView(Record):
    """The answer to an arrival. `item` is null only for a rejected arrival."""

    decision: str
    reason: str
    item: ItemView | None
    holder: HolderView | None
    position: int | None
    #: The arrival's own item; differs from `item` if it was coalesced.
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
    """The effects queued for GitHub, each counted up to a thousand."""

    owed: int
    #: Dead letters: they wait for a person.
    dead: int
    #: When the next effect is or was due.
    due_at: datetime | None


class EffectStatus(StrEnum):
    """What became of an effect."""

    WAITING = "waiting"
    DEAD = "dead"
    SENT = "sent"


class OutboxEffectView(Record):
    """A change on GitHub or a notice that waits, has failed, or was sent."""

    id: str
    #: `waiting`, `dead` or `sent`.
    status: str
    repository: str
    #: The issue or pull request; 0: the repository itself.
    number: int
    #: Its name, unique within its number.
    name: str
    kind: str
    #: What it changes, in a few words; empty if its text is rendered when it is sent.
    detail: str
    #: The run that it reports on.
    run: int | None
    enqueued_at: datetime
    #: Failed tries since it was enqueued or retried.
    failures: int
    #: When it was last given to a sender; GitHub may have it since then.
    sent_at: datetime | None
    #: When it is sent or retried; only of waiting ones.
    due_at: datetime | None
    #: When it was sent or given up, or since when it is dead.
    ended_at: datetime | None
    #: Why its last try failed, or what became of it.
    outcome: str | None


class LeaseView(NamedTuple):
    """A claimed item: `run` is the handle, the right to write; `fence` is the run's number.

    JSON also has the handle as `handle`. An external run has no lease: both spans are null, and so is
    `expires_at` unless the item has a timeout.
    """

    run: str
    fence: int
    expires_at: datetime | None
    #: The span of a renewal.
    lease_s: float | None
    renew_within_s: float | None
    item: ItemView
    messages: tuple[MessageView, ...]
    #: How long the call waited before the claim. The lease began no earlier.
    waited_s: float = 0.0

    @property
    def handle(self) -> str:
        return self.run


class RefusalView(Record):
    """Why a write was refused, and what to do."""

    code: str
    message: str
    hint: str
    cures: tuple[Cure, ...] = ()

    def error(self) -> InterlockError:
        """The refusal as an exception."""
        return refusal_error(self.code, self.message, self.hint, self.cures)


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
    #: The follow-up waits for a person: it hit the wake-up limit.
    loop: bool = False

    @property
    def handle(self) -> str:
        return self.run

    @property
    def unread_messages(self) -> str:
        return f"{self.unread} unread message{'' if self.unread == 1 else 's'}"

    @property
    def followed_up(self) -> str:
        """What became of the run's unread messages; empty if there were none."""
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


class RefusedItemView(Record):
    """An item that a change of many items left as it was."""

    item: int
    refusal: str


class BulkView(Record):
    """The answer to a change of many items."""

    #: The changed items; of a dry run, those that it would try to change.
    items: tuple[int, ...]
    #: Running items that were asked to stop.
    stopping: tuple[int, ...] = ()
    refused: tuple[RefusedItemView, ...] = ()
    #: Whether there may be more: repeat the call, with this `before` if it is not null.
    more: bool = False
    before: int | None = None


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
    """The gate of a lane: while it is shut, only exempt types start there."""

    lane: str
    #: The lane of the series that opens and shuts it.
    series: str
    open: bool
    #: Types that it lets through when it is shut.
    exempt: tuple[str, ...]
    #: Since when it is open or shut.
    since: datetime
    #: The current run on the lane that is not exempt. A shut gate has asked it to stop. Without one, none #:
    #: starts until the gate opens.
    run: int | None = None
    #: Only in the answer to `set_gate`: the lane that keeps the gate shut. It is another lane of the series
    #: that is open or has a current run, or the lane of the series if it has another run than the named one.
    waits_for: str | None = None


class HoldView(Record):
    """How a hold ended: its last item and run or, if skipped, those that got its message."""

    #: `ran` or `skipped`.
    status: str
    lane: str
    item: int
    run: int | None
    exit_code: int


class CostView(Record):
    """What a run used, by its own reports."""

    usd: float
    input_tokens: int
    output_tokens: int


class SpendingView(Record):
    """What an agent, a pool or a project used on a day."""

    #: `agent`, `pool` or `project`.
    scope: str
    name: str
    #: As in `2026-11-19`, in the time zone of the store's days.
    day: str
    usd: float
    input_tokens: int
    output_tokens: int


class BudgetView(Record):
    """What an agent, a pool or a project may spend, and what it has spent in the present period."""

    #: `agent`, `pool` or `project`.
    scope: str
    name: str
    #: `day` or `month`.
    per: str
    usd: float
    #: What happens to running work when it is used up: `finish` or `cancel`.
    when_spent: str
    spent_usd: float
    #: What live runs hold back.
    reserved_usd: float
    #: What claims may still use; 0 if it is used up.
    left_usd: float
    #: When the present period ends.
    until: datetime


class BudgetsView(Record):
    """All budgets, and what they are reckoned with."""

    budgets: tuple[BudgetView, ...]
    #: What a run holds back, by type, in US dollars.
    reserves: Mapping[str, float]
    #: Where days and months begin.
    time_zone: str


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
    #: What it used; null if it has not reported that.
    cost: CostView | None = None


class RunLogView(Record):
    """The kept end of a run's output, from a place on."""

    run: int
    item: int
    #: Where the text begins, and where further output will begin: the characters written or left out before.
    start: int
    end: int
    text: str
    #: Whether the run goes on.
    running: bool
    written_at: datetime


class RecentRunView(Record):
    """A current or recently ended run of any item."""

    run: int
    item: int
    lane: str | None
    agent: str
    worker: str | None
    status: str
    reason: str
    started_at: datetime
    ended_at: datetime | None
    #: The status of its item; null if no longer known.
    item_status: str | None
    #: When its item was added; null if not known.
    item_added_at: datetime | None = None


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
    #: Null while it is current.
    conclusion: str | None
    #: Its page, with its logs.
    url: str
    #: Where programs get the logs.
    logs_url: str
    #: When GitHub deletes them, by its default.
    logs_expire_at: datetime
    #: `{"name", "url", "expires_at"}` each.
    artifacts: tuple[Mapping[str, Any], ...]


class LinkView(Record):
    """A pull request made by a run, or a commit without one, and its state."""

    run: int
    repository: str
    #: Null for a commit without a pull request.
    pull_request: int | None
    #: Its newest commit.
    commit: str
    branch: str
    url: str
    #: How it was found: `trailer`, `branch`, or `closes` if it closes the issue that the run worked on.
    how: str
    #: `open`, `merged` or `closed`; null for a commit.
    outcome: str | None
    #: `pending`, `success`, `failure` or `cancelled`; null if it has no checks, or they are unknown.
    ci_outcome: str | None
    ci_why: str
    #: When the checks got this outcome.
    ci_since: datetime
    #: The workflow runs of its newest commit.
    workflow_runs: tuple[WorkflowRunView, ...]


class BriefView(Record):
    """An item beside the one that is shown."""

    id: int
    status: str
    #: Whether it waits for a person's answer.
    asking: bool
    title: str
    agent: str | None
    run: int | None
    created_at: datetime
    #: The item that took it in.
    absorbed_by: int | None


class ShowView(Record):
    """Everything about one item."""

    item: ItemView
    runs: tuple[EndedRunView, ...]
    messages: tuple[MessageView, ...]
    events: tuple[EventView, ...]
    why: str
    #: The pull requests and commits of its runs, newest first.
    links: tuple[LinkView, ...] = ()
    #: What to do about `why`, the best cure first.
    hint: str = ""
    cures: tuple[Cure, ...] = ()
    #: The items that its messages came from: coalesced into it, superseded by it, or ended before a run read
    #: them. The oldest first, at most 100.
    inputs: tuple[BriefView, ...] = ()
    #: The item that took this one in.
    absorber: BriefView | None = None
    #: The owner of its lane and the first of the line, at most 20.
    line: tuple[BriefView, ...] = ()
    #: What keeps it from starting, its own blocks and those of its lane.
    blocks: tuple[BlockView, ...] = ()
    #: The last message that its current run was handed, and the last that the run has confirmed.
    delivered: int = 0
    seen: int = 0
    #: The version of the item, for an edit that must not overwrite another's.
    version: str = ""
    #: What its runs used together; null if none has reported that.
    cost: CostView | None = None


class WhyView(Record):
    """What an item waits for and what will move it, by the store's present state."""

    item: ItemView
    #: One sentence, made of the next two fields.
    why: str
    #: What it waits for.
    state: str
    #: What moves it next.
    next: str
    #: Whether it is ready but cannot be started.
    hindered: bool
    #: What becomes of the item's lane; null unless the item holds one.
    lane: str | None
    #: A sentence about its newest pull request; null without one.
    ci: str | None = None
    #: What to do about it, the best cure first.
    hint: str = ""
    cures: tuple[Cure, ...] = ()


class AttentionKind(StrEnum):
    """What needs a person, and what is stuck."""

    QUESTION = "question"
    WAKE_UP_LOOP = "wake_up_loop"
    DEAD_LETTER = "dead_letter"
    EFFECTS = "effects"
    SILENT_RUN = "silent_run"
    PAUSED_AGENT = "paused_agent"
    QUOTA_LIMIT = "quota_limit"
    ABSENT_AGENT = "absent_agent"
    UNKNOWN_AGENT = "unknown_agent"
    PAUSED_PROJECT = "paused_project"
    GATE = "gate"
    EDIT_DEADLINE = "edit_deadline"
    PAUSED_PLAN = "paused_plan"
    BLOCK = "block"


class ConcernView(Record):
    """One thing that needs a person or is stuck."""

    kind: str
    sentence: str
    hint: str = ""
    #: What to do about it, the best cure first.
    cures: tuple[Cure, ...] = ()
    item: BriefView | None = None
    lane: str | None = None
    agent: str | None = None
    plan: int | None = None
    #: Since when, and until when it lasts at most.
    since: datetime | None = None
    until: datetime | None = None
    #: The question, or the error of a dead letter's last run.
    said: str | None = None


class AttentionView(Record):
    """What needs a person, and what is stuck, by kind."""

    needs: tuple[ConcernView, ...]
    stuck: tuple[ConcernView, ...]
    #: How many of each kind there are, counted to 100.
    counts: Mapping[str, int]


class RecapLinkView(Record):
    """A pull request made by a run, or a commit without one, as a recap shows it."""

    repository: str
    #: Null for a commit without a pull request.
    pull_request: int | None
    #: Its newest commit.
    commit: str
    url: str
    #: `open`, `merged` or `closed`; null for a commit.
    outcome: str | None
    #: `pending`, `success`, `failure` or `cancelled`; null if it has no checks, or they are unknown.
    ci_outcome: str | None
    ci_why: str
    #: The page with its checks.
    checks_url: str


class RecapEntryView(Record):
    """An item in a recap, with the event that put it there."""

    item: int
    #: Empty if the item was deleted since.
    title: str
    #: Its status now; null if it was deleted since.
    status: str | None
    lane: str | None
    agent: str | None
    run: int | None
    #: When it finished, failed, was superseded or started.
    at: datetime
    reason: str
    #: How long the run took; of a wait, how long the item waited for its first run.
    span_s: float | None
    #: The error that its last run reported; only of failed items.
    error: str | None
    #: The item that took its place.
    by_item: int | None
    #: The newest pull requests and commits of its runs, at most 3; only of ended items.
    links: tuple[RecapLinkView, ...]


class RecapView(Record):
    """What happened in a span of time, the newest first."""

    #: Since when; later than requested if there were more than 20,000 events.
    since: datetime
    until: datetime
    #: Whether it reaches back as far as requested.
    complete: bool
    #: Numbers of items by outcome (`finished`, `failed`, `superseded`, `cancelled`), of failed runs whose
    #: items were not given up (`retries`), and of all runs that started (`runs`).
    counts: Mapping[str, int]
    finished: tuple[RecapEntryView, ...]
    failed: tuple[RecapEntryView, ...]
    superseded: tuple[RecapEntryView, ...]
    #: Items whose first run started then, those that had waited longest first.
    waits: tuple[RecapEntryView, ...]
    #: What needs a person now: at most 5 of each kind.
    needs: tuple[ConcernView, ...]
    #: How many there are of each kind, counted to 100.
    needs_counts: Mapping[str, int]
    #: How many of them are not in `needs`.
    needs_more: int
    #: What runs used in all that reported it in this span.
    cost: CostView


class TrendView(Record):
    """The numbers at one minute. Counts are of the time since the minute before; null if that is unknown."""

    at: datetime
    #: Items that can be claimed.
    ready: int
    #: Items that wait for a time, for tasks or for their lane.
    waiting: int
    running: int
    #: How long the oldest ready item had waited.
    oldest_ready_s: float
    arrivals: int | None
    claims: int | None
    completions: int | None
    failures: int | None


class AgentView(Record):
    """An agent: what it can do, and its current load."""

    name: str
    key: str
    max: int | None
    types: tuple[str, ...]
    labels: tuple[str, ...]
    paused: bool
    paused_reason: str | None
    #: It starts nothing until then, because one of its runs hit a quota limit.
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
    #: Items for it that wait behind others of their lanes, counted to 1,000; null where only one agent was
    #: asked for.
    deferred: int | None = None


class UnknownAgentView(Record):
    """A name that items give and no agent has."""

    name: str
    #: Items in a queue or in the line of a lane that name it, counted to 1,000 in each.
    items: int
    #: The known agent that the name probably means.
    near: str | None


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
    #: Why it cannot be read; it then counts as held. Only in git, where people can break it by hand.
    unreadable: str | None = None
    #: Its gate, if it has one.
    gate: GateView | None = None
    #: When the oldest item of `line` was added.
    waiting_since: datetime | None = None


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
    #: In observe mode: what enforce mode would have done, by reason.
    would_have: Mapping[str, int]
    #: The groups, if requested; the most claims first.
    by: str | None = None
    groups: tuple[GroupView, ...] = ()
    #: What agents, pools and projects used today.
    spent_today: tuple[SpendingView, ...] = ()


class SampleView(Record):
    """One sample of a metric."""

    #: The suffix of the metric's name: `_total`, `_bucket`, `_sum`, `_count` or empty.
    suffix: str
    labels: Mapping[str, str]
    value: float


class MetricView(Record):
    """One metric family, in Prometheus' sense."""

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
    #: A hint, if the invariant is broken.
    mend: str = ""
    cures: tuple[Cure, ...] = ()


class WorkerView(Record):
    """A recently seen worker."""

    name: str
    host: str
    pid: int
    folder: str
    agent: str
    #: How many runs it may have at once, and how many it had when last seen.
    slots: int
    runs: int
    since: datetime
    last_seen_at: datetime
    #: It reached the store within the last 30 s. It may have died since, or may be cut off from the store.
    alive: bool


class NoticeView(Record):
    """An event that starts a user's command, leased to the process that runs it."""

    #: The setting with the command.
    name: str
    event: EventView
    item: ItemView | None
    #: The number of this attempt for the event, from 1.
    attempt: int
    #: The mark before it, and the right to move the mark.
    after: int
    token: int


class TokenView(Record):
    """A token, which lets a program on another machine use the server."""

    id: str
    name: str
    #: `admin`, `read` or `agent:NAME`.
    scope: str
    created_at: datetime
    expires_at: datetime | None
    #: As of a minute ago at most.
    last_used_at: datetime | None
    revoked_at: datetime | None
    #: The token itself; only in the answer to its creation.
    token: str | None = None


class LinkToSignIn(Record):
    """A one-time link to the dashboard."""

    #: To be appended to the server's address.
    path: str
    expires_s: float


class ItemFilter(Record):
    """Which items to list; terminal ones only with `all`."""

    all: bool = False
    statuses: tuple[str, ...] = ()
    lane: str | None = None
    agent: str | None = None
    project: str | None = None
    type: str | None = None
    #: Only items of one of these types.
    types: tuple[str, ...] = ()
    #: Only items that need this label. Searches the newest 10,000 items of each status.
    label: str | None = None
    #: Only items with this part in their title, lane, agent or dedupe key. ASCII letters match in either
    #: case. Searches the newest 10,000 items of each status.
    text: str | None = None
    #: Only items that wait for a person's answer.
    asking: bool = False
    #: Only items whose newest pull request has this outcome of its checks, or `none`; also ended items.
    #: Searches the newest 10,000 links to pull requests and commits, or with `none` the newest 10,000 items.
    ci: str | None = None
    #: Only items that arrived before this one, for the previous page.
    before: int | None = None
    limit: int = 100


class Report(NamedTuple):
    """One run's part of a call to end, renew or read."""

    run: str
    seen: int = 0
    #: JSON text, stored with the run.
    result: str | None = None
    error: str | None = None
    #: False: fail for good, even with attempts left.
    retry: bool = True
    #: With a release: the quota limit that the run hit.
    wall: QuotaLimit | None = None
    #: With a release: a set-up fault, described in `error`, stopped the run. The item waits this long and
    #: keeps its lane; neither an attempt nor a release is counted.
    fault_s: float | None = None


class NextWish(NamedTuple):
    """What an agent claims in the transaction that ends its runs."""

    #: Null: the agent of the first of these runs.
    agent: str | None = None
    types: Sequence[str] = ()
    labels: Sequence[str] = ()
    limit: int = 1
    lease_s: float | None = None
    worker: str | None = None


class DoneView(NamedTuple):
    """The answer to done with a wish. That there are no leases does not mean that there is no work: `next`
    looks further."""

    runs: list[RunView]
    leases: list[LeaseView]


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

    def lanes(
        self, *, prefix: str = "", after: str = "", number: int | None = None, limit: int = 100
    ) -> list[LaneView]: ...

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

    def gates(
        self, *, series: str | None = None, lane: str | None = None, limit: int = 100
    ) -> list[GateView]: ...

    def modes(self) -> list[ModeRule]: ...

    def set_mode(self, *, scope: str, value: str, mode: str, by: str = "") -> None: ...

    def on_lane(self, lane: str) -> list[ItemView]: ...

    def recent_runs(
        self,
        *,
        lane: str | None = None,
        agent: str | None = None,
        worker: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 1_000,
    ) -> list[RecentRunView]: ...

    def why(self, item: int) -> WhyView: ...

    def hindered(self, item: int) -> str | None: ...

    def doctor(self) -> list[CheckView]: ...

    def close(self) -> None:
        """Close the database connections."""


class Service(LaneService, PlanService, SeriesService, Protocol):
    """One function per operation. `by` is the operator, for the history."""

    @overload
    def done(self, reports: Sequence[Report]) -> list[RunView]: ...
    @overload
    def done(self, reports: Sequence[Report], *, next: NextWish) -> DoneView: ...
    def done(
        self,
        reports: Sequence[Report],
        *,
        next: NextWish | None = None,  # noqa: A002  (as requests name it)
    ) -> list[RunView] | DoneView: ...

    def external(self, *, limit: int = 100) -> list[ItemView]: ...

    def take_back(self, item: int, *, why: str, by: str = "", run: int | None = None) -> ChangeView: ...

    def ask(
        self,
        run: str,
        question: str,
        *,
        timeout_s: float | None = None,
        yield_lane: bool = False,
        keep_lease: bool = False,
    ) -> RunView: ...

    def close_question(self, run: str) -> RunView: ...

    def retry(self, item: int, *, why: str = "", by: str = "", sender: Sender = A_PERSON) -> ChangeView: ...

    def retry_dead(
        self,
        *,
        types: Sequence[str] = (),
        agent: str | None = None,
        lane: str | None = None,
        project: str | None = None,
        before: int | None = None,
        limit: int = BATCH_MAX,
        dry_run: bool = False,
        why: str = "",
        by: str = "",
        sender: Sender = A_PERSON,
    ) -> BulkView: ...

    def cancel_lane(self, lane: str, *, why: str, by: str = "", force: bool = False) -> BulkView: ...

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

    def effects(
        self, *, status: str = EffectStatus.WAITING, after: str | None = None, limit: int = 100
    ) -> list[OutboxEffectView]: ...

    def retry_effects(self, effects: Sequence[str] = ()) -> int: ...

    def drop_effects(self, effects: Sequence[str], *, why: str, by: str = "") -> int: ...

    def item_of(self, handle: str) -> int: ...

    def unwanted(self, run: str) -> str | None: ...

    def act_as(self, run: str, account: str) -> None: ...

    def cost(
        self,
        run: str,
        *,
        usd: float | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> CostView: ...

    def budgets(self) -> BudgetsView: ...

    def set_budget(
        self,
        scope: str,
        name: str,
        *,
        per: str = "day",
        usd: float,
        when_spent: str = "finish",
        by: str = "",
    ) -> BudgetsView: ...

    def remove_budget(self, scope: str, name: str, *, per: str = "day", by: str = "") -> BudgetsView: ...

    def set_reserve(self, type: str, *, usd: float, by: str = "") -> BudgetsView: ...  # noqa: A002

    def set_time_zone(self, time_zone: str, *, by: str = "") -> BudgetsView: ...

    def spending(self, *, days: int = 7) -> list[SpendingView]: ...

    def append_log(self, run: str, *, start: int, text: str) -> int: ...

    def run_log(self, run: int, *, offset: int = 0) -> RunLogView: ...

    def last_lines(self, *, runs: Sequence[int] = ()) -> dict[str, str]: ...

    def show(self, item: int) -> ShowView: ...

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
    ) -> list[EventView]: ...

    def follow(self, *, after: int | None = None) -> Iterator[EventView]: ...

    def stats(self, *, window_s: float = 3600.0, by: str | None = None) -> StatsView: ...

    def trend(self, *, minutes: int = 60) -> list[TrendView]: ...

    def attention(self) -> AttentionView: ...

    def upcoming(self, *, limit: int = 10) -> list[WhyView]: ...

    def recap(self, *, window_s: float = 28_800.0, limit: int = 20) -> RecapView: ...

    def demo(self) -> DemoView: ...

    def start_demo(self) -> DemoView: ...

    def stop_demo(self) -> DemoView: ...

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

    def unknown_agents(self, *, limit: int = 100) -> list[UnknownAgentView]: ...

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

    def blocks(self, *, lane: str | None = None, limit: int = 100) -> list[BlockView]: ...

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

    def sign_in_link(self, *, caller: str = "") -> LinkToSignIn: ...


#: What JSON has as it is.
_PLAIN = frozenset({str, int, float, bool, type(None)})
_Writer = Callable[[Any, Spelling | None], Any]


def to_json(value: Any, spelling: Spelling | None = None) -> Any:
    """As JSON values: records and dataclasses as objects, times as UTC ISO 8601, enums as their text.

    With a shell's notation for cures, `hint` has the advice and the cures as calls of that shell.
    """
    kind: Any = type(value)
    return value if kind in _PLAIN else _writer(kind)(value, spelling)


@cache
def _writer(kind: type) -> _Writer:
    """The function that makes JSON values of a type: it is looked for once."""
    if issubclass(kind, Record):
        return _record_writer(kind)
    if issubclass(kind, LeaseView | RunView):
        fields = kind._fields
        return lambda value, spelling: {
            "run": value.run,
            "handle": value.handle,
            **_parts(value, fields, spelling),
        }
    if issubclass(kind, tuple) and (names := getattr(kind, "_fields", None)) is not None:
        return lambda value, spelling: _parts(value, names, spelling)
    if issubclass(kind, ItemView):
        return _item_writer(kind)
    if issubclass(kind, datetime):
        return _time_writer
    if issubclass(kind, Enum):
        return lambda value, _: value.value
    if issubclass(kind, Mapping):
        return lambda value, spelling: {str(k): to_json(v, spelling) for k, v in value.items()}
    if issubclass(kind, list | tuple):
        return lambda value, spelling: [to_json(v, spelling) for v in value]
    if (parts := getattr(kind, "__dataclass_fields__", None)) is not None:
        return lambda value, _: _parts(value, parts, None)
    return lambda value, _: value


def _item_writer(kind: type[ItemView]) -> _Writer:
    """Most answers have items, with many fields: each is read without a look-up of its name."""
    reads = tuple((name, getattr(kind, name).fget) for name in ItemView.FIELDS)

    def write(value: Any, _: Spelling | None) -> dict[str, Any]:
        return {name: part if type(part := read(value)) in _PLAIN else to_json(part) for name, read in reads}

    return write


def _time_writer(value: datetime, _: Spelling | None) -> str:
    utc = value if value.tzinfo is UTC else value.astimezone(UTC)
    return utc.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _record_writer(kind: type[Record]) -> _Writer:
    told = "mend" if "mend" in kind.PARTS else "hint"
    if "cures" not in kind.PARTS:
        return lambda value, spelling: _parts(value, kind.PARTS, spelling)

    def write(value: Any, spelling: Spelling | None) -> Any:
        found = _parts(value, kind.PARTS, spelling)
        if spelling is not None:
            found[told] = hint(found[told], value.cures, spelling)
        return found

    return write


def _parts(value: Any, names: Iterable[str], spelling: Spelling | None) -> dict[str, Any]:
    return {
        name: part if type(part := getattr(value, name)) in _PLAIN else to_json(part, spelling)
        for name in names
    }
