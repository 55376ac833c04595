"""The port: what a database must do for Interlock, implemented by `sqlite` and by `postgres`.

A store locks and loads, lets the rules decide, and writes the decision in one commit. It has no rule
of its own. Claim and renew touch no lane and are single statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from interlock.core.blocks import Block
from interlock.core.claiming import Agent, Claim, Pool
from interlock.core.commands import Command
from interlock.core.continuity import Lineage
from interlock.core.handles import Handle
from interlock.core.ledger import Decision, Snapshot
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
from interlock.core.notices import Mark
from interlock.core.overtaking import Presence
from interlock.core.plans.model import Completion, Edge, Need, Plan, Revision, Task
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.core.timing import Timing
from interlock.core.workers import Worker
from interlock.store.pruning import Pruned

if TYPE_CHECKING:
    from interlock.store.access_port import Access, Note
    from interlock.store.github_port import GitHubStore
    from interlock.store.metering import Meter

T = TypeVar("T")

#: Where reads stop that would grow with the history: events that `stats` counts, spans for its quantiles.
EVENTS_MAX, SPANS_MAX = 20_000, 2_000
#: How many of the newest live and ended runs are looked through for those of a lane or a worker.
RUNS_MAX = 10_000
#: How many lines are looked through for one that does not move.
LINES_MAX = 1_000
#: And how many agents with limits an explanation looks at.
AGENTS_MAX = 1_000


class EditLoad(Record):
    """What an edit names, by key; from its operations alone, so that it is the same in every attempt."""

    plan: PlanId
    base: int
    keys: tuple[str, ...]
    removed: tuple[str, ...]
    updated: frozenset[str]
    #: Every edge that it names.
    pairs: tuple[tuple[str, str], ...]
    #: The ends of the edges that it adds.
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    #: Read the whole graph, to rank it anew.
    whole: bool = False


class Load(Record):
    """What a transaction locks and reads before the rules decide."""

    #: Items the commands are about. Their lanes are found and locked first, and those of their plans.
    items: tuple[ItemId, ...] = ()
    #: Lanes named by arrivals; made if new.
    lanes: tuple[str, ...] = ()
    #: Lanes and agent keys of arrivals that an item of the same name may absorb.
    names: tuple[tuple[str, str], ...] = ()
    #: Lanes of new tasks of a plan; made if new, not locked. All lanes are made before any is locked: whoever
    #: makes a lane waits for another who makes it.
    task_lanes: tuple[str, ...] = ()
    #: Projects and dedupe keys of arrivals, in the order of the ids they will get.
    keys: tuple[tuple[str, str] | None, ...] = ()
    #: Runs whose report may be late, to say how they ended.
    runs: tuple[RunId, ...] = ()
    #: How many items arrive.
    arrivals: int = 0
    #: Plans that are changed from outside, and what an edit of one names.
    plans: tuple[PlanId, ...] = ()
    edit: EditLoad | None = None
    #: Which agents there are is asked for.
    agents: bool = False
    #: Agents that a report may put behind a wall: locked before any lane.
    walled: tuple[str, ...] = ()
    #: A lane whose gate may open, and the lane of its series, which is among the lanes.
    gate: tuple[str, str] | None = None
    #: Agents whose signs of life are asked for.
    presence: tuple[str, ...] = ()
    #: A task may come back, and dependents that were cancelled as unreachable with it.
    rearm: bool = False


#: Makes the commands once the ids of arriving items are known.
Build = Callable[[Sequence[ItemId]], Sequence[Command]]


class ClaimedItem(NamedTuple):
    """An item that a claim started, with its payload."""

    item: Item
    payload: str | None


class ClaimAnswer(NamedTuple):
    """What a claim started, and what its caller needs to know if that is not enough."""

    claimed: list[ClaimedItem]
    #: The agent as it was set; None if nobody set limits for it.
    agent: Agent | None
    #: Nothing was claimed because some item's time has come: sweep, then claim again.
    due: bool = False


class Renewal(Record):
    """A wish to keep a run."""

    handle: Handle
    seen: int = 0


class StoredMessage(Record):
    item: ItemId
    n: int
    text: str
    author: str
    origin: ItemId
    at_us: int
    #: The payload of the arrival it came with, when that was another item.
    payload: str | None = None
    sender: SenderKind = SenderKind.PERSON
    agent: str = NO_AGENT
    reason: str = ""
    url: str = ""
    said: str = ""


class StoredCompletion(NamedTuple):
    """The end of a task with what its last run said."""

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


class ItemQuery(Record):
    """Which items to read. Empty means any."""

    statuses: tuple[str, ...] = ()
    lane: str | None = None
    agent: str | None = None
    project: str | None = None
    type: str | None = None
    #: Only items with smaller ids.
    before: int = (1 << 63) - 1
    limit: int = 100


class EventQuery(Record):
    after: int = 0
    limit: int = 1_000
    item: ItemId | None = None
    lane: str | None = None
    newest: bool = False


class Depths(Record):
    """How many items there are."""

    by_status: Mapping[str, int]
    #: Of those, the ones that wait for the answer of a person.
    asking: Mapping[str, int]
    depth_by_priority: Mapping[int, int]
    oldest_pending_us: int | None

    @property
    def shown(self) -> Mapping[str, int]:
        """By status as people see it: one that asks is neither pending nor waiting."""
        found = {status: n - self.asking.get(status, 0) for status, n in self.by_status.items()}
        found["asking"] = sum(self.asking.values())
        return {status: n for status, n in found.items() if n}


class Figures(Depths):
    """What the database counts for `stats`."""

    now_us: int
    #: How far back the events below reach: as far as asked, or as far as the newest `EVENTS_MAX` go.
    window_us: int
    #: Events in the window by kind and reason.
    counts: Mapping[tuple[str, str], int]
    #: Items that failed for good in the window.
    failed_items: int
    #: Runs in the window: name of the group, kind of event, how many, and how many items failed with them.
    groups: Sequence[tuple[str | None, str, int, int]]
    #: The newest spans in the window, sorted: lock durations of ended runs, times to a first claim.
    lock_us: Sequence[int]
    to_claim_us: Sequence[int]


class Finding(Record):
    """One invariant checked, with the rows that break it."""

    name: str
    promise: str
    mend: str
    broken: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What a piece of work gave, or the error that it ended with."""

    value: Any
    error: BaseException | None = None


