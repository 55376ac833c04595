"""From core and store values to the answers of the contract."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from interlock.core.blocks import Block
from interlock.core.claims import Agent, Pool
from interlock.core.commands import Arrival, FinishAnswer
from interlock.core.errors import Refusal
from interlock.core.message_order import in_written_order
from interlock.core.model import (
    US_PER_S,
    Gate,
    Item,
    ItemId,
    ModeRule,
    NewMessage,
    RecentRun,
    RunRecord,
    mode_for,
)
from interlock.core.overtaking import OVERTAKE_AFTER_S
from interlock.core.states import ItemStatus
from interlock.core.timing import to_us
from interlock.service.contract import (
    AddView,
    AgentView,
    BlockView,
    BriefView,
    CheckView,
    EndedRunView,
    EventView,
    GateView,
    GroupView,
    HolderView,
    LaneView,
    LinkView,
    MessageView,
    PoolView,
    RecentRunView,
    RefusalView,
    RunView,
    StatsView,
    WhyView,
    WorkflowRunView,
)
from interlock.service.item_view import ItemView, maybe_moment, moment
from interlock.store.port import Figures, LaneRow, StoredEvent, StoredMessage

if TYPE_CHECKING:
    from interlock.core.why import Explanation
    from interlock.store.links import LinkedRun, StoredWorkflowRun


#: The doctor names at most this many external runs, and blocks.
NAMED = 5


def holder_view(owner: Item | None) -> HolderView | None:
    if owner is None:
        return None
    state = owner.state
    return HolderView(
        item=owner.id,
        run=state.run,
        agent=(state.run_agent or owner.spec.agent_key) or None,
        since=moment(state.run_started_us or owner.spec.created_us),
        expires_at=maybe_moment(owner.expires_us),
        external=owner.external,
        cancel_requested=state.cancel_into is not None,
        follow_up=owner.follow_up,
        asking=owner.asking,
        renewed_at=_renewed_at(owner),
        title=owner.spec.title,
    )


def _renewed_at(owner: Item) -> datetime | None:
    state = owner.state
    if state.lease_until_us is None or state.run_lease_s is None or owner.asking_live:
        return None
    return moment(state.lease_until_us - to_us(state.run_lease_s))


def add_view(arrival: Arrival, after: Mapping[ItemId, Item]) -> AddView:
    item = after.get(arrival.item) if arrival.item is not None else None
    holder = after.get(arrival.holder.id) if arrival.holder is not None else None
    return AddView(
        decision=arrival.verdict.value,
        reason=arrival.reason,
        item=ItemView(item) if item is not None else None,
        holder=holder_view(holder),
        position=arrival.position,
        arrival=arrival.arrived,
        policy_why=arrival.policy_why,
    )


def ended_view(handle: str, ended: FinishAnswer, after: Mapping[ItemId, Item]) -> RunView:
    item = after.get(ended.item) if ended.item is not None else None
    follow_up = after[ended.follow_up] if ended.follow_up is not None else None
    return RunView(
        handle,
        ended.status.value if ended.status else "refused",
        ItemView(item) if item else None,
        ended.promoted,
        refusal_view(ended.refusal) if ended.refusal else None,
        unread=follow_up.state.message_count if follow_up is not None else 0,
        follow_up=ended.follow_up,
        loop=follow_up is not None and follow_up.over_wake_limit,
    )


def renewed_view(handle: str, item: Item) -> RunView:
    return RunView(
        run=handle,
        status="running",
        item=ItemView(item),
        expires_at=maybe_moment(item.state.due_us),
        cancel_requested=item.state.cancel_into is not None,
        unread=item.state.message_count - item.state.seen,
    )


def refused_view(handle: str, refusal: Refusal, item: Item | None) -> RunView:
    return RunView(handle, "refused", ItemView(item) if item else None, refusal=refusal_view(refusal))


def message_views(messages: Sequence[StoredMessage]) -> list[MessageView]:
    """Messages of one item, in the order in which a run reads them."""
    return [message_view(message) for message in in_written_order(messages)]


def message_view(message: StoredMessage | NewMessage, payload: str | None = None) -> MessageView:
    """`payload` is that of the message's origin. It is shown only if the origin is another item."""
    elsewhere = message.origin != message.item
    payload = message.payload if isinstance(message, StoredMessage) else payload
    return MessageView(
        n=message.n,
        text=message.text,
        author=message.author,
        at=moment(message.at_us),
        origin=message.origin if elsewhere else None,
        payload=json.loads(payload) if payload is not None and elsewhere else None,
        sender=message.sender,
        agent=message.agent or None,
        reason=message.reason or None,
        url=message.url or None,
    )


def refusal_view(refusal: Refusal) -> RefusalView:
    return RefusalView(code=refusal.code, message=refusal.sentence, hint=refusal.hint, cures=refusal.cures)


