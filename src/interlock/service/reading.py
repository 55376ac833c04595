"""Looking at the store: items, history, figures, and why an item waits. Nothing here changes anything."""

from __future__ import annotations

import reprlib
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeGuard

from interlock.core import names
from interlock.core.checks import CiFilter
from interlock.core.claiming import MESSAGES_AT_ONCE
from interlock.core.ending import explain_loss
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
from interlock.core.record import replace
from interlock.core.states import TERMINAL, ItemStatus
from interlock.service.answers import (
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
from interlock.service.contract import (
    EventView,
    ItemFilter,
    LinkView,
    MetricView,
    OwedView,
    RecentRunView,
    ShowView,
    StatsBy,
    StatsView,
    WhyView,
)
from interlock.service.itemview import ItemView, in_line, maybe_moment
from interlock.store.port import EventQuery, ItemQuery, Store

if TYPE_CHECKING:
    from interlock.core.prediction import Prediction
    from interlock.core.why import Explanation
    from interlock.store.links_port import Followed

FOLLOW_POLL_S = 0.2
#: Among how many items those are looked for whose checks say something, and how many links of one are shown.
CI_LOOKED_AT, LINKS_SHOWN = 10_000, 20
ID_LIMIT = 1 << 63
#: How far what is owed to GitHub is counted.
_OWED_COUNTED = 1_000


class Looking:
    """The use cases that only read."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def _require(self, item: ItemId) -> Item:
        found = self.store.item(item) if 0 < names.whole("item number", item) < ID_LIMIT else None
        if found is None:
            hint = "`interlock ls --all` lists them."
            if 0 < item < ID_LIMIT and self.store.plan(PlanId(item)) is not None:  # they share their numbers
                hint = f"{item} is a plan: `interlock plan show {item}`."
            raise NotFound(f"There is no item {item} in this store.", hint)
        return found

    def on_lane(self, lane: str) -> list[ItemView]:
        """The unfinished items of a lane with their payloads, owner first, then its line; at most 1,000.

        Reads every item that waits for a time or for tasks, to find those of the lane."""
        found = self.store.on_lane(names.lane_key(lane), names.BATCH_MAX)
        first = sorted(found, key=lambda item: in_line(ItemView(item)))[: names.BATCH_MAX]
        payloads = self.store.payloads([item.id for item in first])
        return [ItemView(item, payloads.get(item.id)) for item in first]

    def items(self, wanted: ItemFilter) -> list[ItemView]:
        """The newest items, in the order in which they arrived; unfinished ones unless asked otherwise.

        Reads from the newest item of each status on until it has enough: if few are on the lane, or of the
        agent, project or type, it reads all items of these statuses. By checks it reads 10,000 at most."""
        if not isinstance(wanted, ItemFilter):
            raise InvalidInput(f"{reprlib.repr(wanted)} is not a filter of items.", "Pass an ItemFilter.")
        names.check_whole("limit", wanted.limit, 1, 10_000)
        named = names.check_list("statuses", wanted.statuses)
        statuses = tuple(names.one_of("status", status, ItemStatus).value for status in named)
        ci = names.one_of("outcome of checks", wanted.ci, CiFilter) if _given(wanted.ci) else None
        if not statuses and ci is None and not names.check_flag("all", wanted.all):
            statuses = tuple(s.value for s in ItemStatus if s not in TERMINAL)
        query = ItemQuery(
            statuses=statuses,
            lane=names.lane_key(wanted.lane) if _given(wanted.lane) else None,
            agent=names.agent_key(wanted.agent) if _given(wanted.agent) else None,
            project=names.check_name("project", wanted.project) if _given(wanted.project) else None,
            type=names.check_name("type", wanted.type) if _given(wanted.type) else None,
            before=ID_LIMIT - 1 if wanted.before is None else _number("item number", wanted.before),
            limit=wanted.limit,
        )
        if names.check_flag("asking", wanted.asking) and ci is not None:
            raise InvalidInput(
                "Items cannot be listed by their questions and by their checks at once.",
                "Ask for one of them.",
            )
        if wanted.asking:
            found = [i for i in self.store.asking(wanted.limit) if _matches(i, query)]
            return [ItemView(i, question=self._question(i)) for i in found]
        if ci is not None:
            return self._checked(query, ci)
        blocks = self.store.blocks(names.BATCH_MAX)
        items = self.store.items(query)
        gates = self.store.gates_of(sorted({i.spec.lane for i in items if i.spec.lane is not None}))
        return [ItemView(i, blocks=blocks, gates=gates) for i in reversed(items)]

    def _checked(self, query: ItemQuery, ci: str) -> list[ItemView]:
        """The newest items whose checks say this, or of which nothing is known."""
        found = self.store.items_by_checks(query, None if ci == CiFilter.NONE else ci, CI_LOOKED_AT)
        links = {
            each.item: each for each in self.store.github.links.of_items([i.id for i in found]) if each.newest
        }
        return [ItemView(i, followed=links.get(i.id)) for i in reversed(found)]

    def _link_views(self, followed: Sequence[Followed]) -> tuple[LinkView, ...]:
        """What runs have become at GitHub. Runs on one pull request share its workflow runs."""
        links = self.store.github.links
        heads = {(each.repository, each.head) for each in followed}
        runs = {head: links.workflow_runs(*head, LINKS_SHOWN) for head in heads}
        return tuple(link_view(each, runs[each.repository, each.head]) for each in followed)

    def _question(self, item: Item) -> str | None:
        """What an item asks a person."""
        return self._last(item, EventKind.QUESTION_ASKED, "question") if item.asking else None

    def _last(self, item: Item, kind: EventKind, name: str) -> str | None:
        """What the history of an item says in its newest event of a kind."""
        lines = self.store.events(EventQuery(item=item.id, limit=200, newest=True))
        found = next((e.event.data for e in reversed(lines) if e.event.kind is kind), {})
        return str(found[name]) if found.get(name) else None

    def external(self, *, limit: int = 100) -> list[ItemView]:
        """Items whose runs are external, the longest first: what they do is not seen here."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        return [ItemView(i) for i in self.store.external(limit)]

    def stopped(self, *, limit: int = 100) -> list[ItemView]:
        """Items that wait for a person, since one more wake-up in a row would be too many; oldest first."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        return [ItemView(i) for i in self.store.stopped(limit)]

    def owed_to_github(self) -> OwedView:
        """How much waits to be sent to GitHub, and how much for a person."""
        owed, due_us, dead = self.store.github.outbox.backlog(_OWED_COUNTED)
        return OwedView(owed=owed, dead=dead, due_at=maybe_moment(due_us))

    def recent_runs(
        self, *, lane: str | None = None, worker: str = "", limit: int = 1_000
    ) -> list[RecentRunView]:
        """The newest runs first, those that go on among them; on a lane, or of workers whose names begin with
        a text. Reads what runs, and as many of the ended runs as needed: at most 10,000 of each."""
        names.check_whole("limit", limit, 1, 10_000)
        key = names.lane_key(lane) if _given(lane) else None
        beginning = names.check_text("worker", worker, names.NAME_MAX_CHARS)
        return [recent_run_view(run) for run in self.store.recent_runs(key, beginning, limit)]

    def item_of(self, handle: str) -> int:
        """The item that a handle is about."""
        return self._item_of(read_handle(handle)).id

    def _item_of(self, handle: Handle) -> Item:
        """The item of a handle that a run of it has or had; `LeaseLost` if this store knows no such run."""
        item = self.store.item(handle.item)
        if item is not None and (
            item.is_run_of(handle.run, handle.bits) or self._ended_run(handle) is not None
        ):
            return item
        raise explain_loss(handle.run, None, None).error()

    def _ended_run(self, handle: Handle) -> RunRecord | None:
        """How the run of a handle ended; null if no ended run had that handle."""
        runs = self.store.runs(handle.item)
        return next((r for r in runs if (r.run, r.bits) == (handle.run, handle.bits)), None)

    def sender_of(self, run: str) -> Sender:
        """Who writes in the run with this handle: its agent, also after the run has ended.

        A handle that no run of this store has proves nothing, and is no error: another system writes.
        """
        names.check_text("handle", run)
        try:
            handle = read_handle(run)
            item = self._item_of(handle)
        except (UnknownRun, LeaseLost):
            return ANOTHER_SYSTEM
        ended = None if item.is_run_of(handle.run, handle.bits) else self._ended_run(handle)
        agent = item.state.run_agent if ended is None else ended.agent
        return Sender(SenderKind.AGENT, agent or NO_AGENT, handle.run, item.spec.lane)

    def run_agents(self, runs: Sequence[str]) -> dict[str, str]:
        """The agents of the runs with these handles, also of ended ones. Unknown handles are left out."""
        handles: dict[Handle, str] = {}
        for text in runs:
            with suppress(UnknownRun):
                handles[read_handle(text)] = text
        found = self.store.run_agents(list(handles)) if handles else {}
        return {handles[handle]: agent or NO_AGENT for handle, agent in found.items()}

    def show(self, item: int) -> ShowView:
        """Everything about one item."""
        found = self._require(ItemId(item))
        payload = self.store.payloads([found.id]).get(found.id)
        ended = tuple(run_view(r) for r in self.store.runs(found.id))
        live = live_run_view(found)
        events = self.store.events(EventQuery(item=found.id, limit=200, newest=True))
        followed = self.store.github.links.of_items([found.id])[:LINKS_SHOWN]
        blocks = self.store.blocks_of(found.spec.lane, [found.id])
        return ShowView(
            item=ItemView(
                found,
                payload,
                self._question(found),
                blocks,
                self.store.gates_of([found.spec.lane] if found.spec.lane is not None else []),
                next(iter(followed), None),
            ),
            runs=(*ended, live) if live else ended,
            messages=tuple(message_views(self.store.messages(found.id, 0, MESSAGES_AT_ONCE))),
            events=tuple(event_view(e) for e in events),
            why=self._explain(found.id).sentence,
            links=self._link_views(followed),
        )

    def why(self, item: int) -> WhyView:
        """What an item waits for, and what will move it."""
        explained = why_view(self._explain(item))
        followed = self.store.github.links.of_items([item])
        return replace(explained, ci=ci_sentence(followed[0])) if followed else explained

    def hindered(self, item: int) -> str | None:
        """Why nobody may start an item that is ready. Nothing if somebody may."""
        return self._explain(item).hindered

    def predict(self, item: int) -> Prediction:
        """What can happen to an item next, from what the store has at one moment."""
        from interlock.service.foresight import foresee  # noqa: PLC0415  (most commands explain nothing)

        return self.store.at_once(lambda: foresee(self.store, self._require(ItemId(item))))

    def _explain(self, item: int) -> Explanation:
        from interlock.core.why import explain  # noqa: PLC0415

        made = self.predict(item)
        found = made.item
        wall = self._last(found, EventKind.RUN_RELEASED, "why") if found.walled else None
        return explain(made, said=wall or self._question(found))

    def events(
        self,
        *,
        after: int = 0,
        limit: int = 1_000,
        item: int | None = None,
        lane: str | None = None,
        newest: bool = False,
    ) -> list[EventView]:
        """History after a number. A cursor that keeps the last number never misses a line.

        With a lane it reads the lines of other lanes too, until it has enough: with `newest` from the end."""
        names.check_whole("limit", limit, 1, 10_000)
        query = EventQuery(
            after=_number("event number", after),
            limit=limit,
            item=ItemId(_number("item number", item)) if item is not None else None,
            lane=names.lane_key(lane) if _given(lane) else None,
            newest=names.check_flag("newest", newest),
        )
        return [event_view(e) for e in self.store.events(query)]

    def follow(self, *, after: int | None = None) -> Iterator[EventView]:
        """History as it happens, for ever."""
        if after is not None:
            _number("event number", after)
        else:
            last = self.store.events(EventQuery(limit=1, newest=True))
            after = last[0].seq if last else 0
        while True:
            found = self.store.events(EventQuery(after=after))
            for stored in found:
                after = stored.seq
                yield event_view(stored)
            if not found:
                time.sleep(FOLLOW_POLL_S)

    def stats(self, *, window_s: float = 3600.0, by: str | None = None) -> StatsView:
        """Counts now, rates and spans over the window, and its runs by project, type, agent or priority.
        It reads the events of the window, up to the newest 20,000."""
        names.check_number("window", window_s, 1, 366 * 24 * 3600)
        group = names.one_of("group", by, StatsBy).value if by is not None else None
        return stats_view(self.store.figures(round(window_s * 1_000_000), group), group)

    def metrics(self) -> list[MetricView]:
        """Counters and levels for monitoring, as Prometheus takes them. What is new is counted first."""
        from interlock.service import metering  # noqa: PLC0415  (for one command)

        return metering.metrics(self.store)


def _matches(item: Item, query: ItemQuery) -> bool:
    """Whether an item is one that is asked for, whatever its status."""
    spec = item.spec
    asked = (query.lane, spec.lane), (query.agent, spec.agent_key), (query.project, spec.project)
    same = all(wanted in (None, found) for wanted, found in (*asked, (query.type, spec.type)))
    return same and spec.id < query.before


def _given(name: str | None) -> TypeGuard[str]:
    """Whether something was asked for; an empty text asks for nothing."""
    return name is not None and name != ""


def _number(what: str, value: int) -> int:
    """A whole number that every store can compare with its own."""
    names.check_whole(what, value, -ID_LIMIT, ID_LIMIT - 1)
    return value