def outcome_of(work: Callable[[], Any]) -> Outcome:
    """Do a piece of work, and keep its error."""
    try:
        return Outcome(work())
    except Exception as error:
        return Outcome(None, error)


class Store(Protocol):
    """A database behind Interlock."""

    @property
    def timing(self) -> Timing: ...

    # -- writing
    def tickets(self, count: int) -> list[int]: ...
    #: `note` makes, from the decision, the answer that is kept with it; `Repeated` if there was one already.
    def transact(self, load: Load, build: Build, note: Note | None = None) -> Decision: ...
    #: Start up to `wish.limit` ready items, overtaking owners that cannot start if there are too few. With
    #: `due_first`, start nothing while some item's time has come. With `note`, which makes the answer that is
    #: kept with what was claimed, perhaps fewer than could start.
    def claim(self, wish: Claim, *, due_first: bool, note: Note | None = None) -> ClaimAnswer: ...

    #: Whether several pieces of work gain from one commit.
    shares_commits: bool

    #: Carry out pieces of work one by one, each whole or not at all, and commit them at once where that is a
    #: gain. None may wait for anybody.
    def together(self, works: Sequence[Callable[[], Any]]) -> list[Outcome]: ...
    #: The items whose current runs have these handles, kept for another span.
    def renew(self, wishes: Sequence[Renewal]) -> dict[Handle, Item]: ...
    #: Count refused writes; gives how the runs ended that had these handles.
    def refuse(self, handles: Sequence[Handle], wanted: str) -> dict[Handle, RunRecord]: ...
    #: Write the named parts of an agent and leave the others as they are; `wall_us` ends a wall. Gives the
    #: agent as it is then, from which `line` makes the line of history.
    def set_agent(self, agent: Agent, named: Sequence[str], line: Callable[[Agent], Event]) -> Agent: ...
    def set_pool(self, name: str, max_concurrency: int, event: Event) -> Pool: ...
    #: False, and nothing is changed, while something uses it.
    def remove_agent(self, key: str, event: Event) -> bool: ...
    def remove_pool(self, name: str, event: Event) -> bool: ...
    #: Gives how long it may make no claim before its items can be overtaken, as it was set.
    def see_agent(self, key: str, name: str) -> float | None: ...
    def pause_project(self, project: str, why: str | None, event: Event) -> None: ...
    def set_mode(self, rule: ModeRule, event: Event) -> None: ...
    #: Gives the block as it is then; nothing is written if the same one is there already.
    def block(self, block: Block, event: Event) -> Block: ...
    #: Remove the blocks of a lane or an item, or only the one by a blocker; gives the blockers.
    def unblock(self, lane: str, item: ItemId, blocker: str | None, event: Event) -> list[str]: ...
    #: Also forgets the blocks of items that have ended.
    def forget_keys(self, limit: int) -> int: ...
    def see_worker(self, worker: Worker) -> None: ...
    #: Forget one that ended, and some that were silent for long.
    def forget_workers(self, gone: str | None) -> None: ...
    def begin_mark(self, name: str, seq: int) -> None: ...
    #: True for one caller: the mark is where it was, and nobody has leased it.
    def lease_mark(self, mark: Mark, token: int, lease_s: float) -> bool: ...
    #: Only by the token of the lease; the lease ends, or keeps others away for a while.
    def move_mark(
        self,
        name: str,
        token: int,
        *,
        seq: int,
        tries: int = 0,
        wait_s: float = 0.0,
        event: Event | None = None,
    ) -> bool: ...
    #: Run numbers go on above a fence of this store's lineage, armed at that time, which this run met; false
    #: if another store gives out numbers in this one's name.
    def leap(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool: ...
    #: Of the next items behind `after`, let those go that ended before a time and that nothing needs, each
    #: with what it absorbed; or only count them. Of the next plans, those without a dead letter.
    def prune_items(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned: ...
    def prune_plans(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned: ...
    #: Give the space of what went back to the disk, if the database does not by itself.
    def vacuum(self) -> None: ...

    # -- GitHub
    @property
    def github(self) -> GitHubStore: ...

    # -- access through a server
    @property
    def access(self) -> Access: ...

    # -- monitoring
    @property
    def meter(self) -> Meter: ...

    # -- reading
    #: Whatever `work` reads is of one moment. It must not write, may be repeated, and has no other inside.
    def at_once(self, work: Callable[[], T]) -> T: ...
    def now_us(self) -> int: ...
    def due(self, limit: int) -> list[ItemId]: ...
    #: Lanes behind `after`, in their order, that have a line and no owner, or an owner that contradicts their
    #: gate; and where the next look begins.
    def stranded(self, after: str, limit: int) -> tuple[list[str], str]: ...
    def item(self, item: ItemId) -> Item | None: ...
    #: Those of them that are there.
    def named_items(self, items: Sequence[ItemId]) -> dict[ItemId, Item]: ...
    def items(self, query: ItemQuery) -> list[Item]: ...
    #: Those whose newest link says this of its checks, the newest first; with None those of whose checks
    #: nothing is known. So many links, or items, are looked through at most.
    def items_by_checks(self, query: ItemQuery, ci: str | None, looked: int) -> list[Item]: ...
    def payloads(self, items: Sequence[ItemId]) -> dict[ItemId, str]: ...
    def messages(self, item: ItemId, after: int, limit: int) -> list[StoredMessage]: ...
    def runs(self, item: ItemId) -> list[RunRecord]: ...
    #: Whose runs these are, live or ended. A handle that no run has is left out.
    def run_agents(self, handles: Sequence[Handle]) -> dict[Handle, str]: ...
    #: The newest first. Of those that go on and of those that ended the newest `RUNS_MAX` are looked at.
    def recent_runs(self, lane: str | None, worker: str, limit: int) -> list[RecentRun]: ...
    def events(self, query: EventQuery) -> list[StoredEvent]: ...
    #: What waits for an agent is counted up to 1,000.
    def agent(self, key: str) -> Agent | None: ...
    def agents(self) -> list[Agent]: ...
    def pools(self) -> list[Pool]: ...
    def lanes(self, prefix: str, limit: int) -> list[LaneRow]: ...
    #: The active item that holds a lane, or an observed one that keeps it from opening.
    def owner(self, lane: str) -> Item | None: ...
    #: The first of its line, in order.
    def line(self, lane: str, limit: int) -> list[Item]: ...
    #: The unfinished items of a lane in any order: its owner, the first of its line, and those that wait for
    #: a time or for tasks; up to a limit of each.
    def on_lane(self, lane: str, limit: int) -> list[Item]: ...
    def modes(self) -> tuple[ModeRule, ...]: ...
    def worker(self, name: str) -> Worker | None: ...
    def workers(self, limit: int) -> list[Worker]: ...
    def mark(self, name: str) -> Mark | None: ...
    def paused_projects(self) -> dict[str, str]: ...
    #: The oldest first.
    def blocks(self, limit: int) -> list[Block]: ...
    #: Those of a lane and of items.
    def blocks_of(self, lane: str | None, items: Sequence[ItemId]) -> list[Block]: ...
    #: Lanes with their gates, in the order of the lanes; of one series or of all.
    def gates(self, series: str | None, limit: int) -> list[tuple[str, Gate]]: ...
    #: Those of these lanes that have one.
    def gates_of(self, lanes: Sequence[str]) -> dict[str, Gate]: ...
    #: How many go before an item, counted to `AHEAD_MAX` at most.
    def ahead_of(self, item: Item) -> int: ...
    #: What the rules would read, but for plans, if the item or the owner of its lane ended now. No lock.
    def look(self, item: ItemId) -> Snapshot: ...
    #: The agents named, and those that are limited in any way, at most `AGENTS_MAX`.
    def limited_agents(self, named: Sequence[str]) -> list[Agent]: ...
    #: The signs of life of the agents named that are known.
    def presence(self, agents: Sequence[str]) -> dict[str, Presence]: ...
    #: Lanes with a line whose owner waits for an agent that is unknown, cannot do it or is gone, with the
    #: owner and its agent; of the first `LINES_MAX` lines, up to a limit.
    def stalled(self, limit: int) -> list[tuple[str, ItemId, str]]: ...
    #: The edges to a task that are not satisfied, broken ones first, at most `AHEAD_MAX`.
    def needs(self, item: ItemId) -> list[Need]: ...
    def depths(self) -> Depths: ...
    #: It reads the events of the window, up to the newest `EVENTS_MAX`.
    def figures(self, window_us: int, by: str | None = None) -> Figures: ...
    def findings(self) -> list[Finding]: ...
    #: The name of this store, and the stores that it comes from.
    def lineage(self) -> Lineage: ...
    #: Where this store was copied to, if it is sealed: it shows what was there before.
    def sealed_for(self) -> str | None: ...
    def plan(self, plan: PlanId) -> Plan | None: ...
    def plans(self, *, ended: bool, limit: int) -> list[Plan]: ...
    def tasks(self, plan: PlanId, *, removed: bool = False) -> list[tuple[Task, Item]]: ...
    def edges(self, plan: PlanId) -> list[Edge]: ...
    def revisions(self, plan: PlanId, after: int, limit: int) -> list[Revision]: ...
    def completions(self, plan: PlanId, after: int) -> list[StoredCompletion]: ...
    #: How long the ended runs of each task took; tasks without one are left out.
    def work_us(self, plan: PlanId) -> dict[ItemId, int]: ...
    def stopping(self, limit: int) -> list[ItemId]: ...
    #: Items that wait for the answer of a person, oldest first.
    def asking(self, limit: int) -> list[Item]: ...
    #: Items whose runs are external, the longest first.
    def external(self, limit: int) -> list[Item]: ...
    #: Items that wait for a person, the oldest first.
    def stopped(self, limit: int) -> list[Item]: ...

    # -- waiting
    def wait_for_work(self, wish: Claim, timeout_s: float) -> bool: ...

    def close(self) -> None: ...
