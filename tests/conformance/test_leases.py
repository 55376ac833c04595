"""Leases: the right to act until a moment on the store's clock, and what happens when it is over."""

from __future__ import annotations

from datetime import datetime

import pytest

from interlock.core.errors import LeaseLost
from interlock.service.contract import Report, Service
from tests.conformance.conftest import OpenService
from tests.conformance.scene import FIRST_BACK_OFF_S, GRACE_S, LANE, LEASE_S, Scene


def ends(scene: Scene, item: int) -> list[datetime | None]:
    """When a run loses its item, as the item and its lane tell it."""
    lane = scene.lane()
    assert lane is not None
    assert lane.holder is not None
    return [scene.item(item).expires_at, lane.holder.expires_at]


class TestRenewal:
    def test_a_renewal_keeps_the_lease_for_another_span_from_now(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.clock.advance(40)
        view = scene.renew(lease)
        assert (view.status, view.expires_at) == ("running", scene.clock.in_s(LEASE_S))
        scene.pass_s(LEASE_S - 0.000001)
        assert scene.status(lease.item.id) == "in_progress"
        scene.pass_s(0.000001)
        assert scene.status(lease.item.id) == "pending"

    def test_a_run_of_forty_silent_minutes_keeps_its_lease_by_renewing(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        for _ in range(120):
            scene.pass_s(20)
            assert scene.renew(lease).status == "running"
        assert scene.done(lease).status == "succeeded"
        assert len(scene.service.show(lease.item.id).runs) == 1

    def test_many_runs_are_renewed_in_one_call(self, scene: Scene) -> None:
        for n in range(10):
            scene.put(f"item {n}")
        leases = scene.service.next("coder", limit=10)
        lost = leases[3]
        scene.service.take_back(lost.item.id, why="test")
        scene.clock.advance(30)
        views = scene.service.renew([Report(run=x.run) for x in leases])
        assert [v.run for v in views] == [x.run for x in leases]
        assert [v.status for v in views] == ["refused" if x is lost else "running" for x in leases]

    def test_a_lease_may_be_chosen_for_an_item_and_a_claim_may_choose_another(self, scene: Scene) -> None:
        scene.put("plain")
        scene.put("slow", lease_s=600)
        scene.put("hurried", lease_s=600)
        ends = [
            scene.claim().expires_at,
            scene.claim().expires_at,
            scene.claim(lease_s=5).expires_at,
        ]
        assert ends == [scene.clock.in_s(LEASE_S), scene.clock.in_s(600), scene.clock.in_s(5)]

    def test_a_renewal_is_for_the_span_that_was_claimed(self, scene: Scene) -> None:
        scene.put("work", lease_s=600)
        lease = scene.claim(lease_s=5)
        assert lease.renew_within_s == pytest.approx(5 / 3, abs=0.001)
        scene.clock.advance(3)
        assert scene.renew(lease).expires_at == scene.clock.in_s(5)

    def test_a_store_has_a_default_of_its_own(self, open_service: OpenService, scene: Scene) -> None:
        short = Scene(open_service(lease_s=2), scene.clock)
        assert short.put_running("work").expires_at == scene.clock.in_s(2)

    def test_a_new_claim_starts_with_a_fresh_heartbeat_clock(self, scene: Scene) -> None:
        """The last renewal of the run before it must not count against it."""
        first = scene.put_running("work")
        scene.clock.advance(50)
        scene.renew(first)
        scene.lose(first)
        scene.clock.advance(3600)
        second = scene.claim("heir")
        assert second.expires_at == scene.clock.in_s(LEASE_S)
        scene.pass_s(LEASE_S - 1)
        assert scene.status(second.item.id) == "in_progress"
        assert scene.done(second).status == "succeeded"


class TestLoss:
    def test_a_lost_item_is_offered_again_at_once_and_the_loss_counts_as_an_attempt(
        self, scene: Scene
    ) -> None:
        first = scene.put_running("work")
        scene.lose(first)
        item = scene.item(first.item.id)
        assert (item.status, item.reason, item.attempt) == ("pending", "lease_expired", 1)
        second = scene.claim("heir")
        assert second.fence > first.fence
        assert second.item.attempt == 2
        assert [r.status for r in scene.service.show(first.item.id).runs] == ["lost", "running"]

    def test_a_claim_repairs_what_it_needs_without_a_sweeper(self, scene: Scene) -> None:
        first = scene.put_running("work")
        scene.clock.advance(LEASE_S)
        assert scene.claim("heir").item.id == first.item.id

    def test_losing_the_last_attempt_fails_the_item(self, scene: Scene) -> None:
        lease = scene.put_running("work", max_attempts=1)
        scene.lose(lease)
        item = scene.item(lease.item.id)
        assert (item.status, item.reason) == ("failed", "attempts_exhausted")

    @pytest.mark.parametrize("write", ["done", "fail", "release", "renew"])
    def test_every_late_write_is_refused_with_who_has_it_now_and_is_counted(
        self, scene: Scene, write: str
    ) -> None:
        late = scene.put_running("work", by="sleeper")
        scene.lose(late)
        heir = scene.claim("heir")
        view = getattr(scene, write)(late)
        assert view.status == "refused"
        assert view.promoted == ()
        assert view.refusal is not None
        assert view.refusal.code == "lease_lost"
        assert f"Run {late.fence} of sleeper ended as lost (lease_expired)" in view.refusal.message
        assert f"with run {heir.fence} of heir" in view.refusal.message
        assert view.refusal.hint
        event = scene.last("run.refused")
        assert (event.run, event.item, event.data["wanted"]) == (late.fence, late.item.id, write)
        assert scene.service.stats().refused_writes == 1
        assert scene.done(heir).status == "succeeded"

    @pytest.mark.parametrize("end", ["done", "fail", "release", "ask"])
    def test_a_write_after_the_runs_own_report_is_refused_and_no_zombies(
        self, scene: Scene, end: str
    ) -> None:
        """A worker reports what its command has reported already."""
        lease = scene.put_running("work")
        if end == "ask":
            scene.service.ask(lease.run, "Which branch?")
        else:
            getattr(scene, end)(lease)
        for write in ("done", "fail", "release", "renew"):
            assert getattr(scene, write)(lease).status == "refused"
        assert scene.service.stats().refused_writes == 0

    def test_reading_is_fenced_like_writing(self, scene: Scene) -> None:
        late = scene.put_running("work", message="secret")
        scene.lose(late)
        with pytest.raises(LeaseLost):
            scene.service.inbox(late.run)
        assert scene.last("run.refused").run == late.fence
        assert scene.last("run.refused").data == {"wanted": "inbox"}

    def test_a_write_is_accepted_until_somebody_noticed_that_the_lease_is_over(self, scene: Scene) -> None:
        """The fence is the item's current run, not the clock: nobody else has it yet."""
        lease = scene.put_running("work")
        scene.clock.advance(10 * LEASE_S)
        assert scene.renew(lease).status == "running"
        scene.clock.advance(10 * LEASE_S)
        assert scene.done(lease).status == "succeeded"

    def test_late_finish_after_takeover_is_refused_and_promotes_nobody_twice(self, scene: Scene) -> None:
        late = scene.put_running("work", lane=LANE, by="sleeper")
        waiting = [scene.put(f"waiting {n}", lane=LANE) for n in range(2)]
        scene.lose(late)
        heir = scene.claim("heir")
        assert scene.done(late).promoted == ()
        assert scene.owner() == late.item.id
        assert scene.done(heir).promoted == (waiting[0],)
        assert scene.done(late).status == scene.done(heir).status == "refused"
        assert scene.line() == [waiting[1]]
        assert len(scene.events("lane.promoted")) == 1

    def test_the_last_holder_of_an_ended_item_is_told_how_its_run_ended(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.done(lease)
        refusal = scene.fail(lease).refusal
        assert refusal is not None
        assert "ended as succeeded (reported)" in refusal.message
        assert f"Item {lease.item.id} is completed." in refusal.message


class TestTimeout:
    def test_a_run_timeout_ends_a_run_that_goes_on_renewing(self, scene: Scene) -> None:
        lease = scene.put_running("work", timeout_s=90)
        for _ in range(4):
            scene.pass_s(20)
            assert scene.renew(lease).status == "running"
        assert scene.renew(lease).expires_at == scene.clock.in_s(10), (
            "a renewal promises no more than there is"
        )
        scene.pass_s(10)
        assert [r.status for r in scene.service.show(lease.item.id).runs] == ["timed_out"]
        assert scene.status(lease.item.id) == "pending"
        assert scene.done(lease).status == "refused"

    def test_a_timeout_shorter_than_the_lease_comes_first(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE, timeout_s=5)
        assert lease.expires_at == scene.clock.in_s(5)
        assert ends(scene, lease.item.id) == [lease.expires_at] * 2
        scene.pass_s(5)
        (run,) = scene.service.show(lease.item.id).runs
        assert (run.status, run.reason) == ("timed_out", "run_timeout")

    def test_timing_out_on_the_last_attempt_fails_the_item(self, scene: Scene) -> None:
        lease = scene.put_running("work", timeout_s=5, max_attempts=1)
        scene.pass_s(5)
        assert scene.item(lease.item.id).reason == "attempts_exhausted"


class TestCancelGrace:
    def test_a_cancelled_run_has_its_grace_and_learns_of_it_by_renewing(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE)
        assert not scene.renew(lease).cancel_requested
        scene.cancel(lease.item.id, "wrong branch")
        view = scene.renew(lease)
        assert view.cancel_requested
        assert view.expires_at == scene.clock.in_s(GRACE_S)
        assert ends(scene, lease.item.id) == [view.expires_at] * 2
        assert view.item is not None
        assert view.item.cancel_reason == "wrong branch"
        assert scene.status(lease.item.id) == "in_progress"

    def test_after_a_request_no_renewal_extends_past_the_grace(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.cancel(lease.item.id)
        end = scene.clock.in_s(GRACE_S)
        scene.clock.advance(GRACE_S - 1)
        assert scene.renew(lease).expires_at == end
        scene.pass_s(1)
        item = scene.item(lease.item.id)
        assert (item.status, item.reason) == ("cancelled", "not needed")
        assert scene.renew(lease).status == "refused"

    @pytest.mark.parametrize("past_the_grace", [False, True])
    def test_done_after_a_request_is_accepted_until_revocation(
        self, scene: Scene, past_the_grace: bool
    ) -> None:
        lease = scene.put_running("work")
        scene.cancel(lease.item.id)
        scene.clock.advance(GRACE_S + past_the_grace * 100)
        view = scene.done(lease)
        assert view.item is not None
        assert (view.status, view.item.status) == ("succeeded", "completed")

    def test_done_after_the_revocation_is_refused(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.cancel(lease.item.id)
        scene.pass_s(GRACE_S)
        assert scene.done(lease).status == "refused"
        assert scene.status(lease.item.id) == "cancelled"

    @pytest.mark.parametrize("write", ["fail", "release"])
    def test_fail_and_release_under_a_request_end_the_item(self, scene: Scene, write: str) -> None:
        lease = scene.put_running("work")
        scene.cancel(lease.item.id)
        getattr(scene, write)(lease)
        assert scene.status(lease.item.id) == "cancelled"

    def test_a_lost_run_under_a_request_is_not_offered_again(self, scene: Scene) -> None:
        lease = scene.put_running("work", lease_s=5)
        scene.cancel(lease.item.id)
        scene.pass_s(5)
        assert scene.status(lease.item.id) == "cancelled"
        assert scene.idle()

    def test_the_grace_is_the_stores_choice(self, open_service: OpenService, scene: Scene) -> None:
        patient = Scene(open_service(cancel_grace_s=45), scene.clock)
        lease = patient.put_running("work")
        patient.cancel(lease.item.id)
        assert patient.renew(lease).expires_at == scene.clock.in_s(45)


class TestSweeper:
    def test_a_second_sweep_finds_nothing_left_to_do(self, scene: Scene) -> None:
        for n in range(5):
            scene.put(f"item {n}", lane=f"issue:acme/app#{n}")
            scene.put(f"behind {n}", lane=f"issue:acme/app#{n}")
        scene.put("later", in_s=5)
        leases = scene.service.next("coder", limit=5)
        scene.fail(leases[0])
        scene.clock.advance(LEASE_S)
        swept = scene.service.sweep()
        assert (swept.expired, swept.reentered) == (4, 2)
        history = len(scene.history())
        nothing = scene.service.sweep()
        assert (nothing.expired, nothing.reentered, nothing.promoted) == (0, 0, 0)
        assert len(scene.history()) == history

    def test_two_services_sweep_one_store_and_each_run_ends_once(
        self, open_service: OpenService, scene: Scene
    ) -> None:
        other = open_service()
        leases = [scene.put_running(f"item {n}") for n in range(6)]
        scene.clock.advance(LEASE_S)
        swept = [scene.service.sweep(), other.sweep(), scene.service.sweep()]
        assert sum(s.expired for s in swept) == 6
        for lease in leases:
            assert [r.status for r in scene.service.show(lease.item.id).runs] == ["lost"]

    def test_a_sweep_takes_more_than_one_batch_when_it_has_to(self, scene: Scene) -> None:
        scene.service.add([scene.new(f"item {n}") for n in range(450)])
        assert len(scene.service.next("coder", limit=450)) == 450
        scene.clock.advance(LEASE_S)
        assert scene.service.sweep().expired == 450
        assert scene.service.stats().items == {"pending": 450}

    def test_items_of_an_unknown_type_and_agent_are_offered_again_and_never_discarded(
        self, scene: Scene
    ) -> None:
        item = scene.put("odd", type="type-nobody-knows", agent="agent-nobody-knows")
        lease = scene.claim("agent-nobody-knows")
        scene.lose(lease)
        assert scene.status(item) == "pending"
        assert scene.claim("agent-nobody-knows").item.id == item

    def test_a_schedule_comes_due_by_a_sweep_or_by_a_claim(self, scene: Scene) -> None:
        one, two = scene.put("one", in_s=10), scene.put("two", in_s=20)
        assert scene.statuses(one, two) == ["waiting", "waiting"]
        assert scene.idle()
        scene.pass_s(10)
        assert scene.statuses(one, two) == ["pending", "waiting"]
        scene.clock.advance(10)
        assert {scene.claim().item.id, scene.claim().item.id} == {one, two}

    def test_a_delay_is_counted_by_the_store_and_not_by_the_callers_clock(self, scene: Scene) -> None:
        """The test's clock is years away from this process's: a delay counted here would be far off."""
        item = scene.put("later", run_after_s=300)
        assert scene.item(item).run_at == scene.clock.in_s(300)
        scene.pass_s(299.9)
        assert scene.idle()
        scene.pass_s(0.1)
        assert scene.claim().item.id == item

    def test_run_at_is_told_while_it_waits(self, scene: Scene) -> None:
        item = scene.put("later", in_s=3600)
        assert scene.item(item).run_at == scene.clock.in_s(3600)
        assert "is due in 1 h" in scene.service.why(item).why


class TestClockGoesBackwards:
    """The clock of a database host may be set back: nothing is doubled, and work goes on by itself."""

    def test_a_run_goes_on_and_ends_once(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE)
        waiting = scene.put("waiting", lane=LANE)
        scene.clock.advance(-3600)
        scene.service.sweep()
        assert scene.idle("other"), "what is held is not given out again"
        assert scene.renew(lease).status == "running"
        assert scene.done(lease).promoted == (waiting,)
        assert scene.claim().fence > lease.fence

    def test_what_arrives_later_still_stands_behind_what_came_before(self, scene: Scene) -> None:
        before = scene.put("before")
        scene.clock.advance(-3600)
        after = scene.put("after")
        assert [scene.claim().item.id for _ in range(2)] == [before, after]

    def test_the_line_of_a_lane_keeps_its_order(self, scene: Scene) -> None:
        scene.put_running("owner", lane=LANE)
        first = scene.put("first", lane=LANE)
        scene.clock.advance(-3600)
        second = scene.put("second", lane=LANE)
        assert scene.line() == [first, second]

    def test_a_lost_run_is_noticed_once_time_has_caught_up(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.clock.advance(-100)
        scene.pass_s(100 + LEASE_S)
        assert scene.status(lease.item.id) == "pending"
        assert scene.claim().fence > lease.fence

    def test_a_renewal_after_the_jump_makes_the_lease_follow_the_new_time(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.clock.advance(-3600)
        assert scene.renew(lease).expires_at == scene.clock.in_s(LEASE_S)
        scene.pass_s(LEASE_S)
        assert scene.status(lease.item.id) == "pending"

    def test_fences_and_events_go_on_growing(self, scene: Scene) -> None:
        first = scene.put_running("one")
        last = scene.history()[-1].seq
        scene.clock.advance(-3600)
        second = scene.put_running("two")
        assert second.fence > first.fence
        assert [e.kind for e in scene.history(after=last)] == ["item.added", "run.started"]


def test_a_back_off_is_not_a_lease(scene: Scene) -> None:
    """A parked item is nobody's: no agent's room, no lock, no loss."""
    scene.service.set_agent("coder", max_concurrency=1)
    scene.fail(scene.put_running("work"))
    stats = scene.service.stats()
    assert (stats.current_locks, stats.lease_losses) == (0, 0)
    scene.put_running("other")
    scene.pass_s(FIRST_BACK_OFF_S)
    assert scene.service.stats().current_locks == 1


def test_two_services_on_one_store_see_one_truth(open_service: OpenService, scene: Scene) -> None:
    other: Service = open_service()
    lease = scene.put_running("work")
    assert other.next("coder") == []
    assert other.renew([Report(run=lease.run)])[0].status == "running"
    assert other.done([Report(run=lease.run)])[0].status == "succeeded"
    assert scene.done(lease).status == "refused"
