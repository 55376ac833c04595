"""Reads of the store: items, history, figures, and why an item waits. They change nothing."""

from __future__ import annotations

import reprlib
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, TypeGuard

from interlock.core import names
from interlock.core.ci import CiFilter
from interlock.core.claims import MESSAGES_AT_ONCE
from interlock.core.costs import Cost
from interlock.core.cures import cure
from interlock.core.endings import explain_loss
from interlock.core.errors import InvalidInput, LeaseLost, NotFound, UnknownRun
from interlock.core.handles import Handle, read_handle
from interlock.core.model import (
    ANOTHER_SYSTEM,
    NO_AGENT,
    EventKind,
    Item,
    ItemId,
    PlanId,
    RunRecord,
    Sender,
    SenderKind,
)
from interlock.core.names import SEARCHED
from interlock.core.record import replace
from interlock.core.states import TERMINAL, ItemStatus
from interlock.service.contract import (
    BriefView,
    EventView,
    ItemFilter,
    LinkView,
    MetricView,
    OwedView,
    RecentRunView,
    ShowView,
    StatsBy,
    StatsView,
    TrendView,
    WhyView,
)
from interlock.service.costs import cost_view, spending_since, spending_view
from interlock.service.item_view import ItemView, in_line, maybe_moment, version
from interlock.service.queries import run_query
from interlock.service.view_builders import (
    block_view,
    brief_view,
    ci_sentence,
    event_view,
    link_view,
    live_run_view,
    message_views,
    recent_run_view,
    run_view,
    stats_view,
    why_view,
)
from interlock.store.metrics import KEPT_MINUTES
from interlock.store.port import EventQuery, ItemQuery, Store

if TYPE_CHECKING:
    from interlock.core.prediction import Prediction
    from interlock.core.why import Explanation
    from interlock.store.links import LinkedRun

FOLLOW_POLL_S = 0.2
#: A filter by checks searches at most this many items; at most this many links of an item are shown.
CI_LOOKED_AT, LINKS_SHOWN = 10_000, 20
#: At most this many items that an item's messages came from are shown, and so many of its lane's line.
INPUTS_SHOWN, LINE_SHOWN = 100, 20
ID_LIMIT = 1 << 63
#: Effects for GitHub are counted up to this.
_UNSENT_COUNTED = 1_000


