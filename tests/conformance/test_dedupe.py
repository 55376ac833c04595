"""Dedupe keys: a delivery that comes again answers with its first item, for thirty days, per project."""

from __future__ import annotations

from tests.conformance.conftest import OpenService
from tests.conformance.scene import LANE, Scene

DAY_S = 24 * 3600


def test_a_key_that_was_seen_answers_with_the_first_item_and_leaves_an_event_but_no_row(scene: Scene) -> None:
    first = scene.put("first", dedupe_key="delivery-1")
    again = scene.add("again", dedupe_key="delivery-1", message="hello", lane=LANE)
    assert (again.decision, again.reason, again.arrival) == ("duplicate", "dedupe_key_seen", None)
    assert again.item is not None
    assert (again.item.id, again.item.title) == (first, "first")
    assert [i.id for i in scene.every()] == [first]
    assert scene.texts(first) == []
    event = scene.last("item.duplicate")
    assert (event.item, event.reason, event.data["dedupe_key"]) == (first, "dedupe_key_seen", "delivery-1")
    assert scene.service.stats().duplicates == 1


def test_a_key_outlives_the_item_it_came_with(scene: Scene) -> None:
    lease = scene.put_running("first", dedupe_key="delivery-1")
    scene.done(lease)
    again = scene.add("again", dedupe_key="delivery-1")
    assert again.decision == "duplicate"
    assert again.item is not None
    assert again.item.status == "completed"


def test_a_key_belongs_to_its_project(scene: Scene) -> None:
    scene.put("one", project="one", dedupe_key="delivery-1")
    assert scene.add("two", project="two", dedupe_key="delivery-1").decision == "admitted"


def test_a_key_is_kept_for_thirty_days(scene: Scene) -> None:
    scene.put("first", dedupe_key="delivery-1")
    scene.clock.advance(30 * DAY_S - 1)
    assert scene.add("again", dedupe_key="delivery-1").decision == "duplicate"
    scene.clock.advance(1)
    second = scene.add("anew", dedupe_key="delivery-1")
    assert second.decision == "admitted"
    scene.clock.advance(10 * DAY_S)
    again = scene.add("again", dedupe_key="delivery-1")
    assert again.item is not None
    assert again.item.id == second.arrival


def test_a_sweep_forgets_keys_that_are_over_and_keeps_the_others(scene: Scene) -> None:
    scene.put("old", dedupe_key="old")
    scene.clock.advance(20 * DAY_S)
    scene.put("young", dedupe_key="young")
    scene.clock.advance(10 * DAY_S)
    assert scene.service.sweep().forgotten_keys == 1
    assert scene.add("young", dedupe_key="young").decision == "duplicate"
    assert scene.add("old", dedupe_key="old").decision == "admitted"


def test_a_key_that_comes_twice_in_one_batch_is_its_first_items(scene: Scene) -> None:
    batch = [scene.new(f"item {n}", dedupe_key=key) for n, key in enumerate(["a", "b", "a", None, None, "b"])]
    answers = scene.service.add(batch)
    assert [a.decision for a in answers] == [
        "admitted",
        "admitted",
        "duplicate",
        "admitted",
        "admitted",
        "duplicate",
    ]
    assert answers[2].item is not None
    assert answers[2].item.id == answers[0].arrival
    assert len(scene.every()) == 4


def test_a_batch_that_comes_again_makes_nothing_new(scene: Scene) -> None:
    batch = [scene.new(f"item {n}", dedupe_key=f"key-{n}") for n in range(5)]
    first = scene.service.add(batch)
    again = scene.service.add(batch)
    assert {a.decision for a in again} == {"duplicate"}
    assert [a.item.id for a in again if a.item] == [a.arrival for a in first]


def test_a_rejected_arrival_does_not_burn_its_key(scene: Scene) -> None:
    lease = scene.put_running("owner", lane=LANE)
    for _ in range(2):
        assert scene.add("new", lane=LANE, policy="reject", dedupe_key="once").decision == "rejected"
    scene.done(lease)
    assert scene.add("new", lane=LANE, policy="reject", dedupe_key="once").decision == "admitted"
    assert scene.add("new", lane=LANE, policy="reject", dedupe_key="once").decision == "duplicate"


def test_a_key_refused_first_and_taken_later_in_the_same_batch_is_kept(scene: Scene) -> None:
    scene.put_running("owner", lane=LANE)
    refused, taken = scene.service.add(
        [
            scene.new("refused", lane=LANE, policy="reject", dedupe_key="once"),
            scene.new("taken", dedupe_key="once"),
        ]
    )
    assert (refused.decision, taken.decision) == ("rejected", "admitted")
    again = scene.add("again", dedupe_key="once")
    assert again.decision == "duplicate"
    assert again.item is not None
    assert again.item.id == taken.arrival


def test_a_coalesced_delivery_that_comes_again_tells_nobody_twice(scene: Scene) -> None:
    lease = scene.put_running("work", lane=LANE, agent="coder", policy="coalesce")
    fields = {"lane": LANE, "agent": "coder", "policy": "coalesce", "message": "hello", "dedupe_key": "c-1"}
    first, again = scene.add("comment", **fields), scene.add("comment", **fields)
    assert (first.decision, again.decision) == ("coalesced", "duplicate")
    assert scene.texts(lease.item.id) == ["hello"]


def test_the_same_delivery_to_two_servers_makes_one_item(open_service: OpenService, scene: Scene) -> None:
    other = Scene(open_service(), scene.clock)
    decisions = [s.add("work", dedupe_key="delivery-1").decision for s in (scene, other)]
    assert decisions == ["admitted", "duplicate"]
    assert len(scene.every()) == 1
