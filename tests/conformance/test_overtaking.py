"""Overtaking: an owner that cannot start does not block its lane for those that can."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.model import RetryLane
from interlock.core.plans.model import Graph, TaskSpec
from tests.conformance.scene import FIRST_BACK_OFF_S, LANE, Scene


def block(scene: Scene, how: str) -> int:
    """An owner of the lane that has not started and cannot: its agent, project or plan keeps it."""
    if how in SHUT:
        scene.service.set_agent("busy")
        plan, owner = planned(scene, agent="busy")
        shut(scene, plan, how)
        return owner
    project = "frozen" if how == "project paused" else "default"
    if how == "agent full":
        scene.service.set_agent("busy", max_concurrency=1)
        scene.put_running("keeps busy busy", agent="busy")
    elif how == "agent paused":
        scene.service.pause_agent("busy", paused=True, why="holiday", create=True)
    elif how == "agent lacks a label":
        scene.service.set_agent("busy", labels=["gpu"])
    elif how == "agent lacks the type":
        scene.service.set_agent("busy", types=["review"])
    labels = ("gpu", "fast") if how == "agent lacks a label" else ()
    owner = scene.put("owner", lane=LANE, agent="busy", project=project, labels=labels)
    if how == "project paused":
        scene.service.pause_project("frozen", paused=True, why="release day")
    return owner


SHUT = ("plan in an edit cycle", "plan paused")
REASONS = (
    "agent full",
    "agent paused",
    "agent unknown",
    "agent lacks a label",
    "agent lacks the type",
    "project paused",
    *SHUT,
)


def planned(scene: Scene, **fields: Any) -> tuple[int, int]:
    """A plan whose task owns the lane, beside another task; its number and that of the task's item."""
    scene.service.set_agent("planner")
    tasks = (TaskSpec(key="owner", lane=LANE, **fields), TaskSpec(key="first"))
    view = scene.service.create_plan("work", Graph(tasks=tasks), editor="planner")
    assert scene.owner() == view.tasks[0].item
    return view.id, view.tasks[0].item


def shut(scene: Scene, plan: int, how: str) -> None:
    """Let a plan give out no tasks."""
    if how == "plan paused":
        scene.service.pause_plan(plan, why="release day")
    else:
        first = scene.service.plan(plan).tasks[1].item
        scene.done(scene.claim(item=first))


def go_on(scene: Scene, plan: int, how: str) -> None:
    """Let it give out tasks again."""
    if how == "plan paused":
        scene.service.resume_plan(plan)
    else:
        scene.done(scene.claim("planner"))


@pytest.mark.parametrize("how", REASONS)
def test_another_agent_with_a_deferred_item_takes_the_lane_and_starts_in_one_step(
    scene: Scene, how: str
) -> None:
    owner = block(scene, how)
    item = scene.put("item", lane=LANE, agent="free")
    lease = scene.claim("free")
    assert lease.item.id == item
    assert scene.statuses(owner, item) == ["deferred", "in_progress"]
    event = scene.last("lane.overtaken")
    assert (event.item, event.lane, event.reason) == (owner, LANE, "agent_cannot_start")
    assert (event.data["by_item"], event.data["by_agent"]) == (item, "free")
    assert scene.service.stats().overtaken == 1


@pytest.mark.parametrize("how", REASONS)
def test_the_overtaken_owner_keeps_its_ticket_and_is_next(scene: Scene, how: str) -> None:
    owner = block(scene, how)
    scene.put("item", lane=LANE, agent="free")
    later = scene.put("later", lane=LANE, agent="free")
    lease = scene.claim("free")
    assert scene.line() == [owner, later]
    assert scene.done(lease).promoted == (owner,)


def test_an_item_for_anyone_may_overtake_too(scene: Scene) -> None:
    block(scene, "agent unknown")
    item = scene.put("for anyone", lane=LANE)
    assert scene.claim("free").item.id == item


def test_an_owner_whose_agent_can_start_is_not_overtaken(scene: Scene) -> None:
    scene.idle("ready")  # asked once, so it is known
    owner = scene.put("owner", lane=LANE, agent="ready")
    scene.put("item", lane=LANE, agent="free")
    assert scene.idle("free")
    assert scene.claim("ready").item.id == owner


def test_an_owner_for_anyone_is_not_overtaken(scene: Scene) -> None:
    owner = scene.put("owner", lane=LANE, labels=("gpu",))
    scene.put("item", lane=LANE, agent="free")
    assert scene.idle("free")
    assert scene.owner() == owner


