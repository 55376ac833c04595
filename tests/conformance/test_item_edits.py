"""Edits of items: what has not started may change, what has started may not, and the history keeps both."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from interlock.core.cures import cure
from interlock.core.errors import EditRefused, InvalidInput, ItemEnded, StaleRevision
from interlock.core.model import ANOTHER_SYSTEM, OUR_BOT, ItemId, Sender, SenderKind
from interlock.core.plans.model import Graph, TaskSpec
from interlock.core.timing import WAKES_MAX
from interlock.core.versions import version_of
from tests.conformance.scene import FIRST_BACK_OFF_S, LANE, Scene

OTHER_LANE = "issue:acme/app#43"


def edit(scene: Scene, item: int, **changes: Any) -> tuple[int, ...]:
    return scene.service.edit(item, changes, by="anna").promoted


def test_every_field_changes_and_the_history_has_old_and_new(scene: Scene) -> None:
    item = scene.put("old", priority=1, agent="coder", lane=LANE, labels=("gpu",), position=3)
    new = {"title": "new", "type": "review", "agent": " Ben ", "labels": ["arm"], "priority": 7}
    new["position"] = 2
    edit(scene, item, **new)
    shown = scene.item(item)
    assert (shown.title, shown.type, shown.agent, shown.labels) == ("new", "review", "ben", ("arm",))
    assert (shown.priority, shown.position, shown.status) == (7, 2, "pending")
    event = scene.last("item.edited")
    assert event.item == item
    assert event.data["by"] == "anna"
    assert event.data["new"] == {**new, "agent": "ben"}
    assert event.data["old"] == {
        "title": "old",
        "type": "task",
        "agent": "coder",
        "labels": ["gpu"],
        "priority": 1,
        "position": 3,
    }
    assert scene.idle("coder", labels=("gpu",))
    assert scene.claim("ben", labels=("arm",)).item.id == item


def test_what_is_taken_away_is_gone(scene: Scene) -> None:
    item = scene.put(agent="coder", lane=LANE, labels=("gpu",), position=3)
    edit(scene, item, agent="", labels=(), position=None)
    shown = scene.item(item)
    assert (shown.agent, shown.labels, shown.position) == (None, (), None)
    assert scene.last("item.edited").data["new"] == {"agent": None, "labels": [], "position": None}
    assert scene.claim("anybody").item.id == item


def test_an_edit_that_changes_nothing_leaves_no_line(scene: Scene) -> None:
    item = scene.put(priority=4)
    edit(scene, item, priority=4)
    assert "item.edited" not in scene.kinds(item)


def test_the_queue_follows_the_new_priority_and_arrival_still_decides_among_equals(scene: Scene) -> None:
    first, second, third = scene.put(priority=5), scene.put(), scene.put()
    edit(scene, third, priority=9)
    edit(scene, second, priority=5)
    assert [scene.claim().item.id for _ in range(3)] == [third, first, second]
    assert scene.service.stats().depth_by_priority == {}


def test_the_line_of_a_lane_follows_the_new_position(scene: Scene) -> None:
    scene.put_running(lane=LANE)
    two, three = scene.put(lane=LANE, position=2), scene.put(lane=LANE, position=3)
    edit(scene, three, position=1)
    assert scene.line() == [three, two]
    edit(scene, three, position=None)
    assert scene.line() == [two, three]


def test_a_later_time_takes_an_owner_off_its_lane_and_lets_the_next_go_on(scene: Scene) -> None:
    owner, behind = scene.put(lane=LANE), scene.put(lane=LANE)
    assert edit(scene, owner, run_after_s=100.0) == (behind,)
    assert scene.item(owner).run_at == scene.clock.now + timedelta(seconds=100)
    assert scene.statuses(owner, behind) == ["waiting", "pending"]
    scene.pass_s(100)
    assert scene.statuses(owner, behind) == ["deferred", "pending"]


def test_a_later_time_takes_an_item_out_of_the_line(scene: Scene) -> None:
    running = scene.put_running(lane=LANE)
    item = scene.put(lane=LANE)
    edit(scene, item, run_at_us=scene.clock.now_us + 10_000_000)
    scene.done(running)
    assert scene.status(item) == "waiting"
    assert scene.idle()
    scene.pass_s(10)
    assert scene.claim().item.id == item


def test_an_item_due_now_enters_its_lane_at_once(scene: Scene) -> None:
    alone, queued = scene.put(lane=LANE, in_s=50), scene.put(lane=OTHER_LANE, in_s=50)
    scene.put_running(lane=OTHER_LANE)
    edit(scene, alone, run_at_us=0)
    edit(scene, queued, run_at_us=0)
    assert scene.statuses(alone, queued) == ["pending", "deferred"]
    assert scene.last("item.reentered").reason == "edited"
    edit(scene, alone, run_at_us=0)
    assert scene.claim().item.id == alone


def test_another_agents_item_is_absorbed_by_its_new_agent(scene: Scene) -> None:
    item = scene.put(lane=LANE, policy="coalesce", agent="coder")
    edit(scene, item, agent="ben")
    assert scene.add("more", lane=LANE, policy="coalesce", agent="ben").decision == "coalesced"
    assert scene.add("other", lane=LANE, policy="coalesce", agent="coder").decision == "queued"


def test_what_has_started_or_ended_is_refused_and_stays_as_it_is(scene: Scene) -> None:
    lease = scene.put_running("as it was")
    with pytest.raises(EditRefused, match=r"of coder\) and can no longer be edited"):
        edit(scene, lease.item.id, title="new")
    scene.fail(lease)
    with pytest.raises(EditRefused, match="has started and can no longer be edited"):
        edit(scene, lease.item.id, title="new")
    scene.pass_s(FIRST_BACK_OFF_S)
    scene.done(scene.claim())
    with pytest.raises(ItemEnded, match="has already ended as completed"):
        edit(scene, lease.item.id, title="new")
    assert scene.item(lease.item.id).title == "as it was"
    assert "item.edited" not in scene.kinds(lease.item.id)


def test_a_task_of_a_plan_is_changed_by_edits_of_its_plan(scene: Scene) -> None:
    plan = scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),)))
    task = scene.unfinished()[0].id
    with pytest.raises(EditRefused) as refused:
        edit(scene, task, priority=5)
    assert refused.value.cures == (cure("edit_plan", "changes it", plan=plan.id, base=None, operations=None),)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lane": LANE},
        {"title": "two\nlines"},
        {"type": "plan.edit"},
        {"agent": 7},
        {"labels": "gpu"},
        {"priority": "high"},
        {"position": -1},
        {"run_at_us": -5},
        {"run_after_s": -5.0},
        {"run_at_us": 1, "run_after_s": 1.0},
    ],
)
def test_a_bad_value_changes_nothing(scene: Scene, changes: dict[str, Any]) -> None:
    item = scene.put("as it was")
    with pytest.raises(InvalidInput):
        scene.service.edit(item, {"title": "new", **changes} if changes else {})
    assert scene.item(item).title == "as it was"


class TestWhatWaitsForAPerson:
    """An item that was one wake-up too many. An edit of its time is a person's act, like a message."""

    def stopped(self, scene: Scene) -> int:
        scene.done(scene.put_running("first", lane=LANE, agent="coder", policy="coalesce"))
        events = {"lane": LANE, "agent": "coder", "policy": "coalesce", "sender": ANOTHER_SYSTEM}
        for _ in range(WAKES_MAX):
            scene.add("red", **events)
            scene.done(scene.claim())
        item = scene.put("red", **events)
        assert (scene.status(item), scene.item(item).reason) == ("waiting", "loop")
        return item

    @pytest.mark.parametrize("changes", [{"run_at_us": 0}, {"run_after_s": 0.0}])
    def test_a_person_who_says_now_starts_it_and_the_count_begins_again(
        self, scene: Scene, changes: dict[str, Any]
    ) -> None:
        item = self.stopped(scene)
        assert scene.service.edit(item, changes).item.status == "pending"
        assert (scene.last("item.edited").item, scene.last("item.reentered").reason) == (item, "edited")
        scene.done(scene.claim())
        events = {"lane": LANE, "agent": "coder", "policy": "coalesce", "sender": ANOTHER_SYSTEM}
        assert scene.add("red", **events).decision == "admitted"

    def test_a_person_who_says_later_starts_it_then(self, scene: Scene) -> None:
        item = self.stopped(scene)
        view = scene.service.edit(item, {"run_after_s": 5.0}).item
        assert (view.status, view.reason) == ("waiting", "scheduled")
        assert scene.idle()
        scene.pass_s(5)
        assert scene.claim().item.id == item

    @pytest.mark.parametrize("sender", [ANOTHER_SYSTEM, OUR_BOT, Sender(SenderKind.AGENT, "coder")])
    @pytest.mark.parametrize("changes", [{"run_at_us": 0}, {"run_after_s": 5.0}])
    def test_nobody_else_may(self, scene: Scene, changes: dict[str, Any], sender: Sender) -> None:
        item = self.stopped(scene)
        with pytest.raises(EditRefused, match="waits for a person") as refused:
            scene.service.edit(item, changes, sender=sender)
        assert [(each.operation, each.arguments["item"]) for each in refused.value.cures] == [("msg", item)]
        assert scene.item(item).reason == "loop"
        assert scene.service.edit(item, {"priority": 3}, sender=sender).item.status == "waiting"

    def test_a_retry_is_for_a_person_too(self, scene: Scene) -> None:
        item = self.stopped(scene)
        with pytest.raises(ItemEnded, match="waits for a person"):
            scene.service.retry(item, sender=Sender(SenderKind.AGENT, "coder"))
        assert scene.item(item).reason == "loop"
        assert scene.service.retry(item).item.status == "pending"


def test_an_edit_of_a_version_that_is_over_changes_nothing(scene: Scene) -> None:
    """On every store, the version that a look gives is the one that an edit finds under its lock."""
    item = scene.put("old", agent="coder", lane=LANE, labels=("gpu", "arm"), lease_s=60, position=3)

    def version() -> str:
        service: Any = scene.service
        return version_of(service.store.item(ItemId(item)))

    looked = version()
    scene.service.edit(item, {"title": "new"}, expected=looked)
    with pytest.raises(StaleRevision, match="has changed since you read it"):
        scene.service.edit(item, {"title": "newer"}, expected=looked)
    assert scene.item(item).title == "new"
    looked = version()
    scene.service.msg(item, "hello")
    with pytest.raises(StaleRevision):
        scene.service.edit(item, {"title": "newer"}, expected=looked)
    scene.service.edit(item, {"title": "newest"}, expected=version())
    assert scene.item(item).title == "newest"
