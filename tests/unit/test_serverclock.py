"""When a reading of a server's clock shows that somebody has set it."""

from __future__ import annotations

import pytest

from interlock.core.serverclock import ClockReading, never_was, step_between

S = 1_000_000


def reading(clock_s: float, sent_s: float, took_s: float = 0.01, offset_s: int = 0) -> ClockReading:
    return ClockReading(round(clock_s * S), offset_s * S, round(sent_s * S), round((sent_s + took_s) * S))


FIRST = reading(1_000_000, 50)


@pytest.mark.parametrize(
    ("second", "step_s"),
    [
        (reading(1_000_001, 51), 0),
        (reading(1_000_031, 51), 0),
        (reading(1_000_032, 51), 31),
        (reading(999_972, 51), 0),
        (reading(999_970, 51), -31),
        (reading(1_003_601, 51), 3600),
        (reading(996_401, 51), -3600),
        # An hour passed, however it passed here: the process was stopped, or the machine slept.
        (reading(1_003_600, 3_650), 0),
        # Clocks drift: after a day half a minute and 86 s are allowed.
        (reading(1_086_500, 86_450), 0),
        (reading(1_086_530, 86_450), 130),
    ],
)
def test_what_is_a_step(second: ClockReading, step_s: int) -> None:
    assert step_between(FIRST, second) / S == pytest.approx(step_s, abs=0.1)


@pytest.mark.parametrize("clock_s", [1_000_001, 1_000_090, 1_000_101])
def test_an_answer_that_took_long_may_have_been_given_at_any_time_of_it(clock_s: float) -> None:
    """So the process may also have been stopped while it waited."""
    assert step_between(FIRST, reading(clock_s, 51, took_s=50 + 50)) == 0


def test_a_slow_first_answer_is_no_step_either() -> None:
    assert step_between(reading(1_000_000, 50, took_s=100), reading(1_000_001, 151)) == 0


def test_a_correction_by_somebody_else_is_no_step() -> None:
    """The first reading may have been taken between a step and its correction."""
    assert step_between(FIRST, reading(996_401, 51, offset_s=-3600)) == 0


def test_a_reading_that_took_long_is_not_kept() -> None:
    assert FIRST.good
    assert not reading(1_000_000, 50, took_s=6).good


def test_a_step_forward_leaves_out_times_between_but_for_what_may_be_written_around_it() -> None:
    since_us, until_us = never_was(FIRST, reading(1_003_601, 51))
    assert 1_000_002 * S < since_us < 1_000_003 * S
    assert 1_003_598 * S < until_us < 1_003_599 * S
