"""Notices: each event that a user's command wants to be told of is leased to one, and never skipped."""

from __future__ import annotations

import pytest

from interlock.core import notices
from interlock.core.errors import InvalidInput
from interlock.service.contract import NoticeView
from interlock.service.notices import POLL_EVENTS
from tests.conformance.conftest import OpenService
from tests.conformance.scene import Scene

NAME = "on_dead_letter"


def begin(scene: Scene) -> None:
    scene.history()  # until everything so far is visible to readers of the history
    assert scene.service.next_notice(NAME) is None


def bury(scene: Scene, title: str = "work") -> int:
    """Let an item become a dead letter."""
    lease = scene.put_running(title)
    scene.fail(lease, error="boom", retry=False)
    return lease.item.id


def owed(scene: Scene) -> NoticeView:
    scene.history()
    notice = scene.service.next_notice(NAME)
    assert notice is not None
    return notice


def nothing_owed(scene: Scene) -> bool:
    scene.history()
    return scene.service.next_notice(NAME) is None


def test_each_dead_letter_is_owed_once_and_in_order(scene: Scene) -> None:
    begin(scene)
    buried = [bury(scene, "one"), bury(scene, "two")]
    for item in buried:
        notice = owed(scene)
        assert (notice.event.item, notice.attempt, notice.event.kind) == (item, 1, "run.failed")
        assert notice.item is not None
        assert notice.item.status == "failed"
        assert scene.service.end_notice(notice)
    assert nothing_owed(scene)


@pytest.mark.parametrize("way", ["failed", "timed out", "lost"])
def test_an_item_that_fails_for_good_in_any_way_is_a_dead_letter(scene: Scene, way: str) -> None:
    begin(scene)
    lease = scene.put_running("work", max_attempts=1, timeout_s=30 if way == "timed out" else None)
    if way == "failed":
        scene.fail(lease)
    else:
        scene.pass_s(31 if way == "timed out" else 61)
    assert scene.status(lease.item.id) == "failed"
    assert owed(scene).event.item == lease.item.id


def test_what_is_tried_again_or_ends_otherwise_is_none(scene: Scene) -> None:
    begin(scene)
    scene.fail(scene.put_running("tried again"))
    scene.done(scene.put_running("done"))
    scene.cancel(scene.put("cancelled"))
    scene.release(scene.put_running("released"))
    assert nothing_owed(scene)


def test_what_happened_before_the_first_look_is_not_owed(scene: Scene) -> None:
    bury(scene)
    begin(scene)
    assert nothing_owed(scene)
    item = bury(scene)
    assert owed(scene).event.item == item


def test_nobody_else_gets_a_leased_notice(scene: Scene, open_service: OpenService) -> None:
    begin(scene)
    bury(scene)
    owed(scene)
    other = open_service()
    assert other.next_notice(NAME) is None
    scene.clock.advance(notices.LEASE_S - 1)
    assert other.next_notice(NAME) is None


def test_a_process_that_died_before_its_mark_leaves_the_notice_to_the_next(
    scene: Scene, open_service: OpenService
) -> None:
    begin(scene)
    bury(scene)
    first = owed(scene)
    scene.clock.advance(notices.LEASE_S)
    other = open_service()
    again = other.next_notice(NAME)
    assert again is not None
    assert (again.event.seq, again.attempt) == (first.event.seq, 1)
    assert not scene.service.end_notice(first), "it came back too late"
    assert other.end_notice(again)
    assert nothing_owed(scene)


def test_a_command_that_fails_is_tried_again_later_and_then_given_up(scene: Scene) -> None:
    begin(scene)
    item, behind = bury(scene, "one"), bury(scene, "two")
    for attempt, wait_s in enumerate((*notices.WAITS_S, None), 1):
        notice = owed(scene)
        assert (notice.event.item, notice.attempt) == (item, attempt)
        assert scene.service.end_notice(notice, error="no mail server")
        if wait_s is not None:
            assert nothing_owed(scene)
            scene.clock.advance(wait_s)
    given_up = scene.last("notice.failed")
    assert (given_up.item, given_up.data["notice"], given_up.data["error"]) == (item, NAME, "no mail server")
    assert owed(scene).event.item == behind


def test_the_mark_moves_past_a_history_in_which_nothing_is_wanted(scene: Scene) -> None:
    begin(scene)
    for n in range(POLL_EVENTS + 20):
        scene.service.set_mode(scope="lane", value=f"lane-{n % 7}", mode="enforce")
    assert nothing_owed(scene)
    item = bury(scene)
    assert owed(scene).event.item == item


def test_two_names_have_marks_of_their_own(scene: Scene) -> None:
    begin(scene)
    assert scene.service.next_notice("on_question") is None
    bury(scene)
    scene.history()
    assert scene.service.next_notice("on_question") is None
    owed(scene)


def test_an_unknown_name_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidInput, match="Unknown notice"):
        scene.service.next_notice("on_monday")


def test_of_two_who_saw_the_same_mark_one_gets_it(scene: Scene) -> None:
    """Taken out: the condition on `until_us` in `lease_mark.sql`, of each store; both get it."""
    begin(scene)
    store = scene.service.store  # type: ignore[attr-defined]
    seen = store.mark(NAME)
    assert [store.lease_mark(seen, token, notices.LEASE_S) for token in (1, 2)] == [True, False]
    assert [store.move_mark(NAME, token, seq=seen.seq) for token in (2, 1, 1)] == [False, True, False]
    assert store.lease_mark(seen, 3, notices.LEASE_S)
