"""Values made in bulk: the collector rests meanwhile and is found afterwards as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from interlock.store.bulk import in_bulk


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    was = gc.isenabled()
    yield
    (gc.enable if was else gc.disable)()


def test_the_collector_rests_during_the_call_and_works_after_it() -> None:
    gc.enable()
    assert in_bulk(gc.isenabled)() is False
    assert gc.isenabled()


def test_it_works_again_after_a_call_that_failed() -> None:
    gc.enable()
    with pytest.raises(ZeroDivisionError):
        in_bulk(lambda: 1 // 0)()
    assert gc.isenabled()


def test_a_call_within_a_call_does_not_wake_it_early() -> None:
    gc.enable()

    @in_bulk
    def outer() -> bool:
        in_bulk(list)()
        return gc.isenabled()

    assert outer() is False
    assert gc.isenabled()


def test_whoever_turned_it_off_for_good_finds_it_off() -> None:
    gc.disable()
    in_bulk(list)()
    assert not gc.isenabled()