def test_an_owner_that_runs_is_not_overtaken(scene: Scene) -> None:
    scene.service.set_agent("busy", max_concurrency=1)
    scene.put_running("owner", lane=LANE, agent="busy")
    scene.put("item", lane=LANE, agent="free")
    assert scene.idle("free")


@pytest.mark.parametrize(("of_owner", "of_item"), [(1, 2), (1, None), (None, 2)])
def test_a_lane_that_positions_order_is_never_overtaken(
    scene: Scene, of_owner: int | None, of_item: int | None
) -> None:
    owner = scene.put("owner", lane=LANE, agent="unknown", position=of_owner)
    scene.put("item", lane=LANE, agent="free", position=of_item)
    assert scene.idle("free")
    assert scene.owner() == owner


@pytest.mark.parametrize("waits", [True, False], ids=["in its back-off", "after its back-off"])
def test_a_kept_retry_is_never_overtaken(scene: Scene, waits: bool) -> None:
    lease = scene.put_running("owner", lane=LANE, agent="busy", retry_lane="keep")
    scene.fail(lease)
    scene.put("item", lane=LANE, agent="free")
    scene.service.pause_agent("busy", paused=True, why="holiday")
    if not waits:
        scene.pass_s(FIRST_BACK_OFF_S)
    assert scene.idle("free")
    assert scene.owner() == lease.item.id


def test_an_owner_that_keeps_its_lane_is_not_overtaken_before_its_first_try_either(scene: Scene) -> None:
    owner = scene.put("owner", lane=LANE, agent="unknown", retry_lane="keep")
    scene.put("item", lane=LANE, agent="free")
    assert scene.idle("free")
    assert scene.owner() == owner


def test_who_overtakes_must_be_able_to_start_itself(scene: Scene) -> None:
    owner = block(scene, "agent unknown")
    scene.put("of another type", lane=LANE, agent="free", type="review")
    scene.put("of a paused project", lane=LANE, agent="free", project="frozen")
    scene.put("with a label", lane=LANE, agent="free", labels=("gpu",))
    scene.service.pause_project("frozen", paused=True, why="release day")
    assert scene.idle("free", types=["task"])
    assert scene.owner() == owner


def test_a_full_agent_overtakes_nobody(scene: Scene) -> None:
    block(scene, "agent unknown")
    scene.put("item", lane=LANE, agent="free")
    scene.service.set_agent("free", max_concurrency=1)
    scene.put_running("keeps it busy", agent="free", priority=100)
    assert scene.idle("free")


def test_a_paused_agent_overtakes_nobody(scene: Scene) -> None:
    block(scene, "agent unknown")
    scene.put("item", lane=LANE, agent="free")
    scene.service.pause_agent("free", paused=True, why="holiday")
    assert scene.idle("free")


def test_one_claim_may_overtake_on_many_lanes_but_takes_one_item_of_each(scene: Scene) -> None:
    lanes = [f"issue:acme/app#{n}" for n in range(4)]
    for lane in lanes:
        scene.put("owner", lane=lane, agent="unknown")
        scene.put("one", lane=lane, agent="free")
        scene.put("two", lane=lane, agent="free")
    leases = scene.service.next("free", limit=10)
    assert sorted(x.item.lane or "" for x in leases) == lanes
    assert {x.item.title for x in leases} == {"one"}


def test_what_can_be_claimed_plainly_goes_before_what_must_be_overtaken(scene: Scene) -> None:
    block(scene, "agent unknown")
    scene.put("behind", lane=LANE, agent="free", priority=100)
    plain = scene.put("plain", agent="free")
    assert scene.claim("free").item.id == plain


def test_the_overtaken_owner_starts_when_its_agent_comes_back(scene: Scene) -> None:
    owner = block(scene, "agent paused")
    scene.put("item", lane=LANE, agent="free")
    lease = scene.claim("free")
    scene.service.pause_agent("busy", paused=False, why="")
    assert scene.idle("busy")
    scene.done(lease)
    assert scene.claim("busy").item.id == owner


# -- owners whose agent is gone ---------------------------------------------------------------------


AFTER_S = 60.0


def see_worker(scene: Scene, agent: str) -> None:
    scene.service.see_worker("box.1", host="box", pid=1, folder="/", agent=agent, slots=1, runs=0)


