"""Views of a number: its known facts, and its queued orders and effects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from interlock.core.errors import InvalidInput, NotFound
from interlock.core.record import Record
from interlock.github.orders import item_location, read_order
from interlock.service.contract import ItemFilter, LinkView, Service
from interlock.service.item_view import ItemView, maybe_moment, moment
from interlock.service.view_builders import link_view
from interlock.store.github import (
    GitHubStore,
    KnownNumber,
    KnownRepository,
    StoredOrder,
    UndecidedDelivery,
)
from interlock.store.outbox import OutboxEntry

#: The most orders, deliveries and items that are shown.
SHOWN_MAX = 50
#: The most repositories searched for a name.
REPOSITORIES_MAX = 1_000


class DeliveryView(Record):
    """An undecided delivery."""

    delivery: str
    event: str
    received_at: datetime
    tries: int
    #: When it is tried again; null if it waits for a person.
    due_at: datetime | None
    why: str | None


class OrderView(Record):
    """An order that followed from a change or a remark."""

    name: str
    #: The kind of order, such as `add`: see `orders`.
    do: str
    #: `done`, `owed`, or `stuck` if it waits for a person.
    status: str
    done_at: datetime | None
    tries: int
    item: int | None
    outcome: str | None


class EffectView(Record):
    """An effect that is queued for GitHub, or was sent."""

    name: str
    kind: str
    #: `done`, `owed`, or `stuck` if it waits for a person.
    status: str
    owed_at: datetime
    done_at: datetime | None
    tries: int
    #: GitHub's id of what it made.
    made: int | None
    outcome: str | None


class NumberView(Record):
    """A number as last seen, with its items, orders and effects."""

    repository: str
    number: int
    lane: str
    #: Null if the number was never seen.
    facts: Mapping[str, Any] | None
    #: The items that it should have: `{"type", "agent", "occasions", "priority"}`.
    wanted: tuple[Mapping[str, Any], ...]
    #: For a pull request: other open ones that would close the same issues, as `{"issue", "pull"}`.
    rivals: tuple[Mapping[str, int], ...]
    #: The open items on its lane.
    items: tuple[ItemView, ...]
    deliveries: tuple[DeliveryView, ...]
    #: The newest first.
    follows: tuple[OrderView, ...]
    #: The newest first.
    effects: tuple[EffectView, ...]
    #: The runs of a pull request, with its state; the newest first.
    links: tuple[LinkView, ...] = ()


def number_view(service: Service, github: GitHubStore, name: str | None, number: int) -> NumberView:
    """View one number of a repository; without a name, of the only repository."""
    repository = _repository(github, name, number)
    place = item_location(repository, number)
    known = github.known(repository.id, number)
    undecided = github.undecided_of(repository.id, number, SHOWN_MAX)
    effects = github.outbox.effects(repository.id, number, SHOWN_MAX)
    if known is None and not undecided and not effects:
        raise NotFound(
            f"Interlock has not seen {repository.name}#{number}.",
            "No delivery has named it yet.",
        )
    wanted = ItemFilter(lane=place.lane, project=place.project, limit=SHOWN_MAX)
    return NumberView(
        repository=repository.name,
        number=number,
        lane=place.lane,
        facts=json.loads(known.facts) if known else None,
        wanted=tuple(json.loads(known.wanted)) if known else (),
        rivals=_rivals(github, known),
        items=tuple(service.items(wanted)),
        deliveries=tuple(map(_delivery, undecided)),
        follows=tuple(map(_order_view, github.orders(repository.id, number, SHOWN_MAX))) if known else (),
        effects=tuple(map(_effect, effects)),
        links=_links(github, repository, number),
    )


def _links(github: GitHubStore, repository: KnownRepository, number: int) -> tuple[LinkView, ...]:
    found = github.links.of_number(repository.id, number, SHOWN_MAX)
    runs = github.links.workflow_runs(repository.id, found[0].head, SHOWN_MAX) if found else []
    return tuple(link_view(each, runs) for each in found)


def _repository(github: GitHubStore, name: str | None, number: int) -> KnownRepository:
    if name is not None:
        # GitHub ignores case. A repository may have been recreated under a name, with a new id.
        seen = [r for r in github.repositories(0, REPOSITORIES_MAX) if r.name.lower() == name.lower()]
        if not seen:
            raise NotFound(
                f"Interlock has not seen repository {name}.", "Write it as GitHub does: OWNER/NAME."
            )
        return next((r for r in reversed(seen) if github.known(r.id, number)), seen[-1])
    known = github.repositories(0, 2)
    if len(known) != 1:
        raise InvalidInput(
            "Interlock has not seen a repository."
            if not known
            else "Interlock has seen more than one repository.",
            "Name the repository: OWNER/NAME.",
        )
    return known[0]


def _rivals(github: GitHubStore, known: KnownNumber | None) -> tuple[Mapping[str, int], ...]:
    issues = json.loads(known.facts).get("closes") if known else None
    if known is None or not issues:
        return ()
    found = github.pulls_closing(known.repository, issues, SHOWN_MAX)
    return tuple({"issue": issue, "pull": pull} for issue, pull in found if pull != known.number)


def _delivery(kept: UndecidedDelivery) -> DeliveryView:
    return DeliveryView(
        delivery=kept.id,
        event=kept.event,
        received_at=moment(kept.received_us),
        tries=kept.tries,
        due_at=maybe_moment(kept.due_us),
        why=kept.outcome,
    )


def _order_view(each: StoredOrder) -> OrderView:
    status = "done" if each.done_us is not None else "stuck" if each.due_us is None else "owed"
    return OrderView(
        name=each.name,
        do=read_order(each.data).do,
        status=status,
        done_at=maybe_moment(each.done_us),
        tries=each.tries,
        item=each.item,
        outcome=each.outcome,
    )


def _effect(each: OutboxEntry) -> EffectView:
    status = "done" if each.done_us is not None else "stuck" if each.dead_us is not None else "owed"
    return EffectView(
        name=each.name,
        kind=each.kind,
        status=status,
        owed_at=moment(each.enqueued_us),
        done_at=maybe_moment(each.done_us),
        tries=each.tries,
        made=each.made,
        outcome=each.outcome,
    )
