"""The outbox in a database: each effect once, in order for each number, by one sender at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interlock.service.retention import prune
from interlock.store.github import GitHubStore, KnownNumber, NewOrder
from interlock.store.outbox import Backlog, Effect, LeasedEffect, OutboxStore
from interlock.store.port import Store
from tests.clock import Clock
from tests.conformance.conftest import OpenService
from tests.conformance.scene import Scene

APP = 7
LEASE_S = 300.0
DAY_S = 24 * 3600.0


@pytest.fixture
def store(open_service: OpenService) -> Store:
    found: Store = open_service().store  # type: ignore[attr-defined]
    return found


@pytest.fixture
def github(store: Store) -> GitHubStore:
    store.github.repository(APP, "Acme/App")
    return store.github


@pytest.fixture
def outbox(github: GitHubStore) -> OutboxStore:
    return github.outbox


def effect(name: str, number: int = 4, **fields: Any) -> Effect:
    return Effect(APP, number, name, "comment", "{}")._replace(**fields)


def take(outbox: OutboxStore) -> LeasedEffect:
    taken = outbox.take(LEASE_S)
    assert taken is not None
    return taken


def done(outbox: OutboxStore, taken: LeasedEffect, made: int | None = None) -> None:
    assert outbox.settle(taken, made=made, outcome="")


def drained(outbox: OutboxStore) -> list[tuple[int, str]]:
    """Everything that can be sent now, in the order in which it is."""
    names = []
    while (taken := outbox.take(LEASE_S)) is not None:
        names.append((taken.number, taken.name))
        done(outbox, taken)
    return names


def test_an_effect_is_owed_once_by_its_name_also_when_it_is_done(outbox: OutboxStore) -> None:
    assert outbox.enqueue([effect("a"), effect("b")]) == 2
    assert outbox.enqueue([effect("b", data="other"), effect("c")]) == 1
    assert drained(outbox) == [(4, "a"), (4, "b"), (4, "c")]
    assert outbox.enqueue([effect("a")]) == 0
    assert outbox.take(LEASE_S) is None
    assert outbox.next_s() is None


def test_the_same_name_on_another_number_is_another_effect(outbox: OutboxStore) -> None:
    assert outbox.enqueue([effect("a", 4), effect("a", 5), effect("a", 0)]) == 3
    assert sorted(drained(outbox)) == [(0, "a"), (4, "a"), (5, "a")]


def test_whoever_takes_an_effect_is_told_all_about_it(outbox: OutboxStore, clock: Clock) -> None:
    outbox.enqueue([effect("a", data='{"text": "ü"}', run=12, kind="react", thing="reaction:1")])
    taken = take(outbox)
    assert taken._replace(token="") == LeasedEffect(
        repository=APP,
        number=4,
        place=1,
        token="",
        repo="Acme/App",
        name="a",
        kind="react",
        thing="reaction:1",
        data='{"text": "ü"}',
        run=12,
        run_status=None,
        enqueued_us=clock.now_us,
        tries=0,
        sent_us=None,
        made=None,
    )


def test_a_number_that_is_leased_is_taken_by_nobody_else_until_the_lease_has_run_out(
    outbox: OutboxStore, clock: Clock
) -> None:
    """Without `token` and `due_us` in `lease` both send the same comment."""
    outbox.enqueue([effect("a"), effect("b")])
    first = take(outbox)
    assert outbox.take(LEASE_S) is None
    outbox.enqueue([effect("c")])
    assert outbox.take(LEASE_S) is None, "what is owed meanwhile waits as well"
    clock.advance(LEASE_S + 1)
    second = take(outbox)
    assert (first.name, second.name) == ("a", "a")
    assert (first.sent_us, second.sent_us) == (None, clock.now_us - int((LEASE_S + 1) * 1e6))
    assert not outbox.settle(first, made=1, outcome="late")
    assert not outbox.put_off(first, 1, "late", failed=True, maybe_sent=True)
    done(outbox, second)
    assert [each.outcome for each in outbox.effects(APP, 4, 10)] == [None, None, ""]
    assert drained(outbox) == [(4, "b"), (4, "c")]


def test_of_many_who_take_at_once_each_effect_has_one(outbox: OutboxStore) -> None:
    """Without the lock of `lease` two of them get the same number."""
    outbox.enqueue([effect("a", number) for number in range(1, 9)])

    def work(_: int) -> list[int]:
        numbers = []
        while (taken := outbox.take(LEASE_S)) is not None:
            numbers.append(taken.number)
        return numbers

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for found in pool.map(work, range(4)) for number in found]
    assert sorted(numbers) == list(range(1, 9))


def test_what_is_put_off_holds_up_its_number_and_no_other(outbox: OutboxStore, clock: Clock) -> None:
    outbox.enqueue([effect("a", 4), effect("b", 4), effect("a", 5)])
    assert outbox.put_off(take(outbox), 60, "GitHub is away", failed=True, maybe_sent=True)
    outbox.enqueue([effect("c", 4)])
    assert drained(outbox) == [(5, "a")]
    assert outbox.next_s() == 60
    clock.advance(61)
    again = take(outbox)
    assert (again.name, again.tries, again.sent_us is None) == ("a", 1, False)
    done(outbox, again)
    assert drained(outbox) == [(4, "b"), (4, "c")]


def test_what_was_surely_not_sent_is_no_try_and_need_not_be_looked_for(
    outbox: OutboxStore, clock: Clock
) -> None:
    outbox.enqueue([effect("a")])
    outbox.put_off(take(outbox), 60, "too many", failed=False, maybe_sent=False)
    clock.advance(61)
    again = take(outbox)
    assert (again.tries, again.sent_us) == (0, None)


def test_what_failed_too_often_waits_for_a_person_and_lets_the_next_pass(
    outbox: OutboxStore, github: GitHubStore, clock: Clock
) -> None:
    outbox.enqueue([effect("a"), effect("b")])
    outbox.put_off(take(outbox), None, "no such user", failed=True, maybe_sent=False)
    assert outbox.backlog(10) == Backlog(unsent=1, due_us=clock.now_us, dead=1)
    assert drained(outbox) == [(4, "b")]
    (dead,) = outbox.dead(10)
    assert (dead.name, dead.tries, dead.dead_us, dead.outcome) == ("a", 1, clock.now_us, "no such user")
    assert outbox.take(LEASE_S) is None
    assert github.try_again(10) == 1
    again = take(outbox)
    assert (again.name, again.tries) == ("a", 0)
    assert outbox.dead(10) == []


def test_the_next_effect_on_a_thing_is_told_its_id(outbox: OutboxStore) -> None:
    outbox.enqueue([effect(name, thing="sticky:1") for name in ("a", "b", "c")])
    outbox.enqueue([effect("other", thing="sticky:2"), effect("none")])
    done(outbox, take(outbox), made=77)
    second = take(outbox)
    assert (second.name, second.made) == ("b", 77)
    done(outbox, second, made=None)
    third = take(outbox)
    assert (third.name, third.made) == ("c", None)
    done(outbox, third)
    assert [take_and_settle(outbox) for _ in range(2)] == [("other", None), ("none", None)]


def take_and_settle(outbox: OutboxStore) -> tuple[str, int | None]:
    taken = take(outbox)
    done(outbox, taken, made=5)
    return taken.name, taken.made


def test_the_end_of_the_run_is_told(scene: Scene, clock: Clock) -> None:
    github = scene.service.store.github  # type: ignore[attr-defined]
    github.repository(APP, "acme/app")
    lease = scene.put_running()
    github.outbox.enqueue([effect("progress", run=lease.fence)])
    taken = take(github.outbox)
    assert taken.run_status is None
    github.outbox.put_off(taken, 1, "", failed=False, maybe_sent=False)
    scene.lose(lease)
    clock.advance(1)
    assert take(github.outbox).run_status == "lost"


def test_no_more_is_taken_than_github_allows_in_a_minute_and_in_an_hour(
    outbox: OutboxStore, clock: Clock
) -> None:
    outbox.enqueue([effect(f"a{n}") for n in range(510)])
    assert len(drained(outbox)) == 80
    assert outbox.next_s() == 60
    clock.advance(59)
    assert outbox.take(LEASE_S) is None
    clock.advance(1)
    sent = 80
    while sent < 480:
        sent += len(drained(outbox))
        clock.advance(60)
    assert len(drained(outbox)) == 20
    assert outbox.take(LEASE_S) is None
    clock.advance(3600 - 6 * 60)
    assert len(drained(outbox)) == 10


def test_effects_are_owed_with_what_causes_them_once(github: GitHubStore, outbox: OutboxStore) -> None:
    github.advance(KnownNumber(APP, 4, 1, "{}", "{}"), [NewOrder("1:create", "{}")])
    assert github.carry_out(APP, 4, "1:create", item=1, outcome="", effects=[effect("a")])
    assert not github.carry_out(APP, 4, "1:create", item=1, outcome="", effects=[effect("b")])
    assert drained(outbox) == [(4, "a")]


def test_what_was_sent_long_ago_goes_and_what_is_owed_stays(
    store: Store, outbox: OutboxStore, clock: Clock
) -> None:
    outbox.enqueue([effect("old"), effect("dead"), effect("due")])
    done(outbox, take(outbox))
    outbox.put_off(take(outbox), None, "", failed=True, maybe_sent=False)
    clock.advance(31 * DAY_S)
    list(prune(store, DAY_S, really=True))
    assert [each.name for each in outbox.effects(APP, 4, 10)] == ["due", "dead"]
    assert drained(outbox) == [(4, "due")]
