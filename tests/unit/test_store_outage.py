"""A store that is away is spoken of after two seconds, and again when it answers."""

from interlock.core.store_outage import StoreOutage


def test_a_short_wait_is_not_worth_a_word() -> None:
    heard: list[str | None] = []
    outage = StoreOutage(heard.append)
    outage.answered()
    outage.attempt_failed("away", 10.0)
    outage.attempt_failed("away", 11.9)
    outage.answered()
    outage.attempt_failed("away", 12.1)
    outage.answered()
    assert heard == []


def test_who_listens_hears_each_attempt_that_failed_and_once_that_it_is_over() -> None:
    heard: list[str | None] = []
    outage = StoreOutage(heard.append)
    for now_s in (10.0, 12.0, 12.5):
        outage.attempt_failed("away", now_s)
    outage.answered()
    outage.answered()
    assert heard == ["away", "away", None]
