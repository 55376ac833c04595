"""How a run ends, and what becomes of its item and its lane."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from interlock.core.commands import Finish, FinishAnswer, Outcome
from interlock.core.model import EventKind, ItemId, Policy, RetryLane, RunId
from interlock.core.states import RunStatus
from interlock.core.timing import Timing
from tests.unit.world import LANE, World

#: `attempts`: left or last. `asked`: by nobody, by an operator (cancel), by a newer arrival (supersede).
#: `lane`: whether the first of the line owns the lane afterwards (handed), or the item keeps it (kept).
ENDINGS = """
the run        attempts retry_lane asked     | run        item        reason               lane   | events
done           left     yield      -         | succeeded  completed   reported             handed | run.succeeded
done           last     keep       -         | succeeded  completed   reported             handed | run.succeeded
done           left     yield      operator  | succeeded  completed   reported             handed | run.succeeded
done           left     yield      newer     | succeeded  completed   reported             handed | run.succeeded
fail           left     yield      -         | failed     waiting     back_off             handed | run.failed item.parked
fail           left     keep       -         | failed     pending     back_off             kept   | run.failed item.parked
fail           last     yield      -         | failed     failed      attempts_exhausted   handed | run.failed
fail           last     keep       -         | failed     failed      attempts_exhausted   handed | run.failed
fail-for-good  left     yield      -         | failed     failed      no_retry             handed | run.failed
fail-for-good  left     keep       -         | failed     failed      no_retry             handed | run.failed
fail           left     keep       operator  | failed     cancelled   because              handed | run.failed item.cancelled
fail           left     yield      newer     | failed     superseded  superseded_by_newer  handed | run.failed item.superseded
release        left     yield      -         | released   pending     reported             kept   | run.released
release        last     keep       -         | released   pending     reported             kept   | run.released
release        left     yield      operator  | cancelled  cancelled   because              handed | run.cancelled item.cancelled
release        left     yield      newer     | cancelled  superseded  superseded_by_newer  handed | run.cancelled item.superseded
lost           left     yield      -         | lost       pending     lease_expired        kept   | run.lost
lost           left     keep       -         | lost       pending     lease_expired        kept   | run.lost
lost           last     yield      -         | lost       failed      attempts_exhausted   handed | run.lost
lost           left     yield      operator  | lost       cancelled   because              handed | run.lost item.cancelled
lost           left     yield      newer     | lost       superseded  superseded_by_newer  handed | run.lost item.superseded
timeout        left     yield      -         | timed_out  pending     run_timeout          kept   | run.timed_out
timeout        last     keep       -         | timed_out  failed      attempts_exhausted   handed | run.timed_out
timeout        left     yield      operator  | timed_out  cancelled   because              handed | run.timed_out item.cancelled
timeout        left     yield      newer     | timed_out  superseded  superseded_by_newer  handed | run.timed_out item.superseded
grace          left     yield      operator  | cancelled  cancelled   because              handed | run.cancelled item.cancelled
grace          left     yield      newer     | cancelled  superseded  superseded_by_newer  handed | run.cancelled item.superseded
force          left     yield      -         | cancelled  cancelled   because              handed | cancel.requested run.cancelled item.cancelled
taken-back     left     yield      -         | released   pending     operator             kept   | run.released
"""  # noqa: E501

#: The grace is far longer here than lease and timeout, so that each can be tried under a cancel request.
TIMING = Timing(lease_s=60, cancel_grace_s=900)


@dataclass(frozen=True)
class Ending:
    how: str
    attempts: str
    retry_lane: str
    asked: str
    run: str
    item: str
    reason: str
    lane: str
    events: list[str]


def cases() -> list[object]:
    found: list[object] = []
    for line in ENDINGS.strip().splitlines()[1:]:
        how, attempts, retry_lane, asked, run, item, reason, lane, *events = [
            w for w in line.split() if w != "|"
        ]
        row = Ending(how, attempts, retry_lane, asked, run, item, reason, lane, events)
        found.append(pytest.param(row, id=f"{how} {attempts} {retry_lane} {asked}".rstrip(" -")))
    return found


def end(world: World, item: ItemId, how: str) -> None:
    """Let the run of an item end in the way named."""
    match how:
        case "done":
            world.done(item, result='"merged"')
        case "fail":
            world.fail(item, error="tests are red")
        case "fail-for-good":
            world.fail(item, retry=False)
        case "release":
            world.release(item)
        case "lost":
            world.pass_s(TIMING.lease_s)
            world.expire(item)
        case "timeout":
            world.pass_s(30)
            world.expire(item)
        case "grace":
            world.pass_s(TIMING.cancel_grace_s)
            world.expire(item)
        case "force":
            world.cancel(item, "because", force=True)
        case "taken-back":
            world.take_back(item, "because")
        case _:
            raise AssertionError(how)


@pytest.mark.parametrize("row", cases())
def test_a_run_ends(row: Ending) -> None:
    world = World(timing=TIMING)
    item = world.put(
        "work",
        agent="coder",
        policy=Policy.SUPERSEDE,
        max_attempts=1 if row.attempts == "last" else 3,
        retry_lane=RetryLane(row.retry_lane),
        timeout_s=30 if row.how == "timeout" else None,
    )
    run = world.start(item, lease_s=3600 if row.how == "grace" else None)
    waiting = world.put("of another", agent="planner")
    if row.asked == "operator":
        world.cancel(item, "because")
    elif row.asked == "newer":
        waiting = world.put("newer", agent="coder", policy=Policy.SUPERSEDE)
    before = len(world.events)

    end(world, item, row.how)

    ended = world.runs[run]
    assert ended.status == row.run
    assert ended.item == item
    assert world.status(item) == row.item
    assert world.items[item].state.reason == row.reason
    assert world.items[item].state.run is None
    assert world.owner() == (waiting if row.lane == "handed" else item)
    assert world.kinds()[before:] == row.events + ["lane.promoted"] * (row.lane == "handed")
    if row.lane == "handed":
        promoted = world.last(EventKind.LANE_PROMOTED)
        assert (promoted.data["from_run"], promoted.data["to_item"], promoted.lane) == (run, waiting, LANE)
        assert world.items[waiting].state.promoted_from == run


class TestRecord:
    """What stays of a run when it has ended."""

    def test_a_run_is_recorded_with_its_start_end_outcome_result_and_error(self) -> None:
        world = World()
        item = world.put("work")
        run = world.start(item, "coder")
        started_us = world.now_us
        world.pass_s(12.5)
        world.fail(item, error="tests are red", result='{"log": 1}')
        record = world.runs[run]
        assert (record.started_us, record.ended_us) == (started_us, started_us + 12_500_000)
        assert (record.status, record.agent, record.attempt) == (RunStatus.FAILED, "coder", 1)
        assert (record.error, record.result) == ("tests are red", '{"log": 1}')
        assert world.last(EventKind.RUN_FAILED).span_us == 12_500_000

    def test_the_history_names_the_agent_that_ran_and_the_agent_the_item_was_for(self) -> None:
        world = World()
        item = world.put("for anyone")
        world.start(item, "coder")
        world.fail(item)
        named = {e.kind: e.agent for e in world.events}
        assert named[EventKind.ITEM_ADDED] == ""
        assert named[EventKind.RUN_FAILED] == "coder"
        assert named[EventKind.ITEM_PARKED] == ""

    def test_the_first_claim_is_kept_over_all_attempts(self) -> None:
        world = World()
        item = world.put("work")
        world.pass_s(5)
        world.start(item)
        first_us = world.now_us
        world.pass_s(60)
        world.expire(item)
        world.pass_s(5)
        world.start(item)
        assert world.items[item].state.first_claimed_us == first_us
        world.done(item)
        assert world.items[item].state.first_claimed_us == first_us


class TestAttempts:
    def test_lost_and_timed_out_count_as_attempts_and_the_last_one_fails_the_item(self) -> None:
        world = World()
        item = world.put("work", max_attempts=3)
        for left in (2, 1, 0):
            world.start(item)
            world.pass_s(world.timing.lease_s)
            world.expire(item)
            assert world.status(item) == ("pending" if left else "failed")
        assert world.items[item].state.attempt == 3

    def test_a_release_gives_its_attempt_back(self) -> None:
        world = World()
        item = world.put("work", max_attempts=1)
        world.start(item)
        world.release(item)
        assert world.items[item].state.attempt == 0
        world.start(item)
        assert world.items[item].state.attempt == 1

    def test_failing_waits_out_a_back_off_that_grows_with_the_attempts(self) -> None:
        world = World()
        item = world.put("work", max_attempts=5)
        pauses = []
        for _ in range(4):
            world.start(item)
            world.fail(item, jitter=0.5)
            due_us = world.items[item].state.due_us
            assert due_us is not None
            pauses.append((due_us - world.now_us) / 1e6)
            world.now_us = due_us
            world.expire(item)
        assert pauses == [10, 20, 40, 80]

    def test_a_back_off_that_is_not_over_brings_nothing_back(self) -> None:
        world = World()
        item = world.put_running("work")
        world.fail(item, jitter=0.5)
        world.pass_s(9.999999)
        assert not world.expire(item).changed
        world.pass_s(0.000001)
        assert world.expire(item).changed
        assert world.status(item) == "pending"


class TestReleases:
    def test_the_third_release_in_a_row_is_parked_in_back_off(self) -> None:
        world = World()
        item = world.put("work")
        for expected in ("pending", "pending", "waiting"):
            world.start(item)
            world.release(item)
            assert world.status(item) == expected
        assert world.items[item].state.reason == "released_often"

    @pytest.mark.parametrize("between", ["lost", "failed"])
    def test_an_attempt_between_releases_begins_the_count_anew(self, between: str) -> None:
        world = World()
        item = world.put("work", max_attempts=9)
        for _ in range(2):
            world.start(item)
            world.release(item)
        world.start(item)
        if between == "lost":
            world.pass_s(world.timing.lease_s)
            world.expire(item)
        else:
            world.fail(item)
            world.retry(item)
        for _ in range(2):
            world.start(item)
            world.release(item)
        assert world.status(item) == "pending"

    def test_releasing_on_after_the_back_off_waits_longer_each_time(self) -> None:
        world = World()
        item = world.put("work")
        pauses = []
        for n in range(5):
            world.start(item)
            world.release(item, jitter=0.5)
            due_us = world.items[item].state.due_us
            if n >= 2:
                assert due_us is not None
                pauses.append((due_us - world.now_us) / 1e6)
                world.now_us = due_us
                world.expire(item)
        assert pauses == [10, 20, 40]

    def test_the_third_release_keeps_a_kept_lane(self) -> None:
        world = World()
        item = world.put("work", retry_lane=RetryLane.KEEP)
        for _ in range(3):
            world.start(item)
            world.release(item)
        assert world.status(item) == "pending"
        assert world.items[item].parked
        assert world.add("other").verdict == "queued"


class TestLateReports:
    """A report is accepted iff the run is the item's current one: equality, never at least."""

    def test_late_finish_after_takeover_is_refused_and_promotes_nobody_twice(self) -> None:
        world = World()
        item = world.put("work")
        late = world.start(item, "sleeper")
        waiting = [world.put("next"), world.put("last")]
        world.pass_s(world.timing.lease_s)
        world.expire(item)
        current = world.start(item, "heir")

        answer = world.done(item, run=late)

        assert_refused(
            answer, "Run 1 of sleeper ended as lost (lease_expired)", "in_progress with run 2 of heir"
        )
        assert world.items[item].state.run == current
        assert world.owner() == item
        assert world.line() == waiting
        assert world.done(item).promoted == (waiting[0],)
        assert_refused(world.done(item, run=late), "Run 1 of sleeper ended as lost")
        assert world.line() == [waiting[1]]

    def test_a_run_number_above_the_current_one_is_refused_as_well(self) -> None:
        world = World()
        item = world.put_running("work")
        assert world.done(item, run=RunId(world.run_of(item) + 1)).refusal is not None
        assert world.status(item) == "in_progress"

    def test_reporting_twice_in_one_batch_ends_the_run_once(self) -> None:
        world = World()
        item = world.put("work")
        run = world.start(item)
        waiting = world.put("next")
        report = Finish(run=run, item=item, outcome=Outcome.DONE)
        first, second = world.decide(report, report)
        assert (first.status, first.promoted) == (RunStatus.SUCCEEDED, (waiting,))
        assert second.refusal is not None
        assert world.kinds().count("lane.promoted") == 1

    def test_a_report_on_an_item_that_is_gone_is_refused(self) -> None:
        world = World()
        answer = world.done(ItemId(404), run=RunId(7))
        assert answer.refusal is not None
        assert answer.refusal.sentence.startswith("There is no run 7 with this handle in this store;")

    def test_every_refusal_is_counted_with_what_was_wanted(self) -> None:
        world = World()
        item = world.put("work")
        run = world.start(item)
        world.take_back(item)
        for finish, wanted in ((world.done, "done"), (world.fail, "fail"), (world.release, "release")):
            finish(item, run=run)
            event = world.last(EventKind.RUN_REFUSED)
            assert (event.reason, event.run, event.item, event.data["wanted"]) == (
                "lease_lost",
                run,
                item,
                wanted,
            )
        assert world.status(item) == "pending"


