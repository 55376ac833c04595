"""What is told afterwards: events, figures, and why an item is where it is."""

from __future__ import annotations

import itertools
import queue
import threading

import pytest

from interlock.service.contract import EventView
from tests.conformance.conftest import OpenService
from tests.conformance.scene import FIRST_BACK_OFF_S, LANE, LEASE_S, Scene
from tests.patience import PATIENCE_S


class TestEvents:
    def test_the_life_of_an_item_is_told_line_by_line(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE)
        scene.service.msg(lease.item.id, "hello")
        scene.fail(lease, seen=1)
        scene.clock.advance(FIRST_BACK_OFF_S)
        scene.done(scene.claim())
        assert scene.kinds(lease.item.id) == [
            "item.added",
            "run.started",
            "message.added",
            "run.failed",
            "item.parked",
            "item.reentered",
            "run.started",
            "run.succeeded",
        ]

    def test_every_arrival_leaves_a_line_with_its_reason(self, scene: Scene) -> None:
        scene.add("admitted", lane=LANE, agent="coder", policy="coalesce", dedupe_key="k")
        scene.add("queued", lane=LANE, agent="planner")
        scene.add("coalesced", lane=LANE, agent="coder", policy="coalesce")
        scene.add("rejected", lane=LANE, policy="reject")
        scene.add("duplicate", dedupe_key="k")
        scene.add("later", in_s=60)
        scene.service.set_mode(scope="lane", value="branch:", mode="observe")
        scene.add("observed", lane="branch:main")
        lines = [(e.kind, e.reason) for e in scene.history() if e.kind != "mode.set"]
        assert lines == [
            ("item.added", "lane_free"),
            ("item.added", "lane_queued"),
            ("item.coalesced", "issue_execution_same_name"),
            ("item.rejected", "lane_held"),
            ("item.duplicate", "dedupe_key_seen"),
            ("item.added", "scheduled"),
            ("item.observed", "would_be_admitted"),
        ]

    def test_numbers_grow_and_a_cursor_continues_where_it_stopped(self, scene: Scene) -> None:
        for n in range(10):
            scene.done(scene.put_running(f"item {n}"))
        everything = [e.seq for e in scene.history()]
        assert everything == sorted(set(everything))
        assert len(everything) == 30
        paged: list[int] = []
        while page := scene.service.events(after=paged[-1] if paged else 0, limit=7):
            assert len(page) <= 7
            paged += [e.seq for e in page]
        assert paged[: len(everything)] == everything

    def test_history_can_be_narrowed_to_an_item_or_a_lane(self, scene: Scene) -> None:
        one, two = scene.put("one", lane=LANE), scene.put("two")
        scene.claim()
        scene.history()
        assert {e.item for e in scene.service.events(item=two)} == {two}
        by_lane = scene.service.events(lane="Issue:Acme/App#42")
        assert {e.item for e in by_lane} == {one}
        assert [e.kind for e in by_lane] == ["item.added", "run.started"]

    def test_the_newest_lines_come_last_one_last(self, scene: Scene) -> None:
        items = [scene.put(f"item {n}") for n in range(5)]
        scene.history()
        newest = scene.service.events(newest=True, limit=3)
        assert [e.item for e in newest if e.item] == items[-2:]
        assert [e.seq for e in newest] == sorted(e.seq for e in newest)

    def test_following_gives_each_line_once_as_it_happens(self, scene: Scene) -> None:
        scene.put("before")
        after = scene.history()[-1].seq
        seen: queue.Queue[EventView] = queue.Queue()
        lines = itertools.islice((e for e in scene.service.follow(after=after) if e.item), 5)

        def read() -> None:
            for event in lines:
                seen.put(event)

        follower = threading.Thread(target=read, daemon=True)
        follower.start()
        items = [scene.put(f"item {n}") for n in range(5)]
        assert [seen.get(timeout=PATIENCE_S).item for _ in items] == items
        follower.join(PATIENCE_S)

    def test_a_cursor_never_skips_a_line_while_others_write(
        self, open_service: OpenService, scene: Scene
    ) -> None:
        """Numbers are not commit order: a reader that ran ahead of an open transaction would lose it."""
        each, writers = 25, 3

        def write(name: str) -> None:
            for n in range(each):
                scene.service.add([scene.new(f"{name} {n}")])

        threads = [threading.Thread(target=write, args=(f"writer {n}",)) for n in range(writers)]
        reader = open_service()
        for thread in threads:
            thread.start()
        read: list[int] = []
        while any(t.is_alive() for t in threads):
            read += [e.seq for e in reader.events(after=read[-1] if read else 0)]
        for thread in threads:
            thread.join()
        scene.history()
        read += [e.seq for e in reader.events(after=read[-1] if read else 0)]
        assert read == sorted(set(read))
        everything = [e.seq for e in reader.events(limit=10_000)]
        assert read == everything
        assert len(scene.events("item.added")) == each * writers


