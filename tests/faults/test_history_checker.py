"""The history checker has power: every rule is broken by hand once, and it says which."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.proof import checker
from interlock.proof.checker import History, LoggedEvent


class Log:
    """A log written by hand: one transaction a microsecond, one number a line."""

    def __init__(self) -> None:
        self.lines: list[LoggedEvent] = []

    def add(self, kind: str, item: int | None = None, run: int | None = None, **fields: Any) -> Log:
        lane = fields.pop("lane", "L")
        seq = fields.pop("seq", len(self.lines) + 1)
        at_us = fields.pop("at_us", len(self.lines) + 1)
        self.lines.append(
            LoggedEvent(seq=seq, at_us=at_us, kind=kind, item=item, run=run, lane=lane, data=fields)
        )
        return self

    def born(self, item: int, status: str = "pending", **fields: Any) -> Log:
        return self.add("item.added", item, status=status, **fields)

    def rules(self) -> list[str]:
        return [v.rule for v in History(self.lines).violations]


def handover() -> Log:
    """Two items of one lane, the second promoted when the first ends."""
    log = Log().born(1).born(2, "deferred")
    log.add("run.started", 1, 11).add("run.succeeded", 1, 11).add("lane.promoted", 2, 11)
    return log.add("run.started", 2, 12).add("run.succeeded", 2, 12)


def test_a_history_that_keeps_every_promise_is_clean() -> None:
    history = History(handover().lines)
    history.check_inputs([1, 2])
    history.check_acknowledged([(11, 1), (12, 2)])
    history.check_store({1: "completed", 2: "completed"})
    assert not history.violations


def test_loss_retry_parking_overtaking_absorbing_and_cancelling_break_no_rule() -> None:
    """Loss, retry, parking, overtaking, absorbing, cancelling: whatever a store may lawfully write."""
    log = Log().born(1).born(2, "deferred").add("lane.overtaken", 1, by_item=2)
    log.add("run.started", 2, 5).add("run.lost", 2, 5, item_status="pending")
    log.add("run.refused", 2, 5, wanted="done")
    log.add("run.started", 2, 6).add("run.failed", 2, 6, item_status="waiting").add("item.parked", 2)
    log.add("lane.promoted", 1, 6).add("item.reentered", 2, status="deferred")
    log.add("item.coalesced", 3, into_item=1)
    log.add("run.started", 1, 7).add("cancel.requested", 1, 7, by_item=4).born(4, "deferred")
    log.add("run.cancelled", 1, 7, item_status="superseded").add("item.superseded", 1, by_item=4)
    log.add("lane.promoted", 2, 7).add("item.cancelled", 2).add("lane.promoted", 4)
    log.add("item.retried", 2).add("item.reentered", 2, status="deferred")
    log.add("item.observed", 8, status="pending", lane="L").add("run.started", 8, 9, lane="L")
    log.born(10, "waiting", lane="M").add("wake.stopped", 10, lane="M")
    history = History(log.lines)
    history.check_inputs()
    assert not history.violations, history.violations
    assert history.movers() == {
        2: "the end of its lane's owner",
        4: "a claim",
        8: "the end of its run, or of its lease",
        10: "a person's message",
    }


def test_a_follow_up_of_observed_work_holds_no_lane() -> None:
    """Taken out: the parent's mode; an observed lane with two items at once was called a broken promise."""
    log = Log().add("item.observed", 1, status="pending").add("run.started", 1, 5)
    log.born(2, follows_item=1).add("run.released", 1, 5, item_status="pending")
    log.add("run.started", 1, 6).born(3, follows_item=1).add("run.succeeded", 1, 6)
    assert log.rules() == []


def test_lines_are_replayed_by_number_whatever_the_clock_says() -> None:
    log = Log().born(1, seq=40, at_us=3)
    log.add("run.started", 1, 11, seq=50, at_us=1)
    log.add("run.lost", 1, 11, item_status="pending", seq=60, at_us=2)
    assert not log.rules()
    history = History(log.lines)
    history.check_times()
    assert [v.rule for v in history.violations] == ["times_grow"]


