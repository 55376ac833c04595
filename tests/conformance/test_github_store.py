"""What is kept of GitHub: each delivery once, each change of a number once, each consequence once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from interlock.service.retention import prune
from interlock.store.github import GitHubStore, KnownNumber, NewOrder, StoredGitHubAnswer
from interlock.store.port import Store
from tests.clock import Clock
from tests.conformance.conftest import OpenService

DAY_S = 24 * 3600.0
APP = 7


@pytest.fixture
def store(open_service: OpenService) -> Store:
    found: Store = open_service().store  # type: ignore[attr-defined]
    return found


@pytest.fixture
def github(store: Store) -> GitHubStore:
    store.github.repository(APP, "Acme/App")
    return store.github


def known(revision: int, number: int = 4, facts: str = "{}") -> KnownNumber:
    return KnownNumber(APP, number, revision, facts, "{}")


def new_orders(*names: str) -> list[NewOrder]:
    return [NewOrder(name, "{}") for name in names]


def owed(github: GitHubStore, number: int = 4) -> list[str]:
    return [each.name for each in github.pending_orders(APP, number, 10)]


def test_a_renamed_repository_keeps_the_name_of_its_lanes(github: GitHubStore) -> None:
    assert github.repository(APP, "Acme/App") == (APP, "Acme/App", "acme/app", "")
    assert github.repository(APP, "acme/tool") == (APP, "acme/tool", "acme/app", "")
    assert github.repository_named("Acme/App") is None
    assert github.repository_named("acme/tool") == (APP, "acme/tool", "acme/app", "")


def test_a_new_repository_of_a_name_that_another_had_gets_lanes_of_its_own(github: GitHubStore) -> None:
    github.repository(APP, "acme/tool")
    assert github.repository(8, "acme/app").lane_name == "acme/app.8"
    assert [each.id for each in github.repositories(0, 10)] == [7, 8]
    assert [each.id for each in github.repositories(7, 10)] == [8]


def test_how_far_a_repository_was_swept_never_goes_back(github: GitHubStore) -> None:
    github.set_swept(APP, "2026-11-16T10:00:00Z")
    github.set_swept(APP, "2026-11-16T09:00:00Z")
    assert github.repository(APP, "acme/app").swept_to == "2026-11-16T10:00:00Z"


def test_a_delivery_is_kept_once_and_due_until_it_is_decided_on(github: GitHubStore, clock: Clock) -> None:
    assert github.keep_delivery("d1", "issues", APP, 4, '{"n": 1}')
    clock.advance(1)
    assert github.keep_delivery("d2", "issues", None, None, "{}")
    assert not github.keep_delivery("d1", "issues", APP, 4, '{"n": 2}')
    assert github.due_deliveries(10) == ["d1", "d2"]
    assert github.delivery("d1") == ("d1", "issues", '{"n": 1}', 0)
    github.decide_delivery("d1", "one item")
    assert github.due_deliveries(10) == ["d2"]
    assert github.delivery("d1") is None
    assert (github.has_delivery("d1"), github.has_delivery("d0")) == (True, False)
    assert not github.keep_delivery("d1", "issues", APP, 4, '{"n": 2}')


def test_pieces_of_work_are_carried_out_together(store: Store, github: GitHubStore) -> None:
    """Taken out: `at_once` as a part of the transaction that has begun; each piece runs again, by itself."""
    begun = []

    def piece(delivery: str) -> bool:
        begun.append(delivery)
        new = github.keep_delivery(delivery, "issues", APP, 4, "{}")
        assert store.at_once(lambda: github.known(APP, 4)) is None
        return new

    outcomes = store.together([partial(piece, "d1"), partial(piece, "d2")])
    assert [(each.value, each.error) for each in outcomes] == [(True, None), (True, None)]
    assert sorted(github.due_deliveries(10)) == begun == ["d1", "d2"]


def test_a_piece_of_work_that_fails_is_undone_and_the_others_stay(store: Store, github: GitHubStore) -> None:
    """Taken out: the second attempt, of each piece by itself; nothing stays."""

    def piece(delivery: str) -> bool:
        new = github.keep_delivery(delivery, "issues", APP, 4, "{}")
        assert delivery != "d2", "it cannot be written"
        return github.advance(known(1, number=int(delivery[1])), new_orders("create")) and new

    outcomes = store.together([partial(piece, f"d{n}") for n in (1, 2, 3)])
    assert [each.value for each in outcomes] == [True, None, True]
    assert isinstance(outcomes[1].error, AssertionError)
    assert [owed(github, n) for n in (1, 2, 3)] == [["create"], [], ["create"]]
    assert {"d1", "d3"} <= set(github.due_deliveries(10))


def test_a_delivery_that_failed_is_due_later_and_after_many_tries_waits_for_a_person(
    github: GitHubStore, clock: Clock
) -> None:
    github.keep_delivery("d1", "issues", APP, 4, "{}")
    github.put_off_delivery("d1", 60, "GitHub is away")
    assert github.due_deliveries(10) == []
    (waiting,) = github.undecided_of(APP, 4, 10)
    assert (waiting.tries, waiting.outcome) == (1, "GitHub is away")
    assert waiting.due_us == clock.now_us + 60_000_000
    assert github.undecided_of(APP, 5, 10) == []
    clock.advance(61)
    assert github.due_deliveries(10) == ["d1"]
    github.put_off_delivery("d1", None, "still away")
    assert github.due_deliveries(10) == []
    (dead,) = github.undecided(10)
    assert (dead.id, dead.due_us, dead.tries) == ("d1", None, 2)
    assert github.delivery("d1") is not None
    assert github.try_again(10) == 1
    assert github.due_deliveries(10) == ["d1"]


def test_of_two_who_write_the_same_revision_one_is_first(github: GitHubStore) -> None:
    assert github.known(APP, 4) is None
    assert github.advance(known(1, facts='{"a": 1}'), new_orders("1:create"))
    assert not github.advance(known(1, facts='{"a": 2}'), new_orders("1:other"))
    assert not github.advance(known(3), new_orders("3:other"))
    assert github.known(APP, 4) == known(1, facts='{"a": 1}')
    assert github.advance(known(2), new_orders("2:withdraw", "2:create"))
    assert owed(github) == ["1:create", "2:withdraw", "2:create"]


def test_of_many_who_write_at_once_each_revision_has_one_writer(github: GitHubStore) -> None:
    """Without the comparison of revisions in `advance_number` all of them are first."""

    def write(n: int) -> bool:
        return github.advance(known(1, facts=f'{{"n": {n}}}'), new_orders(f"{n}:create"))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(write, range(8))) == 1
    assert len(owed(github)) == 1


def test_what_follows_from_a_remark_is_written_once_and_has_its_place(github: GitHubStore) -> None:
    github.advance(known(1), new_orders("1:create"))
    assert github.add(APP, 4, new_orders("comment:991"))
    assert not github.add(APP, 4, new_orders("comment:991"))
    github.advance(known(2), new_orders("2:withdraw"))
    assert owed(github) == ["1:create", "comment:991", "2:withdraw"]
    assert github.carry_out(APP, 4, "comment:991", item=12, outcome="told item 12")
    assert not github.add(APP, 4, new_orders("comment:991"))
    assert owed(github) == ["1:create", "2:withdraw"]


def test_what_follows_is_carried_out_once_and_told_afterwards(github: GitHubStore, clock: Clock) -> None:
    github.advance(known(1), new_orders("1:create", "1:adjust"))
    assert github.due_numbers(10) == [(APP, 4)]
    assert github.carry_out(APP, 4, "1:create", item=12, outcome="item 12")
    assert not github.carry_out(APP, 4, "1:create", item=13, outcome="item 13")
    github.carry_out(APP, 4, "1:adjust", item=None, outcome="nothing to do")
    assert github.due_numbers(10) == []
    done = [(c.name, c.done_us, c.item, c.outcome) for c in github.orders(APP, 4, 10)]
    now_us = clock.now_us
    assert done == [("1:adjust", now_us, None, "nothing to do"), ("1:create", now_us, 12, "item 12")]
    assert [c.name for c in github.orders(APP, 4, 1)] == ["1:adjust"]


def test_what_is_put_off_holds_up_what_comes_later_until_it_waits_for_a_person(
    github: GitHubStore, clock: Clock
) -> None:
    github.advance(known(1), new_orders("1:create", "1:adjust"))
    github.put_off(APP, 4, "1:create", 60, "no room")
    assert owed(github) == ["1:create", "1:adjust"]
    assert github.pending_orders(APP, 4, 1)[0].due_us == clock.now_us + 60_000_000
    github.put_off(APP, 4, "1:create", None, "never")
    assert owed(github) == ["1:adjust"]
    (second, first) = github.orders(APP, 4, 10)
    assert (first.name, first.due_us, first.tries, first.outcome) == ("1:create", None, 2, "never")
    assert (second.name, second.done_us, second.tries) == ("1:adjust", None, 0)
    assert github.try_again(10) == 1
    assert owed(github) == ["1:create", "1:adjust"]


def test_numbers_do_not_see_what_others_owe(github: GitHubStore) -> None:
    github.advance(known(1, number=4), new_orders("1:create"))
    github.advance(known(1, number=5), new_orders("1:create"))
    github.carry_out(APP, 4, "1:create", item=1, outcome="")
    assert (owed(github, 4), owed(github, 5)) == ([], ["1:create"])
    assert github.due_numbers(10) == [(APP, 5)]


def test_the_newest_answer_is_kept(github: GitHubStore) -> None:
    assert github.answer("me /a") is None
    github.keep_answer("me /a", StoredGitHubAnswer('"1"', b"old", None))
    github.keep_answer("me /a", StoredGitHubAnswer('"2"', b"\x00new", "<next>"))
    assert github.answer("me /a") == ('"2"', b"\x00new", "<next>")


def test_what_was_decided_on_long_ago_goes_and_what_is_owed_stays(
    store: Store, github: GitHubStore, clock: Clock
) -> None:
    github.keep_delivery("old", "issues", APP, 4, "{}")
    github.decide_delivery("old", "")
    github.keep_delivery("dead", "issues", APP, 4, "{}")
    github.put_off_delivery("dead", None, "")
    github.advance(known(1), new_orders("1:create", "1:adjust"))
    github.carry_out(APP, 4, "1:create", item=1, outcome="")
    github.keep_answer("me /a", StoredGitHubAnswer('"1"', b"", None))
    clock.advance(20 * DAY_S)
    counted = [step.deliveries for step in prune(store, DAY_S, really=True)]
    assert sum(counted) == 0, "GitHub may send it again"
    clock.advance(11 * DAY_S)
    github.keep_delivery("new", "issues", APP, 4, "{}")
    github.decide_delivery("new", "")
    assert sum(step.deliveries for step in prune(store, DAY_S, really=False)) == 1
    assert sum(step.deliveries for step in prune(store, DAY_S, really=True)) == 1
    assert github.keep_delivery("old", "issues", APP, 4, "{}"), "its id is forgotten"
    assert not github.keep_delivery("new", "issues", APP, 4, "{}")
    assert [each.id for each in github.undecided(10)] == ["dead", "old"]
    assert [each.name for each in github.orders(APP, 4, 10)] == ["1:adjust"]
    assert github.answer("me /a") is None
    assert github.known(APP, 4) is not None
