"""The port: the operations that Interlock needs from a database, implemented by `sqlite` and `postgres`.

A store locks and loads, lets the rules decide, and writes the decision in one commit. It has no rules of its
own. Claim and renew lock no lane and are single statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from interlock.core.blocks import Block
from interlock.core.claims import Agent, Claim, Pool
from interlock.core.commands import Command
from interlock.core.continuity import Lineage
from interlock.core.handles import Handle
from interlock.core.ledger import LedgerChanges, Snapshot
from interlock.core.model import (
    NO_AGENT,
    Event,
    Gate,
    Item,
    ItemId,
    ModeRule,
    PlanId,
    RecentRun,
    RunId,
    RunRecord,
    SenderKind,
)
from interlock.core.notices import NoticeMark
from interlock.core.overtaking import AgentPresence
from interlock.core.plans.model import Completion, Edge, Need, Plan, Revision, Task
from interlock.core.recap import RecapEvent
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.core.timing import Timing
from interlock.core.workers import WorkerRecord
from interlock.store.migrate import Migrator
from interlock.store.retention import Pruned

if TYPE_CHECKING:
    from interlock.store.access import AccessStore, Note
    from interlock.store.budgets import BudgetStore
    from interlock.store.costs import CostStore
    from interlock.store.github import GitHubStore
    from interlock.store.metrics import Meter
    from interlock.store.outbox import Effect
    from interlock.store.run_logs import RunLogStore
    from interlock.store.statements import Statements

T = TypeVar("T")

#: Limits of reads that would grow with the history: events that `stats` counts, and spans for its quantiles.
EVENTS_MAX, SPANS_MAX = 20_000, 2_000
#: The most live and ended runs, the newest first, that are searched for those of a lane or a worker.
RUNS_MAX = 10_000
#: How many names of agents a search for unknown ones visits at most.
NAMES_MAX = 10_000
#: How many lanes a search for a number visits at most: two of each repository, and those without a `#`.
LANES_MAX = 10_000
#: The most lines that are searched for a stalled one.
LINES_MAX = 1_000
#: The most queues that are searched for the next claims, and the most deadlines for runs among them.
QUEUES_MAX, DEADLINES_MAX = 1_000, 1_000
#: The most agents with limits that an explanation reads.
AGENTS_MAX = 1_000


class EditLoad(Record):
    """The names in an edit, by key. They come only from its operations, so they are the same in every
    attempt."""

    plan: PlanId
    base: int
    keys: tuple[str, ...]
    removed: tuple[str, ...]
    updated: frozenset[str]
    #: Every named edge.
    pairs: tuple[tuple[str, str], ...]
    #: The ends of the added edges.
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    #: Whether to read the whole graph, to rank it again.
    whole: bool = False


class Load(Record):
    """The rows that a transaction locks and reads before the rules decide."""

    #: The items of the commands. Their lanes, and those of their plans, are found and locked first.
    items: tuple[ItemId, ...] = ()
    #: The lanes of arrivals; created if new.
    lanes: tuple[str, ...] = ()
    #: The lanes and agent keys of arrivals that an item of the same name may absorb.
    names: tuple[tuple[str, str], ...] = ()
    #: The lanes of new tasks of a plan; created if new, not locked. All lanes are created before any is
    #: locked, as two processes that create the same lane wait for each other.
    task_lanes: tuple[str, ...] = ()
    #: The projects and dedupe keys of arrivals, in the order of their future ids.
    keys: tuple[tuple[str, str] | None, ...] = ()
    #: Runs with a possibly late report, to answer how they ended.
    runs: tuple[RunId, ...] = ()
    #: The number of arriving items.
    arrivals: int = 0
    #: Plans that are changed from outside, and the names in an edit of one.
    plans: tuple[PlanId, ...] = ()
    edit: EditLoad | None = None
    #: Whether the existing agents are needed.
    agents: bool = False
    #: Agents that a report may put at a quota limit, or whose limit a claim that follows must keep: locked
    #: before any lane. And before them the pool that the claim's agent shares.
    limited_agents: tuple[str, ...] = ()
    pool: str | None = None
    #: An agent that claims afterwards, and whose budgets and its pool's are locked after it, with those of
    #: projects.
    budget_agent: str | None = None
    #: A lane whose gate may open, and the lane of its series, which is one of the lanes.
    gate: tuple[str, str] | None = None
    #: Agents whose presence is needed.
    presence: tuple[str, ...] = ()
    #: Whether a task may come back, with dependents that were cancelled as unreachable.
    rearm: bool = False


#: Builds the commands from the ids of arriving items.
Build = Callable[[Sequence[ItemId]], Sequence[Command]]


class ClaimedItem(NamedTuple):
    """An item that a claim started, with its payload."""

    item: Item
    payload: str | None


class ClaimAnswer(NamedTuple):
    """The result of a claim: started items, and facts for a caller that needs more."""

    claimed: list[ClaimedItem]
    #: The agent's settings; None if it has no limits.
    agent: Agent | None
    #: Whether nothing was claimed because an item is due: sweep, then claim again.
    due: bool = False


class EndsAndClaim(NamedTuple):
    """What a transaction did that ended runs, and then claimed."""

    decision: LedgerChanges
    claimed: Sequence[ClaimedItem] = ()


class Renewal(Record):
    """A request to renew a lease."""

    handle: Handle
    seen: int = 0


class StoredMessage(Record):
    item: ItemId
    n: int
    text: str
    author: str
    origin: ItemId
    at_us: int
    #: The payload of its arrival, if that was another item.
    payload: str | None = None
    sender: SenderKind = SenderKind.PERSON
    agent: str = NO_AGENT
    reason: str = ""
    url: str = ""
    said: str = ""


class StoredCompletion(NamedTuple):
    """The end of a task, with its last run's report."""

    completion: Completion
    result: str | None
    error: str | None


