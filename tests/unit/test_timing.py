"""Arithmetic on time and order: sort key, back-off, deadlines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.model import US_PER_S
from interlock.core.names import PRIORITY_MAX, PRIORITY_MIN
from interlock.core.timing import Timing, back_off_s, deadline_us, doubled_s, sort_key, to_us
from tests.unit.world import START_US, World

PRIORITIES = st.integers(PRIORITY_MIN, PRIORITY_MAX)
TICKETS = st.integers(1, 2**52 - 1)  # microseconds since 1970 reach this in the year 2112


class TestSortKey:
    @given(a=st.tuples(PRIORITIES, TICKETS), b=st.tuples(PRIORITIES, TICKETS))
    def test_strict_order_is_priority_descending_then_arrival(
        self, a: tuple[int, int], b: tuple[int, int]
    ) -> None:
        earlier = (-a[0], a[1]) < (-b[0], b[1])
        assert (sort_key(*a, 0, 0.0) < sort_key(*b, 0, 0.0)) == earlier

    @given(priority=PRIORITIES, ticket=TICKETS)
    def test_it_fits_a_signed_column_of_eight_bytes(self, priority: int, ticket: int) -> None:
        assert 0 <= sort_key(priority, ticket, START_US, 0.0) < 2**63
        assert -(2**63) <= sort_key(priority, ticket, START_US, 86_400.0) < 2**63

    def test_strict_order_lets_no_age_pass_a_priority(self) -> None:
        old_low = sort_key(0, 1, START_US, 0.0)
        new_high = sort_key(1, 2**50, START_US + 10**15, 0.0)
        assert new_high < old_low

    @pytest.mark.parametrize(("waited_s", "first"), [(299, "high"), (301, "low")])
    def test_with_ageing_a_priority_step_is_a_head_start_in_seconds(self, waited_s: int, first: str) -> None:
        low = sort_key(0, 1, START_US, 60.0)
        high = sort_key(5, 2, START_US + waited_s * US_PER_S, 60.0)
        assert ("high" if high < low else "low") == first

    def test_with_ageing_the_items_of_one_batch_keep_their_order(self) -> None:
        batch = [sort_key(0, n, START_US, 60.0, nth=n) for n in range(1_000)]
        assert batch == sorted(set(batch))
        assert batch[-1] < sort_key(0, 1_000, START_US + 1, 60.0)

    def test_ageing_changes_the_key_of_an_arrival_and_nothing_else(self) -> None:
        strict, ageing = World(), World(timing=Timing(ageing_step_s=60))
        one, other = strict.items[strict.put(priority=3)], ageing.items[ageing.put(priority=3)]
        assert one.spec.sort_key != other.spec.sort_key
        assert other.spec.sort_key == sort_key(0, 1, START_US - 180 * US_PER_S, 60.0)
        assert one.state == other.state


class TestBackOff:
    def test_it_doubles_up_to_its_limit(self) -> None:
        timing = Timing(back_off_first_s=10, back_off_max_s=100)
        assert [back_off_s(timing, n, 0.5) for n in range(1, 7)] == [10, 20, 40, 80, 100, 100]

    @given(attempt=st.integers(1, 100), jitter=st.floats(0, 1))
    def test_jitter_spreads_it_by_a_quarter_to_both_sides(self, attempt: int, jitter: float) -> None:
        plain = back_off_s(Timing(), attempt, 0.5)
        assert 0.75 * plain <= back_off_s(Timing(), attempt, jitter) <= 1.25 * plain

    def test_the_bounds_of_the_jitter_are_reached(self) -> None:
        assert back_off_s(Timing(back_off_first_s=8), 1, 0.0) == 6
        assert back_off_s(Timing(back_off_first_s=8), 1, 1.0) == 10

    @pytest.mark.parametrize("attempt", [0, -1])
    def test_before_the_first_attempt_it_is_that_of_the_first(self, attempt: int) -> None:
        assert back_off_s(Timing(), attempt, 0.5) == back_off_s(Timing(), 1, 0.5)

    def test_a_great_many_attempts_overflow_nothing(self) -> None:
        assert back_off_s(Timing(back_off_max_s=3600), 10**9, 0.5) == 3600

    def test_a_wait_is_doubled_up_to_its_limit_and_never_halved(self) -> None:
        assert [doubled_s(5, n, 3_600) for n in (-1, 0, 1, 9, 10, 10**9)] == [5, 5, 10, 2_560, 3_600, 3_600]


class TestDeadline:
    """The sweeper must look at the earliest of lease, run timeout and cancel grace."""

    @pytest.mark.parametrize(
        ("lease_s", "timeout_s", "grace_s", "earliest_s"),
        [
            (60, None, None, 60),
            (60, 30, None, 30),
            (60, 90, None, 60),
            (60, None, 15, 15),
            (60, None, 75, 60),
            (60, 30, 15, 15),
            (60, 10, 15, 10),
            (5, 30, 15, 5),
        ],
    )
    def test_the_earliest_end_counts(
        self, lease_s: int, timeout_s: int | None, grace_s: int | None, earliest_s: int
    ) -> None:
        world = World()
        spec = world.items[world.put(timeout_s=timeout_s)].spec
        revoke_us = None if grace_s is None else START_US + to_us(grace_s)
        deadline = deadline_us(spec, START_US + to_us(lease_s), START_US, revoke_us)
        assert deadline == START_US + to_us(earliest_s)

    def test_a_timeout_runs_from_the_start_and_not_from_the_last_renewal(self) -> None:
        world = World()
        spec = world.items[world.put(timeout_s=30)].spec
        assert deadline_us(spec, START_US + to_us(1000), START_US, None) == START_US + to_us(30)

    def test_seconds_become_whole_microseconds(self) -> None:
        assert to_us(0.1) == 100_000
        assert to_us(1e-7) == 0
        assert to_us(2.5e-6) == 2
