"""One lane: who holds it, who moves next and when, and what happened on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.names import folded_lane
from interlock.core.plans.model import PLAN_LANES, plan_of_lane
from interlock.dashboard.event_sentences import reason_code, sentence, tone
from interlock.dashboard.pages.lanes import told
from interlock.dashboard.reasons import reason_words
from interlock.dashboard.rendering import moment_of, span
from interlock.dashboard.visit import Page, Visit

#: How many ended runs and events are shown.
RUNS, EVENTS = 20, 30
#: How many of the newest events are searched for those of the lane.
SEARCHED = 20_000
#: The kinds of events that are told.
KINDS = (
    *("lane.promoted", "lane.overtaken", "run.refused", "item.observed", "cancel.requested"),
    *("item.superseded", "item.rejected", "block.set", "block.removed"),
    *("gate.closed", "gate.opened", "gate.removed", "series.yielded"),
)
#: Kinds whose reason says more than the sentence.
_WITH_REASON = frozenset({"run.refused", "lane.overtaken"})
_OBSERVED = {
    "would_be_queued": "queued it behind the holder",
    "would_be_coalesced": "added it to the waiting item as a message",
    "would_be_superseding": "replaced the waiting item with it",
    "would_be_rejected": "rejected it",
}


async def lane(visit: Visit) -> Page:
    """A lane as it is now, with its line and its history."""
    name = folded_lane(visit.query.get("name", "").strip())
    if not name:
        raise InvalidInput("No lane is named.", "Choose one from the list of lanes.")
    found = [each for each in await visit.call("lanes", prefix=name, limit=1) if each["lane"] == name]
    now = found[0] if found else None
    first = _first(now)
    shown = None if first is None else await visit.call("show", item=first)
    runs = await visit.call("recent_runs", lane=name, limit=RUNS + 1)
    newest = await visit.call("events", newest=True, limit=1)
    since = max(0, newest[-1]["seq"] - SEARCHED) if newest else 0
    events = await visit.call("events", lane=name, newest=True, after=since, kinds=KINDS, limit=EVENTS)
    gates = await visit.call("gates", series=name) if name.startswith("series:") else []
    values = {
        "name": name,
        "lane": now,
        "holder": None if now is None else now["holder"],
        "state": {"word": "free", "kind": "good"} if now is None else told(now, visit.now),
        "first": first,
        "shown": shown,
        "line": _line(now, shown),
        "blocks": await visit.call("blocks", lane=name),
        "gate": next(iter(await visit.call("gates", lane=name)), None),
        "gates": gates,
        "runs": list(_transfers(runs[:RUNS])),
        "more_runs": len(runs) > RUNS,
        "events": [
            {
                **event,
                "parts": sentence(event),
                "tone": "warn" if _conflict(event) else tone(event["kind"]),
                "conflict": _conflict(event),
                "why": reason_words(reason_code(event)) if event["kind"] in _WITH_REASON else "",
            }
            for event in reversed(events)
        ],
        "searched": SEARCHED if since else 0,
        "plan": plan_of_lane(name),
        "reserved": name.startswith(PLAN_LANES),
    }
    return Page("lane.html", values, name, "lanes")


def _first(now: Mapping[str, Any] | None) -> int | None:
    """The item to explain: the first of the line, else the holder."""
    if now is None or now["unreadable"]:
        return None
    if now["line"]:
        return int(now["line"][0])
    return None if now["holder"] is None else int(now["holder"]["item"])


def _line(now: Mapping[str, Any] | None, shown: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The waiting items in order. The answer about an item of the line has the owner before them."""
    if now is None or shown is None:
        return []
    by_id = {each["id"]: each for each in shown["line"]}
    return [by_id[item] for item in now["line"] if item in by_id]


def _transfers(runs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Runs, the newest first, each with how long it had the lane and how long the lane was free before it."""
    for n, run in enumerate(runs):
        before = runs[n + 1] if n + 1 < len(runs) else None
        free_s = None
        if before is not None and before["ended_at"] is not None:
            free_s = _seconds(before["ended_at"], run["started_at"])
        yield {
            **run,
            "took": None if run["ended_at"] is None else _seconds(run["started_at"], run["ended_at"]),
            "why": reason_words(run["reason"]) if run["reason"] not in ("", "reported") else "",
            "from": before,
            "overlaps": before is not None and (free_s is None or free_s < 0),
            "free_for": span(free_s) if free_s is not None and free_s >= 1 else "",
        }


def _seconds(begin: str, end: str) -> float:
    return (moment_of(end) - moment_of(begin)).total_seconds()


def _conflict(event: Mapping[str, Any]) -> str:
    """What enforce mode would have done with an item that was only observed."""
    would = _OBSERVED.get(event["reason"])
    if would is None:
        return ""
    return f" Enforce mode would have {would}."
