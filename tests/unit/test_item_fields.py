"""From plain fields to an arrival: what may be named, in which forms, and what fills the gaps."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.model import NewItem
from interlock.service.item_fields import new_item


class TestSchedules:
    @pytest.mark.parametrize(
        ("text", "delay_s"),
        [("+5m", 300.0), ("+90", 90.0), ("+1.5h", 5400.0), ("+250ms", 0.25), ("+0s", 0.0)],
    )
    def test_a_delay_is_left_to_the_clock_of_the_store(self, text: str, delay_s: float) -> None:
        new = new_item({"title": "later", "run-at": text})
        assert (new.run_after_s, new.run_at_us) == (delay_s, None)

    def test_a_time_is_taken_as_it_is(self) -> None:
        new = new_item({"title": "later", "run_at": "2027-01-31T09:00:00.000001+01:00"})
        assert (new.run_after_s, new.run_at_us) == (None, 1_801_382_400_000_001)

    def test_a_datetime_is_a_time_too(self) -> None:
        at = datetime(2027, 1, 31, 9, tzinfo=timezone(timedelta(hours=1)))
        assert new_item({"title": "later", "run_at": at}).run_at_us == 1_801_382_400_000_000
        local = datetime(2027, 1, 31, 9)  # noqa: DTZ001  (as people write it)
        assert new_item({"title": "later", "run_at": local}).run_at_us == round(local.timestamp() * 1_000_000)

    @pytest.mark.parametrize("name", ["run_after_s", "run-after", "run_after"])
    def test_a_delay_may_be_named_as_such(self, name: str) -> None:
        assert new_item({"title": "later", name: "2m"}).run_after_s == 120.0

    def test_a_delay_given_twice_is_a_mistake(self) -> None:
        with pytest.raises(InvalidInput, match="cannot be combined"):
            new_item({"title": "later", "run_at": "+5m", "run_after_s": 300})

    @pytest.mark.parametrize("text", ["", "+", "tomorrow", "+5 weeks", "-5m", "2027-13-01", "5m"])
    def test_text_that_is_not_a_time_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput, match="is not a time"):
            new_item({"title": "later", "run_at": text})

    def test_without_one_it_may_run_now(self) -> None:
        assert new_item({"title": "now", "run_at": None}) == NewItem(title="now", policy_open=True)
