"""The clock of a store without a server: boots, wrong wall clocks, corrections, namespaces."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from interlock.core.bootclock import TOLERANCE_US, ClockAdjustment, Moment, Scale, adjustment, reading

S = 1_000_000
HOUR, YEAR = 3600 * S, 365 * 24 * 3600 * S
T = 1_800_000_000 * S
HERE, INSIDE = Scale("boot-a", "time:[1]"), Scale("boot-a", "time:[2]")
REBOOTED, NAMELESS = Scale("boot-b", "time:[1]"), Scale("", "")


def at(since_boot_us: int, wall_us: int) -> Moment:
    return Moment(since_boot_us, wall_us)


def settle(offsets: Mapping[str, int], scale: Scale, moment: Moment, last_us: int = T) -> ClockAdjustment:
    """As a store does it: only if there is no reading; and then there is one."""
    assert reading(offsets, scale, moment) is None
    found = adjustment(offsets, scale, moment, last_us)
    assert reading(found.offsets, scale, moment) == found.now_us == moment.wall_us
    return found


def test_a_new_store_begins_at_the_wall_clock() -> None:
    found = settle({}, HERE, at(HOUR, T), 0)
    assert (found.offsets, found.event) == ({str(HERE): T - HOUR}, None)


@pytest.mark.parametrize("step_us", [-TOLERANCE_US, -S, 0, S, TOLERANCE_US])
def test_a_small_correction_of_the_wall_clock_changes_nothing(step_us: int) -> None:
    assert reading({str(HERE): T}, HERE, at(HOUR, T + HOUR + step_us)) == T + HOUR


@pytest.mark.parametrize("scale", [HERE, NAMELESS])
@pytest.mark.parametrize("step_us", [-10 * YEAR, -HOUR, -TOLERANCE_US - 1, TOLERANCE_US + 1, HOUR, 10 * YEAR])
def test_a_step_of_the_wall_clock_takes_all_deadlines_and_all_scales_along(
    scale: Scale, step_us: int
) -> None:
    """An hour has passed since boot; whoever had 20 s left has 20 s left."""
    offsets = {str(scale): T, "boot-a other": T + 7}
    found = settle(offsets, scale, at(HOUR, T + HOUR + step_us))
    assert (found.step_us, found.mercy) == (step_us, False)
    assert found.offsets == {name: us + step_us for name, us in offsets.items()}
    assert found.event is not None
    assert found.event.data == {"step_s": round(step_us / S, 3), "mercy": False}


@pytest.mark.parametrize("scale", [REBOOTED, NAMELESS])
@pytest.mark.parametrize("off_us", [0, 8 * HOUR, 10 * YEAR])
def test_after_a_boot_time_has_gone_on_and_holders_are_dead(scale: Scale, off_us: int) -> None:
    before = {str(NAMELESS if scale == NAMELESS else HERE): T - 5 * HOUR}
    found = settle(before, scale, at(20 * S, T + MINUTES + off_us))
    assert (found.step_us, found.mercy, found.event) == (0, False, None)
    assert list(found.offsets) == [str(scale)]


MINUTES = 5 * 60 * S


@pytest.mark.parametrize("scale", [REBOOTED, NAMELESS])
def test_after_a_boot_in_1970_deadlines_step_back_and_with_the_correction_forward(scale: Scale) -> None:
    before = {str(NAMELESS if scale == NAMELESS else HERE): T - 5 * HOUR}
    first = settle(before, scale, at(20 * S, 100 * S))
    assert first.step_us == 100 * S - T, "what was left at the last event is left"
    corrected = settle(first.offsets, scale, at(80 * S, T + 8 * HOUR), last_us=100 * S)
    assert corrected.step_us == T + 8 * HOUR - 160 * S
    assert corrected.now_us == T + 8 * HOUR


@pytest.mark.parametrize("scale", [REBOOTED, NAMELESS])
def test_a_boot_ten_years_ahead_does_not_stay_there(scale: Scale) -> None:
    ahead = settle({}, scale, at(20 * S, T + 10 * YEAR), last_us=T)
    back = settle(ahead.offsets, scale, at(80 * S, T + 60 * S), last_us=T + 10 * YEAR)
    assert (back.now_us, back.step_us) == (T + 60 * S, -10 * YEAR)


def test_another_time_namespace_counts_from_elsewhere_and_gets_an_offset_of_its_own() -> None:
    """It cannot compare the two counts, so leases get one more span, but only the first time."""
    offsets = {str(HERE): T}
    found = settle(offsets, INSIDE, at(HOUR + YEAR, T + HOUR))
    assert (found.step_us, found.mercy) == (0, True)
    assert found.event is not None
    later = 2 * HOUR
    assert reading(found.offsets, INSIDE, at(later + YEAR, T + later)) == T + later
    assert reading(found.offsets, HERE, at(later, T + later)) == T + later, "and the first one goes on"


def test_a_boot_with_a_name_and_one_without_may_be_the_same() -> None:
    for first, second in ((HERE, NAMELESS), (NAMELESS, HERE)):
        found = settle({str(first): T}, second, at(HOUR, T + HOUR))
        assert found.mercy
        assert set(found.offsets) == {str(first), str(second)}


def test_an_offset_of_an_earlier_boot_is_forgotten() -> None:
    found = settle({str(HERE): T, str(INSIDE): T}, REBOOTED, at(S, T + HOUR))
    assert list(found.offsets) == [str(REBOOTED)]