@pytest.mark.usefixtures("every_claim_is_recorded")
class TestGone:
    def test_an_item_whose_run_was_lost_gives_way_once_its_agent_is_gone(self, scene: Scene) -> None:
        owner = scene.put("owner", lane=LANE, agent="coder", message="first", lease_s=20)
        lost = scene.claim("coder")
        item = scene.put("item", lane=LANE, agent="cto")
        scene.lose(lost)
        assert scene.idle("cto"), "coder may come back"
        scene.service.msg(owner, "second")
        scene.pass_s(AFTER_S - 21)
        assert scene.idle("cto")
        assert (
            "unless coder makes a claim before, in 1 s a claim of cto may overtake it"
            in scene.service.why(item).why
        )
        scene.pass_s(1)
        assert "coder has made no claim lately" in scene.service.why(item).why
        lease = scene.claim("cto")
        assert lease.item.id == item
        event = scene.last("lane.overtaken")
        assert (event.item, event.reason, event.data["by_item"]) == (owner, "agent_gone", item)
        assert scene.done(lease).promoted == (owner,)
        assert [m.text for m in scene.claim("coder").messages] == ["first", "second"]

    def test_an_item_that_never_started_gives_way_too(self, scene: Scene) -> None:
        assert scene.idle("coder")
        owner = scene.put("owner", lane=LANE, agent="coder")
        item = scene.put("item", lane=LANE, agent="cto")
        assert "in 60 s another agent's claim may overtake it" in scene.service.why(owner).why
        scene.pass_s(AFTER_S)
        assert scene.claim("cto").item.id == item

    def test_an_agent_that_was_set_and_never_came_is_waited_for_from_the_arrival_on(
        self, scene: Scene
    ) -> None:
        scene.service.set_agent("coder")
        scene.clock.advance(1_000)
        scene.put("owner", lane=LANE, agent="coder")
        item = scene.put("item", lane=LANE, agent="cto")
        assert scene.idle("cto")
        scene.pass_s(AFTER_S)
        assert scene.claim("cto").item.id == item

    @pytest.mark.parametrize("sign", ["a claim", "a worker", "a run"])
    def test_a_sign_of_life_keeps_the_lane(self, scene: Scene, sign: str) -> None:
        if sign == "a run":
            scene.put_running("long", agent="coder", lease_s=600)
        assert scene.idle("coder")
        scene.put("owner", lane=LANE, agent="coder", type="review")
        item = scene.put("item", lane=LANE, agent="cto")
        scene.clock.advance(AFTER_S - 1)
        if sign == "a claim":
            assert scene.idle("coder", types=["nothing"])
        elif sign == "a worker":
            see_worker(scene, "Coder")
        scene.pass_s(20)
        assert scene.idle("cto")
        if sign == "a run":
            return
        scene.pass_s(AFTER_S)
        assert scene.claim("cto").item.id == item

    def test_a_worker_that_said_goodbye_is_no_sign_of_life(self, scene: Scene) -> None:
        scene.idle("coder")
        scene.put("owner", lane=LANE, agent="coder")
        scene.put("item", lane=LANE, agent="cto")
        scene.clock.advance(AFTER_S)
        see_worker(scene, "coder")
        assert scene.idle("cto")
        scene.service.leave_worker("box.1")
        assert not scene.idle("cto")

    def test_the_time_is_set_for_each_agent_and_zero_is_never(self, scene: Scene) -> None:
        for agent, after_s in (("quick", 5), ("coder", 0)):
            view = scene.service.set_agent(agent, overtake_after_s=after_s)
            assert view.overtake_after_s == after_s
            lane = f"issue:acme/app#{agent}"
            scene.idle(agent)
            scene.put("owner", lane=lane, agent=agent)
            item = scene.put("item", lane=lane, agent="cto")
        assert scene.service.set_agent("coder", labels=["gpu"]).overtake_after_s == 0, "others leave it alone"
        assert scene.idle("cto")
        scene.pass_s(5)
        assert scene.claim("cto").item.lane == "issue:acme/app#quick"
        scene.pass_s(100_000)
        assert scene.idle("cto", item=item)

    @pytest.mark.parametrize("firm", [{"position": 1}, {"retry_lane": "keep"}], ids=["position", "keep"])
    def test_an_order_that_is_wanted_stays(self, scene: Scene, firm: dict[str, Any]) -> None:
        scene.idle("coder")
        owner = scene.put("owner", lane=LANE, agent="coder", **firm)
        scene.put("item", lane=LANE, agent="cto")
        scene.pass_s(10 * AFTER_S)
        assert scene.idle("cto")
        assert scene.owner() == owner

    def test_the_doctor_names_a_lane_that_stands_still(self, scene: Scene) -> None:
        def stalled() -> str:
            (check,) = (c for c in scene.service.doctor() if c.name == "stalled_lanes")
            return "" if check.ok else check.detail

        scene.service.set_agent("coder", types=["review"])
        owner = scene.put("owner", lane=LANE, agent="coder", retry_lane="keep")
        scene.pass_s(AFTER_S)
        assert stalled() == "", "nobody waits behind it"
        scene.put("item", lane=LANE, agent="cto")
        assert f"{LANE} (item {owner} waits for coder)" in stalled()
        scene.service.set_agent("coder", types=[])
        scene.idle("coder", types=["nothing"])
        assert stalled() == ""
        scene.pass_s(AFTER_S)
        assert LANE in stalled()


