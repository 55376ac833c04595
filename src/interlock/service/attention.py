"""What needs a person, what is stuck, and what is claimed next: each with a sentence and what helps.

Every list is bounded, so these operations read a bounded number of rows however large the store is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from interlock.core import names
from interlock.core.blocks import Block
from interlock.core.claims import Agent
from interlock.core.cures import Cure, cure
from interlock.core.model import Item, ItemId
from interlock.core.overtaking import is_absent
from interlock.core.plans.model import Plan
from interlock.core.record import replace
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus
from interlock.core.timing import ago, clock, to_us
from interlock.core.workers import is_silent
from interlock.service.contract import AttentionKind, AttentionView, ConcernView, WhyView
from interlock.service.item_view import maybe_moment, moment
from interlock.service.reads import question_of
from interlock.service.view_builders import brief_view
from interlock.store.port import ItemQuery, PlanQuery, Store

#: The most notes of one kind, and the number up to which each kind is counted.
NOTES, COUNTED = 5, 100
#: A dead letter that is older needs no attention any more; it stays failed until it is retried.
LATELY_S = 7 * 24 * 3600.0
#: Of so many earliest deadlines of runs, the silent ones are stuck.
EXPIRING = 200
#: Upcoming items that are examined for an unknown agent.
HEADS = 20


class Attention:
    """The operations for the first look at a store."""

    def __init__(self, store: Store, explain: Callable[[Sequence[ItemId]], Mapping[ItemId, WhyView]]) -> None:
        self._store, self._explain = store, explain

    def upcoming(self, *, limit: int = 10) -> list[WhyView]:
        """The next items to be claimed, in order, each with what it waits for. Items of paused agents, and of
        agents at a quota limit, are left out. Looks at the first 1,000 queues."""
        names.check_whole("limit", limit, 1, names.UPCOMING_MAX)
        found = [item.id for item in self._store.upcoming(limit)]
        explained = self._explain(found)
        return [explained[item] for item in found if item in explained]  # not what was deleted just now

    def attention(self) -> AttentionView:
        """What needs a person, and what is stuck: at most 5 of each kind, each with what helps. Each kind is
        counted to 100."""
        now_us = self._store.now_us()
        return _view(list(self._needs(now_us)), list(self._stuck(now_us)))

    def needs(self) -> AttentionView:
        """Only what needs a person."""
        return _view(list(self._needs(self._store.now_us())), ())

    # -- needs a person -------------------------------------------------------------------------------

    def _needs(self, now_us: int) -> Iterator[_Kind]:
        store = self._store
        yield self._of_items(AttentionKind.QUESTION, store.asking(COUNTED))
        yield self._of_items(AttentionKind.WAKE_UP_LOOP, store.stopped(COUNTED))
        yield self._of_items(AttentionKind.DEAD_LETTER, self._dead_letters(now_us))
        effects = store.github.outbox.backlog(COUNTED)[2]
        yield _Kind(AttentionKind.EFFECTS, effects, [_effects(effects)] if effects else [])

    def _dead_letters(self, now_us: int) -> list[Item]:
        """The latest arrivals that failed for good within the last days, the last end first."""
        found = self._store.items(ItemQuery(statuses=(ItemStatus.FAILED.value,), limit=COUNTED))
        since_us = now_us - to_us(LATELY_S)
        lately = [item for item in found if (item.state.ended_us or 0) >= since_us]
        return sorted(lately, key=lambda item: -(item.state.ended_us or 0))

    def _of_items(
        self, kind: AttentionKind, items: Sequence[Item], more: Callable[[Item], Cure] | None = None
    ) -> _Kind:
        """Notes on the first of these items. Only these are explained."""
        explained = self._explain([item.id for item in items[:NOTES]])
        notes = [
            self._note(kind, item, why, [] if more is None else [more(item)])
            for item in items[:NOTES]
            if (why := explained.get(item.id)) is not None  # not what was deleted just now
        ]
        return _Kind(kind, len(items), notes)

    def _note(self, kind: AttentionKind, item: Item, why: WhyView, more: Sequence[Cure]) -> ConcernView:
        said = question_of(self._store, item)
        if kind is AttentionKind.DEAD_LETTER:
            said = next((run.error for run in reversed(self._store.runs(item.id)) if run.error), None)
        began = item.state.ended_us if item.terminal else item.state.run_started_us
        return ConcernView(
            kind=kind.value,
            sentence=why.why,
            cures=(*why.cures, *more),
            item=brief_view(item),
            lane=item.spec.lane,
            agent=(item.state.run_agent or item.spec.agent_key) or None,
            plan=item.spec.plan,
            since=moment(began or item.spec.created_us),
            until=maybe_moment(item.expires_us),
            said=said,
        )

    # -- stuck ----------------------------------------------------------------------------------------

    def _stuck(self, now_us: int) -> Iterator[_Kind]:
        store = self._store
        silent = [item for item in store.expiring(EXPIRING) if is_silent(item, now_us)]
        found = self._of_items(AttentionKind.SILENT_RUN, silent, _taken_back)
        by_id = {int(item.id): item for item in silent}
        notes = [_silence(note, by_id[note.item.id]) for note in found.notes if note.item is not None]
        yield found._replace(notes=notes)
        agents = store.agents()
        yield _kind(AttentionKind.PAUSED_AGENT, _paused(agents))
        yield _kind(AttentionKind.QUOTA_LIMIT, _limited(agents, now_us))
        yield _kind(AttentionKind.ABSENT_AGENT, self._absent(agents, now_us))
        yield self._unknown(agents)
        paused = sorted(store.paused_projects().items())
        yield _kind(AttentionKind.PAUSED_PROJECT, (_paused_project(*each) for each in paused))
        yield self._of_items(AttentionKind.GATE, self._gated())
        yield self._cycles(now_us)
        plans = [plan for plan in store.plans(PlanQuery(limit=COUNTED)) if plan.paused_why is not None]
        yield _kind(AttentionKind.PAUSED_PLAN, map(_paused_plan, plans))
        yield _kind(AttentionKind.BLOCK, map(_block, store.blocks(COUNTED)))

    def _absent(self, agents: Iterable[Agent], now_us: int) -> Iterator[ConcernView]:
        """Agents without a live worker for whom items wait."""
        waited = {a.key: a for a in agents if a.waiting and a.paused_why is None and a.wall_us is None}
        found = self._store.presence(sorted(waited)[:COUNTED]) if waited else {}
        for key, presence in sorted(found.items()):
            if not is_absent(presence, waited[key].oldest_us, now_us):
                continue
            signs = [sign for sign in (presence.seen_us, presence.worker_us) if sign is not None]
            seen = f"its last sign of life was {ago(max(signs), now_us)}" if signs else "it was never seen"
            yield ConcernView(
                kind=AttentionKind.ABSENT_AGENT.value,
                sentence=f"No worker of {key} is alive ({seen}); {_waiting(waited[key].waiting)} for it.",
                cures=(cure("agents", "shows all agents"),),
                agent=key,
                since=moment(max(signs)) if signs else None,
            )

    def _unknown(self, agents: Iterable[Agent]) -> _Kind:
        """Agents that have never asked for work and for whom items wait: the next item of each, or how many
        wait behind others of their lanes."""
        heads = self._for_unknown(agents)
        told = {item.spec.agent_key for item in heads}
        rest = [_unheard(*each) for each in self._store.unknown_agents(HEADS) if each[0] not in told]
        found = self._of_items(AttentionKind.UNKNOWN_AGENT, heads)
        return _Kind(found.kind, found.n + len(rest), [*found.notes, *rest][:NOTES])

    def _for_unknown(self, agents: Iterable[Agent]) -> list[Item]:
        """Upcoming items for agents that have never asked for work, the first for each agent."""
        known = {"", *(agent.key for agent in agents)}
        found = {item.spec.agent_key: item for item in reversed(self._store.upcoming(HEADS))}
        return [item for agent, item in sorted(found.items()) if agent not in known]

    def _gated(self) -> list[Item]:
        """Items behind a shut gate, the first of each series."""
        found = self._store.gated(COUNTED)
        gates = self._store.gates_of(sorted({item.spec.lane or "" for item in found}))
        series = {
            gate.series: item
            for item in reversed(found)
            if (gate := gates.get(item.spec.lane or "")) is not None
        }
        return [item for _, item in sorted(series.items())]

    def _cycles(self, now_us: int) -> _Kind:
        """Edit cycles whose deadline is near."""
        near = {p.edit_item: p for p in self._store.open_cycles(COUNTED) if p.closes_soon(now_us)}
        plans = {item: plan for item, plan in near.items() if item is not None}
        edits = self._store.named_items(list(plans))
        found = self._of_items(AttentionKind.EDIT_DEADLINE, [edits[item] for item in plans if item in edits])
        deadlines = {int(item): plan for item, plan in plans.items()}
        notes = [
            replace(note, plan=plan.id, until=maybe_moment(plan.deadline_us))
            for note in found.notes
            if note.item is not None and (plan := deadlines.get(note.item.id)) is not None
        ]
        return _Kind(found.kind, found.n, notes)


class _Kind(NamedTuple):
    """How many there are of one kind, and notes on the first of them."""

    kind: AttentionKind
    n: int
    notes: Sequence[ConcernView]


def _view(needs: Sequence[_Kind], stuck: Sequence[_Kind]) -> AttentionView:
    return AttentionView(
        needs=tuple(note for found in needs for note in found.notes),
        stuck=tuple(note for found in stuck for note in found.notes),
        counts={found.kind.value: found.n for found in (*needs, *stuck) if found.n},
    )


def _kind(kind: AttentionKind, notes: Iterable[ConcernView]) -> _Kind:
    found = list(notes)
    return _Kind(kind, min(len(found), COUNTED), found[:NOTES])


def _waiting(n: int) -> str:
    return "1 item waits" if n == 1 else f"{n:,} items wait" if n < 1_000 else "1,000 or more items wait"


def _paused(agents: Iterable[Agent]) -> Iterator[ConcernView]:
    """Paused agents for whom items wait."""
    for agent in agents:
        if agent.waiting and agent.paused_why is not None:
            resumes = cure("pause_agent", f"resumes {agent.name}", name=agent.key, paused=False, why="")
            yield ConcernView(
                kind=AttentionKind.PAUSED_AGENT.value,
                sentence=f"{agent.name} is paused ({agent.paused_why}); {_waiting(agent.waiting)} for it.",
                cures=(resumes,),
                agent=agent.key,
            )


def _limited(agents: Iterable[Agent], now_us: int) -> Iterator[ConcernView]:
    """Agents at a quota limit for whom items wait."""
    for agent in agents:
        if agent.waiting and agent.paused_why is None and (agent.wall_us or 0) > now_us:
            limit = f" ({agent.wall_why})" if agent.wall_why else ""
            resumes = cure(
                "pause_agent", f"lets {agent.name} start again now", name=agent.key, paused=False, why=""
            )
            yield ConcernView(
                kind=AttentionKind.QUOTA_LIMIT.value,
                sentence=f"{agent.name} is at a quota limit{limit}; {_waiting(agent.waiting)} for it.",
                cures=(resumes,),
                agent=agent.key,
                until=maybe_moment(agent.wall_us),
            )


def _block(block: Block) -> ConcernView:
    target: dict[str, Any] = {"lane": block.lane} if block.lane else {"item": block.item}
    what = f"Lane {block.lane}" if block.lane else f"Item {block.item}"
    return ConcernView(
        kind=AttentionKind.BLOCK.value,
        sentence=f"{what} is blocked by {block.blocker} ({block.why}).",
        cures=(cure("unblock", "removes the block", blocker=block.blocker, **target),),
        lane=block.lane or None,
        since=moment(block.at_us),
    )


def _unheard(name: str, n: int) -> ConcernView:
    return ConcernView(
        kind=AttentionKind.UNKNOWN_AGENT.value,
        sentence=f"{name} has never asked for work; {_waiting(n)} for it.",
        cures=(cure("agents", "shows all agents"),),
        agent=name,
    )


def _silence(note: ConcernView, item: Item) -> ConcernView:
    """A note on a silent run: who has not renewed its lease, and since when. It tells no span, which would
    differ from what a live view of the times says."""
    state = item.state
    renewed_us = (state.lease_until_us or 0) - to_us(state.run_lease_s or 0.0)
    who = f"Worker {state.run_worker}" if state.run_worker else f"Agent {state.run_agent}"
    lease = f"{who} has not renewed the lease of run {state.run} since {clock(renewed_us)}"
    return replace(note, since=moment(renewed_us), sentence=f"{lease}. When the lease ends, the run is lost.")


def _taken_back(item: Item) -> Cure:
    effect = "takes it from the run, for another attempt"
    return cure("take_back", effect, item=item.id, why=None, run=item.state.run)


def _paused_project(project: str, why: str) -> ConcernView:
    resumes = cure("pause_project", "resumes the project", project=project, paused=False, why="")
    return ConcernView(
        kind=AttentionKind.PAUSED_PROJECT.value,
        sentence=f"Project {project} is paused ({why}); none of its items starts.",
        cures=(resumes,),
    )


def _paused_plan(plan: Plan) -> ConcernView:
    return ConcernView(
        kind=AttentionKind.PAUSED_PLAN.value,
        sentence=f"Plan {plan.id}, {plan.name}, is paused ({plan.paused_why}); none of its tasks starts.",
        cures=(cure("resume_plan", "resumes the plan", plan=plan.id),),
        plan=plan.id,
    )


def _effects(n: int) -> ConcernView:
    more = "" if n < COUNTED else " or more"
    many = "1 change on GitHub or notice has" if n == 1 else f"{n}{more} changes on GitHub or notices have"
    return ConcernView(
        kind=AttentionKind.EFFECTS.value,
        sentence=f"{many} failed and used up the retries.",
    )