class StoredEvent(Record):
    seq: int
    event: Event


class LaneRow(Record):
    lane: str
    owner: Item | None
    waiting: int
    line: tuple[ItemId, ...]
    #: When the oldest item of `line` was added.
    waiting_since_us: int | None


class LaneQuery(Record):
    """A filter of lanes."""

    prefix: str = ""
    #: Only lanes after this one, in order of their names.
    after: str = ""
    #: Only lanes with this number after their first `#`.
    number: int | None = None
    limit: int = 100

    def fits(self, lane: str) -> bool:
        """Whether a lane matches."""
        numbered = self.number is None or lane == f"{lane[: lane.find('#') + 1]}{self.number}"
        return lane.startswith(self.prefix) and lane > self.after and numbered


class RunQuery(Record):
    """A filter of recent runs."""

    lane: str | None = None
    #: The key of an agent.
    agent: str | None = None
    #: The beginning of the names of workers.
    worker: str = ""
    #: Only runs that had not ended before this time, and that started before the other.
    since_us: int | None = None
    until_us: int | None = None
    limit: int = 1_000

    def fits(self, run: RecentRun) -> bool:
        """Whether a run matches."""
        return (
            self.lane in (None, run.lane)
            and self.agent in (None, run.agent)
            and (run.worker or "").startswith(self.worker)
            and (self.since_us is None or run.ended_us is None or run.ended_us >= self.since_us)
            and (self.until_us is None or run.started_us < self.until_us)
        )


class ItemQuery(Record):
    """A filter of items. Empty fields match any."""

    statuses: tuple[str, ...] = ()
    lane: str | None = None
    agent: str | None = None
    project: str | None = None
    types: tuple[str, ...] = ()
    label: str | None = None
    #: A part of the title, lane, agent or dedupe key. ASCII letters match in either case.
    text: str | None = None
    #: Only the newest items of each status are read, at most this many; null: all.
    looked: int | None = None
    #: Only items with smaller ids.
    before: int = (1 << 63) - 1
    limit: int = 100


