"""Every cure of core and service, offered and performed: what it states is not so before, and is after.

The cures are found in the sources (`tests/cure_sites.py`), so a new one without a scenario here fails.
A scenario brings a store into the situation where its cure is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from interlock.core.commands import QuotaLimit
from interlock.core.cures import Cure
from interlock.core.errors import InterlockError
from interlock.core.model import ANOTHER_SYSTEM
from interlock.core.plans.model import Graph, TaskSpec, UpdateTask
from interlock.core.record import Record, replace
from interlock.service.contract import ConcernView, Report
from tests.conformance import test_cures as situations
from tests.conformance.planner import EDITOR, Planner
from tests.conformance.scene import LANE, Scene
from tests.cure_sites import CuresMade, Site, sites
from tests.cures import performed

SITES = list(sites("core", "service"))


class Offer(Record):
    """A situation: what is offered in it, and how its effect is seen."""

    cures: Sequence[Cure]
    #: Whether the store is as the effect says.
    changed: Callable[[], bool] | None = None
    #: Whether the answer is what the effect says. For cures that only look.
    answered: Callable[[Any], bool] | None = None
    #: The call that was refused, if the cure is what it needed.
    again: Callable[[], Any] | None = None
    #: What a reader fills in.
    blanks: Mapping[str, Any] = MappingProxyType({})
    #: What a server adds of its own.
    added: Mapping[str, Any] = MappingProxyType({})


Situation = Callable[[Scene], Offer]
#: Each scenario with the place that makes its cure.
SCENARIOS: list[tuple[Site, Situation]] = []


def offered(module: str, function: str, operation: str, effect: str) -> Callable[[Situation], Situation]:
    """Name the cure that a scenario is about: where it is made, its operation and its effect."""

    def keep(situation: Situation) -> Situation:
        SCENARIOS.append((Site(module, function, operation, effect), situation))
        return situation

    return keep


def test_every_cure_has_a_scenario() -> None:
    known = {site for site, _ in SCENARIOS}
    assert len(SITES) > 50
    assert {str(site) for site in SITES if site not in known} == set(), "write a scenario"
    assert {str(site) for site in known.difference(SITES)} == set(), "no such cure is made any more"


@pytest.mark.parametrize(("site", "situation"), SCENARIOS, ids=[each.__name__ for _, each in SCENARIOS])
def test_a_cure_does_what_it_states(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, site: Site, situation: Situation
) -> None:
    made = CuresMade(monkeypatch, SITES)
    offer = situation(scene)
    assert (offer.changed is None) is not (offer.answered is None)
    cure = made.at(site, tuple(offer.cures))
    assert offer.changed is None or not offer.changed(), "it is so before the cure is performed"
    whole = replace(cure, arguments={**cure.arguments, **offer.added})
    answer = performed(scene.service, whole, **offer.blanks)
    assert offer.changed is None or offer.changed()
    assert offer.answered is None or offer.answered(answer)
    if offer.again is not None:
        offer.again()


def refusal(act: Callable[[], Any]) -> tuple[Cure, ...]:
    """The cures of the refusal of a call."""
    with pytest.raises(InterlockError) as caught:
        act()
    return caught.value.cures


def of_why(scene: Scene, item: int, **how: Any) -> Offer:
    """What `why` offers for an item; its effect is that nothing hinders it, if nothing else is said."""
    offer = Offer(cures=scene.service.why(item).cures, **how)
    if how.keys() & {"changed", "answered"}:
        return offer
    return Offer(cures=offer.cures, changed=lambda: not scene.service.why(item).hindered)


def has(scene: Scene, item: int, *statuses: str) -> Callable[[], bool]:
    return lambda: scene.status(item) in statuses


def shows(item: int) -> Callable[[Any], bool]:
    return lambda answer: answer.item.id == item


def concern(scene: Scene, kind: str) -> ConcernView:
    found = scene.service.attention()
    (note,) = (note for note in (*found.needs, *found.stuck) if note.kind == kind)
    return note


def of_concern(scene: Scene, kind: str, **how: Any) -> Offer:
    """What is offered for the one concern of a kind; its effect is that the concern is gone, if nothing else
    is said."""
    how = how or {"changed": lambda: kind not in scene.service.attention().counts}
    return Offer(cures=concern(scene, kind).cures, **how)


def a_planner(scene: Scene) -> Planner:
    return Planner(scene.service, scene.clock)


# -- refusals of runs and items -----------------------------------------------------------------------


@offered("core.endings", "end_external", "cancel", "asks it to stop")
def an_external_end_of_a_run_that_is_not(scene: Scene) -> Offer:
    item = scene.put_running().item
    run = item.run
    assert run is not None
    return Offer(
        cures=refusal(lambda: scene.service.end_external(item.id, run, "done", why="merged")),
        changed=lambda: scene.item(item.id).cancel_requested,
    )


@offered("core.endings", "explain_loss", "next", "claims another item")
def a_write_of_a_late_run(scene: Scene) -> Offer:
    late = scene.put_running(agent="coder")
    other = scene.put(agent="coder")
    scene.cancel(late.item.id, force=True)
    (view,) = scene.service.done([Report(run=late.run)])
    assert view.refusal is not None
    return Offer(cures=view.refusal.cures, changed=has(scene, other, "in_progress"))


@offered("core.operator_rules", "take_back", "show", "shows it as it is now")
def a_run_that_was_replaced(scene: Scene) -> Offer:
    lease = scene.put_running()
    item = lease.item.id
    cures = refusal(lambda: scene.service.take_back(item, why="slow", run=lease.fence + 7))
    return Offer(cures=cures, answered=lambda answer: answer.item.run == lease.fence)


@offered("core.operator_rules", "edit", "show", "shows it as it is now")
def an_edit_of_an_old_version(scene: Scene) -> Offer:
    item = scene.put()
    cures = refusal(lambda: scene.service.edit(item, {"priority": 3}, expected="old"))
    return Offer(cures=cures, answered=shows(item))


@offered("core.operator_rules", "_needs_person", "msg", "starts it")
def a_machine_starts_what_waits_for_a_person(scene: Scene) -> Offer:
    item = situations.in_a_loop(scene)
    cures = refusal(lambda: scene.service.edit(item, {"run_at_us": 0}, sender=ANOTHER_SYSTEM))
    return Offer(cures=cures, changed=has(scene, item, "pending"))


@offered("core.operator_rules", "_why_not_edited", "edit_plan", "changes it")
def an_edit_of_a_task(scene: Scene) -> Offer:
    plan = scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),)))
    task = plan.tasks[0].item
    return Offer(
        cures=refusal(lambda: scene.service.edit(task, {"priority": 3})),
        changed=lambda: scene.item(task).priority == 3,
        blanks={"operations": [{"op": "update_task", "key": "A", "priority": 3}]},
    )


def _an_edit_of_what_runs(scene: Scene) -> tuple[int, tuple[Cure, ...]]:
    item = scene.put_running().item.id
    return item, refusal(lambda: scene.service.edit(item, {"priority": 3}))


@offered("core.operator_rules", "_why_not_edited", "msg", "sends it a message")
def an_edit_of_what_runs_said_as_a_message(scene: Scene) -> Offer:
    item, cures = _an_edit_of_what_runs(scene)
    return Offer(cures=cures, changed=lambda: scene.texts(item) == ["more"], blanks={"text": "more"})


@offered("core.operator_rules", "_why_not_edited", "cancel", "cancels it")
def an_edit_of_what_runs_cancelled(scene: Scene) -> Offer:
    item, cures = _an_edit_of_what_runs(scene)
    return Offer(cures=cures, changed=lambda: scene.item(item).cancel_requested)


@offered("service.claims", "_require_unended", "show", "shows its history")
def a_claim_of_what_has_ended(scene: Scene) -> Offer:
    item = situations.cancelled(scene)
    return Offer(cures=refusal(lambda: scene.service.next("coder", item=item)), answered=_tells_of_its_end)


@offered("service.item_operations", "_moved", "show", "shows its history")
def a_cancel_of_what_has_ended(scene: Scene) -> Offer:
    item = situations.cancelled(scene)
    return Offer(cures=refusal(lambda: scene.cancel(item)), answered=_tells_of_its_end)


def _tells_of_its_end(answer: Any) -> bool:
    return "item.cancelled" in [event.kind for event in answer.events]


# -- refusals of plans --------------------------------------------------------------------------------


@offered("core.plans.plan_rules", "_may_edit", "plan_batch", "shows the completions to answer")
def an_editor_that_answers_too_much(scene: Scene) -> Offer:
    planner = a_planner(scene)
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    return Offer(
        cures=refusal(lambda: planner.edit(lease=asked, through=9)),
        answered=lambda batch: [each.key for each in batch.completions] == ["A"],
        blanks={"run": asked.run},
    )


@offered("core.plans.plan_rules", "_may_edit", "cancel", "ends that wait")
def an_edit_while_another_is_waited_for(scene: Scene) -> Offer:
    planner = a_planner(scene)
    planner.make("A, B", editor=EDITOR)
    planner.do("A")

    def edit() -> Any:
        return planner.edit(UpdateTask(key="B", changes={"priority": 3}))

    return Offer(cures=refusal(edit), changed=lambda: planner.view().cycle is None, again=edit)


@offered("core.plans.validation", "unknown_agents", "set_agent", "makes that agent known")
def a_plan_with_an_unknown_editor(scene: Scene) -> Offer:
    def create() -> Any:
        return scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),)), editor="stranger")

    return Offer(
        cures=refusal(create),
        changed=lambda: "stranger" in [each.key for each in scene.service.agents()],
        again=create,
    )


@offered("service.plans", "_plan", "plans", "lists all plans")
def a_plan_that_does_not_exist(scene: Scene) -> Offer:
    plan = scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),))).id
    scene.service.cancel_plan(plan, why="enough")
    return Offer(
        cures=refusal(lambda: scene.service.plan(10**9)),
        answered=lambda found: [each.id for each in found] == [plan],
    )


@offered("service.plans", "_operate_plan", "plan", "shows it")
def a_pause_of_a_plan_that_has_ended(scene: Scene) -> Offer:
    plan = scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),))).id
    scene.service.cancel_plan(plan, why="enough")
    cures = refusal(lambda: scene.service.pause_plan(plan, why="late"))
    return Offer(cures=cures, answered=lambda shown: (shown.id, shown.status) == (plan, "cancelled"))


@offered("service.reads", "require_item", "plan", "shows it")
def a_plan_taken_for_an_item(scene: Scene) -> Offer:
    plan = scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),))).id
    return Offer(
        cures=refusal(lambda: scene.service.show(plan)), answered=lambda shown: bool(shown.id == plan)
    )


@offered("service.reads", "require_item", "items", "lists all items")
def an_item_that_does_not_exist(scene: Scene) -> Offer:
    items = {scene.put(), situations.cancelled(scene)}
    return Offer(
        cures=refusal(lambda: scene.service.show(10**9)),
        answered=lambda found: {each.id for each in found} == items,
    )


# -- refusals of agents, pools, projects and tokens ---------------------------------------------------


def _pools(scene: Scene) -> dict[str, tuple[str, ...]]:
    return {pool.name: pool.agents for pool in scene.service.pools()}


@offered("core.names", "no_pool", "set_pool", "creates it")
def an_agent_of_a_pool_that_does_not_exist(scene: Scene) -> Offer:
    def join() -> Any:
        return scene.service.set_agent("ann", pool="gpu")

    return Offer(cures=refusal(join), changed=lambda: "gpu" in _pools(scene), again=join)


@offered("service.budgets", "remove_budget", "budgets", "lists all budgets")
def a_budget_that_does_not_exist(scene: Scene) -> Offer:
    scene.service.set_budget("pool", "gpu", usd=2)
    return Offer(
        cures=refusal(lambda: scene.service.remove_budget("pool", "cpu")),
        answered=lambda found: [each.name for each in found.budgets] == ["gpu"],
    )


@offered("core.prediction", "_unaffordable", "set_budget", "raises the budget")
def a_budget_that_is_used_up(scene: Scene) -> Offer:
    item = scene.put(agent="coder")
    scene.service.set_budget("agent", "coder", usd=0)
    return of_why(scene, item)


@offered("service.agents", "remove_pool", "pools", "lists all pools")
def a_pool_that_does_not_exist(scene: Scene) -> Offer:
    scene.service.set_pool("gpu", max_concurrency=2)
    return Offer(
        cures=refusal(lambda: scene.service.remove_pool("cpu")),
        answered=lambda found: [pool.name for pool in found] == ["gpu"],
    )


@offered("service.agents", "remove_pool", "set_agent", "removes an agent from its pool")
def a_pool_in_use(scene: Scene) -> Offer:
    scene.service.set_pool("gpu", max_concurrency=2)
    scene.service.set_agent("ann", pool="gpu")

    def remove() -> Any:
        return scene.service.remove_pool("gpu")

    return Offer(
        cures=refusal(remove),
        changed=lambda: not _pools(scene)["gpu"],
        again=remove,
        blanks={"name": "ann"},
    )


def _lists_ann(scene: Scene) -> Callable[[Any], bool]:
    scene.service.set_agent("ann")
    return lambda found: [agent.key for agent in found] == ["ann"]


@offered("service.agents", "remove_agent", "agents", "lists all agents")
def an_agent_that_does_not_exist(scene: Scene) -> Offer:
    lists = _lists_ann(scene)
    return Offer(cures=refusal(lambda: scene.service.remove_agent("bob")), answered=lists)


def _agent_in_use(scene: Scene) -> tuple[int, tuple[Cure, ...]]:
    item = scene.put(agent="coder")
    scene.put(agent="painter")
    scene.service.set_agent("coder")
    return item, refusal(lambda: scene.service.remove_agent("coder"))


@offered("service.run_logs", "run_log", "items", "lists all items")
def a_run_without_a_log(scene: Scene) -> Offer:
    items = {scene.put(), situations.cancelled(scene)}
    return Offer(
        cures=refusal(lambda: scene.service.run_log(10**9)),
        answered=lambda found: {each.id for each in found} == items,
    )


@offered("service.agents", "remove_agent", "items", "lists its items")
def items_of_an_agent_in_use(scene: Scene) -> Offer:
    item, cures = _agent_in_use(scene)
    return Offer(cures=cures, answered=lambda found: [each.id for each in found] == [item])


@offered("service.agents", "remove_agent", "edit", "gives one to any agent")
def an_item_of_an_agent_in_use(scene: Scene) -> Offer:
    item, cures = _agent_in_use(scene)
    return Offer(
        cures=cures,
        changed=lambda: not scene.item(item).agent,
        again=lambda: scene.service.remove_agent("coder"),
        blanks={"item": item},
    )


@offered("service.agents", "pause_agent", "pause_agent", "pauses it before its first use")
def a_pause_of_an_unknown_agent(scene: Scene) -> Offer:
    return Offer(
        cures=refusal(lambda: scene.service.pause_agent("ann", paused=True, why="later")),
        changed=lambda: any(each.paused_reason is not None for each in scene.service.agents()),
    )


@offered("service.agents", "pause_agent", "agents", "lists all agents")
def a_resume_of_an_unknown_agent(scene: Scene) -> Offer:
    lists = _lists_ann(scene)
    cures = refusal(lambda: scene.service.pause_agent("bob", paused=False, why=""))
    return Offer(cures=cures, answered=lists)


@offered("service.agents", "pause_project", "pause_project", "pauses it before its first use")
def a_pause_of_an_unknown_project(scene: Scene) -> Offer:
    return Offer(
        cures=refusal(lambda: scene.service.pause_project("web", paused=True, why="later")),
        changed=lambda: "web" in scene.service.paused_projects(),
    )


@offered("service.agents", "pause_project", "paused_projects", "lists what is paused")
def a_resume_of_an_unknown_project(scene: Scene) -> Offer:
    scene.service.pause_project("api", paused=True, why="release", create=True)
    return Offer(
        cures=refusal(lambda: scene.service.pause_project("web", paused=False, why="")),
        answered=lambda found: list(found) == ["api"],
    )


@offered("service.access", "revoke_token", "tokens", "lists all tokens")
def a_token_that_does_not_exist(scene: Scene) -> Offer:
    made = scene.service.create_token("laptop", scope="read")
    return Offer(
        cures=refusal(lambda: scene.service.revoke_token("ci")),
        answered=lambda found: [each.id for each in found] == [made.id],
    )


@offered("service.access", "_token_called", "revoke_token", "revokes one of them")
def two_tokens_of_one_name(scene: Scene) -> Offer:
    for _ in range(2):
        scene.service.create_token("ci", scope="read")
    return Offer(
        cures=refusal(lambda: scene.service.revoke_token("ci")),
        again=lambda: scene.service.revoke_token("ci"),
        changed=lambda: [each.revoked_at is None for each in scene.service.tokens()].count(True) == 1,
    )


@offered("service.access", "use_link", "sign_in_link", "makes another link")
def a_link_that_was_used(scene: Scene) -> Offer:
    service: Any = scene.service
    token = service.create_token("laptop", scope="admin").id
    used = service.sign_in_link(caller=token).path.partition("link=")[2]
    service.use_link(used)

    def signs_in(link: Any) -> bool:
        _, found, scope = service.use_link(link.path.partition("link=")[2])
        return (found.id, str(scope)) == (token, "admin")

    return Offer(cures=refusal(lambda: service.use_link(used)), answered=signs_in, added={"caller": token})


# -- what `why` offers --------------------------------------------------------------------------------


@offered("core.why", "_cures", "msg", "answers it")
def an_item_that_asks(scene: Scene) -> Offer:
    item = situations.asking(scene)
    return of_why(scene, item, changed=lambda: "yes" in scene.texts(item) and has(scene, item, "pending")())


@offered("core.why", "_cures", "msg", "starts it")
def an_item_that_was_woken_too_often(scene: Scene) -> Offer:
    item = situations.in_a_loop(scene)
    return of_why(scene, item, changed=has(scene, item, "pending"))


@offered("core.why", "_cures", "show", "shows item {}")
def an_item_that_was_absorbed(scene: Scene) -> Offer:
    first = scene.put(lane=LANE, agent="coder", policy="coalesce")
    absorbed = scene.put(lane=LANE, agent="coder", policy="coalesce")
    return of_why(scene, absorbed, answered=shows(first))


@offered("core.why", "_cures", "cancel", "asks it to stop")
def an_external_run(scene: Scene) -> Offer:
    item = situations.running_outside(scene)
    return of_why(scene, item, changed=lambda: scene.item(item).cancel_requested)


@offered("core.why", "_cures", "retry", "retries it now")
def an_item_in_back_off(scene: Scene) -> Offer:
    item = situations.in_back_off(scene)
    return of_why(scene, item, changed=has(scene, item, "pending"))


@offered("core.why", "_cures", "show", "shows the fault")
def an_item_after_a_fault_of_the_set_up(scene: Scene) -> Offer:
    lease = scene.put_running()
    scene.release(lease, fault_s=5.0, error="The disk is full.")
    return of_why(
        scene,
        lease.item.id,
        answered=lambda shown: "The disk is full." in [run.error for run in shown.runs],
    )


@offered("core.why", "_claim_cure", "next", "claims it")
def a_ready_item(scene: Scene) -> Offer:
    item = situations.ready(scene)
    return of_why(scene, item, changed=has(scene, item, "in_progress"))


@offered("core.why", "_claim_cure", "next", "claims it")
def the_first_item(scene: Scene) -> Offer:
    item = scene.put(agent="coder")
    return of_why(scene, item, changed=has(scene, item, "in_progress"))


@offered("core.why", "_retry_cures", "retry", "gives it another attempt")
def a_dead_letter(scene: Scene) -> Offer:
    item = situations.failed(scene)

    def started_again() -> bool:
        return scene.status(item) == "pending" and scene.claim().item.attempt == 2

    return of_why(scene, item, changed=started_again)


@offered("core.why", "_retry_cures", "retry", "brings it back")
def a_cancelled_item(scene: Scene) -> Offer:
    item = situations.cancelled(scene)
    return of_why(scene, item, changed=has(scene, item, "pending"))


@offered("core.why", "_retry_cures", "retry", "brings it back")
def a_task_that_waited_for_a_failed_one(scene: Scene) -> Offer:
    item = situations.after_a_failed_task(scene)
    return of_why(scene, item, changed=has(scene, item, "waiting"))


@offered("core.why", "_retry_cures", "retry", "gives its messages to item {}")
def a_failed_item_that_a_newer_one_replaces(scene: Scene) -> Offer:
    lease = scene.put_running(lane=LANE, agent="coder", policy="latest", message="first")
    scene.fail(lease, retry=False)
    newer = scene.put(lane=LANE, agent="coder", policy="latest", message="second")
    return of_why(scene, lease.item.id, changed=lambda: "first" in scene.texts(newer))


@offered("core.why", "_retry_cures", "retry", "brings {} back, which it waits for")
def a_task_that_waited_for_two_failed_ones(scene: Scene) -> Offer:
    planner = a_planner(scene)
    planner.make("A>C, B>C")
    for key in "AB":
        planner.fail(planner.start(key), retry=False)
    scene.service.sweep()
    return of_why(scene, planner.task("C").item, changed=lambda: planner.task("A").status == "pending")


@offered("core.why", "_retry_cures", "retry", "brings {} back, which comes first")
def a_cancelled_task_behind_a_failed_one(scene: Scene) -> Offer:
    planner = a_planner(scene)
    planner.make("A>B")
    scene.cancel(planner.task("B").item)
    planner.fail(planner.start("A"), retry=False)
    return of_why(scene, planner.task("B").item, changed=has(scene, planner.task("A").item, "pending"))


# -- what hinders an item -----------------------------------------------------------------------------


@offered("core.prediction", "_closed", "pause_project", "resumes the project")
def an_item_of_a_paused_project(scene: Scene) -> Offer:
    return of_why(scene, situations.in_a_paused_project(scene))


@offered("core.prediction", "_closed", "unblock", "removes the block")
def a_blocked_item(scene: Scene) -> Offer:
    return of_why(scene, situations.blocked(scene))


@offered("core.prediction", "_closed", "unblock", "removes the block")
def an_item_on_a_blocked_lane(scene: Scene) -> Offer:
    return of_why(scene, situations.on_a_blocked_lane(scene))


@offered("core.prediction", "_closed", "resume_plan", "resumes the plan")
def a_task_of_a_paused_plan(scene: Scene) -> Offer:
    return of_why(scene, situations.in_a_paused_plan(scene))


@offered("core.prediction", "_closed", "cancel", "cancels the edit, so that the cycle closes without one")
def a_task_of_a_plan_that_waits_for_an_edit(scene: Scene) -> Offer:
    item = situations.in_an_edit_cycle(scene)
    plan = scene.item(item).plan
    assert plan is not None
    return of_why(scene, item, changed=lambda: scene.service.plan(plan).cycle is None)


@offered("core.prediction", "_barred", "pause_agent", "resumes {}")
def an_item_for_a_paused_agent(scene: Scene) -> Offer:
    return of_why(scene, situations.of_a_paused_agent(scene))


@offered("core.prediction", "_barred", "pause_agent", "lets {} start again now")
def an_item_for_an_agent_at_its_quota_limit(scene: Scene) -> Offer:
    return of_why(scene, situations.of_an_agent_at_its_quota_limit(scene))


@offered("core.prediction", "_barred", "set_agent", "lets {} take {} as well")
def an_item_of_a_type_that_its_agent_does_not_take(scene: Scene) -> Offer:
    return of_why(scene, situations.of_another_type(scene))


@offered("core.prediction", "_labels", "set_agent", "gives {} the label {}")
def an_item_with_a_label_of_no_agent(scene: Scene) -> Offer:
    return of_why(scene, situations.with_a_label_of_nobody(scene))


@offered("core.prediction", "_labels", "set_agent", "gives {} the label {}")
def an_item_with_a_label_that_its_agent_lacks(scene: Scene) -> Offer:
    return of_why(scene, situations.with_a_label_that_its_agent_lacks(scene))


# -- what is stuck ------------------------------------------------------------------------------------


@offered("service.attention", "_absent", "agents", "shows all agents")
def an_absent_agent(scene: Scene) -> Offer:
    scene.done(scene.put_running(agent="coder"))
    scene.put(agent="coder")
    scene.clock.advance(600.0)
    return of_concern(scene, "absent_agent", answered=lambda found: "coder" in [agent.key for agent in found])


@offered("service.attention", "_unheard", "agents", "shows all agents")
def an_agent_that_never_asked_for_work(scene: Scene) -> Offer:
    lease = scene.put_running(lane=LANE, agent="coder")
    scene.put(lane=LANE, agent="codr")
    scene.renew(lease)
    return of_concern(
        scene, "unknown_agent", answered=lambda found: [agent.key for agent in found] == ["coder"]
    )


@offered("service.attention", "_paused", "pause_agent", "resumes {}")
def a_paused_agent(scene: Scene) -> Offer:
    situations.of_a_paused_agent(scene)
    return of_concern(scene, "paused_agent")


@offered("service.attention", "_limited", "pause_agent", "lets {} start again now")
def an_agent_at_a_quota_limit(scene: Scene) -> Offer:
    lease = scene.put_running(agent="coder")
    scene.put(agent="coder")
    scene.release(lease, wall=QuotaLimit(for_s=60.0, whole_agent=True))
    return of_concern(scene, "quota_limit")


@offered("service.attention", "_block", "unblock", "removes the block")
def a_block(scene: Scene) -> Offer:
    situations.blocked(scene)
    return of_concern(scene, "block")


@offered("service.attention", "_taken_back", "take_back", "takes it from the run, for another attempt")
def a_silent_run(scene: Scene) -> Offer:
    lease = scene.put_running(agent="coder")
    scene.clock.advance(48.0)
    item = lease.item.id
    return of_concern(scene, "silent_run", changed=has(scene, item, "pending"))


@offered("service.attention", "_paused_project", "pause_project", "resumes the project")
def a_paused_project(scene: Scene) -> Offer:
    situations.in_a_paused_project(scene)
    return of_concern(scene, "paused_project")


@offered("service.attention", "_paused_plan", "resume_plan", "resumes the plan")
def a_paused_plan(scene: Scene) -> Offer:
    situations.in_a_paused_plan(scene)
    return of_concern(scene, "paused_plan")


@offered("service.doctor", "_stalled", "why", "explains the first")
def a_stalled_lane(scene: Scene) -> Offer:
    scene.service.set_agent("coder", types=["review"])
    owner = scene.put(lane=LANE, agent="coder", retry_lane="keep")
    scene.put(lane=LANE, agent="cto")
    scene.pass_s(60)
    (check,) = (each for each in scene.service.doctor() if each.name == "stalled_lanes")
    return Offer(cures=check.cures, answered=lambda said: said.item.id == owner and bool(said.hindered))
