"""Effects on GitHub as operators see them: waiting, dead or sent ones, and decisions on dead ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.core.errors import InvalidInput
from interlock.store.outbox import Effect, LeasedEffect, OutboxStore
from tests.clock import Clock
from tests.conformance.scene import Scene

APP = 7


@pytest.fixture
def outbox(scene: Scene) -> OutboxStore:
    store = scene.service.store  # type: ignore[attr-defined]
    store.github.repository(APP, "Acme/App")
    found: OutboxStore = store.github.outbox
    return found


def effect(name: str, number: int = 4, kind: str = "comment", **data: Any) -> Effect:
    return Effect(APP, number, name, kind, json.dumps(data))


def take(outbox: OutboxStore) -> LeasedEffect:
    taken = outbox.take(300)
    assert taken is not None
    return taken


def kill(outbox: OutboxStore, *effects: Effect) -> list[str]:
    """Let these effects become dead letters; their ids."""
    for each in effects:
        outbox.enqueue([each])
        outbox.put_off(take(outbox), None, "Not found.", failed=True, maybe_sent=False)
    return [f"{APP}:{each.number}:{place}" for place, each in enumerate(effects, 1)]


def names(scene: Scene, status: str, **more: Any) -> list[str]:
    return [each.name for each in scene.service.effects(status=status, **more)]


def test_a_waiting_effect_tells_what_it_is_and_when_it_is_due(
    scene: Scene, outbox: OutboxStore, clock: Clock
) -> None:
    enqueued = clock.now
    outbox.enqueue([effect("a", text="  Done:\n see #5 ")])
    clock.advance(10)
    outbox.put_off(take(outbox), 60, "GitHub did not answer.", failed=True, maybe_sent=True)
    (found,) = scene.service.effects()
    assert (found.id, found.status, found.repository, found.number) == (
        f"{APP}:4:1",
        "waiting",
        "Acme/App",
        4,
    )
    assert (found.name, found.kind, found.detail, found.run) == ("a", "comment", "Done: see #5", None)
    assert (found.enqueued_at, found.sent_at, found.due_at) == (enqueued, clock.now, clock.in_s(60))
    assert (found.failures, found.outcome, found.ended_at) == (1, "GitHub did not answer.", None)


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        ({"labels": ["bug", "ui"]}, "bug, ui"),
        ({"logins": ["copilot"], "after": []}, "copilot"),
        ({"workflow": "agent.yml", "ref": "main"}, "agent.yml"),
        ({"item": 3}, ""),
        ({"text": "x" * 500}, "x" * 119 + "…"),
    ],
)
def test_what_an_effect_changes_is_told_in_a_few_words(
    scene: Scene, outbox: OutboxStore, data: dict[str, Any], detail: str
) -> None:
    outbox.enqueue([effect("a", **data)])
    assert scene.service.effects()[0].detail == detail


def test_waiting_effects_are_paged_number_by_number(scene: Scene, outbox: OutboxStore) -> None:
    outbox.enqueue([effect(f"{number}{name}", number) for number in (9, 4) for name in "abc"])
    expected = ["4a", "4b", "4c", "9a", "9b", "9c"]
    assert names(scene, "waiting") == expected
    paged: list[str] = []
    after = None
    while page := scene.service.effects(after=after, limit=4):
        paged += [each.name for each in page]
        after = page[-1].id
    assert paged == expected


def test_dead_effects_are_listed_oldest_first_and_sent_ones_newest_first(
    scene: Scene, outbox: OutboxStore, clock: Clock
) -> None:
    for n, name in enumerate("abc"):
        kill(outbox, effect(name, n + 1))
        clock.advance(1)
    (first, *_) = scene.service.effects(status="dead")
    assert (first.status, first.outcome, first.due_at) == ("dead", "Not found.", None)
    assert names(scene, "dead") == ["a", "b", "c"]
    assert names(scene, "dead", limit=2) == ["a", "b"]
    assert names(scene, "waiting") == []
    for name in "de":
        outbox.enqueue([effect(name)])
        assert outbox.settle(take(outbox), made=None, outcome="posted")
        clock.advance(1)
    sent = scene.service.effects(status="sent")
    assert [(each.name, each.outcome) for each in sent] == [("e", "posted"), ("d", "posted")]
    assert sent[0].ended_at == clock.in_s(-1)


def test_one_dead_effect_or_all_are_retried(scene: Scene, outbox: OutboxStore) -> None:
    one, two, _ = kill(outbox, effect("a"), effect("b"), effect("c"))
    assert scene.service.retry_effects([two]) == 1
    assert (names(scene, "dead"), names(scene, "waiting")) == (["a", "c"], ["b"])
    assert take(outbox).name == "b"
    assert scene.service.retry_effects([two]) == 0, "it is not dead any more"
    assert scene.service.retry_effects() == 2
    assert names(scene, "dead") == []
    assert names(scene, "waiting") == ["a", "b", "c"]
    assert scene.service.effects()[0].id == one
    assert scene.service.effects()[0].failures == 0


def test_a_retried_effect_is_sent_before_later_ones_of_its_number(scene: Scene, outbox: OutboxStore) -> None:
    (dead,) = kill(outbox, effect("a"))
    outbox.enqueue([effect("b")])
    scene.service.retry_effects([dead])
    taken = take(outbox)
    assert taken.name == "a"
    assert outbox.settle(taken, made=None, outcome="posted")
    assert take(outbox).name == "b"


def test_a_dropped_effect_is_not_sent_and_says_who_gave_it_up_and_why(
    scene: Scene, outbox: OutboxStore
) -> None:
    (dead,) = kill(outbox, effect("a"))
    assert scene.service.drop_effects([dead], why="The issue is gone.", by="anna") == 1
    assert outbox.take(300) is None
    (dropped,) = scene.service.effects(status="sent")
    assert dropped.outcome is not None
    assert dropped.outcome.endswith(": The issue is gone.")
    assert dropped.outcome.startswith("dropped by ")
    assert scene.service.drop_effects([dead], why="again") == 0
    assert scene.service.retry_effects() == 0


def test_an_effect_that_waits_is_neither_retried_nor_dropped(scene: Scene, outbox: OutboxStore) -> None:
    outbox.enqueue([effect("a")])
    assert scene.service.retry_effects([f"{APP}:4:1"]) == 0
    assert scene.service.drop_effects([f"{APP}:4:1"], why="x") == 0
    assert take(outbox).name == "a"


def test_wrong_arguments_are_refused(scene: Scene, outbox: OutboxStore) -> None:
    service = scene.service
    for call in (
        lambda: service.effects(status="lost"),
        lambda: service.effects(after="x"),
        lambda: service.effects(status="dead", after="7:4:1"),
        lambda: service.retry_effects(["4"]),
        lambda: service.drop_effects([], why="x"),
        lambda: service.drop_effects(["7:4:1"], why=""),
    ):
        with pytest.raises(InvalidInput):
            call()