class PlanQuery(Record):
    """A filter of plans. Empty fields match any."""

    ended: bool = False
    statuses: tuple[str, ...] = ()
    project: str | None = None
    editor: str | None = None
    #: Only plans with smaller ids.
    before: int = (1 << 63) - 1
    limit: int = 100
    #: How many plans a filter is applied to, the newest first.
    looked: int = 10_000

    @property
    def filters(self) -> bool:
        return bool(self.statuses or self.project or self.editor)


class EventQuery(Record):
    after: int = 0
    #: Only events before this one; null: all.
    before: int | None = None
    limit: int = 1_000
    item: ItemId | None = None
    lane: str | None = None
    #: Only events of these kinds; empty: of all.
    kinds: tuple[str, ...] = ()
    #: Only events of the agent of this name, in either case.
    agent: str | None = None
    run: int | None = None
    newest: bool = False


class RecapEvents(NamedTuple):
    """The events for a recap, the newest first."""

    events: list[RecapEvent]
    #: Since when they are complete: the requested time, or that of the oldest event that was read.
    since_us: int


class Depths(Record):
    """Numbers of items."""

    by_status: Mapping[str, int]
    #: The ones among those that wait for a person's answer.
    asking: Mapping[str, int]
    depth_by_priority: Mapping[int, int]
    oldest_pending_us: int | None

    @property
    def shown(self) -> Mapping[str, int]:
        """The numbers by displayed status: an item with a question is neither pending nor waiting."""
        found = {status: n - self.asking.get(status, 0) for status, n in self.by_status.items()}
        found["asking"] = sum(self.asking.values())
        return {status: n for status, n in found.items() if n}


class Figures(Depths):
    """The database's counts for `stats`."""

    now_us: int
    #: The span of the events below: the requested one, or that of the newest `EVENTS_MAX`.
    window_us: int
    #: Events in the window by kind and reason.
    counts: Mapping[tuple[str, str], int]
    #: Items that failed for good in the window.
    failed_items: int
    #: Runs in the window: name of the group, kind of event, number, and number of items that failed with
    #: them.
    groups: Sequence[tuple[str | None, str, int, int]]
    #: The newest spans in the window, sorted: lock durations of ended runs, times to a first claim.
    lock_us: Sequence[int]
    to_claim_us: Sequence[int]


class Finding(Record):
    """A checked invariant, with the rows that violate it."""

    name: str
    promise: str
    mend: str
    broken: tuple[str, ...] = ()


class CallOutcome(NamedTuple):
    """The result of a piece of work, or its error."""

    value: Any
    error: BaseException | None = None


def outcome_of(work: Callable[[], Any]) -> CallOutcome:
    """Run a piece of work and catch its error."""
    try:
        return CallOutcome(work())
    except Exception as error:
        return CallOutcome(None, error)


class OpenDatabase(Migrator, Protocol):
    """The operations on a whole database, for a server and an operator."""

    #: Its statements, read when first used.
    sql: Statements

    #: Raises unless the store can be written now.
    def probe(self) -> None: ...
    #: Raises `StoreUnavailable` if a pooler in between prevents a server from working.
    def check_sessions(self) -> None: ...


