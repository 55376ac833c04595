"""A store that is away is spoken of after two seconds, and again when it answers."""

from interlock.core.absence import Absence


def test_a_short_wait_is_not_worth_a_word() -> None:
    heard: list[str | None] = []
    absence = Absence(heard.append)
    absence.answered()
    absence.missed("away", 10.0)
    absence.missed("away", 11.9)
    absence.answered()
    absence.missed("away", 12.1)
    absence.answered()
    assert heard == []


def test_who_listens_hears_each_attempt_that_failed_and_once_that_it_is_over() -> None:
    heard: list[str | None] = []
    absence = Absence(heard.append)
    for now_s in (10.0, 12.0, 12.5):
        absence.missed("away", now_s)
    absence.answered()
    absence.answered()
    assert heard == ["away", "away", None]
