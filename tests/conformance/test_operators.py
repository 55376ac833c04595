"""Operators: cancel, take back, force, retry and pause, each with a reason that stays in the history."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput, ItemEnded, NotFound, StaleRevision
from interlock.service.contract import ItemFilter, Service
from tests.conformance.scene import FIRST_BACK_OFF_S, GRACE_S, LANE, Scene


class TestCancel:
    def test_an_item_that_has_not_started_ends_at_once_with_the_reason(self, scene: Scene) -> None:
        item, waiting = scene.put("work", lane=LANE), scene.put("waiting", lane=LANE)
        view = scene.cancel(item, "a duplicate of #7")
        assert (view.item.status, view.promoted) == ("cancelled", (waiting,))
        assert view.item.cancel_reason == "a duplicate of #7"
        event = scene.last("item.cancelled")
        assert (event.item, event.reason, event.data["why"]) == (item, "operator", "a duplicate of #7")

    @pytest.mark.parametrize("where", ["deferred", "waiting", "parked", "kept"])
    def test_an_item_that_waits_anywhere_can_be_cancelled(self, scene: Scene, where: str) -> None:
        if where == "deferred":
            scene.put_running("owner", lane=LANE)
            item = scene.put("work", lane=LANE)
        elif where == "waiting":
            item = scene.put("work", lane=LANE, in_s=100)
        else:
            lease = scene.put_running("work", lane=LANE, retry_lane="keep" if where == "kept" else "yield")
            scene.fail(lease)
            item = lease.item.id
        scene.cancel(item)
        assert scene.status(item) == "cancelled"
        scene.pass_s(1000)
        assert scene.status(item) == "cancelled"

    def test_a_running_item_is_asked_and_the_reason_is_in_the_history_at_once(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        view = scene.cancel(lease.item.id, "wrong branch")
        assert (view.item.status, view.item.cancel_requested) == ("in_progress", True)
        assert (scene.last("cancel.requested").reason, scene.last("cancel.requested").run) == (
            "wrong branch",
            lease.fence,
        )
        scene.pass_s(GRACE_S)
        assert scene.item(lease.item.id).reason == "wrong branch"

    def test_force_revokes_the_lease_in_that_moment(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE)
        waiting = scene.put("waiting", lane=LANE)
        view = scene.cancel(lease.item.id, "runaway", force=True)
        assert (view.item.status, view.item.reason, view.promoted) == ("cancelled", "runaway", (waiting,))
        assert scene.done(lease).status == "refused"
        assert "runaway" in [e.reason for e in scene.history() if e.item == lease.item.id]

    def test_force_after_a_plain_request_keeps_both_reasons(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.cancel(lease.item.id, "please stop")
        scene.cancel(lease.item.id, "now", force=True)
        assert [e.reason for e in scene.events("cancel.requested")] == ["please stop", "now"]
        assert scene.status(lease.item.id) == "cancelled"

    def test_an_ended_item_is_not_cancelled_again(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.done(lease)
        with pytest.raises(ItemEnded, match="already ended as completed"):
            scene.cancel(lease.item.id)

    def test_a_cancelled_item_may_be_brought_back(self, scene: Scene) -> None:
        item = scene.put("work")
        scene.cancel(item)
        view = scene.service.retry(item, why="needed after all")
        assert (view.item.status, view.item.cancel_reason, view.item.ended_at) == ("pending", None, None)
        assert scene.last("item.retried").data["why"] == "needed after all"
        assert scene.claim().item.id == item


class TestTakeBack:
    def test_an_item_is_taken_from_its_run_and_offered_again(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE)
        view = scene.service.take_back(lease.item.id, why="the host is gone")
        assert view.item.status == "pending"
        assert scene.done(lease).status == "refused"
        heir = scene.claim("heir")
        assert (heir.item.id, heir.item.attempt) == (lease.item.id, 1)
        event = scene.last("run.released")
        assert (event.run, event.reason, event.data["why"]) == (lease.fence, "operator", "the host is gone")

    def test_a_later_run_is_not_taken_back_by_somebody_who_saw_an_earlier_one(self, scene: Scene) -> None:
        """Two operators take the item from run 1; meanwhile a worker has started the next run."""
        first = scene.put_running("work")
        item = first.item.id
        scene.service.take_back(item, why="the host is gone", run=first.fence)
        (second,) = scene.service.next("coder", item=item)
        with pytest.raises(StaleRevision) as refused:
            scene.service.take_back(item, why="the host is gone", run=first.fence)
        assert refused.value.sentence == (
            f"Run {first.fence} is not the current run of item {item}, which has run {second.fence}."
        )
        assert [each.operation for each in refused.value.cures] == ["show"]
        assert scene.item(item).run == second.fence
        scene.service.take_back(item, why="test", run=second.fence)
        assert scene.status(item) == "pending"
        with pytest.raises(InvalidInput):
            scene.service.take_back(item, why="test", run=0)

    def test_there_is_nothing_to_take_back_from_an_item_without_a_run(self, scene: Scene) -> None:
        item = scene.put("work")
        with pytest.raises(ItemEnded, match="no run holds it"):
            scene.service.take_back(item, why="test")


class TestRetry:
    def test_only_failed_cancelled_and_parked_items_are_retried(self, scene: Scene) -> None:
        item = scene.put("work")
        with pytest.raises(ItemEnded, match="Only items that failed, were cancelled or wa"):
            scene.service.retry(item)
        scene.done(scene.claim())
        with pytest.raises(ItemEnded):
            scene.service.retry(item)

    def test_a_back_off_is_ended_by_hand(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.fail(lease)
        assert scene.idle()
        assert scene.service.retry(lease.item.id).item.status == "pending"
        assert scene.claim().item.attempt == 2

    def test_each_retry_grants_one_more_attempt(self, scene: Scene) -> None:
        lease = scene.put_running("work", max_attempts=1)
        scene.fail(lease)
        for attempt in (2, 3):
            view = scene.service.retry(lease.item.id)
            assert view.item.max_attempts == attempt
            scene.fail(scene.claim())
            assert scene.status(lease.item.id) == "failed"


class TestPause:
    def test_a_paused_agent_gets_no_new_work_but_its_runs_go_on(self, scene: Scene) -> None:
        lease = scene.put_running("one", agent="coder")
        scene.put("two", agent="coder")
        view = scene.service.pause_agent("Coder", paused=True, why="holiday")
        assert (view.paused, view.paused_reason) == (True, "holiday")
        assert scene.idle("coder")
        assert scene.renew(lease).status == "running"
        assert scene.done(lease).status == "succeeded"
        scene.service.pause_agent("coder", paused=False, why="back")
        assert scene.claim("coder").item.title == "two"
        assert [(e.reason, e.agent) for e in scene.history() if e.kind.startswith("agent.")] == [
            ("holiday", "coder"),
            ("back", "coder"),
        ]

    def test_a_paused_project_gives_out_nothing_but_its_runs_go_on(self, scene: Scene) -> None:
        lease = scene.put_running("one", project="acme")
        two = scene.put("two", project="acme")
        scene.service.pause_project("acme", paused=True, why="release day")
        assert scene.service.paused_projects() == {"acme": "release day"}
        assert scene.idle()
        other = scene.put("other", project="other")
        assert scene.claim().item.id == other
        assert scene.done(lease).status == "succeeded"
        assert "release day" in scene.service.why(two).why
        scene.service.pause_project("acme", paused=False, why="released")
        assert scene.service.paused_projects() == {}
        assert scene.claim().item.id == two
        assert [e.reason for e in scene.history() if e.kind.startswith("project.")] == [
            "release day",
            "released",
        ]

    def test_items_still_arrive_and_queue_in_a_paused_project(self, scene: Scene) -> None:
        scene.service.pause_project("acme", paused=True, why="release day", create=True)
        assert scene.add("one", project="acme", lane=LANE).decision == "admitted"
        assert scene.add("two", project="acme", lane=LANE).decision == "queued"

    def test_a_back_off_that_ends_in_a_paused_project_waits_for_the_project(self, scene: Scene) -> None:
        lease = scene.put_running("work", project="acme")
        scene.fail(lease)
        scene.service.pause_project("acme", paused=True, why="release day")
        scene.pass_s(FIRST_BACK_OFF_S)
        assert scene.status(lease.item.id) == "pending"
        assert scene.idle()

    def test_pausing_an_agent_before_it_ever_asked_holds_from_its_first_claim(self, scene: Scene) -> None:
        scene.service.pause_agent("newcomer", paused=True, why="not yet", create=True)
        scene.put("work", agent="newcomer")
        assert scene.idle("newcomer")

    @pytest.mark.parametrize("paused", [True, False])
    def test_a_name_nobody_knows_is_refused_with_the_nearest_one(self, scene: Scene, paused: bool) -> None:
        scene.put("work", agent="coder", project="acme")
        scene.service.set_agent("Reviewer", max_concurrency=1)
        pause_agent, pause_project = scene.service.pause_agent, scene.service.pause_project
        for act, near in (
            (lambda: pause_agent("codr", paused=paused, why="typo"), "coder"),
            (lambda: pause_agent("REVIEWR", paused=paused, why="typo"), "reviewer"),
            (lambda: pause_project("amce", paused=paused, why="typo"), "acme"),
            (lambda: pause_project("defualt", paused=paused, why="typo"), "default"),
        ):
            with pytest.raises(NotFound, match=f"Did you mean {near}[?]"):
                act()
        with pytest.raises(NotFound) as far:
            pause_agent("zebra", paused=paused, why="typo")
        assert [each.operation for each in far.value.cures] == ["pause_agent" if paused else "agents"]
        assert [a.key for a in scene.service.agents()] == ["reviewer"]
        assert scene.service.paused_projects() == {}
        assert not [e for e in scene.history() if e.kind.endswith(("paused", "resumed"))]

    def test_a_name_is_known_by_what_used_it(self, scene: Scene) -> None:
        scene.done(scene.put_running("work", agent="coder", project="acme"))
        scene.service.next("idle")
        scene.service.set_mode(scope="project", value="watched", mode="observe")
        for agent in ("coder", "idle"):
            assert scene.service.pause_agent(agent, paused=True, why="lunch").paused
        for project in ("acme", "watched", "default"):
            scene.service.pause_project(project, paused=True, why="lunch")
        assert set(scene.service.paused_projects()) == {"acme", "watched", "default"}


class TestReasons:
    @pytest.mark.parametrize("why", ["", "   ", "x" * 1001, "nul\x00"])
    def test_an_operator_must_say_why(self, scene: Scene, why: str) -> None:
        lease = scene.put_running("work")
        service = scene.service
        for act in (
            lambda: service.cancel(lease.item.id, why=why),
            lambda: service.cancel(lease.item.id, why=why, force=True),
            lambda: service.take_back(lease.item.id, why=why),
            lambda: service.pause_agent("coder", paused=True, why=why),
            lambda: service.pause_project("default", paused=True, why=why),
        ):
            with pytest.raises(InvalidInput):
                act()
        assert scene.status(lease.item.id) == "in_progress"
        assert not scene.item(lease.item.id).cancel_requested

    def test_what_is_not_there_is_not_found(self, service: Service) -> None:
        missing = 999_999_999
        for act in (
            lambda: service.cancel(missing, why="test"),
            lambda: service.take_back(missing, why="test"),
            lambda: service.retry(missing),
            lambda: service.show(missing),
            lambda: service.why(missing),
        ):
            with pytest.raises(NotFound, match="no item 999999999"):
                act()

    @pytest.mark.parametrize("name", ["", "  "])
    def test_an_agent_without_a_name_can_be_neither_set_nor_paused(self, service: Service, name: str) -> None:
        with pytest.raises(InvalidInput):
            service.set_agent(name, max_concurrency=1)
        with pytest.raises(InvalidInput):
            service.pause_agent(name, paused=True, why="test")
        assert service.agents() == []


def test_items_are_listed_page_by_page_from_the_newest(scene: Scene) -> None:
    """Taken out: `before` in either statement; the first page comes again without end."""
    made = [scene.put(f"{n}") for n in range(7)]
    pages: list[list[int]] = []
    before: int | None = None
    while page := [i.id for i in scene.service.items(ItemFilter(limit=3, before=before))]:
        pages.append(page)
        before = page[0]
        assert len(pages) < 10
    assert pages == [made[4:], made[1:4], made[:1]]