class TestStats:
    def test_depth_is_counted_by_priority_highest_first(self, scene: Scene) -> None:
        for priority in (5, 1, 5, 10, 5):
            scene.put("work", priority=priority)
        scene.put("later", priority=7, in_s=100)
        scene.put_running("running", priority=100)
        stats = scene.service.stats()
        assert list(stats.depth_by_priority.items()) == [(10, 1), (5, 3), (1, 1)]
        assert stats.items == {"pending": 5, "waiting": 1, "in_progress": 1}
        assert stats.current_locks == 1

    def test_rates_count_the_window(self, scene: Scene) -> None:
        for _ in range(4):
            scene.done(scene.put_running("work"))
        scene.fail(scene.put_running("work"), retry=False)
        stats = scene.service.stats(window_s=100)
        assert (stats.claims, stats.completions, stats.failures) == (5, 4, 1)
        assert (stats.claims_per_s, stats.completions_per_s) == (0.05, 0.04)
        assert stats.failure_rate_percent == 20.0
        scene.clock.advance(101)
        stats = scene.service.stats(window_s=100)
        assert (stats.claims, stats.completions, stats.failure_rate_percent) == (0, 0, 0.0)
        assert scene.service.stats(window_s=200).claims == 5

    def test_lock_duration_is_from_claim_to_end(self, scene: Scene) -> None:
        for seconds in (10, 20, 30):
            lease = scene.put_running("work")
            scene.clock.advance(seconds)
            scene.done(lease)
        stats = scene.service.stats()
        assert stats.lock_duration_avg_s == 20
        assert stats.lock_duration_p50_s == 20
        assert stats.lock_duration_p95_s == 30

    def test_time_to_claim_keeps_the_first_claim(self, scene: Scene) -> None:
        item = scene.put("work")
        scene.clock.advance(5)
        lease = scene.claim()
        first = scene.clock.now
        for _ in range(2):
            scene.clock.advance(LEASE_S)
            lease = scene.claim()
        scene.done(lease)
        assert scene.item(item).first_claimed_at == first
        stats = scene.service.stats()
        assert stats.claims == 3
        assert stats.time_to_claim_avg_s == stats.time_to_claim_p95_s == 5

    def test_time_to_claim_counts_the_wait_behind_a_lane(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE)
        scene.put("waiting", lane=LANE)
        scene.clock.advance(30)
        scene.done(lease)
        scene.claim()
        assert scene.service.stats().time_to_claim_p95_s == 30

    def test_losses_timeouts_and_refusals_are_counted(self, scene: Scene) -> None:
        lost = scene.put_running("lost")
        scene.lose(lost)
        slow = scene.put_running("slow", timeout_s=5, priority=10)
        scene.pass_s(5)
        for lease in (lost, slow):
            scene.done(lease)
        stats = scene.service.stats()
        assert (stats.lease_losses, stats.timeouts, stats.refused_writes) == (1, 1, 2)

    def test_what_lanes_did_is_counted(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, agent="coder", policy="coalesce")
        scene.add("coalesced", lane=LANE, agent="coder", policy="coalesce")
        scene.add("one", lane=LANE, agent="planner", policy="latest")
        scene.add("two", lane=LANE, agent="planner", policy="latest")
        scene.add("rejected", lane=LANE, policy="reject")
        scene.done(lease, seen=1)
        stats = scene.service.stats()
        assert (stats.coalesced, stats.superseded, stats.rejected, stats.promotions) == (1, 1, 1, 1)

    def test_the_oldest_pending_item_tells_how_long_it_waits(self, scene: Scene) -> None:
        assert scene.service.stats().oldest_pending_s is None
        scene.put("old")
        scene.clock.advance(90)
        scene.put("young")
        assert scene.service.stats().oldest_pending_s == pytest.approx(90, abs=0.001)

    def test_an_empty_store_has_figures_too(self, scene: Scene) -> None:
        stats = scene.service.stats()
        assert (stats.claims, stats.failure_rate_percent, stats.lock_duration_avg_s) == (0, 0.0, None)
        assert stats.items == {}

    def test_runs_are_counted_by_project_type_and_agent_and_failures_by_run_and_by_item(
        self, scene: Scene
    ) -> None:
        """One item fails twice and then for good, one is lost and then done, one is done at once."""
        lease = scene.put_running("a", project="web", type="build", agent="ann", max_attempts=2)
        scene.fail(lease)
        scene.clock.advance(FIRST_BACK_OFF_S)
        scene.fail(scene.claim("ann"))
        scene.lose(scene.put_running("b", project="web", type="review", by="bob"))
        scene.done(scene.claim("ann"))
        scene.release(scene.put_running("c", project="api", type="build", by="bob"))
        scene.done(scene.claim("bob"))

        def groups(by: str) -> dict[str, tuple[int, int, int, float, int, float]]:
            stats = scene.service.stats(by=by)
            assert (stats.by, stats.claims, stats.failures) == (by, 6, 3)
            assert (stats.failed_items, stats.item_failure_rate_percent) == (1, 33.33)
            return {
                g.name: (
                    *(g.claims, g.completions, g.failures, g.failure_rate_percent),
                    *(g.failed_items, g.item_failure_rate_percent),
                )
                for g in stats.groups
            }

        assert groups("project") == {"web": (4, 1, 3, 75.0, 1, 50.0), "api": (2, 1, 0, 0.0, 0, 0.0)}
        assert groups("type") == {"build": (4, 1, 2, 50.0, 1, 50.0), "review": (2, 1, 1, 50.0, 0, 0.0)}
        assert groups("agent") == {"ann": (3, 1, 2, 66.67, 1, 50.0), "bob": (3, 1, 1, 33.33, 0, 0.0)}
        plain = scene.service.stats()
        assert (plain.by, plain.groups, plain.failed_items) == (None, (), 1)


