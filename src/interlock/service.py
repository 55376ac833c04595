"""The service on a store: one function per use case, where core meets store.

Every shell goes through here; nothing here knows how a shell looks or which database is behind it.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from interlock import sweeper
from interlock.contract import (
    AddView,
    AgentView,
    ChangeView,
    CheckView,
    EventView,
    ItemFilter,
    LaneView,
    LeaseView,
    MessageView,
    Report,
    RunView,
    ShowView,
    StatsView,
    SweepView,
    WhyView,
)
from interlock.core import names
from interlock.core.checking import check_batch, checked
from interlock.core.claiming import Agent, Claim, narrowed
from interlock.core.commands import (
    Arrival,
    Arrive,
    Cancel,
    Command,
    Ended,
    Finish,
    Moved,
    Outcome,
    Retry,
    TakeBack,
    Tell,
)
from interlock.core.ending import explain_loss
from interlock.core.errors import InvalidInput, ItemEnded, LeaseLost, NotFound, Refusal
from interlock.core.handles import make_handle, read_handle
from interlock.core.ledger import Decision
from interlock.core.model import Event, EventKind, Item, ItemId, Mode, ModeRule, NewItem, RunId
from interlock.core.states import TERMINAL, ItemStatus
from interlock.core.why import Facts, why
from interlock.itemview import ItemView, moment
from interlock.presenting import (
    agent_view,
    event_view,
    holder_view,
    lane_view,
    live_run_view,
    message_view,
    refusal_view,
    run_view,
    stats_view,
)
from interlock.store.port import Claimed, EventQuery, ItemQuery, Load, Renewal, Store

MESSAGES_AT_ONCE = 1_000
POLL_S = 1.0
FOLLOW_POLL_S = 0.2
SEEN_EVERY_S = 30.0


class LocalService:
    """Interlock on a database in reach of this process."""

    def __init__(self, store: Store, *, poll_s: float = POLL_S) -> None:
        self.store = store
        self._poll_s = poll_s
        self._known: dict[str, float] = {}

    # -- arrivals ---------------------------------------------------------------------------------

    def add(self, items: Sequence[NewItem]) -> list[AddView]:
        """Decide on arrivals, in order, in one transaction."""
        check_batch("items", len(items))
        if not items:
            return []
        new = [checked(i) for i in items]
        tickets = self.store.tickets(len(new))
        keys = tuple((n.project, n.dedupe_key) if n.dedupe_key is not None else None for n in new)
        lanes = tuple(sorted({n.lane for n in new if n.lane is not None}))
        load = Load(lanes=lanes, keys=keys, arrivals=len(new))

        def build(ids: Sequence[ItemId]) -> list[Command]:
            return [Arrive(item=n, id=i, ticket=t) for n, i, t in zip(new, ids, tickets, strict=True)]

        decision = self.store.transact(load, build)
        return [self._add_view(a, decision) for a in decision.answers]

    def _add_view(self, arrival: Arrival, decision: Decision) -> AddView:
        item = decision.after.get(arrival.item) if arrival.item is not None else None
        holder = decision.after.get(arrival.holder.id) if arrival.holder is not None else None
        return AddView(
            decision=arrival.verdict.value,
            reason=arrival.reason,
            item=ItemView(item) if item is not None else None,
            holder=holder_view(holder),
            position=arrival.position,
            arrival=arrival.arrived,
        )

    # -- claims -----------------------------------------------------------------------------------

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
    ) -> list[LeaseView]:
        """Claim up to `limit` items, waiting up to `wait_s` for the first."""
        wish = self._wish(agent, types, labels, limit, lease_s, worker)
        names.check_number("wait", wait_s, 0, names.WAIT_MAX_S)
        self._make_known(wish.agent, agent.strip())
        deadline_s = time.monotonic() + wait_s
        while True:
            agent_now, claimed = self._claim(wish)
            left_s = deadline_s - time.monotonic()
            if claimed or left_s <= 0:
                return [self._lease(c) for c in claimed]
            allowed = narrowed(wish, agent_now)
            nap_s = min(left_s, self._poll_s)
            if allowed is None:
                time.sleep(nap_s)
            else:
                self.store.wait_for_work(allowed, nap_s)

    def _wish(
        self,
        agent: str,
        types: Sequence[str],
        labels: Sequence[str],
        limit: int,
        lease_s: float | None,
        worker: str | None,
    ) -> Claim:
        key = names.agent_key(agent)
        if not key:
            raise InvalidInput("An agent's name is needed to claim work.", "Pass --agent NAME.")
        names.check_number("limit", limit, 1, names.BATCH_MAX)
        if lease_s is not None:
            names.check_number("lease", lease_s, names.LEASE_MIN_S, names.LEASE_MAX_S)
        if worker is not None:
            names.check_name("worker", worker)
        return Claim(
            agent=key,
            types=tuple(names.check_name("type", t) for t in types),
            labels=tuple(names.check_name("label", name) for name in labels),
            limit=limit,
            lease_s=lease_s,
            worker=worker,
        )

    def _claim(self, wish: Claim) -> tuple[Agent | None, list[Claimed]]:
        agent, due = self.store.look(wish.agent)
        if due:
            sweeper.bring_due(self.store, sweeper.Swept())
        claimed = self.store.claim(wish, agent)
        if len(claimed) < wish.limit:
            claimed += self.store.overtake(replace(wish, limit=wish.limit - len(claimed)), agent)
        return agent, claimed

    def _make_known(self, key: str, name: str) -> None:
        now_s = time.monotonic()
        if self._known.get(key, -SEEN_EVERY_S) <= now_s - SEEN_EVERY_S:
            self.store.see_agent(key, name)
            self._known[key] = now_s

    def _lease(self, claimed: Claimed) -> LeaseView:
        item = claimed.item
        state = item.state
        assert state.run is not None and state.lease_until_us is not None and state.run_lease_s is not None
        messages = self.store.messages(item.id, 0, MESSAGES_AT_ONCE) if state.message_count else []
        return LeaseView(
            run=make_handle(self.store.handle_key(), state.run, item.id),
            fence=state.run,
            expires_at=moment(state.lease_until_us),
            renew_within_s=round(state.run_lease_s / 3, 3),
            item=ItemView(item, claimed.payload),
            messages=tuple(message_view(m) for m in messages),
        )

    # -- the holder's writes ----------------------------------------------------------------------

    def done(self, reports: Sequence[Report]) -> list[RunView]:
        """The work of these runs is done."""
        return self._finish(reports, Outcome.DONE)

    def fail(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs failed; their items are tried again while attempts are left."""
        return self._finish(reports, Outcome.FAIL)

    def release(self, reports: Sequence[Report]) -> list[RunView]:
        """These runs give their items back unworked."""
        return self._finish(reports, Outcome.RELEASE)

    def _finish(self, reports: Sequence[Report], outcome: Outcome) -> list[RunView]:
        runs = self._read_handles(reports)
        commands = [
            Finish(
                run=run,
                item=item,
                outcome=outcome,
                seen=report.seen,
                result=report.result,
                error=report.error,
                retry=report.retry,
                jitter=random.random(),  # noqa: S311  (spreads retries; nothing secret)
            )
            for report, (run, item) in zip(reports, runs, strict=True)
        ]
        load = Load(items=tuple(sorted({i for _, i in runs})), runs=tuple(r for r, _ in runs))
        decision = self.store.transact(load, lambda _: commands)
        return [
            self._ended_view(report, ended, decision)
            for report, ended in zip(reports, decision.answers, strict=True)
        ]

    def _read_handles(self, reports: Sequence[Report]) -> list[tuple[RunId, ItemId]]:
        check_batch("runs", len(reports))
        key = self.store.handle_key()
        for report in reports:
            names.check_number("read mark", report.seen, 0, 2**31 - 1)
            if report.error is not None:
                names.check_text("error", report.error)
            if report.result is not None:
                _check_result(report.result)
        return [read_handle(key, r.run) for r in reports]

    def _ended_view(self, report: Report, ended: Ended, decision: Decision) -> RunView:
        item = decision.after.get(ended.item)
        return RunView(
            run=report.run,
            status=ended.status.value if ended.status else "refused",
            item=ItemView(item) if item else None,
            promoted=ended.promoted,
            refusal=refusal_view(ended.refusal) if ended.refusal else None,
        )

    def renew(self, reports: Sequence[Report]) -> list[RunView]:
        """Keep the leases of these runs, and learn of cancel requests and unread messages."""
        runs = self._read_handles(reports)
        wishes = [Renewal(run=r, item=i, seen=p.seen) for p, (r, i) in zip(reports, runs, strict=True)]
        kept = self.store.renew(wishes)
        late = [w for w in wishes if w.run not in kept]
        ended = self.store.refuse(late, "renew") if late else {}
        views = []
        for report, wish in zip(reports, wishes, strict=True):
            item = kept.get(wish.run)
            if item is None:
                now = self.store.item(wish.item)
                refusal = explain_loss(wish.run, ended.get(wish.run), now)
                views.append(_refused(report.run, refusal, now))
                continue
            assert item.state.lease_until_us is not None and item.state.due_us is not None
            views.append(
                RunView(
                    run=report.run,
                    status="running",
                    item=ItemView(item),
                    expires_at=moment(min(item.state.lease_until_us, item.state.due_us)),
                    cancel_requested=item.state.cancel_into is not None,
                    unread=item.state.message_count - item.state.seen,
                )
            )
        return views

    def inbox(self, run: str, *, seen: int = 0) -> list[MessageView]:
        """Unread messages of a run; `seen` moves its read mark first. Reading is fenced like writing."""
        view = self.renew([Report(run=run, seen=seen)])[0]
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, view.refusal.hint)
        assert view.item is not None
        after = view.item.messages - view.unread
        found = self.store.messages(ItemId(view.item.id), after, MESSAGES_AT_ONCE)
        return [message_view(m) for m in found]

    # -- operators and messages -------------------------------------------------------------------

    def take_back(self, item: int, *, why: str) -> ChangeView:
        """An operator takes an item from its run and offers it again."""
        return self._operate(TakeBack(item=ItemId(item), why=_reason(why)))

    def cancel(self, item: int, *, why: str, force: bool = False) -> ChangeView:
        """An operator ends an item; a running one gets its grace unless `force`."""
        return self._operate(Cancel(item=ItemId(item), why=_reason(why), force=force))

    def retry(self, item: int, *, why: str = "") -> ChangeView:
        """An operator brings a failed or cancelled item back, or ends a back-off."""
        return self._operate(Retry(item=ItemId(item), why=why))

    def msg(self, item: int, text: str, *, author: str = "", from_bot: bool = False) -> ChangeView:
        """Tell an item something; if it was absorbed, its absorber is told."""
        names.check_text("message", text)
        names.check_text("author", author, names.NAME_MAX_CHARS)
        ticket = self.store.tickets(1)[0]
        tell = Tell(item=ItemId(item), ticket=ticket, text=text, author=author, from_bot=from_bot)
        return self._operate(tell)

    def _operate(self, command: Cancel | TakeBack | Retry | Tell) -> ChangeView:
        while True:
            self._require(command.item)
            load = Load(items=(command.item,))
            decision = self.store.transact(load, lambda _, c=command: [c])  # type: ignore[misc]
            moved: Moved = decision.answers[0]
            if moved.forward_to is None:
                break
            command = replace(command, item=moved.forward_to)
        if not moved.changed:
            raise ItemEnded(moved.refusal, f"`interlock show {command.item}` tells more.")
        after = decision.after[command.item]
        return ChangeView(item=ItemView(after), promoted=moved.promoted, n=moved.n or None)

    def _require(self, item: ItemId) -> Item:
        found = self.store.item(item)
        if found is None:
            raise NotFound(f"There is no item {item} in this store.", "`interlock ls --all` lists them.")
        return found

    # -- looking ----------------------------------------------------------------------------------

    def items(self, wanted: ItemFilter) -> list[ItemView]:
        """Items, unfinished ones unless asked otherwise, in the order in which they arrived."""
        names.check_number("limit", wanted.limit, 1, 10_000)
        statuses = tuple(_status(s) for s in wanted.statuses)
        if not statuses and not wanted.all:
            statuses = tuple(s.value for s in ItemStatus if s not in TERMINAL)
        query = ItemQuery(
            statuses=statuses,
            lane=names.lane_key(wanted.lane) if wanted.lane else None,
            agent=names.agent_key(wanted.agent) if wanted.agent else None,
            project=wanted.project,
            type=wanted.type,
            limit=wanted.limit,
        )
        return [ItemView(i) for i in reversed(self.store.items(query))]

    def item_of(self, handle: str) -> int:
        """The item that a handle is about."""
        return read_handle(self.store.handle_key(), handle)[1]

    def show(self, item: int) -> ShowView:
        """Everything about one item."""
        found = self._require(ItemId(item))
        payload = self.store.payloads([found.id]).get(found.id)
        ended = tuple(run_view(r) for r in self.store.runs(found.id))
        live = live_run_view(found)
        events = self.store.events(EventQuery(item=found.id, limit=200, newest=True))
        return ShowView(
            item=ItemView(found, payload),
            runs=(*ended, live) if live else ended,
            messages=tuple(message_view(m) for m in self.store.messages(found.id, 0, MESSAGES_AT_ONCE)),
            events=tuple(event_view(e) for e in events),
            why=self._why(found),
        )

    def why(self, item: int) -> WhyView:
        """What an item waits for, and what will move it."""
        found = self._require(ItemId(item))
        return WhyView(item=ItemView(found), why=self._why(found))

    def _why(self, item: Item) -> str:
        waits = item.status in (ItemStatus.PENDING, ItemStatus.DEFERRED)
        owner = None
        if item.status is ItemStatus.DEFERRED and item.spec.lane is not None:
            lane = next((r for r in self.store.lanes(item.spec.lane, 50) if r.lane == item.spec.lane), None)
            owner = lane.owner if lane else None
        agents = {a.key: a for a in self.store.agents()} if item.spec.agent_key else {}
        facts = Facts(
            now_us=self.store.now_us(),
            owner=owner,
            ahead=self.store.ahead_of(item) if waits else 0,
            agent=agents.get(item.spec.agent_key),
            project_paused_why=self.store.paused_projects().get(item.spec.project),
        )
        return why(item, facts)

    def events(
        self,
        *,
        after: int = 0,
        limit: int = 1_000,
        item: int | None = None,
        lane: str | None = None,
        newest: bool = False,
    ) -> list[EventView]:
        """History after a number. A cursor that keeps the last number never misses a line."""
        names.check_number("limit", limit, 1, 10_000)
        query = EventQuery(
            after=after,
            limit=limit,
            item=ItemId(item) if item is not None else None,
            lane=names.lane_key(lane) if lane else None,
            newest=newest,
        )
        return [event_view(e) for e in self.store.events(query)]

    def follow(self, *, after: int | None = None) -> Iterator[EventView]:
        """History as it happens, for ever."""
        if after is None:
            last = self.store.events(EventQuery(limit=1, newest=True))
            after = last[0].seq if last else 0
        while True:
            found = self.store.events(EventQuery(after=after))
            for stored in found:
                after = stored.seq
                yield event_view(stored)
            if not found:
                time.sleep(FOLLOW_POLL_S)

    def stats(self, *, window_s: float = 3600.0) -> StatsView:
        """Counts now, rates and spans over the window."""
        names.check_number("window", window_s, 1, 366 * 24 * 3600)
        return stats_view(self.store.figures(round(window_s * 1_000_000)), window_s)

    # -- agents, projects, lanes ------------------------------------------------------------------

    def agents(self) -> list[AgentView]:
        """Every agent that was set or has asked for work."""
        return [agent_view(a) for a in self.store.agents()]

    def set_agent(
        self,
        name: str,
        *,
        max_concurrency: int | None = None,
        unlimited: bool = False,
        types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
    ) -> AgentView:
        """Say what an agent can do and how much at once; what is not named stays."""
        key = names.agent_key(name)
        if not key:
            raise InvalidInput("The agent's name is empty.", "Pass a name.")
        if max_concurrency is not None:
            names.check_number("number of runs at once", max_concurrency, 1, 10_000)
        agent = self.store.agent(key) or Agent(key=key, name=name.strip())
        agent = replace(agent, name=name.strip())
        if max_concurrency is not None or unlimited:
            agent = replace(agent, max_concurrency=None if unlimited else max_concurrency)
        if types is not None:
            agent = replace(agent, types=tuple(names.check_name("type", t) for t in types))
        if labels is not None:
            agent = replace(agent, labels=tuple(names.check_name("label", n) for n in labels))
        data = {"max": agent.max_concurrency, "types": agent.types, "labels": agent.labels}
        return self._set_agent(agent, EventKind.AGENT_SET, "", data)

    def pause_agent(self, name: str, *, paused: bool, why: str) -> AgentView:
        """Stop or resume giving an agent work. Its runs go on."""
        key = names.agent_key(name)
        agent = self.store.agent(key) or Agent(key=key, name=name.strip())
        agent = replace(agent, paused_why=_reason(why) if paused else None)
        kind = EventKind.AGENT_PAUSED if paused else EventKind.AGENT_RESUMED
        return self._set_agent(agent, kind, why, {})

    def _set_agent(self, agent: Agent, kind: EventKind, why: str, data: Mapping[str, object]) -> AgentView:
        event = Event(kind=kind, at_us=self.store.now_us(), reason=why, agent=agent.key, data=dict(data))
        self.store.set_agent(agent, event)
        return next(agent_view(a) for a in self.store.agents() if a.key == agent.key)

    def pause_project(self, project: str, *, paused: bool, why: str) -> None:
        """Stop or resume claims of a project's items. Runs go on."""
        names.check_name("project", project)
        reason = _reason(why) if paused else why
        kind = EventKind.PROJECT_PAUSED if paused else EventKind.PROJECT_RESUMED
        event = Event(kind=kind, at_us=self.store.now_us(), reason=reason, project=project)
        self.store.pause_project(project, reason if paused else None, event)

    def paused_projects(self) -> Mapping[str, str]:
        """Paused projects and why."""
        return self.store.paused_projects()

    def lanes(self, *, prefix: str = "", limit: int = 100) -> list[LaneView]:
        """Lanes that are held or have a line."""
        names.check_number("limit", limit, 1, 10_000)
        rules = self.store.modes()
        return [lane_view(row, rules) for row in self.store.lanes(prefix, limit)]

    def set_mode(self, *, scope: str, value: str, mode: str) -> None:
        """Choose how strictly the lanes of a project or prefix are kept."""
        if scope not in ("project", "lane"):
            raise InvalidInput(f"A mode is set for a project or a lane prefix, not {scope!r}.", "")
        names.check_name(scope, value.rstrip("/") if scope == "lane" else value)
        if mode not in list(Mode):
            raise InvalidInput(f"There is no mode {mode!r}.", "Use off, observe or enforce.")
        event = Event(
            kind=EventKind.MODE_SET, at_us=self.store.now_us(), reason=mode, data={"scope": scope, "value": value}
        )
        self.store.set_mode(ModeRule(scope=scope, value=value, mode=Mode(mode)), event)

    # -- upkeep -----------------------------------------------------------------------------------

    def sweep(self) -> SweepView:
        """Move whatever time alone must move."""
        swept = sweeper.sweep(self.store)
        return SweepView(
            expired=swept.expired,
            reentered=swept.reentered,
            promoted=swept.promoted,
            forgotten_keys=swept.forgotten_keys,
        )

    def doctor(self) -> list[CheckView]:
        """Check every invariant against the database."""
        views = []
        for finding in self.store.findings():
            shown = "; ".join(finding.broken[:5])
            more = len(finding.broken) - 5
            detail = shown + (f"; and {more} more" if more > 0 else "") if finding.broken else finding.promise
            mend = finding.mend if finding.broken else ""
            views.append(CheckView(name=finding.name, ok=not finding.broken, detail=detail, mend=mend))
        return views

    def close(self) -> None:
        """Give the database connections back."""
        self.store.close()


def _refused(run: str, refusal: Refusal, item: Item | None) -> RunView:
    return RunView(
        run=run,
        status="refused",
        item=ItemView(item) if item else None,
        refusal=refusal_view(refusal),
    )


def _reason(why: str) -> str:
    if not why.strip():
        raise InvalidInput("A reason is needed.", 'Pass --reason "…"; it stands in the history.')
    return names.check_text("reason", why, 1_000)


def _status(name: str) -> str:
    if name not in list(ItemStatus):
        raise InvalidInput(f"There is no status {name!r}.", f"Use {', '.join(ItemStatus)}.")
    return name


def _check_result(text: str) -> None:
    names.check_text("result", text)
    try:
        json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"The result is not valid JSON: {error}.", "Quote it for your shell.") from None
