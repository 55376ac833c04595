"""Effects on GitHub for the pages that show them."""

from __future__ import annotations

import json
from typing import Any

from interlock.service.local import LocalService
from interlock.store.outbox import Effect, LeasedEffect, OutboxStore

REPOSITORY, NAME = 1, "acme/app"


def effect(name: str, number: int, kind: str = "comment", run: int | None = None, **data: Any) -> Effect:
    return Effect(REPOSITORY, number, name, kind, json.dumps(data), run=run)


def take(outbox: OutboxStore) -> LeasedEffect:
    taken = outbox.take(300)
    assert taken is not None
    return taken


def outbox_of(service: LocalService, name: str = NAME) -> OutboxStore:
    service.store.github.repository(REPOSITORY, name)
    return service.store.github.outbox


def add_sent(service: LocalService, *effects: tuple[Effect, str]) -> None:
    """Effects that were sent, with their outcomes."""
    outbox = outbox_of(service)
    for each, outcome in effects:
        outbox.enqueue([each])
        outbox.settle(take(outbox), made=1, outcome=outcome)


def add_failed(service: LocalService, each: Effect, why: str) -> str:
    """An effect that is a dead letter; its id."""
    outbox = outbox_of(service)
    outbox.enqueue([each])
    taken = take(outbox)
    outbox.put_off(taken, None, why, failed=True, maybe_sent=False)
    return f"{taken.repository}:{taken.number}:{taken.place}"


def usual_effects(service: LocalService, *, run: int | None = None) -> None:
    """Two that failed, one that is retried, two that wait, and four that were sent."""
    add_sent(
        service,
        (effect("react", 88, "react", subject="comment", id=1, content="eyes"), "reacted"),
        (effect("label", 88, "label", labels=["in progress"]), "labelled"),
        (effect("progress", 91, "progress", item=3, topic="item 3"), "posted: coder works on it"),
        (effect("assign", 93, "assign", logins=["copilot"]), "not sent: run 4 lost its lease"),
    )
    add_failed(
        service,
        effect("assign", 412, "assign", run, logins=["renovate-bot"]),
        "GitHub did not assign renovate-bot, and does not say why: may they be assigned in this repository,"
        " and by this token?",
    )
    add_failed(
        service,
        effect("dispatch", 418, "dispatch", workflow="agent.yml", ref="main", inputs={}),
        "GitHub refused: Workflow does not have 'workflow_dispatch' trigger (422).",
    )
    outbox = outbox_of(service)
    outbox.enqueue([effect("done", 420, run=run, text="Done in #431: the cart keeps its discount codes.")])
    outbox.put_off(take(outbox), 45, "GitHub did not answer within 5 s.", failed=True, maybe_sent=True)
    outbox.enqueue([effect("lane", 431, "lane"), effect("reviewed", 431, "label", labels=["reviewed"])])