class TestWhy:
    def test_a_deferred_item_names_the_holder_until_when_and_what_happens_next(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, by="planner")
        scene.put("first", lane=LANE)
        second = scene.put("second", lane=LANE)
        why = scene.service.why(second).why
        assert f"held by run {lease.fence} of planner (item {lease.item.id})" in why
        assert "behind 1 more in line" in why
        assert "60 s" in why
        assert f"the line moves up when run {lease.fence} is done or fails" in why
        assert f"item {lease.item.id} is retried first" in why

    def test_every_state_has_one_sentence(self, scene: Scene) -> None:
        running = scene.put_running("owner", lane=LANE, agent="coder", policy="supersede")
        scene.put("deferred", lane=LANE)
        scene.put("older", lane=LANE, agent="coder", policy="supersede")
        scene.put("newer", lane=LANE, agent="coder", policy="supersede")
        scene.put("scheduled", in_s=100)
        scene.put("for somebody", agent="never-asked")
        scene.put("for anyone")
        scene.cancel(scene.put("cancelled"))
        scene.fail(scene.put_running("failed", priority=9), retry=False)
        scene.fail(scene.put_running("parked", priority=9))
        scene.done(scene.put_running("completed", priority=9))
        scene.put("absorber", lane="branch:a", agent="coder", policy="coalesce")
        scene.put("coalesced", lane="branch:a", agent="coder", policy="coalesce")
        items = scene.every()
        assert {i.status for i in items} == {
            "waiting",
            "deferred",
            "pending",
            "in_progress",
            "completed",
            "failed",
            "cancelled",
            "superseded",
            "coalesced",
        }
        for item in items:
            why = scene.service.why(item.id).why
            assert why.startswith(f"Item {item.id} ")
            assert why.endswith(".")
            assert "None" not in why
            assert scene.service.show(item.id).why == why
        assert "asked to stop" in scene.service.why(running.item.id).why

    def test_a_full_agent_is_named_with_its_limit(self, scene: Scene) -> None:
        scene.service.set_agent("coder", max_concurrency=1)
        scene.put_running("one", agent="coder")
        item = scene.put("two", agent="coder")
        assert "coder has 1 of 1 runs" in scene.service.why(item).why

    def test_a_pending_item_counts_those_ahead_of_it(self, scene: Scene) -> None:
        for n in range(3):
            scene.put(f"item {n}", priority=n)
        item = scene.put("last")
        assert "3 for anyone ahead of it" in scene.service.why(item).why


class TestLanes:
    def test_a_lane_is_shown_with_holder_and_line_and_vanishes_when_it_is_free(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, by="planner")
        waiting = [scene.put(f"item {n}", lane=LANE) for n in range(25)]
        (lane,) = scene.service.lanes()
        assert (lane.lane, lane.mode, lane.waiting) == (LANE, "enforce", 25)
        assert list(lane.line) == waiting[:20]
        assert lane.holder is not None
        assert (lane.holder.run, lane.holder.agent) == (lease.fence, "planner")
        for item in waiting:
            scene.cancel(item)
        scene.done(lease)
        assert scene.service.lanes() == []

    def test_a_prefix_is_text_and_no_pattern(self, scene: Scene) -> None:
        for lane in ("issue:a/b#1", "issue:a_b#1", "series:x"):
            scene.put("work", lane=lane)
        assert [x.lane for x in scene.service.lanes(prefix="issue:a_")] == ["issue:a_b#1"]
        assert [x.lane for x in scene.service.lanes(prefix="issue:")] == ["issue:a/b#1", "issue:a_b#1"]
        assert scene.service.lanes(prefix="%") == []
