"""Scenarios of the databases, run on lanes in git.

Left out is what holding a lane does not need: figures, modes, starts of runs in the history, operators who
take back or retry, items without a lane; and what takes long and is as true for one lane as for many.
"""

from __future__ import annotations

from tests.conformance import test_lanes, test_messages, test_policies


def scenarios(of: type, *, but: tuple[str, ...] = ()) -> type:
    """The same class of scenarios without some."""
    for name in but:
        assert hasattr(of, name), f"{name} is gone"
    return type(of.__name__, (of,), dict.fromkeys(but))


TestSupersede = scenarios(
    test_policies.TestSupersede, but=("test_five_quick_comments_make_one_run_with_all_five_in_its_hands",)
)
TestLatest = scenarios(test_policies.TestLatest)
TestReject = scenarios(
    test_policies.TestReject,
    but=("test_a_taken_lane_refuses_with_its_holder_and_leaves_an_event_but_no_row",),
)
TestOneOwner = scenarios(
    test_lanes.TestOneOwner,
    but=(
        "test_separate_issues_are_worked_on_in_parallel",
        "test_items_without_a_lane_know_nothing_of_lanes",
        "test_a_caller_may_opt_out_of_the_lane_of_its_payload",
    ),
)
TestSameName = scenarios(test_lanes.TestSameName)
TestOtherName = scenarios(
    test_lanes.TestOtherName,
    but=(
        "test_the_handover_is_told_with_from_run_to_item_lane_and_agent",
        "test_a_run_that_was_not_promoted_names_no_other",
    ),
)
TestPromotion = scenarios(
    test_lanes.TestPromotion,
    but=(
        "test_an_item_that_is_offered_again_keeps_its_lane",
        *(
            "test_a_batch_of_finishes_hands_each_lane_on_once",
            "test_a_lane_goes_through_its_whole_line_one_by_one",
        ),
    ),
)
TestPositions = scenarios(test_lanes.TestPositions)
TestRetries = scenarios(
    test_lanes.TestRetries, but=("test_a_retried_dead_letter_queues_behind_the_owner_of_its_lane",)
)
TestReading = scenarios(test_messages.TestReading, but=("test_a_great_many_messages_come_in_order",))  # slow
TestFollowUp = scenarios(
    test_messages.TestFollowUp,
    but=(
        "test_what_was_never_read_becomes_an_item_of_its_own",  # has no lane
        "test_several_runs_end_with_messages_waiting_and_each_goes_on_once",
    ),
)
TestWaking = scenarios(test_messages.TestWaking)
