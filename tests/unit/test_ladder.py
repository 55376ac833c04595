"""The cancel ladder's arithmetic: it always ends before the lease does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.names import LEASE_MAX_S, LEASE_MIN_S
from interlock.process import clock, supervisor
from interlock.process.ladder import Ladder
from interlock.process.live_run import BEAT_MAX_S
from interlock.settings import CANCEL_LADDER_S

leases = st.floats(min_value=LEASE_MIN_S, max_value=LEASE_MAX_S)


def test_the_ladder_is_sigint_seven_and_a_half_seconds_sigterm_two_and_a_half_sigkill() -> None:
    ladder = Ladder().within(60.0)
    assert (ladder.interrupt_s, ladder.terminate_s, ladder.total_s) == (7.5, 2.5, CANCEL_LADDER_S)
    assert ladder.unrenewed_s(60.0) == 48.0


@given(leases)
def test_an_agent_without_a_renewal_is_dead_before_its_lease_is_over(lease_s: float) -> None:
    ladder = Ladder().within(lease_s)
    assert ladder.unrenewed_s(lease_s) + ladder.total_s < lease_s


@given(leases)
def test_a_renewal_may_come_late_and_another_still_comes_in_time(lease_s: float) -> None:
    ladder = Ladder().within(lease_s)
    assert ladder.unrenewed_s(lease_s) >= 2 * min(BEAT_MAX_S, lease_s / 3)


@given(leases)
def test_a_short_lease_shortens_both_steps_alike(lease_s: float) -> None:
    ladder = Ladder().within(lease_s)
    assert ladder.total_s <= CANCEL_LADDER_S
    assert ladder.interrupt_s == pytest.approx(3 * ladder.terminate_s)


def test_worker_and_supervisor_measure_trust_on_the_same_clock() -> None:
    assert supervisor.CLOCK == clock.CLOCK
