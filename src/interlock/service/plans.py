"""The operations of plans: create, read, edit, pause, cancel. For operators and for the editor of a plan.

Imports for plans are made at first use: most commands need none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from interlock.core import names
from interlock.core.commands import CommandAnswer, Expire
from interlock.core.cures import cure
from interlock.core.endings import explain_loss
from interlock.core.errors import (
    CycleExpired,
    EditRefused,
    Held,
    InterlockError,
    InvalidInput,
    InvalidPlan,
    LeaseLost,
    NotFound,
    PlanEnded,
    StaleRevision,
)
from interlock.core.handles import Handle, read_handle
from interlock.core.ledger import LedgerChanges
from interlock.core.model import Item, ItemId, PlanId
from interlock.core.plans.commands import (
    CancelPlan,
    CreatePlan,
    Edited,
    EditPlan,
    PausePlan,
    SetEditDeadline,
)
from interlock.core.plans.model import (
    EDGES_MAX,
    EDIT_DEADLINE_S,
    EDIT_TYPE,
    TASKS_MAX,
    AddTask,
    EditOperation,
    Graph,
    Plan,
    PlanStatus,
    plan_of_lane,
)
from interlock.core.record import replace
from interlock.core.states import TERMINAL, ItemStatus
from interlock.core.validation import checked_reason, given_reason, signed
from interlock.service import sweeper
from interlock.service.access import RequestNotes
from interlock.service.plan_view import (
    BatchView,
    EditView,
    PlanStatsView,
    PlanSummary,
    PlanView,
    RevisionView,
    TaskView,
)
from interlock.service.reads import ID_LIMIT, ended_run, item_of_run
from interlock.store.access import Note
from interlock.store.port import EditLoad, Load, PlanQuery, Store, StoredCompletion

EDIT_DEADLINE_MAX_S = 30 * 24 * 3600.0
#: The largest number of a revision or completion that every store can hold.
REVISION_MAX = 2**31 - 1
_EDIT_HANDLE = "Pass the handle of the run of its plan.edit item."
_ERRORS: dict[str, type[InterlockError]] = {
    e.code: e for e in (EditRefused, StaleRevision, CycleExpired, PlanEnded, LeaseLost, Held)
}


class Plans:
    """The operations of plans."""

    def __init__(self, store: Store, notes: RequestNotes) -> None:
        self._store, self._notes = store, notes

    # -- creating ---------------------------------------------------------------------------------

    def create_plan(
        self,
        name: str,
        graph: Graph,
        *,
        editor: str = "",
        edit_deadline_s: float = EDIT_DEADLINE_S,
        project: str = "default",
        by: str = "",
    ) -> PlanView:
        """Create a plan; tasks that depend on nothing may be claimed at once."""
        from interlock.core.plans.validation import Mistakes, check_size, lanes_of, typed_graph

        names.check_plan_name(name)
        names.check_name("project", project)
        _check_deadline(edit_deadline_s)
        key = names.agent_key(editor)
        graph = typed_graph(graph)
        size = Mistakes()
        check_size(len(graph.tasks), len(graph.edges), size.note)
        size.refuse("plan")
        tickets = tuple(self._store.tickets(len(graph.tasks))) if graph.tasks else ()

        def build(ids: Sequence[ItemId]) -> list[CreatePlan]:
            return [
                CreatePlan(
                    id=PlanId(ids[0]),
                    name=name,
                    project=project,
                    editor=key or None,
                    edit_deadline_s=edit_deadline_s,
                    graph=graph,
                    ids=tuple(ids[1:]),
                    tickets=tickets,
                    by=signed(by),
                )
            ]

        load = Load(arrivals=1 + len(graph.tasks), agents=True, task_lanes=lanes_of(graph.tasks))
        decision = self._store.transact(load, build, self._notes.note_plan())
        sweeper.move_due_tasks(self._store, decision)
        return self.plan(decision.plans[0].plan.id)

    # -- reading ----------------------------------------------------------------------------------

    def plan(self, plan: int, *, tasks_max: int = TASKS_MAX) -> PlanView:
        """A plan with its whole graph and the status of each task. If it has more tasks than `tasks_max`,
        without them."""

        from interlock.service.plan_view_builders import plan_view

        names.check_whole("tasks_max", tasks_max, 0, TASKS_MAX)

        def read() -> PlanView:
            found = self._plan(plan)
            asking = self._store.item(found.edit_item) if found.edit_item is not None else None
            pending = self._store.completions(found.id, found.answered_n) if asking is not None else []
            if found.tasks > tasks_max:
                return plan_view(found, (), (), asking, pending)
            tasks, edges = self._store.tasks(found.id), self._store.edges(found.id)
            return plan_view(found, tasks, edges, asking, pending)

        return self._store.at_once(read)

    def plan_tasks(
        self,
        plan: int,
        *,
        all: bool = False,  # noqa: A002  (the contract's)
        statuses: Sequence[str] = (),
        after: int = 0,
        limit: int = 100,
    ) -> list[TaskView]:
        """Tasks of a plan in order of arrival: those that have not ended, all, or those with a status."""
        from interlock.service.plan_view_builders import task_view

        names.check_flag("all", all)
        names.check_whole("item", after, 0, ID_LIMIT - 1)
        names.check_whole("limit", limit, 1, TASKS_MAX)
        named = [names.one_of("status", each, ItemStatus) for each in names.check_list("statuses", statuses)]
        wanted = [s.value for s in named or ItemStatus if named or all or s not in TERMINAL]

        def read() -> list[TaskView]:
            found = self._plan(plan)
            return [task_view(*each) for each in self._store.task_page(found.id, wanted, after, limit)]

        return self._store.at_once(read)

    def plans(
        self,
        *,
        ended: bool = False,
        statuses: Sequence[str] = (),
        project: str | None = None,
        editor: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[PlanSummary]:
        """Plans, the newest first; ended ones only with `ended` or their status. A filter looks at the newest
        10,000."""
        from interlock.service.plan_view_builders import plan_summary

        names.check_whole("limit", limit, 1, 10_000)
        names.check_flag("ended", ended)
        names.check_whole("plan", ID_LIMIT - 1 if before is None else before, 1, ID_LIMIT - 1)
        chosen = [names.one_of("status", each, PlanStatus) for each in names.check_list("statuses", statuses)]
        query = PlanQuery(
            ended=ended or any(status is not PlanStatus.RUNNING for status in chosen),
            statuses=tuple(status.value for status in chosen),
            project=None if project is None else names.check_name("project", project),
            editor=None if editor is None else names.agent_key(editor) or None,
            before=ID_LIMIT - 1 if before is None else before,
            limit=limit,
        )
        return [plan_summary(p) for p in self._store.plans(query)]

    def plan_history(self, plan: int, *, after: int = 0, limit: int = 1_000) -> list[RevisionView]:
        """The revisions of a plan after the given one, oldest first."""
        from interlock.service.plan_view_builders import revision_view

        names.check_whole("revision", after, 0, REVISION_MAX)
        names.check_whole("limit", limit, 1, 10_000)
        found = self._plan(plan)
        return [revision_view(r) for r in self._store.revisions(found.id, after, limit)]

    def plan_at(self, plan: int, revision: int) -> Graph:
        """The graph of one revision."""

        from interlock.core.plans.edit import task_spec
        from interlock.core.plans.history import graph_at

        def read() -> Graph:
            found = self._plan(plan)
            if not 1 <= names.whole("revision", revision) <= found.revision:
                raise NotFound(f"Plan {plan} has no revision {revision}.", f"Use 1 to {found.revision}.")
            then = [
                (task, item)
                for task, item in self._store.tasks(found.id, removed=True)
                if task.added_revision <= revision
                and (task.removed_revision is None or task.removed_revision > revision)
            ]
            payloads = self._store.payloads([item.id for _, item in then])
            later = self._store.revisions(found.id, revision, ID_LIMIT - 1)
            edges = self._store.edges(found.id)
            specs = {item.id: task_spec(task, item, payloads.get(item.id)) for task, item in then}
            return graph_at(specs, edges, later)

        return self._store.at_once(read)

    def plan_stats(self, plan: int) -> PlanStatsView:
        """Figures of a plan: its edits, the time from a task's end to the next start, and its work."""

        from interlock.service.plan_view_builders import plan_stats_view

        def read() -> PlanStatsView:
            found = self._plan(plan)
            tasks, edges = self._store.tasks(found.id), self._store.edges(found.id)
            return plan_stats_view(found, tasks, edges, self._store.work_us(found.id))

        return self._store.at_once(read)

    def _plan(self, plan: int) -> Plan:
        found = self._store.plan(PlanId(plan)) if 0 < names.whole("plan", plan) < ID_LIMIT else None
        if found is None:
            lists = cure("plans", "lists all plans", ended=True)
            raise NotFound(f"There is no plan {plan} in this store.", cures=(lists,))
        return found

    # -- editing ----------------------------------------------------------------------------------

    def edit_plan(
        self,
        plan: int,
        *,
        base: int,
        operations: Sequence[EditOperation] | None = None,
        graph: Graph | None = None,
        run: str | None = None,
        through: int | None = None,
        by: str = "",
        why: str = "",
    ) -> EditView:
        """Apply an edit to a plan's graph: all of it, or nothing.

        `run` is the handle of the run that the open edit cycle waits for. Its edit answers the completions up
        to `through`, by default all that existed when the run started. An edit without operations changes
        nothing and answers them too.
        """
        from interlock.core.plans.validation import typed_operations

        found = self._plan(plan)
        names.check_whole("base", base, 1, REVISION_MAX)
        if through is not None:
            names.check_whole("completion number", through, 1, REVISION_MAX)
            if run is None:
                raise InvalidInput(
                    "Only the run of the open edit cycle answers completions.",
                    "Pass its handle as `run`.",
                    fields=("run",),
                )
        if (operations is None) is (graph is None):
            raise InvalidInput("An edit has either operations or a whole graph.", "Pass one of them.")
        handle = read_handle(run) if run is not None else None
        asking = self._edit_item(handle, found) if handle is not None else None
        edits = self._operations(found, base, graph) if graph is not None else typed_operations(operations)
        if len(edits) > TASKS_MAX + EDGES_MAX:
            raise InvalidPlan(
                f"The edit has {len(edits):,} operations.", f"Use at most {TASKS_MAX + EDGES_MAX:,}."
            )
        command = EditPlan(
            plan=found.id,
            base=base,
            operations=edits,
            run=handle.run if handle else None,
            item=handle.item if handle else None,
            bits=handle.bits if handle else None,
            through=through,
            by=signed(by) or (asking.state.run_agent if asking else None),
            why=checked_reason(why),
        )
        added = sum(isinstance(o, AddTask) for o in edits)
        command = replace(command, tickets=tuple(self._store.tickets(added)) if added else ())
        decision = self._edit(command, added, self._notes.note(lambda d: self._edited(found, d)))
        sweeper.move_due_tasks(self._store, decision)
        return self._edited(found, decision)

    def _edit(self, command: EditPlan, added: int, note: Note | None) -> LedgerChanges:
        from interlock.core.plans.edit import NoRoom

        load = _edit_load(command, added)

        def build(ids: Sequence[ItemId]) -> list[EditPlan]:
            return [replace(command, ids=tuple(ids))]

        try:
            return self._store.transact(load, build, note)
        except NoRoom:  # the ranks there have no gap left
            command = replace(command, renumber=True)
            assert load.edit is not None
            return self._store.transact(replace(load, edit=replace(load.edit, whole=True)), build, note)

    def _edited(self, plan: Plan, decision: LedgerChanges) -> EditView:
        edited: Edited = decision.answers[0]
        if edited.reasons:
            kind = _ERRORS[edited.code]
            several = f"The edit was refused for {len(edited.reasons):,} reasons."
            sentence = edited.reasons[0] if len(edited.reasons) == 1 else several
            if issubclass(kind, EditRefused):
                raise kind(sentence, edited.hint, edited.cures, reasons=edited.reasons)
            raise kind(sentence, edited.hint, edited.cures)
        ready = [i for i in edited.touched if decision.after[i].status is ItemStatus.PENDING]
        after = decision.plans[0] if decision.plans else None
        keys = {t.item: t.key for t in (*after.tasks, *after.new_tasks)} if after else {}
        return EditView(
            plan=plan.id,
            revision=edited.revision,
            rebased=edited.rebased,
            added=edited.added,
            removed=edited.removed,
            updated=edited.updated,
            ready=tuple(keys[i] for i in ready if i in keys),
            editing=after is not None and after.plan.cycle_us is not None,
        )

    def _operations(self, plan: Plan, base: int, graph: Graph) -> tuple[EditOperation, ...]:
        """The operations that turn the graph of the base revision into this one. The transaction checks the
        size, as for any edit."""
        from interlock.core.plans.history import diff
        from interlock.core.plans.validation import typed_graph

        graph = typed_graph(graph)
        tasks = Counter(t.key for t in graph.tasks)
        edges = Counter(e.pair for e in graph.edges)
        twice = [f"Task {key} is defined {n} times." for key, n in tasks.items() if n > 1]
        twice += [f"Edge {s} → {t} is defined {n} times." for (s, t), n in edges.items() if n > 1]
        if twice:
            raise InvalidPlan(twice[0], "Define each task and each edge once.", reasons=tuple(twice))
        return diff(self.plan_at(plan.id, base), graph)

    def _edit_item(self, handle: Handle, plan: Plan | None = None) -> Item:
        """The item that asks for an edit of this plan or of any. The transaction checks the handle of its
        run."""
        item = self._store.item(handle.item)
        if item is not None and item.spec.type == EDIT_TYPE and (plan is None or item.spec.lane == plan.lane):
            return item
        # A handle of another store has no lease here, whatever its number.
        item_of_run(self._store, handle)
        which = "a plan" if plan is None else f"plan {plan.id}"
        raise InvalidInput(f"Run {handle.run} was not asked to edit {which}.", _EDIT_HANDLE)

    def plan_batch(self, run: str) -> BatchView:
        """The completions that an editor's run must answer."""
        from interlock.service.plan_view_builders import batch_view

        handle = read_handle(run)

        def read() -> tuple[Item, Plan, list[StoredCompletion]]:
            item = self._edit_item(handle)
            plan = self._plan(plan_of_lane(item.spec.lane or "") or 0)
            return item, plan, self._store.completions(plan.id, plan.answered_n)

        item, plan, completions = self._store.at_once(read)
        if plan.deadline_us is not None and plan.deadline_us <= self._store.now_us():
            item = self._expired(item)
        if not item.is_run_of(handle.run, handle.bits):
            raise explain_loss(handle.run, ended_run(self._store, handle), item).error()
        return batch_view(plan, completions)

    def _expired(self, item: Item) -> Item:
        """The item that asks for an edit, after an expired cycle was closed as by a sweep."""
        decision = self._store.transact(Load(items=(item.id,)), lambda _: [Expire(item=item.id)])
        sweeper.move_due_tasks(self._store, decision)
        return decision.after[item.id]

    # -- operating --------------------------------------------------------------------------------

    def cancel_plan(self, plan: int, *, why: str, by: str = "") -> PlanView:
        """End a plan: tasks that have not started are cancelled, running ones are asked to stop."""
        why, signature = given_reason(why), signed(by)
        self._operate_plan(CancelPlan(plan=self._plan(plan).id, why=why, by=signature))
        sweeper.stop_cancelled(self._store)
        return self.plan(plan)

    def pause_plan(self, plan: int, *, why: str, by: str = "") -> PlanView:
        """Start no task of a plan until it is resumed. Running tasks and edits continue."""
        why = given_reason(why)
        return self._operate_plan(PausePlan(plan=self._plan(plan).id, paused=True, why=why, by=signed(by)))

    def resume_plan(self, plan: int, *, why: str = "", by: str = "") -> PlanView:
        """Start a paused plan's tasks again."""
        why = checked_reason(why)
        return self._operate_plan(PausePlan(plan=self._plan(plan).id, paused=False, why=why, by=signed(by)))

    def set_edit_deadline(self, plan: int, edit_deadline_s: float, *, by: str = "") -> PlanView:
        """Set how long a plan's editor may take to answer, also in an open cycle."""
        _check_deadline(edit_deadline_s)
        number = self._plan(plan).id
        return self._operate_plan(
            SetEditDeadline(plan=number, edit_deadline_s=edit_deadline_s, by=signed(by))
        )

    def _operate_plan(self, command: CancelPlan | PausePlan | SetEditDeadline) -> PlanView:
        note = self._notes.note(lambda d: {"plan": command.plan} if d.answers[0].changed else None)
        decision = self._store.transact(Load(plans=(command.plan,)), lambda _: [command], note)
        moved: CommandAnswer = decision.answers[0]
        if not moved.changed:
            raise PlanEnded(moved.refusal, cures=(cure("plan", "shows it", plan=command.plan),))
        sweeper.move_due_tasks(self._store, decision)
        return self.plan(command.plan)


def _edit_load(command: EditPlan, added: int) -> Load:
    """The rows that an edit must lock and read, from its operations alone."""
    from interlock.core.plans.history import touched
    from interlock.core.plans.validation import lanes_of

    named = touched(command.operations)
    edit = EditLoad(
        plan=command.plan,
        base=command.base,
        keys=tuple(dict.fromkeys((*named.tasks, *named.ends))),
        removed=named.removed,
        updated=frozenset(named.updated),
        pairs=named.edges,
        sources=tuple(s for s, _ in named.new_edges),
        targets=tuple(t for _, t in named.new_edges),
    )
    return Load(
        items=(command.item,) if command.item is not None else (),
        runs=(command.run,) if command.run is not None else (),
        arrivals=added,
        plans=(command.plan,),
        edit=edit,
        agents=True,
        task_lanes=lanes_of(o.task for o in command.operations if isinstance(o, AddTask)),
    )


def _check_deadline(edit_deadline_s: float) -> None:
    names.check_number("edit deadline", edit_deadline_s, names.LEASE_MIN_S, EDIT_DEADLINE_MAX_S)