def run_view(run: RunRecord) -> EndedRunView:
    return EndedRunView(
        run=run.run,
        agent=run.agent,
        worker=run.worker,
        attempt=run.attempt,
        status=run.status.value,
        reason=run.reason,
        started_at=moment(run.started_us),
        ended_at=moment(run.ended_us),
        result=json.loads(run.result) if run.result is not None else None,
        error=run.error,
    )


def live_run_view(item: Item) -> EndedRunView | None:
    """The current run, which is on its item's row."""
    state = item.state
    if state.run is None or state.run_started_us is None:
        return None
    return EndedRunView(
        run=state.run,
        agent=state.run_agent or "",
        worker=state.run_worker,
        attempt=state.attempt,
        status="running",
        reason="",
        started_at=moment(state.run_started_us),
        ended_at=None,
    )


def recent_run_view(run: RecentRun) -> RecentRunView:
    return RecentRunView(
        run=run.run,
        item=run.item,
        lane=run.lane,
        agent=run.agent,
        worker=run.worker,
        status=run.status,
        reason=run.reason,
        started_at=moment(run.started_us),
        ended_at=maybe_moment(run.ended_us),
        item_status=run.item_status,
        item_added_at=maybe_moment(run.item_added_us),
    )


def why_view(explanation: Explanation) -> WhyView:
    return WhyView(
        item=ItemView(explanation.item),
        why=explanation.sentence,
        state=explanation.state,
        next=explanation.next,
        hindered=explanation.hindered is not None,
        lane=explanation.lane,
        cures=explanation.cures,
    )


def link_view(found: LinkedRun, runs: Sequence[StoredWorkflowRun]) -> LinkView:
    return LinkView(
        run=found.run,
        repository=found.name,
        pull_request=found.number or None,
        commit=found.head,
        branch=found.branch,
        url=found.url,
        how=found.how,
        outcome=found.outcome,
        ci_outcome=found.ci_outcome,
        ci_why=found.ci_why,
        ci_since=moment(found.ci_us),
        workflow_runs=tuple(map(workflow_run_view, runs)),
    )


def workflow_run_view(run: StoredWorkflowRun) -> WorkflowRunView:
    return WorkflowRunView(
        id=run.id,
        name=run.name,
        attempt=run.attempt,
        status=run.status,
        conclusion=run.conclusion,
        url=run.url,
        logs_url=run.logs_url,
        logs_expire_at=moment(run.logs_until_us),
        artifacts=tuple(json.loads(run.artifacts)),
    )


def ci_sentence(found: LinkedRun) -> str:
    """The state of a pull request or a commit, and of its checks."""
    what = (
        f"Its pull request {found.name}#{found.number}" if found.number else f"Its commit {found.head[:12]}"
    )
    state = {"open": " is open", "merged": " was merged", "closed": " was closed unmerged"}
    said = f"{found.ci_outcome}: {found.ci_why}" if found.ci_outcome else found.ci_why
    return f"{what}{state.get(found.outcome or '', '')}; CI: {said or 'unknown'}."


def event_view(stored: StoredEvent) -> EventView:
    event = stored.event
    return EventView(
        seq=stored.seq,
        at=moment(event.at_us),
        kind=str(event.kind),
        reason=event.reason,
        project=event.project,
        item=event.item,
        run=event.run,
        lane=event.lane,
        agent=event.agent,
        data=event.data,
    )


def brief_view(item: Item) -> BriefView:
    return BriefView(
        id=item.id,
        status=item.status.value,
        asking=item.asking,
        title=item.spec.title,
        agent=(item.state.run_agent or item.spec.agent_key) or None,
        run=item.state.run,
        created_at=moment(item.spec.created_us),
        absorbed_by=item.state.absorbed_by,
    )


def block_view(block: Block) -> BlockView:
    return BlockView(
        lane=block.lane or None,
        item=block.item or None,
        blocker=block.blocker,
        reason=block.why,
        url=block.url or None,
        since=moment(block.at_us),
    )


def agent_view(agent: Agent) -> AgentView:
    return AgentView(
        name=agent.name,
        key=agent.key,
        max=agent.max_concurrency,
        types=agent.types,
        labels=agent.labels,
        paused=agent.paused_why is not None,
        paused_reason=agent.paused_why,
        walled_until=maybe_moment(agent.wall_us),
        wall_reason=agent.wall_why,
        pool=agent.pool,
        running=agent.running,
        pending=agent.pending,
        last_seen_at=maybe_moment(agent.seen_us),
        overtake_after_s=OVERTAKE_AFTER_S if agent.overtake_after_s is None else agent.overtake_after_s,
    )


def pool_view(pool: Pool) -> PoolView:
    return PoolView(name=pool.name, max=pool.max_concurrency, running=pool.running, agents=pool.agents)