def test_times_are_compared_where_one_thing_came_after_another() -> None:
    """Of one item, and of runs on one lane; not of items that have nothing to do with each other."""
    log = Log().born(1, lane=None, at_us=9).born(2, lane=None, at_us=8)
    log.born(3, at_us=7).add("run.started", 3, 5, at_us=8).add("run.succeeded", 3, 5, at_us=9)
    log.born(4, at_us=2).add("run.started", 4, 6, at_us=3)
    history = History(log.lines)
    history.check_times()
    assert [v.text.partition(" is ")[0] for v in history.violations] == ["#7 run.started(item 4, run 6, L)"]


def test_a_run_that_starts_while_another_holds_the_lane_is_found() -> None:
    log = Log().born(1).add("run.started", 1, 11)
    log.lines += Log().born(2, seq=90, at_us=90).lines
    assert log.rules() == ["one_owner_a_lane"]
    log.add("run.started", 2, 12, seq=91, at_us=91)
    assert log.rules() == ["one_owner_a_lane", "one_run_a_lane"]


BROKEN: list[tuple[str, Callable[[], Log]]] = [
    (
        "no_start_in_a_cycle",
        lambda: (
            Log()
            .born(1, plan=7, task="a", lane=None)
            .add("plan.cycle_opened", lane=None, plan=7)
            .add("run.started", 1, 11, lane=None)
        ),
    ),
    ("run_numbers_grow", lambda: handover().born(3).add("run.started", 3, 10)),
    ("started_before_ended", lambda: Log().born(1).add("run.succeeded", 1, 11)),
    ("ends_once", lambda: handover().add("run.lost", 2, 12, item_status="pending")),
    ("numbered_once", lambda: handover().born(3).add("run.started", 3, 12)),
    ("numbered_once", lambda: Log().born(1, seq=7).born(2, "deferred", seq=7)),
    ("promoted_before_started", lambda: Log().born(1).born(2, "deferred", lane="M").add("run.started", 2, 3)),
    ("promoted_before_started", lambda: handover().add("run.started", 2, 13)),
    ("lawful_move", lambda: handover().add("lane.promoted", 1)),
    ("lawful_move", lambda: handover().add("item.reentered", 1, status="pending")),
    ("lawful_birth", lambda: Log().born(1, "in_progress")),
    ("added_once", lambda: Log().born(1).add("item.cancelled", 1).born(1, "deferred")),
    ("added_once", lambda: Log().add("lane.promoted", 9)),
    ("refused_with_reason", lambda: Log().born(1).add("run.started", 1, 5).add("run.refused", 1, 5)),
    ("refused_with_reason", lambda: Log().add("run.refused", 1, 5)),
    (
        "refused_changes_nothing",
        lambda: Log().born(1).add("run.started", 1, 5).add("run.refused", 1, 5).add("run.succeeded", 1, 5),
    ),
    ("absorbed_travels", lambda: Log().born(1).add("item.superseded", 1, by_item=99)),
    (
        "absorbed_travels",
        lambda: Log().born(1).born(2, "deferred").add("item.superseded", 1, by_item=2)
        .add("item.superseded", 2, by_item=1),
    ),
    (
        "nothing_wakes_itself",
        lambda: Log().born(1).add("run.started", 1, 5).add("run.succeeded", 1, 5, unread_why="own_message")
        .born(2, "deferred", follows_item=1),
    ),
    (
        "a_loop_waits_for_a_person",
        lambda: Log().born(1, "waiting").add("wake.stopped", 1).add("item.reentered", 1, status="pending"),
    ),
    ("known_kind", lambda: Log().add("item.vanished", 1)),
    ("known_kind", lambda: Log().add("weather.changed", 1)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "log"), BROKEN, ids=[f"{n}-{r}" for n, (r, _) in enumerate(BROKEN)])
def test_a_broken_rule_is_named(rule: str, log: Callable[[], Log]) -> None:
    assert rule in log().rules()