def assert_refused(answer: FinishAnswer, *parts: str) -> None:
    assert answer.status is None
    assert answer.promoted == ()
    assert answer.refusal is not None
    assert answer.refusal.code == "lease_lost"
    for part in parts:
        assert part in answer.refusal.sentence
    assert answer.refusal.cures[0].operation == "next"


class TestDeadlines:
    def test_a_deadline_in_the_future_ends_nothing(self) -> None:
        world = World()
        item = world.put_running("work")
        world.pass_s(world.timing.lease_s - 0.000001)
        assert not world.expire(item).changed
        world.pass_s(0.000001)
        assert world.expire(item).changed

    def test_what_is_not_due_at_all_is_left_alone(self) -> None:
        world = World()
        item = world.put("work")
        world.pass_s(1_000_000)
        assert not world.expire(item).changed

    def test_a_run_timeout_is_called_by_its_name_although_the_lease_ran_out_too(self) -> None:
        world = World()
        item = world.put_running("work", timeout_s=30)
        run = world.run_of(item)
        world.pass_s(600)
        world.expire(item)
        assert (world.runs[run].status, world.runs[run].reason) == ("timed_out", "run_timeout")

    def test_a_lease_that_ran_out_before_a_longer_timeout_is_called_a_loss(self) -> None:
        world = World()
        item = world.put_running("work", timeout_s=600)
        run = world.run_of(item)
        world.pass_s(world.timing.lease_s)
        world.expire(item)
        assert (world.runs[run].status, world.runs[run].reason) == ("lost", "lease_expired")

    def test_the_end_of_a_grace_goes_before_lease_and_timeout(self) -> None:
        world = World()
        item = world.put_running("work", timeout_s=30)
        world.cancel(item)
        world.pass_s(600)
        world.expire(item)
        assert world.last(EventKind.RUN_CANCELLED).reason == "cancel_grace_over"

    def test_expiring_twice_ends_one_run(self) -> None:
        world = World()
        item = world.put_running("work")
        world.pass_s(600)
        assert world.expire(item).changed
        assert not world.expire(item).changed
        assert len(world.runs) == 1