class Store(Protocol):
    """A database behind Interlock."""

    @property
    def database(self) -> OpenDatabase: ...
    @property
    def timing(self) -> Timing: ...

    # -- writing
    def tickets(self, count: int) -> list[int]: ...
    #: `note` makes the stored answer from the decision. Raises `Repeated` if one is already stored.
    def transact(self, load: Load, build: Build, note: Note | None = None) -> LedgerChanges: ...
    #: Start up to `claim.limit` ready items. If there are too few, overtake owners that cannot start. With
    #: `due_first`, start nothing while an item is due. With `note`, which makes the stored answer, perhaps
    #: start fewer than possible.
    def claim(self, claim: Claim, *, due_first: bool, note: Note | None = None) -> ClaimAnswer: ...

    #: Claim for several in one transaction, each after what is due was moved. None for a claim that started
    #: nothing or needs more than one look: it has to be asked by itself.
    def claim_each(self, claims: Sequence[tuple[Claim, Note | None]]) -> list[ClaimAnswer | None]: ...

    #: End runs, then claim in the same transaction if one was ended; the room that they leave counts. It
    #: overtakes no owner, moves nothing that is due and may pass over what others lock: a claim by itself may
    #: find more. If the claim fails, the ends are written without it. `note` gets both.
    def finish_and_claim(
        self, load: Load, build: Build, claim: Claim, note: Note | None = None
    ) -> EndsAndClaim: ...

    #: Whether sharing a commit pays.
    shares_commits: bool

    #: Carry out pieces of work one by one, each atomically, and commit them together where that pays. None
    #: may wait for another caller. A piece may be repeated. Unless `shares_commits`, it writes nothing but
    #: tables: the locks of `transact` have an order that several pieces would break.
    def together(self, works: Sequence[Callable[[], Any]]) -> list[CallOutcome]: ...
    #: Whether this thread is inside a transaction to which all its calls belong.
    @property
    def in_transaction(self) -> bool: ...

    #: Renew the leases of the current runs with these handles; gives their items.
    def renew(self, renewals: Sequence[Renewal]) -> dict[Handle, Item]: ...
    #: Count refused writes; gives the ends of the runs with these handles.
    def refuse(self, handles: Sequence[Handle], wanted: str) -> dict[Handle, RunRecord]: ...
    #: Write the named parts of an agent. The others are unchanged; `wall_us` ends a quota limit. Gives the
    #: new state of the agent, from which `line` makes the event.
    def set_agent(self, agent: Agent, named: Sequence[str], line: Callable[[Agent], Event]) -> Agent: ...
    def set_pool(self, name: str, max_concurrency: int, event: Event) -> Pool: ...
    #: False, and nothing is changed, while the agent is in use.
    def remove_agent(self, key: str, event: Event) -> bool: ...
    def remove_pool(self, name: str, event: Event) -> bool: ...
    #: Record an agent's presence; gives its setting for how long it may be silent before its items are
    #: overtaken.
    def see_agent(self, key: str, name: str) -> float | None: ...
    def pause_project(self, project: str, why: str | None, event: Event) -> None: ...
    def set_mode(self, rule: ModeRule, event: Event) -> None: ...
    #: Add a block; gives its new state. An existing equal block is unchanged.
    def block(self, block: Block, event: Event) -> Block: ...
    #: Remove all blocks of a lane or an item, or only the one by a blocker; gives the blockers.
    def unblock(self, lane: str, item: ItemId, blocker: str | None, event: Event) -> list[str]: ...
    #: Also forgets the blocks of items that have ended.
    def forget_keys(self, limit: int) -> int: ...
    def see_workers(self, workers: Sequence[WorkerRecord]) -> None: ...
    #: Delete an ended worker, and some that were silent for long.
    def forget_workers(self, gone: str | None) -> None: ...
    def begin_mark(self, name: str, seq: int) -> None: ...
    #: True for one caller only, if the mark is unmoved and not leased.
    def lease_mark(self, mark: NoticeMark, token: int, lease_s: float) -> bool: ...
    #: Move a mark by the token of its lease. The lease ends, or keeps others away for a while. Effects are
    #: enqueued in the same transaction.
    def move_mark(
        self,
        name: str,
        token: int,
        *,
        seq: int,
        tries: int = 0,
        wait_s: float = 0.0,
        event: Event | None = None,
        effects: Sequence[Effect] = (),
    ) -> bool: ...
    #: Continue run numbers above a fence of this store's lineage, armed at that time, which this run met.
    #: False if another store gives out numbers in this one's name.
    def skip_runs(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool: ...
    #: Among the next items after `after`, delete or only count those that ended before a time and that
    #: nothing needs, each with the items that it absorbed. Among the next plans, those without a dead letter.
    def prune_items(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned: ...
    def prune_plans(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned: ...
    #: Delete these items and plans with all their rows. They have ended, and no other item refers to them.
    def erase(self, items: Sequence[ItemId], plans: Sequence[PlanId]) -> None: ...
    #: Free the disk space of deleted rows, if the database does not by itself.
    def vacuum(self) -> None: ...

    # -- GitHub
    @property
    def github(self) -> GitHubStore: ...

    # -- logs of runs
    @property
    def run_logs(self) -> RunLogStore: ...

    # -- access through a server
    @property
    def access(self) -> AccessStore: ...

    # -- costs
    @property
    def costs(self) -> CostStore: ...

    @property
    def budgets(self) -> BudgetStore: ...

    # -- monitoring
    @property
    def meter(self) -> Meter: ...

    # -- reading
    #: Run `work` on one snapshot. It must not write, may be repeated, and must not be nested.
    def at_once(self, work: Callable[[], T]) -> T: ...
    def now_us(self) -> int: ...
    def due(self, limit: int) -> list[ItemId]: ...
    #: Lanes after `after`, in order, with a line and no owner, or with an owner that contradicts their gate;
    #: and where the next search begins.
    def stranded(self, after: str, limit: int) -> tuple[list[str], str]: ...
    def item(self, item: ItemId) -> Item | None: ...
    #: The existing ones of these items.
    def named_items(self, items: Sequence[ItemId]) -> dict[ItemId, Item]: ...
    def items(self, query: ItemQuery) -> list[Item]: ...
    #: Items whose newest link has this outcome of checks, the newest first. None selects an unknown outcome.
    #: At most `looked` links, or items, are searched.
    def items_by_checks(self, query: ItemQuery, ci: str | None, looked: int) -> list[Item]: ...
    def payloads(self, items: Sequence[ItemId]) -> dict[ItemId, str]: ...
    def messages(self, item: ItemId, after: int, limit: int) -> list[StoredMessage]: ...
    def runs(self, item: ItemId) -> list[RunRecord]: ...
    #: The agents of these runs, live or ended. An unknown handle is left out.
    def run_agents(self, handles: Sequence[Handle]) -> dict[Handle, str]: ...
    #: Recent runs, the newest first. The newest `RUNS_MAX` live runs and as many ended ones are searched;
    #: with `until_us` those that started before it.
    def recent_runs(self, query: RunQuery) -> list[RecentRun]: ...
    #: The ends of these runs. Live and unknown ones are left out.
    def ended_runs(self, runs: Sequence[RunId]) -> dict[RunId, RunRecord]: ...
    def events(self, query: EventQuery) -> list[StoredEvent]: ...
    #: The events for a recap, from a time on, among the newest `EVENTS_MAX`.
    def recap_events(self, since_us: int) -> RecapEvents: ...
    #: Items that wait for an agent are counted up to 1,000.
    def agent(self, key: str) -> Agent | None: ...
    def agents(self) -> list[Agent]: ...
    #: Agents that unfinished items name and that do not exist, with how many items, counted to 1,000
    #: in each. Up to `NAMES_MAX` names are visited.
    def unknown_agents(self, limit: int) -> list[tuple[str, int]]: ...
    def pools(self) -> list[Pool]: ...
    #: Held lanes and lanes with a line, by name. With a number up to `LANES_MAX` lanes are searched.
    def lanes(self, query: LaneQuery) -> list[LaneRow]: ...
    #: The active item that holds a lane, or an observed one that keeps it from opening.
    def owner(self, lane: str) -> Item | None: ...
    #: The first items of a lane's line, in order.
    def line(self, lane: str, limit: int) -> list[Item]: ...
    #: The unfinished items of a lane in any order, up to a limit of each kind: its owner, the first of its
    #: line, and those that wait for a time or for tasks.
    def on_lane(self, lane: str, limit: int) -> list[Item]: ...
    def modes(self) -> tuple[ModeRule, ...]: ...
    def worker(self, name: str) -> WorkerRecord | None: ...
    def workers(self, limit: int) -> list[WorkerRecord]: ...
    def mark(self, name: str) -> NoticeMark | None: ...
    def paused_projects(self) -> dict[str, str]: ...
    #: The oldest first.
    def blocks(self, limit: int) -> list[Block]: ...
    #: The blocks of a lane and of items.
    def blocks_of(self, lane: str | None, items: Sequence[ItemId]) -> list[Block]: ...
    #: Lanes with their gates, in order of the lanes; of one series or of all.
    def gates(self, series: str | None, limit: int) -> list[tuple[str, Gate]]: ...
    #: The gates of these lanes. Lanes without a gate are left out.
    def gates_of(self, lanes: Sequence[str]) -> dict[str, Gate]: ...
    #: The number of items ahead of an item, counted up to `AHEAD_MAX`.
    def ahead_of(self, item: Item) -> int: ...
    #: The rows that the rules would read, except plans, if the item or its lane's owner ended now. It locks
    #: nothing.
    def look(self, item: ItemId) -> Snapshot: ...
    #: The named agents, and those with any limit, at most `AGENTS_MAX`.
    def limited_agents(self, named: Sequence[str]) -> list[Agent]: ...
    #: The presence of the named agents. Unknown ones are left out.
    def presence(self, agents: Sequence[str]) -> dict[str, AgentPresence]: ...
    #: Lanes with a line whose owner waits for an agent that is unknown, unable or gone, with the owner and
    #: its agent. Only the first `LINES_MAX` lines are searched, up to a limit.
    def stalled(self, limit: int) -> list[tuple[str, ItemId, str]]: ...
    #: The unsatisfied edges to a task, broken ones first, at most `AHEAD_MAX`.
    def needs(self, item: ItemId) -> list[Need]: ...
    #: The next items to be claimed, without those whose agent is paused or at a quota limit. Only the first
    #: `QUEUES_MAX` queues are searched.
    def upcoming(self, limit: int) -> list[Item]: ...
    #: Items whose run has a lease, the earliest deadline first, among `DEADLINES_MAX` items with a deadline.
    def expiring(self, limit: int) -> list[Item]: ...
    #: Items that only the gate of their lane holds back, in order of their lanes.
    def gated(self, limit: int) -> list[Item]: ...
    #: Plans with an open edit cycle, the earliest deadline first.
    def open_cycles(self, limit: int) -> list[Plan]: ...
    def depths(self) -> Depths: ...
    #: The figures for `stats`, from the events of the window, up to the newest `EVENTS_MAX`.
    def figures(self, window_us: int, by: str | None = None) -> Figures: ...
    def findings(self) -> list[Finding]: ...
    #: The name of this store, and the stores that it comes from.
    def lineage(self) -> Lineage: ...
    #: Where this store was copied to, if it is sealed. A sealed store shows its old state.
    def sealed_for(self) -> str | None: ...
    def plan(self, plan: PlanId) -> Plan | None: ...
    def plans(self, query: PlanQuery) -> list[Plan]: ...
    def tasks(self, plan: PlanId, *, removed: bool = False) -> list[tuple[Task, Item]]: ...
    #: Tasks with these statuses after an item, in order of arrival.
    def task_page(
        self, plan: PlanId, statuses: Sequence[str], after: int, limit: int
    ) -> list[tuple[Task, Item]]: ...
    def edges(self, plan: PlanId) -> list[Edge]: ...
    def revisions(self, plan: PlanId, after: int, limit: int) -> list[Revision]: ...
    def completions(self, plan: PlanId, after: int) -> list[StoredCompletion]: ...
    #: The total time of each task's ended runs. Tasks without one are left out.
    def work_us(self, plan: PlanId) -> dict[ItemId, int]: ...
    def stopping(self, limit: int) -> list[ItemId]: ...
    #: Items that wait for a person's answer, the oldest first.
    def asking(self, limit: int) -> list[Item]: ...
    #: Items with external runs, the longest running first.
    def external(self, limit: int) -> list[Item]: ...
    #: Items that wait for a person, the oldest first.
    def stopped(self, limit: int) -> list[Item]: ...

    # -- waiting
    def wait_for_work(self, claim: Claim, timeout_s: float) -> bool: ...

    def close(self) -> None: ...