class ReadOperations:
    """The operations that only read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def on_lane(self, lane: str) -> list[ItemView]:
        """The unfinished items of a lane with their payloads, owner first, then its line; at most 1,000.

        To find the items of the lane, it reads every item that waits for a time or for tasks."""
        found = self._store.on_lane(names.lane_key(lane), names.BATCH_MAX)
        first = sorted(found, key=lambda item: in_line(ItemView(item)))[: names.BATCH_MAX]
        payloads = self._store.payloads([item.id for item in first])
        return [ItemView(item, payloads.get(item.id)) for item in first]

    def items(self, wanted: ItemFilter) -> list[ItemView]:
        """The newest items in order of arrival; by default only unfinished ones.

        Reads items of each status, newest first, until it has enough. If few match the lane, agent, project
        or type, it reads all items of these statuses. A filter by label or text reads at most 10,000 of each
        status, one by checks at most 10,000."""
        if not isinstance(wanted, ItemFilter):
            raise InvalidInput(f"{reprlib.repr(wanted)} is not an ItemFilter.", "Pass an ItemFilter.")
        names.check_whole("limit", wanted.limit, 1, 10_000)
        named = names.check_list("statuses", wanted.statuses)
        statuses = tuple(names.one_of("status", status, ItemStatus).value for status in named)
        ci = names.one_of("CI outcome", wanted.ci, CiFilter) if is_given(wanted.ci) else None
        if not statuses and ci is None and not names.check_flag("all", wanted.all):
            statuses = tuple(s.value for s in ItemStatus if s not in TERMINAL)
        query = ItemQuery(
            statuses=statuses,
            lane=names.lane_key(wanted.lane) if is_given(wanted.lane) else None,
            agent=names.agent_key(wanted.agent) if is_given(wanted.agent) else None,
            project=names.check_name("project", wanted.project) if is_given(wanted.project) else None,
            types=_types(wanted),
            label=names.check_name("label", wanted.label) if is_given(wanted.label) else None,
            text=_folded(names.check_text("text", wanted.text)) if is_given(wanted.text) else None,
            looked=SEARCHED if is_given(wanted.label) or is_given(wanted.text) else None,
            before=ID_LIMIT - 1 if wanted.before is None else _number("item number", wanted.before),
            limit=wanted.limit,
        )
        if names.check_flag("asking", wanted.asking) and ci is not None:
            raise InvalidInput(
                "`asking` and `ci` cannot be combined.", "Pass one of them.", fields=("asking", "ci")
            )
        if wanted.asking:
            found = [i for i in self._store.asking(SEARCHED) if _matches(i, query)][-wanted.limit :]
            return [ItemView(i, question=self._question(i)) for i in found]
        if ci is not None:
            return self._checked(query, ci)
        blocks = self._store.blocks(names.BATCH_MAX)
        items = self._store.items(query)
        gates = self._store.gates_of(sorted({i.spec.lane for i in items if i.spec.lane is not None}))
        return [ItemView(i, blocks=blocks, gates=gates) for i in reversed(items)]

    def _checked(self, query: ItemQuery, ci: str) -> list[ItemView]:
        """The newest items with this outcome of their checks, or with none."""
        found = self._store.items_by_checks(query, None if ci == CiFilter.NONE else ci, CI_LOOKED_AT)
        newest = self._store.github.links.of_items([i.id for i in found])
        links = {each.item: each for each in newest if each.newest}
        return [ItemView(i, followed=links.get(i.id)) for i in reversed(found)]

    def _link_views(self, followed: Sequence[LinkedRun]) -> tuple[LinkView, ...]:
        """The pull requests and commits of runs. Runs on one pull request share its workflow runs."""
        links = self._store.github.links
        heads = {(each.repository, each.head) for each in followed}
        runs = {head: links.workflow_runs(*head, LINKS_SHOWN) for head in heads}
        return tuple(link_view(each, runs[each.repository, each.head]) for each in followed)

    def _question(self, item: Item) -> str | None:
        return question_of(self._store, item)

    def external(self, *, limit: int = 100) -> list[ItemView]:
        """Items with external runs, the longest first: the store cannot observe such runs."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        return [ItemView(i) for i in self._store.external(limit)]

    def stopped(self, *, limit: int = 100) -> list[ItemView]:
        """Items stopped by the wake-up limit, which wait for a person; oldest first."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        return [ItemView(i) for i in self._store.stopped(limit)]

    def owed_to_github(self) -> OwedView:
        """How many effects are queued for GitHub, and how many are dead letters."""
        unsent, due_us, dead = self._store.github.outbox.backlog(_UNSENT_COUNTED)
        return OwedView(owed=unsent, dead=dead, due_at=maybe_moment(due_us))

    def recent_runs(
        self,
        *,
        lane: str | None = None,
        agent: str | None = None,
        worker: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 1_000,
    ) -> list[RecentRunView]:
        """Runs, newest first, current ones included; optionally on a lane, of an agent, of workers by a
        prefix of their names, or those of a window of time. Reads current runs and as many ended runs as
        needed, at most 10,000 of each."""
        query = run_query(lane, agent, worker, since, until, limit)
        return [recent_run_view(run) for run in self._store.recent_runs(query)]

    def item_of(self, handle: str) -> int:
        """The item of a handle."""
        return item_of_run(self._store, read_handle(handle)).id

    def sender_of(self, run: str) -> Sender:
        """The sender behind a handle: the agent of its run, also after the run has ended.

        An unknown handle proves nothing and is no error: the sender is then another system.
        """
        names.check_text("handle", run)
        try:
            handle = read_handle(run)
            item = item_of_run(self._store, handle)
        except (UnknownRun, LeaseLost):
            return ANOTHER_SYSTEM
        ended = None if item.is_run_of(handle.run, handle.bits) else ended_run(self._store, handle)
        agent = item.state.run_agent if ended is None else ended.agent
        return Sender(SenderKind.AGENT, agent or NO_AGENT, handle.run, item.spec.lane)

    def run_agents(self, runs: Sequence[str]) -> dict[str, str]:
        """The agents of the runs with these handles, also of ended ones. Unknown handles are left out."""
        handles: dict[Handle, str] = {}
        for text in runs:
            with suppress(UnknownRun):
                handles[read_handle(text)] = text
        found = self._store.run_agents(list(handles)) if handles else {}
        return {handles[handle]: agent or NO_AGENT for handle, agent in found.items()}

    def show(self, item: int) -> ShowView:
        """Everything about one item."""
        found = require_item(self._store, ItemId(item))
        payload = self._store.payloads([found.id]).get(found.id)
        ended = tuple(run_view(r) for r in self._store.runs(found.id))
        live = live_run_view(found)
        events = self._store.events(EventQuery(item=found.id, limit=200, newest=True))
        followed = self._store.github.links.of_items([found.id])[:LINKS_SHOWN]
        explained = self._explain(found.id)
        blocks = self._store.blocks_of(found.spec.lane, [found.id])
        messages = self._store.messages(found.id, 0, MESSAGES_AT_ONCE)
        inputs, absorber = self._chain(found, [message.origin for message in messages])
        costs = self._store.costs.of_items([found.id]).get(found.id, {})
        views = {run: cost_view(cost) for run, cost in costs.items()}
        runs = [replace(run, cost=views.get(run.run)) for run in ((*ended, live) if live else ended)]
        return ShowView(
            item=ItemView(
                found,
                payload,
                self._question(found),
                blocks,
                self._store.gates_of([found.spec.lane] if found.spec.lane is not None else []),
                next(iter(followed), None),
            ),
            runs=tuple(runs),
            messages=tuple(message_views(messages)),
            events=tuple(event_view(e) for e in events),
            why=explained.sentence,
            links=self._link_views(followed),
            cures=explained.cures,
            inputs=inputs,
            absorber=absorber,
            line=self._line(found.spec.lane),
            blocks=tuple(map(block_view, blocks)),
            delivered=found.state.delivered if live else 0,
            seen=found.state.seen if live else 0,
            version=version(ItemView(found)),
            cost=cost_view(reduce(Cost.plus, costs.values())) if costs else None,
        )

    def _chain(self, item: Item, origins: Sequence[ItemId]) -> tuple[tuple[BriefView, ...], BriefView | None]:
        """The items that an item's messages came from, and the item that took it in. Every arrival that an
        item absorbs leaves it a message, and so does what that arrival had absorbed."""
        sources = sorted({origin for origin in origins if origin != item.id})[:INPUTS_SHOWN]
        into = item.state.absorbed_by
        found = self._store.named_items([*sources, *([into] if into is not None else [])])
        absorber = found.pop(into, None) if into is not None else None
        inputs = tuple(brief_view(found[source]) for source in sources if source in found)
        return inputs, None if absorber is None else brief_view(absorber)

    def _line(self, lane: str | None) -> tuple[BriefView, ...]:
        """The owner of a lane and the first of its line."""
        if lane is None:
            return ()
        owner = self._store.owner(lane)
        first = self._store.line(lane, LINE_SHOWN)
        return tuple(map(brief_view, (owner, *first) if owner is not None else first))

    def why(self, item: int) -> WhyView:
        """What an item waits for, and what will move it."""
        explained = why_view(self._explain(item))
        followed = self._store.github.links.of_items([item])
        return replace(explained, ci=ci_sentence(followed[0])) if followed else explained

    def why_each(self, items: Sequence[ItemId]) -> dict[ItemId, WhyView]:
        """The same for several items, from one snapshot. Deleted items are left out."""
        from interlock.service.prediction_facts import Predictions  # noqa: PLC0415

        def read() -> list[Prediction]:
            predictions = Predictions(self._store)
            return [predictions.of(item) for item in self._store.named_items(items).values()]

        made = self._store.at_once(read) if items else []
        followed = self._store.github.links.of_items([each.item.id for each in made])
        newest = {each.item: each for each in reversed(followed)}
        views = {}
        for each in made:
            view, link = why_view(self._explained(each)), newest.get(each.item.id)
            views[each.item.id] = view if link is None else replace(view, ci=ci_sentence(link))
        return views

    def hindered(self, item: int) -> str | None:
        """Why a ready item cannot be started; null if it can."""
        return self._explain(item).hindered

    def predict(self, item: int) -> Prediction:
        """What can happen to an item next, from a snapshot of the store."""
        from interlock.service.prediction_facts import Predictions  # noqa: PLC0415  (most commands explain nothing)

        def read() -> Prediction:
            return Predictions(self._store).of(require_item(self._store, ItemId(item)))

        return self._store.at_once(read)

    def _explain(self, item: int) -> Explanation:
        return self._explained(self.predict(item))

    def _explained(self, made: Prediction) -> Explanation:
        from interlock.core.why import explain  # noqa: PLC0415

        found = made.item
        limit = _last(self._store, found, EventKind.RUN_RELEASED, "why") if found.at_quota_limit else None
        return explain(made, said=limit or self._question(found))

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
    ) -> list[EventView]:
        """History after a number. A cursor that keeps the last number never misses a line.

        With a lane, an agent, a run or kinds, it also reads other events until it has enough; with `newest`,
        from the end. `after` and `before` limit how many it reads."""
        names.check_whole("limit", limit, 1, 10_000)
        query = EventQuery(
            after=_number("event number", after),
            limit=limit,
            item=ItemId(_number("item number", item)) if item is not None else None,
            lane=names.lane_key(lane) if is_given(lane) else None,
            newest=names.check_flag("newest", newest),
            before=None if before is None else _number("event number", before),
            kinds=tuple(
                names.one_of("kind", each, EventKind).value for each in names.check_list("kinds", kinds)
            ),
            agent=names.needed_agent(agent) and agent.strip() if is_given(agent) else None,
            run=None if run is None else _number("run number", run),
        )
        return [event_view(e) for e in self._store.events(query)]

    def follow(self, *, after: int | None = None) -> Iterator[EventView]:
        """History as it happens, without end."""
        if after is not None:
            _number("event number", after)
        else:
            last = self._store.events(EventQuery(limit=1, newest=True))
            after = last[0].seq if last else 0
        while True:
            found = self._store.events(EventQuery(after=after))
            for stored in found:
                after = stored.seq
                yield event_view(stored)
            if not found:
                time.sleep(FOLLOW_POLL_S)

    def stats(self, *, window_s: float = 3600.0, by: str | None = None) -> StatsView:
        """Counts now, rates and spans over the window, and its runs by project, type, agent or priority.
        It reads the events of the window, up to the newest 20,000."""
        names.check_number("window", window_s, 1, names.WINDOW_MAX_S)
        group = names.one_of("group", by, StatsBy).value if by is not None else None
        found = stats_view(self._store.figures(round(window_s * 1_000_000), group), group)
        spent = tuple(map(spending_view, spending_since(self._store, 1, names.BATCH_MAX)))
        return replace(found, spent_today=spent)

    def trend(self, *, minutes: int = 60) -> list[TrendView]:
        """The last minutes, the oldest first: what was ready, waiting and running, and counts per minute. A
        server keeps the numbers of each minute, for three hours."""
        names.check_whole("minutes", minutes, 1, KEPT_MINUTES)
        from interlock.service import metrics  # noqa: PLC0415  (for servers)

        return metrics.trend(self._store, minutes)

    def metrics(self) -> list[MetricView]:
        """Counters and gauges for Prometheus. New events are counted first."""
        from interlock.service import metrics  # noqa: PLC0415  (for one command)

        return metrics.metrics(self._store)


def require_item(store: Store, item: ItemId) -> Item:
    """The item with a number; `NotFound` if there is none."""
    found = store.item(item) if 0 < names.whole("item number", item) < ID_LIMIT else None
    if found is None:
        if (
            0 < item < ID_LIMIT and store.plan(PlanId(item)) is not None
        ):  # items and plans share their numbers
            raise NotFound(f"{item} is a plan.", cures=(cure("plan", "shows it", plan=item),))
        told = cure("items", "lists all items", wanted={"all": True})
        raise NotFound(f"There is no item {item} in this store.", cures=(told,))
    return found


def question_of(store: Store, item: Item) -> str | None:
    """The question of an item to a person; null if it asks none."""
    return _last(store, item, EventKind.QUESTION_ASKED, "question") if item.asking else None


def _last(store: Store, item: Item, kind: EventKind, name: str) -> str | None:
    """A part of the newest event of a kind in an item's history."""
    lines = store.events(EventQuery(item=item.id, limit=200, newest=True))
    found = next((e.event.data for e in reversed(lines) if e.event.kind is kind), {})
    return str(found[name]) if found.get(name) else None


