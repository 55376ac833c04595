"""The events: the history, newest first, with filters in the address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.model import EventKind
from interlock.dashboard.event_sentences import TROUBLE, reason_code, sentence, tone
from interlock.dashboard.reasons import reason_words
from interlock.dashboard.rendering import url
from interlock.dashboard.visit import Page, Visit

ROWS = 50
#: A filtered page searches so many events. An item's events are found without a search.
SEARCHED = 10_000
GROUPS = tuple(dict.fromkeys(kind.partition(".")[0] for kind in EventKind))


async def events(visit: Visit) -> Page:
    """Events before a number, or the newest ones."""
    kind, before = visit.query.get("kind", "").strip(), visit.query_number("before")
    given = {name: visit.query.get(name, "").strip() for name in ("item", "run", "lane", "agent")}
    wanted: dict[str, Any] = {name: given[name] for name in ("lane", "agent") if given[name]}
    wanted |= {name: visit.query_number(name) for name in ("item", "run") if given[name]}
    if kind:
        wanted["kinds"] = _kinds(kind)
    last = await visit.call("events", newest=True, limit=1)
    newest = last[-1]["seq"] if last else 0
    upper = newest + 1 if before is None else before
    searches = bool(wanted) and "item" not in wanted
    after = max(0, upper - 1 - SEARCHED) if searches else 0
    found = await visit.call("events", newest=True, after=after, before=upper, limit=ROWS + 1, **wanted)
    rows = found[::-1][:ROWS]
    more = len(found) > ROWS
    following = rows[-1]["seq"] if more else after + 1 if after else None
    values = {
        "events": [_shown(row) for row in rows],
        "kind": kind,
        "kinds": _options(),
        "quick": [
            {"label": label, "url": url("/events", **given, kind=value), "current": value == kind}
            for value, label in _QUICK
        ],
        "given": given,
        "filtered": bool(wanted),
        "before": before,
        "newest_url": url("/events", **given, kind=kind),
        "searched": (after + 1, upper - 1) if searches and after < upper - 1 else None,
        "next_url": url("/events", **given, kind=kind, before=following) if following is not None else "",
        "next_label": "Older" if more else "Search earlier events",
    }
    return Page("events.html", values, "Events", "events")


_QUICK = (
    ("", "All"),
    ("trouble", "Trouble"),
    ("run", "Runs"),
    ("item", "Items"),
    ("lane", "Lanes"),
    ("plan", "Plans"),
)


def _shown(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event as a sentence, with the code of its reason and what that means."""
    code = reason_code(event)
    meaning = reason_words(code)
    return {**event, "parts": sentence(event), "tone": tone(event["kind"]), "code": code, "meaning": meaning}


def _kinds(kind: str) -> list[str]:
    """The kinds of a filter: one, all of a group, or those that mean trouble."""
    if kind == "trouble":
        return list(TROUBLE)
    found = [each.value for each in EventKind if kind in (each.value, each.partition(".")[0])]
    if not found:
        raise InvalidInput(
            f"There is no kind {kind[:80]!r} of events.",
            f"Use trouble, {', '.join(GROUPS)}, or one kind of these.",
        )
    return found


def _options() -> list[tuple[str, str]]:
    found = [("", "any"), ("trouble", "trouble")]
    for group in GROUPS:
        kinds = [each.value for each in EventKind if each.partition(".")[0] == group]
        if len(kinds) > 1:
            found.append((group, f"{group}: all"))
        found += [(each, each) for each in kinds]
    return found
