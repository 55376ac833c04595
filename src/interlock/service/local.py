"""The service on a store: the operations of its parts, where core meets store.

Every shell goes through here; nothing here depends on a shell or a database. Each part is a value that knows
the store and no other part. Each operation is bound in a separate line: mypy cannot type an attribute that a
loop over a table sets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.core.policies import NO_POLICIES, Policies
from interlock.service.access import Access, RequestNotes
from interlock.service.agents import Agents
from interlock.service.arrivals import Arrivals
from interlock.service.attention import Attention
from interlock.service.blocks import Blocks
from interlock.service.budgets import Budgets
from interlock.service.claims import ClaimOperations, PresenceReports, RunStarts
from interlock.service.costs import Costs
from interlock.service.demo import DemoOperations
from interlock.service.effects import EffectOperations
from interlock.service.gates import LaneGates
from interlock.service.gathering import Gathering, Steps, steps_of
from interlock.service.item_batches import ItemBatches
from interlock.service.item_operations import ItemOperations
from interlock.service.lanes import LaneOperations
from interlock.service.maintenance import Maintenance
from interlock.service.notices import Notices
from interlock.service.plans import Plans
from interlock.service.reads import ReadOperations
from interlock.service.recap import Recaps
from interlock.service.run_logs import RunLogs
from interlock.service.runs import RunOperations
from interlock.service.series import SeriesOperations
from interlock.service.workers import Workers
from interlock.store.access import RepeatableRequest
from interlock.store.port import Store
from interlock.store.series_notes import SeriesNotes

POLL_S = 1.0
PARTS = (
    *(Arrivals, ClaimOperations, RunOperations, RunStarts, ItemOperations, Plans, ReadOperations, Agents),
    *(LaneOperations, Blocks, LaneGates, Workers, Notices, SeriesOperations, Maintenance, Access, Attention),
    *(EffectOperations, DemoOperations, ItemBatches, Recaps, Costs, RunLogs, Budgets),
)


def function_of(operation: str) -> Callable[..., Any]:
    """The function that carries an operation out, for documents."""
    found: Callable[..., Any] = next(vars(part)[operation] for part in PARTS if operation in vars(part))
    return found


class RepeatableOperations:
    """The operations whose requests may be repeated: the answer is stored together with the change."""

    def __init__(
        self,
        arrivals: Arrivals,
        claims: ClaimOperations,
        runs: RunOperations,
        items: ItemOperations,
        plans: Plans,
    ) -> None:
        self.add = arrivals.add
        self.next = claims.next
        self.done = runs.done
        self.fail = runs.fail
        self.release = runs.release
        self.ask = runs.ask
        self.take_back = items.take_back
        self.cancel = items.cancel
        self.retry = items.retry
        self.edit = items.edit
        self.msg = items.msg
        self.end_external = items.end_external
        self.create_plan = plans.create_plan
        self.edit_plan = plans.edit_plan
        self.cancel_plan = plans.cancel_plan
        self.pause_plan = plans.pause_plan
        self.resume_plan = plans.resume_plan
        self.set_edit_deadline = plans.set_edit_deadline


class LocalService(RepeatableOperations):
    """Interlock on a database that this process can reach."""

    def __init__(
        self,
        store: Store,
        *,
        poll_s: float = POLL_S,
        retention_s: float | None = None,
        policies: Policies = NO_POLICIES,
    ) -> None:
        self.store = store
        self._policies, self._poll_s, self._presence = policies, poll_s, PresenceReports(store)
        self._gathering = Gathering(store)
        arrivals, claims, runs, items, plans = self._noting(RequestNotes())
        super().__init__(arrivals, claims, runs, items, plans)
        self.policy_of = arrivals.policy_of
        self.claimed = claims.claimed
        self.renew = runs.renew
        self.close_question = runs.close_question
        self.inbox = runs.inbox
        self.lineage = runs.lineage
        self.pass_fence = runs.pass_fence
        self.plan = plans.plan
        self.plans = plans.plans
        self.plan_tasks = plans.plan_tasks
        self.plan_history = plans.plan_history
        self.plan_at = plans.plan_at
        self.plan_stats = plans.plan_stats
        self.plan_batch = plans.plan_batch
        self._bind_reads(ReadOperations(store))
        self._bind_settings()
        self._bind_series(SeriesOperations())
        self.run_starts = RunStarts(store)
        self.unwanted = self.run_starts.unwanted
        self.act_as = self.run_starts.act_as

        run_logs = RunLogs(store)
        self.append_log = run_logs.append_log
        self.run_log = run_logs.run_log
        self.last_lines = run_logs.last_lines

        maintenance = Maintenance(store, retention_s)
        self.sweep = maintenance.sweep
        self.count_history = maintenance.count_history
        self.doctor = maintenance.doctor
        self.close = maintenance.close

        access = Access(store)
        self.create_token = access.create_token
        self.tokens = access.tokens
        self.revoke_token = access.revoke_token
        self.bearer = access.bearer
        self.live_tokens = access.live_tokens
        self.sign_in_link = access.sign_in_link
        self.begin_session = access.begin_session
        self.use_link = access.use_link
        self.session_bearer = access.session_bearer
        self.end_session = access.end_session
        self.forget_sessions = access.forget_sessions
        self.has_tokens = access.has_tokens
        self.answered = access.answered
        self.forget_requests = access.forget_requests
        self.together = store.together
        self.carry_out_all = self._gathering.carry_out_all
        self.line_of, self.groups_max = self._gathering.line_of, self._gathering.groups_max

    def _bind_reads(self, reads: ReadOperations) -> None:
        self.items = reads.items
        self.on_lane = reads.on_lane
        self.external = reads.external
        self.stopped = reads.stopped
        self.show = reads.show
        self.why = reads.why
        self.hindered = reads.hindered
        self.predict = reads.predict
        self.item_of = reads.item_of
        self.sender_of = reads.sender_of
        self.run_agents = reads.run_agents
        self.recent_runs = reads.recent_runs
        self.events = reads.events
        self.follow = reads.follow
        self.stats = reads.stats
        self.metrics = reads.metrics
        self.trend = reads.trend
        attention = Attention(self.store, reads.why_each)
        self.attention = attention.attention
        self.upcoming = attention.upcoming
        self.recap = Recaps(self.store, attention.needs).recap
        demo = DemoOperations(self.store)
        self.demo = demo.demo
        self.start_demo = demo.start_demo
        self.stop_demo = demo.stop_demo
        self.demo_operations = demo
        self.owed_to_github = reads.owed_to_github

    def _bind_settings(self) -> None:
        """What operators and workers set: agents, pools, modes, blocks, gates, workers and notices."""
        store = self.store
        agents = Agents(store)
        self.agents = agents.agents
        self.set_agent = agents.set_agent
        self.remove_agent = agents.remove_agent
        self.near_agent = agents.near_agent
        self.unknown_agents = agents.unknown_agents
        self.pause_agent = agents.pause_agent
        self.pools = agents.pools
        self.set_pool = agents.set_pool
        self.remove_pool = agents.remove_pool
        self.pause_project = agents.pause_project
        self.paused_projects = agents.paused_projects

        costs = Costs(store, self.cancel)
        self.cost = costs.cost
        self.spending = costs.spending

        budgets = Budgets(store)
        self.budgets = budgets.budgets
        self.set_budget = budgets.set_budget
        self.remove_budget = budgets.remove_budget
        self.set_reserve = budgets.set_reserve
        self.set_time_zone = budgets.set_time_zone

        batches = ItemBatches(store)
        self.retry_dead = batches.retry_dead
        self.cancel_lane = batches.cancel_lane

        lanes = LaneOperations(store)
        self.lanes = lanes.lanes
        self.modes = lanes.modes
        self.set_mode = lanes.set_mode

        blocks = Blocks(store)
        self.block = blocks.block
        self.unblock = blocks.unblock
        self.blocks = blocks.blocks

        gates = LaneGates(store)
        self.set_gate = gates.set_gate
        self.remove_gate = gates.remove_gate
        self.gates = gates.gates

        workers = Workers(store, self._gathering)
        self.see_worker = workers.see_worker
        self.leave_worker = workers.leave_worker
        self.workers = workers.workers

        effects = EffectOperations(store)
        self.effects = effects.effects
        self.retry_effects = effects.retry_effects
        self.drop_effects = effects.drop_effects

        notices = Notices(store)
        self.next_notice = notices.next_notice
        self.end_notice = notices.end_notice

    def _bind_series(self, series: SeriesOperations) -> None:
        self.series_operations = series
        self.series = series.series
        self.series_metrics = series.series_metrics
        self.acquire_issue = series.acquire_issue
        self.release_issue = series.release_issue
        self.promote_series = series.promote_series
        self.reconcile_series = series.reconcile_series
        self.rebuild_series = series.rebuild_series

    def answering(self, request: RepeatableRequest) -> RepeatableOperations:
        """The operations for this request. Each stores its answer in its transaction."""
        return RepeatableOperations(*self._noting(RequestNotes(request)))

    def steps(self, operation: str, request: RepeatableRequest | None) -> Callable[..., Steps[Any]]:
        """An operation that gathers, in steps for `carry_out_all`."""
        return steps_of(getattr(self if request is None else self.answering(request), operation))

    def _noting(
        self, notes: RequestNotes
    ) -> tuple[Arrivals, ClaimOperations, RunOperations, ItemOperations, Plans]:
        store, gathering = self.store, self._gathering
        return (
            Arrivals(gathering, self._policies, notes),
            ClaimOperations(store, gathering, self._presence, notes, poll_s=self._poll_s),
            RunOperations(store, gathering, self._presence, notes),
            ItemOperations(store, gathering, notes),
            Plans(store, notes),
        )

    @property
    def series_notes(self) -> SeriesNotes:
        """The notes about series."""
        return self.store.github