# -- owners whose plan gives out no tasks ---------------------------------------------------------


@pytest.mark.parametrize("how", SHUT)
@pytest.mark.parametrize("agent", ["", "free"], ids=["for anyone", "of the same agent"])
def test_whoever_the_task_of_a_plan_that_gives_out_none_is_for_others_may_pass_it(
    scene: Scene, how: str, agent: str
) -> None:
    scene.idle("free")
    plan, owner = planned(scene, agent=agent)
    item = scene.put("item", lane=LANE, agent="free")
    shut(scene, plan, how)
    lease = scene.claim("free")
    assert lease.item.id == item
    assert scene.last("lane.overtaken").item == owner
    go_on(scene, plan, how)
    assert scene.idle("free", item=owner), "the lane has another owner now"
    assert scene.done(lease).promoted == (owner,)
    scene.done(scene.claim("free", item=owner))


@pytest.mark.parametrize("how", SHUT)
def test_a_plan_that_goes_on_keeps_its_lanes(scene: Scene, how: str) -> None:
    plan, owner = planned(scene)
    shut(scene, plan, how)
    go_on(scene, plan, how)
    scene.put("item", lane=LANE, agent="free")
    assert scene.claim("free", limit=1).item.id in {t.item for t in scene.service.plan(plan).tasks}
    assert scene.events("lane.overtaken") == []
    assert scene.status(owner) in ("pending", "in_progress")


@pytest.mark.parametrize("how", SHUT)
def test_a_task_that_runs_is_not_overtaken_whatever_its_plan_does(scene: Scene, how: str) -> None:
    plan, owner = planned(scene)
    scene.claim(item=owner)
    scene.put("item", lane=LANE, agent="free")
    shut(scene, plan, how)
    assert scene.idle("free")


@pytest.mark.parametrize("how", SHUT)
def test_an_item_with_a_position_passes_no_task_of_a_plan(scene: Scene, how: str) -> None:
    plan, owner = planned(scene)
    scene.put("item", lane=LANE, agent="free", position=2)
    shut(scene, plan, how)
    assert scene.idle("free")
    assert scene.owner() == owner


@pytest.mark.parametrize("how", SHUT)
@pytest.mark.parametrize("waits", [True, False], ids=["in its back-off", "after its back-off"])
def test_a_task_whose_retry_keeps_its_lane_is_never_overtaken(scene: Scene, how: str, waits: bool) -> None:
    plan, owner = planned(scene, retry_lane=RetryLane.KEEP, max_attempts=3)
    scene.fail(scene.claim(item=owner))
    scene.put("item", lane=LANE, agent="free")
    shut(scene, plan, how)
    if not waits:
        scene.pass_s(FIRST_BACK_OFF_S)
    assert scene.idle("free")
    assert scene.owner() == owner


@pytest.mark.parametrize("how", SHUT)
def test_a_task_of_a_plan_that_gives_out_none_overtakes_nobody(scene: Scene, how: str) -> None:
    owner = block(scene, "agent unknown")
    scene.service.set_agent("planner")
    tasks = (TaskSpec(key="behind", lane=LANE), TaskSpec(key="first"))
    plan = scene.service.create_plan("work", Graph(tasks=tasks), editor="planner")
    first = scene.claim(item=plan.tasks[1].item)
    if how == "plan paused":
        scene.service.pause_plan(plan.id, why="release day")
    else:
        scene.done(first)
    assert scene.idle("free")
    assert scene.owner() == owner


def test_an_agent_that_was_seen_while_the_clock_was_ahead_is_seen_again(scene: Scene) -> None:
    """Taken out (the comparison with times ahead in `see_agent.sql`): it seems to be there for an hour."""
    store: Any = scene.service.store  # type: ignore[attr-defined]
    scene.clock.advance(3600)
    store.see_agent("coder", "coder")
    scene.clock.advance(-3600)
    store.see_agent("coder", "coder")
    (agent,) = scene.service.agents()
    assert agent.last_seen_at == scene.clock.now
