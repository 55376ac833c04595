"""Operators change many items at once: all dead letters, or all items of a lane."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput
from interlock.service import item_batches
from tests.conformance.planner import EDITOR, Planner
from tests.conformance.scene import FIRST_BACK_OFF_S, LANE, Scene


def dead(scene: Scene, **fields: object) -> int:
    """An item that failed for good."""
    item = scene.put("work", max_attempts=1, **fields)
    scene.fail(scene.claim(str(fields.get("agent", "coder")), item=item), error="boom")
    return item


class TestRetryDead:
    def test_all_dead_letters_and_nothing_else_get_one_more_attempt(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(item_batches, "AT_ONCE", 2)
        failed = [dead(scene) for _ in range(5)]
        parked = scene.put_running("parked")
        scene.fail(parked)
        cancelled = scene.put("cancelled")
        scene.cancel(cancelled)
        found = scene.service.retry_dead(dry_run=True)
        assert (sorted(found.items), found.more) == (failed, False)
        assert scene.statuses(*failed) == ["failed"] * 5
        done = scene.service.retry_dead(why="the disk has room", by="anna")
        assert (sorted(done.items), done.refused, done.more, done.before) == (failed, (), False, None)
        assert scene.statuses(*failed) == ["pending"] * 5
        assert scene.statuses(parked.item.id, cancelled) == ["waiting", "cancelled"]
        told = scene.events("item.retried")
        assert {(e.data["why"], e.data["by"]) for e in told} == {("the disk has room", "anna")}
        assert scene.service.retry_dead().items == ()

    def test_filters_choose_among_them(self, scene: Scene) -> None:
        review = dead(scene, type="review", project="a")
        painter = dead(scene, agent="painter", project="a")
        on_lane = dead(scene, lane=LANE, project="b")
        retry = scene.service.retry_dead
        assert retry(types=("review", "build"), dry_run=True).items == (review,)
        assert retry(agent=" Painter", dry_run=True).items == (painter,)
        assert retry(lane=LANE, dry_run=True).items == (on_lane,)
        assert retry(project="a").items == (painter, review)
        assert scene.status(on_lane) == "failed"

    def test_it_goes_on_below_the_last_answer_and_retries_none_twice(self, scene: Scene) -> None:
        one, two, three = (dead(scene) for _ in range(3))
        first = scene.service.retry_dead(limit=2)
        assert (first.items, first.more, first.before) == ((three, two), True, two)
        again = scene.claim(item=three)
        scene.fail(again)
        rest = scene.service.retry_dead(limit=2, before=first.before)
        assert (rest.items, rest.more) == ((one,), False)
        assert scene.status(three) == "failed"

    def test_what_cannot_be_retried_is_named_and_stops_no_other(self, planner: Planner) -> None:
        planner.make("A>B", editor=EDITOR)
        planner.do("A")
        edit = planner.claim(EDITOR)
        planner.fail(edit, retry=False)
        other = dead(planner, type="chore")
        assert planner.status(edit.item.id) == "failed"
        done = planner.service.retry_dead()
        assert done.items == (other,)
        ((item, refusal),) = ((each.item, each.refusal) for each in done.refused)
        assert item == edit.item.id
        assert "closed edit cycle" in refusal

    def test_wrong_values_change_nothing(self, scene: Scene) -> None:
        failed = dead(scene)
        for wrong in ({"limit": 0}, {"limit": 1_001}, {"dry_run": "no"}, {"before": 0}, {"types": "task"}):
            with pytest.raises(InvalidInput):
                scene.service.retry_dead(**wrong)
        assert scene.status(failed) == "failed"


class TestCancelLane:
    def test_the_whole_lane_ends_and_none_starts_in_the_owners_place(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(item_batches, "AT_ONCE", 2)
        owner, *line = (scene.put("work", lane=LANE) for _ in range(4))
        later = scene.put("later", lane=LANE, in_s=1000)
        elsewhere = scene.put("other", lane="issue:acme/app#7")
        done = scene.service.cancel_lane(LANE, why="the issue was closed", by="anna")
        assert sorted(done.items) == [owner, *line, later]
        assert (done.stopping, done.more) == ((), False)
        assert scene.statuses(owner, *line, later, elsewhere) == ["cancelled"] * 5 + ["pending"]
        assert {e.data["why"] for e in scene.events("item.cancelled")} == {"the issue was closed"}
        assert not scene.events("lane.promoted"), "an agent could have claimed it meanwhile"
        assert scene.service.cancel_lane(LANE, why="again").items == ()

    def test_a_running_item_is_asked_once_and_may_be_forced(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE)
        parked = scene.put("waiting", lane=LANE)
        done = scene.service.cancel_lane(LANE, why="wrong")
        assert (done.items, done.stopping) == ((parked,), (lease.item.id,))
        assert scene.item(lease.item.id).cancel_requested
        assert scene.service.cancel_lane(LANE, why="still wrong").stopping == (lease.item.id,)
        assert len(scene.events("cancel.requested")) == 1
        assert scene.service.cancel_lane(LANE, why="now", force=True).items == (lease.item.id,)
        assert scene.done(lease).status == "refused"

    def test_an_item_in_back_off_is_of_its_lane_too(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE)
        scene.fail(lease)
        assert scene.service.cancel_lane(LANE, why="wrong").items == (lease.item.id,)
        scene.pass_s(FIRST_BACK_OFF_S)
        assert scene.status(lease.item.id) == "cancelled"

    def test_a_reason_is_needed(self, scene: Scene) -> None:
        item = scene.put("work", lane=LANE)
        with pytest.raises(InvalidInput):
            scene.service.cancel_lane(LANE, why="")
        assert scene.status(item) == "pending"