def gate_view(lane: str, gate: Gate, run: int | None = None, waits_for: str | None = None) -> GateView:
    return GateView(
        lane=lane,
        series=gate.series,
        open=gate.open,
        exempt=gate.exempt,
        since=moment(gate.at_us),
        run=run,
        waits_for=waits_for,
    )


def lane_view(row: LaneRow, rules: tuple[ModeRule, ...], gate: GateView | None = None) -> LaneView:
    project = row.owner.spec.project if row.owner else ""
    return LaneView(
        lane=row.lane,
        mode=mode_for(rules, project, row.lane).value,
        holder=holder_view(row.owner),
        waiting=row.waiting,
        line=row.line,
        gate=gate,
        waiting_since=maybe_moment(row.waiting_since_us),
    )


def stats_view(figures: Figures, by: str | None = None) -> StatsView:
    window_s = figures.window_us / US_PER_S
    by_kind: Counter[str] = Counter()
    for (kind, _), count in figures.counts.items():
        by_kind[kind] += count
    runs = group_view("", by_kind, figures.failed_items)
    oldest = figures.oldest_pending_us
    return StatsView(
        window_s=window_s,
        items=figures.shown,
        depth_by_priority=figures.depth_by_priority,
        current_locks=figures.by_status.get(ItemStatus.IN_PROGRESS.value, 0),
        oldest_pending_s=None if oldest is None else (figures.now_us - oldest) / US_PER_S,
        claims=runs.claims,
        claims_per_s=runs.claims / window_s,
        completions=runs.completions,
        completions_per_s=runs.completions / window_s,
        failures=runs.failures,
        failure_rate_percent=runs.failure_rate_percent,
        failed_items=runs.failed_items,
        item_failure_rate_percent=runs.item_failure_rate_percent,
        lock_duration_avg_s=average_s(figures.lock_us),
        lock_duration_p50_s=quantile_s(figures.lock_us, 0.5),
        lock_duration_p95_s=quantile_s(figures.lock_us, 0.95),
        time_to_claim_avg_s=average_s(figures.to_claim_us),
        time_to_claim_p50_s=quantile_s(figures.to_claim_us, 0.5),
        time_to_claim_p95_s=quantile_s(figures.to_claim_us, 0.95),
        lease_losses=by_kind["run.lost"],
        timeouts=by_kind["run.timed_out"],
        refused_writes=by_kind["run.refused"],
        promotions=by_kind["lane.promoted"],
        coalesced=by_kind["item.coalesced"],
        superseded=by_kind["item.superseded"],
        overtaken=by_kind["lane.overtaken"],
        duplicates=by_kind["item.duplicate"],
        rejected=by_kind["item.rejected"],
        would_have={reason: n for (kind, reason), n in figures.counts.items() if kind == "item.observed"},
        by=by,
        groups=_groups(figures.groups),
    )


def _groups(rows: Sequence[tuple[str | None, str, int, int]]) -> tuple[GroupView, ...]:
    """The groups, those with the most claims first."""
    by_name: dict[str, Counter[str]] = {}
    failed: Counter[str] = Counter()
    for name, kind, count, last in rows:
        by_name.setdefault(name or "", Counter())[kind] += count
        failed[name or ""] += last
    views = (group_view(name, by_kind, failed[name]) for name, by_kind in by_name.items())
    return tuple(sorted(views, key=lambda view: (-view.claims, view.name)))


def group_view(name: str, by_kind: Mapping[str, int], failed_items: int) -> GroupView:
    """How runs went, from their events by kind."""
    failures = sum(by_kind.get(f"run.{how}", 0) for how in ("failed", "lost", "timed_out"))
    completions = by_kind.get("run.succeeded", 0)
    ended = failures + completions + by_kind.get("run.cancelled", 0) + by_kind.get("run.released", 0)
    return GroupView(
        name=name,
        claims=by_kind.get("run.started", 0),
        completions=completions,
        failures=failures,
        failure_rate_percent=_percent(failures, ended),
        failed_items=failed_items,
        item_failure_rate_percent=_percent(failed_items, failed_items + completions),
    )


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def average_s(spans_us: Sequence[int]) -> float | None:
    return round(sum(spans_us) / len(spans_us) / US_PER_S, 6) if spans_us else None


def quantile_s(spans_us: Sequence[int], share: float) -> float | None:
    """The nearest-rank quantile of sorted spans."""
    if not spans_us:
        return None
    return round(spans_us[math.ceil(share * len(spans_us)) - 1] / US_PER_S, 6)


def external_check(items: Sequence[ItemView]) -> CheckView:
    """External runs. They are no fault, but no lease ends them."""
    runs = [f"run {i.run} of {i.run_agent} (item {i.id})" for i in items]
    more = " and more" if len(runs) > NAMED else ""
    named = f"External runs, which have no lease: {', '.join(runs[:NAMED])}{more}."
    return CheckView(name="external_runs", ok=True, detail=named if runs else "There are no external runs.")
