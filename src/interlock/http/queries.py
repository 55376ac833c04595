"""What the query of each address may have, in words, and how far its numbers go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.checks import CiFilter
from interlock.core.names import BATCH_MAX
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus
from interlock.http.arguments import query_fields
from interlock.service.contract import ItemFilter, StatsBy
from interlock.service.usecases import UseCase

#: How much a list has at most, where it is not the usual number.
LIMIT_MAX, SHORT = 10_000, ("stopped", "external", "blocks", "gates")
_WINDOW_MAX_S = 366 * 24 * 3600


def _words(values: Any) -> str:
    return ", ".join(f"`{value}`" for value in values)


_REPOSITORY = "The repository, as in `acme/app`."
_ABOUT: Mapping[str, Mapping[str, str]] = {
    "items": {
        "all": "`true`: ended items too.",
        "statuses": f"Only items with this status; may be repeated. One of {_words(ItemStatus)}.",
        "lane": "Only items on this lane.",
        "agent": "Only items of this agent.",
        "project": "Only items of this project.",
        "type": "Only items of this type.",
        "asking": "`true`: only items that wait for the answer of a person.",
        "ci": "Only items whose newest pull request's checks say this; ended ones too. One of"
        f" {_words(CiFilter)}.",
        "before": "Only items that arrived before the item with this number: the page before.",
    },
    "recent_runs": {
        "lane": "Only runs on this lane.",
        "worker": "Only runs of workers whose names begin so.",
    },
    "lanes": {"prefix": "Only lanes that begin so."},
    "on_lane": {"lane": "The lane."},
    "gates": {"series": "Only gates of this series, as in `series:acme/app/RFC-093`."},
    "series": {"repository": _REPOSITORY, "series": "Only this series, as in `RFC-093`."},
    "series_metrics": {"repository": _REPOSITORY},
    "events": {
        "after": "Only events after the one with this number.",
        "item": "Only events of the item with this number.",
        "lane": "Only events of this lane.",
        "newest": "`true`: the last events, not the first, if there are more than `limit`.",
    },
    "stats": {
        "window_s": f"How many seconds back rates and spans are measured: 1 to {_WINDOW_MAX_S:,}; an hour if"
        " left out.",
        "by": f"Runs are counted for each of these too. One of {_words(StatsBy)}.",
    },
    "near_agent": {"name": "The name that somebody typed."},
    "plans": {"ended": "`true`: ended plans too."},
    "plan_history": {"after": "Only revisions after this one."},
}
#: Of the stream of events, which is no use case.
STREAM = {"after": "The number of the event to begin after; the next one to happen if left out."}


class QueryField(NamedTuple):
    """One field of a query."""

    name: str
    kind: Any
    needed: bool
    about: str
    #: More of its schema.
    bounds: Mapping[str, Any]


def fields_of(case: UseCase) -> list[QueryField]:
    """What the query of an address may have; nothing where there is a body."""
    if case.writes:
        return []
    found = []
    for name, (kind, needed) in query_fields(case).items():
        about, bounds = _said(case, name)
        found.append(QueryField(name, kind, needed, f"{about} Needed." if needed else about, bounds))
    return found


def _said(case: UseCase, name: str) -> tuple[str, Mapping[str, Any]]:
    if name == "limit":
        most = BATCH_MAX if case.name in SHORT else LIMIT_MAX
        usual = next((p.default for p in case.parameters if p.name == name), ItemFilter().limit)
        text = f"How many at most: 1 to {most:,}; {usual:,} if left out."
        return text, {"minimum": 1, "maximum": most, "default": usual}
    if name == "window_s":
        return _ABOUT[case.name][name], {"minimum": 1, "maximum": _WINDOW_MAX_S}
    return _ABOUT[case.name][name], {}
