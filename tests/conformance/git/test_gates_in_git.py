"""Gates on lanes in git: the scenarios of the databases, and what only git has."""

from __future__ import annotations

import pytest

from interlock.core.errors import UnreadableState
from interlock.gitlanes import documents, lane
from tests.conformance import test_series_gates
from tests.conformance.git.conftest import GitScene
from tests.conformance.scene import LANE
from tests.conformance.test_series_gates import (
    SERIES,
    WAYS,
    test_a_follow_up_of_unread_messages_waits_for_the_gate,
    test_a_gate_moves_to_another_series,
    test_a_gate_opens_only_for_the_run_that_the_series_has,
    test_a_gate_opens_only_when_the_runs_of_the_other_lanes_have_ended,
    test_a_gate_opens_only_while_every_other_lane_of_its_series_is_shut,
    test_a_gate_tells_what_it_is,
    test_a_lane_that_left_its_series_keeps_no_other_shut,
    test_a_policy_does_on_a_shut_lane_what_it_always_does,
    test_a_promoted_item_is_gated_like_the_first,
    test_a_run_that_a_shut_gate_stops_may_end_otherwise,
    test_a_second_shutting_asks_no_second_time_and_a_cancelled_run_stays_cancelled,
    test_a_wrong_gate_is_refused_and_changes_nothing,
    test_an_arrival_on_a_shut_lane_says_what_it_waits_for,
    test_an_exempt_item_overtakes_an_owner_that_the_gate_keeps_waiting,
    test_an_exempt_item_starts_on_a_shut_lane,
    test_an_item_of_another_agent_does_not_overtake_on_a_shut_lane,
    test_nothing_on_a_shut_lane_is_started_until_it_opens,
    test_the_history_tells_who_shut_a_lane_and_why,
    test_the_lanes_of_plans_have_no_gates,
    test_the_same_gate_again_writes_nothing,
    test_what_a_hold_left_is_not_offered_again,
)

__all__ = [
    "test_a_follow_up_of_unread_messages_waits_for_the_gate",
    "test_a_gate_moves_to_another_series",
    "test_a_gate_opens_only_for_the_run_that_the_series_has",
    "test_a_gate_opens_only_when_the_runs_of_the_other_lanes_have_ended",
    "test_a_gate_opens_only_while_every_other_lane_of_its_series_is_shut",
    "test_a_gate_tells_what_it_is",
    "test_a_lane_that_left_its_series_keeps_no_other_shut",
    "test_a_policy_does_on_a_shut_lane_what_it_always_does",
    "test_a_promoted_item_is_gated_like_the_first",
    "test_a_run_that_a_shut_gate_stops_may_end_otherwise",
    "test_a_second_shutting_asks_no_second_time_and_a_cancelled_run_stays_cancelled",
    "test_a_wrong_gate_is_refused_and_changes_nothing",
    "test_an_arrival_on_a_shut_lane_says_what_it_waits_for",
    "test_an_exempt_item_overtakes_an_owner_that_the_gate_keeps_waiting",
    "test_an_exempt_item_starts_on_a_shut_lane",
    "test_an_item_of_another_agent_does_not_overtake_on_a_shut_lane",
    "test_nothing_on_a_shut_lane_is_started_until_it_opens",
    "test_the_history_tells_who_shut_a_lane_and_why",
    "test_the_lanes_of_plans_have_no_gates",
    "test_the_same_gate_again_writes_nothing",
    "test_what_a_hold_left_is_not_offered_again",
]


def test_an_older_interlock_takes_a_lane_with_a_gate_for_held(
    scene: GitScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would start what the gate keeps waiting. Taken out: the gate in `Queue.format`."""
    item = scene.put(lane=LANE)
    scene.service.set_gate(LANE, series=SERIES, open=False, why="#41 is active")
    for module in (documents, lane):
        monkeypatch.setattr(module, "FORMAT", 1)
    assert scene.idle()
    with pytest.raises(UnreadableState, match="newer than this"):
        scene.claim(item=item)
    monkeypatch.undo()
    assert scene.service.remove_gate(LANE, why="left")
    monkeypatch.setattr(documents, "FORMAT", 1)
    assert scene.claim().item.id == item, "without its gate it is a lane like any"


@pytest.mark.parametrize("way", ["release", "loss", "back-off", "wall", "fault", "grace"])
def test_a_run_that_a_shut_gate_stops_gives_its_item_back(scene: GitScene, way: str) -> None:
    test_series_gates.test_a_run_that_a_shut_gate_stops_gives_its_item_back(scene, WAYS[way])