def test_a_late_finish_that_ends_its_successor_is_found() -> None:
    """The item went on as run 12; the write of run 11 was accepted all the same."""
    log = Log().born(1).add("run.started", 1, 11).add("run.lost", 1, 11, item_status="pending")
    log.add("run.started", 1, 12)
    log.lines = [line for line in log.lines if line.kind != "run.lost"]
    assert "promoted_before_started" in log.rules()
    log.add("run.succeeded", 1, 11)
    assert "fenced" in log.rules()


def test_an_item_that_nothing_moves_is_lost() -> None:
    log = Log().born(1).born(2, "deferred").add("run.started", 1, 5).add("run.succeeded", 1, 5)
    history = History(log.lines)
    assert not history.violations
    history.check_inputs([1, 2, 3])
    assert [v.rule for v in history.violations] == ["nothing_lost", "nothing_lost"]


def test_acknowledged_work_that_was_not_recorded_is_found() -> None:
    log = Log().born(1).add("run.started", 1, 5).add("run.lost", 1, 5, item_status="pending")
    history = History(log.lines)
    history.check_acknowledged([(5, 1), (6, 1), (6, 1)])
    assert {v.rule for v in history.violations} == {"acknowledged_is_kept", "acknowledged_once"}


def test_rows_that_changed_without_a_line_are_found() -> None:
    history = History(handover().lines)
    history.check_store({1: "completed", 2: "pending", 3: "pending"})
    assert [v.text.split(",")[0] for v in history.violations] == ["item 2 is pending", "item 3 is pending"]


def test_a_key_with_two_items_is_found() -> None:
    history = History(handover().lines)
    history.check_keys([("once", 1), ("once", 1), ("twice", 1), ("twice", 2)])
    assert [v.rule for v in history.violations] == ["one_item_a_key"]
    assert "'twice'" in history.violations[0].text


@pytest.mark.parametrize(
    ("until_us", "limit_us", "rules"),
    [
        (0, 10**9, []),
        (10**9, 2 * 10**9, ["leases_last"]),
        (0, 0, ["lock_ends_with_lease"]),
    ],
)
def test_a_lease_that_ends_early_or_late_is_found(until_us: int, limit_us: int, rules: list[str]) -> None:
    log = Log().born(1).add("run.started", 1, 5).add("run.lost", 1, 5, item_status="pending")
    history = History(log.lines)
    history.check_leases({5: (until_us, limit_us), 9: (0, 0)}, now_us=10**10)
    assert [v.rule for v in history.violations] == rules


def test_a_lease_that_never_ends_is_found_unless_the_clock_was_set() -> None:
    log = Log().born(1).add("run.started", 1, 5)
    history = History(log.lines)
    history.check_leases({5: (10, 20)}, now_us=10**10)
    assert [v.rule for v in history.violations] == ["lock_ends_with_lease"]
    stepped = History(log.add("clock.stepped", None).lines)
    stepped.check_leases({5: (10, 20)}, now_us=10**10)
    assert stepped.violations == []


def test_a_push_after_a_later_run_has_armed_is_found() -> None:
    history = History(handover().lines)
    history.check_pushes(armed=[(1.0, 5), (3.0, 6)], pushed=[(2.0, 5), (4.0, 6)])
    assert history.violations == []
    history.check_pushes(armed=[(1.0, 5), (3.0, 6)], pushed=[(3.1, 5)])
    assert [v.rule for v in history.violations] == ["late_push"]


def test_every_rule_of_the_checker_has_a_history_that_breaks_it() -> None:
    rules = set(re.findall(r'_report\(\s*"(\w+)"', Path(checker.__file__).read_text()))
    rules |= {"one_run_a_lane", "one_owner_a_lane", "promoted_before_started", "lawful_move"}
    tried = {rule for rule, _ in BROKEN} | {"one_run_a_lane", "one_owner_a_lane", "fenced", "nothing_lost"}
    tried |= {"acknowledged_once", "acknowledged_is_kept", "rows_match_lines", "times_grow"}
    tried |= {"one_item_a_key", "leases_last", "lock_ends_with_lease", "late_push"}
    assert rules == tried