def item_of_run(store: Store, handle: Handle) -> Item:
    """The item of a current or former handle; `LeaseLost` if this store knows no such run."""
    item = store.item(handle.item)
    if item is not None and (item.is_run_of(handle.run, handle.bits) or ended_run(store, handle) is not None):
        return item
    raise explain_loss(handle.run, None, None).error()


def ended_run(store: Store, handle: Handle) -> RunRecord | None:
    """How the run of a handle ended; null if no ended run had that handle."""
    runs = store.runs(handle.item)
    return next((r for r in runs if (r.run, r.bits) == (handle.run, handle.bits)), None)


def _matches(item: Item, query: ItemQuery) -> bool:
    """Whether an item matches a filter, apart from its status."""
    spec = item.spec
    asked = (query.lane, spec.lane), (query.agent, spec.agent_key), (query.project, spec.project)
    same = all(wanted in (None, found) for wanted, found in asked)
    return (
        same
        and (not query.types or spec.type in query.types)
        and query.label in (None, *spec.labels)
        and (query.text is None or any(query.text in _folded(part) for part in _searched(item)))
        and spec.id < query.before
    )


def _searched(item: Item) -> tuple[str, ...]:
    """The parts of an item that a search for a text compares; its dedupe key is stored elsewhere."""
    spec = item.spec
    return spec.title, spec.lane or "", spec.observed_lane or "", spec.agent_key


def _folded(text: str) -> str:
    """With ASCII letters in lower case: the databases agree on no other."""
    return "".join(c.lower() if c.isascii() else c for c in text)


def _types(wanted: ItemFilter) -> tuple[str, ...]:
    named = tuple(names.check_name("type", each) for each in names.check_list("types", wanted.types))
    return (*named, names.check_name("type", wanted.type)) if is_given(wanted.type) else named


def is_given(name: str | None) -> TypeGuard[str]:
    """Whether the filter is set; an empty text is no filter."""
    return name is not None and name != ""


def _number(what: str, value: int) -> int:
    """A whole number in the range of every store."""
    names.check_whole(what, value, -ID_LIMIT, ID_LIMIT - 1)
    return value
