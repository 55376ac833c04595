"""While you were away: what finished, failed, waits for you and was superseded in the last hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from interlock.core.costs import dollars
from interlock.core.errors import InvalidInput
from interlock.dashboard.pages.overview import KINDS
from interlock.dashboard.reasons import reason_words
from interlock.dashboard.rendering import item_url, url
from interlock.dashboard.visit import Page, Visit

#: Ranges with their hours, and the most rows of a section.
RANGES = {"1h": 1, "8h": 8, "24h": 24, "7d": 168}
_LABELS = {"1h": "1 h", "8h": "8 h", "24h": "24 h", "7d": "7 days"}
_USUAL, ROWS = "8h", 20


async def recap(visit: Visit) -> Page:
    """The recap of one of the ranges."""
    chosen = visit.query.get("since", "") or _USUAL
    if chosen not in RANGES:
        raise InvalidInput(f"There is no range {chosen[:80]!r}.", f"Use {', '.join(RANGES)}.")
    found = await visit.call("recap", window_s=RANGES[chosen] * 3_600.0, limit=ROWS)
    counts, waiting = found["counts"], sum(found["needs_counts"].values())
    values = {
        **found,
        "needs": list(map(_need, found["needs"])),
        "failed": [
            {**each, "why": each["error"] or reason_words(each["reason"])} for each in found["failed"]
        ],
        "waiting": waiting,
        "numbers": list(_numbers(counts, waiting, found["cost"])),
        "more": {name: counts[name] - len(found[name]) for name in ("finished", "failed", "superseded")},
        "ranges": [
            {
                "label": _LABELS[name],
                "url": url("/recap", since="" if name == _USUAL else name),
                "current": name == chosen,
            }
            for name in RANGES
        ],
    }
    return Page("recap.html", values, "While you were away", "overview")


def _numbers(counts: Mapping[str, int], waiting: int, cost: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The numbers at the top. A number without a section is not shown if it is zero."""
    yield {"name": "Finished", "n": counts["finished"], "url": "#finished", "kind": ""}
    yield {
        "name": "Failed",
        "n": counts["failed"],
        "url": "#failed",
        "kind": "bad-text" if counts["failed"] else "",
    }
    yield {"name": "Waiting for you", "n": waiting, "url": "#needs", "kind": ""}
    yield {"name": "Superseded", "n": counts["superseded"], "url": "#superseded", "kind": ""}
    if any(cost.values()):
        yield {"name": "Spent", "n": dollars(cost["usd"]), "url": "/agents", "kind": ""}
    yield {"name": "Runs", "n": counts["runs"], "url": "/runs?range=24h", "kind": ""}


def _need(concern: Mapping[str, Any]) -> dict[str, Any]:
    word, kind, address = KINDS[concern["kind"]]
    return {
        **concern,
        "word": word,
        "word_kind": kind,
        "url": item_url(concern["item"]["id"]) if concern["item"] else address,
    }
