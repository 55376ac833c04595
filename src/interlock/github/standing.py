"""What Interlock knows about a number, and owes for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from interlock.core.errors import InvalidInput, NotFound
from interlock.core.record import Record
from interlock.github.orders import place_of
from interlock.service.answers import link_view
from interlock.service.contract import ItemFilter, LinkView, Service
from interlock.service.itemview import ItemView, maybe_moment, moment
from interlock.store.github_port import Consequence, GitHubStore, Known, Repository, Undecided
from interlock.store.outbox_port import Owing

#: The last things that followed, and the most deliveries and items, that are shown.
SHOWN_MAX = 50
#: Among how many repositories a name is looked for.
REPOSITORIES_MAX = 1_000


class DeliveryView(Record):
    """A delivery that is not decided on."""

    delivery: str
    event: str
    received_at: datetime
    tries: int
    #: When it is tried again; null if it waits for a person.
    due_at: datetime | None
    why: str | None


class FollowsView(Record):
    """Something that followed from a change or a remark."""

    name: str
    #: `add`, `tell`, `withdraw`, `adjust` or `command`.
    do: str
    #: `done`, `owed`, or `stuck` if it waits for a person.
    status: str
    done_at: datetime | None
    tries: int
    item: int | None
    outcome: str | None


class EffectView(Record):
    """Something that is owed to GitHub, or was sent."""

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
    """A number as it was seen last, and what became of it."""

    repository: str
    number: int
    lane: str
    #: Null if it was never seen.
    facts: Mapping[str, Any] | None
    #: The items that it wants: `{"type", "agent", "occasions", "priority"}`.
    wanted: tuple[Mapping[str, Any], ...]
    #: Of a pull request: other open ones that would close the same issues, as `{"issue", "pull"}`.
    rivals: tuple[Mapping[str, int], ...]
    #: The open items on its lane.
    items: tuple[ItemView, ...]
    deliveries: tuple[DeliveryView, ...]
    #: The newest first.
    follows: tuple[FollowsView, ...]
    #: The newest first.
    effects: tuple[EffectView, ...]
    #: The runs that a pull request comes from, and how it fares; the newest first.
    links: tuple[LinkView, ...] = ()


def standing(service: Service, github: GitHubStore, name: str | None, number: int) -> NumberView:
    """Look at one number of a repository; of the only one, if none is named."""
    repository = _repository(github, name, number)
    place = place_of(repository, number)
    known = github.known(repository.id, number)
    undecided = github.undecided_of(repository.id, number, SHOWN_MAX)
    effects = github.outbox.effects(repository.id, number, SHOWN_MAX)
    if known is None and not undecided and not effects:
        raise NotFound(
            f"Interlock has seen no #{number} of {repository.name}.",
            "Nothing about it was delivered yet: `interlock github ingest`.",
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
        follows=tuple(map(_follows, github.consequences(repository.id, number, SHOWN_MAX))) if known else (),
        effects=tuple(map(_effect, effects)),
        links=_links(github, repository, number),
    )


def _links(github: GitHubStore, repository: Repository, number: int) -> tuple[LinkView, ...]:
    found = github.links.of_number(repository.id, number, SHOWN_MAX)
    runs = github.links.workflow_runs(repository.id, found[0].head, SHOWN_MAX) if found else []
    return tuple(link_view(each, runs) for each in found)


def _repository(github: GitHubStore, name: str | None, number: int) -> Repository:
    if name is not None:
        # GitHub takes capitals and small letters for the same. A repository may have been made again under a
        # name, and has another id then.
        seen = [r for r in github.repositories(0, REPOSITORIES_MAX) if r.name.lower() == name.lower()]
        if not seen:
            raise NotFound(
                f"Interlock has seen no repository {name}.", "Write it as GitHub does: OWNER/NAME."
            )
        return next((r for r in reversed(seen) if github.known(r.id, number)), seen[-1])
    known = github.repositories(0, 2)
    if len(known) != 1:
        raise InvalidInput(
            "Interlock has seen no repository." if not known else "There is more than one repository.",
            "Name it with --repo OWNER/NAME.",
        )
    return known[0]


def _rivals(github: GitHubStore, known: Known | None) -> tuple[Mapping[str, int], ...]:
    issues = json.loads(known.facts).get("closes") if known else None
    if known is None or not issues:
        return ()
    found = github.closing(known.repository, issues, SHOWN_MAX)
    return tuple({"issue": issue, "pull": pull} for issue, pull in found if pull != known.number)


def _delivery(kept: Undecided) -> DeliveryView:
    return DeliveryView(
        delivery=kept.id,
        event=kept.event,
        received_at=moment(kept.received_us),
        tries=kept.tries,
        due_at=maybe_moment(kept.due_us),
        why=kept.outcome,
    )


def _follows(each: Consequence) -> FollowsView:
    status = "done" if each.done_us is not None else "stuck" if each.due_us is None else "owed"
    return FollowsView(
        name=each.name,
        do=json.loads(each.data)["do"],
        status=status,
        done_at=maybe_moment(each.done_us),
        tries=each.tries,
        item=each.item,
        outcome=each.outcome,
    )


def _effect(each: Owing) -> EffectView:
    status = "done" if each.done_us is not None else "stuck" if each.dead_us is not None else "owed"
    return EffectView(
        name=each.name,
        kind=each.kind,
        status=status,
        owed_at=moment(each.owed_us),
        done_at=maybe_moment(each.done_us),
        tries=each.tries,
        made=each.made,
        outcome=each.outcome,
    )
