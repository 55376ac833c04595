"""The lanes: who holds each, what is left of its lease, and who waits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.dashboard.rendering import moment_of, url
from interlock.dashboard.visit import Page, Visit

ROWS = 50
#: How many lanes a filter looks at for one page.
SEARCHED = 500
#: How many blocks are read: the oldest.
BLOCKS = 1_000
_NUMBER = re.compile(r"#?(\d{1,10})", re.ASCII)
_GITHUB = re.compile(r"https://[^/\s]+/([^/\s]+/[^/\s#?]+)/(issues|pull)/(\d+)\S*", re.ASCII)
#: The choices of the filter by state.
STATES = {
    "": "any",
    "running": "running",
    "waiting": "with a queue",
    "not started": "not started",
    "asking": "waiting for an answer",
    "silent": "lease expired",
    "observed": "observed only",
}


async def lanes(visit: Visit) -> Page:
    """Lanes by name, with the filters of the address."""
    state, asked = visit.query.get("state", ""), visit.query.get("q", "").strip()
    agent, after = visit.query.get("agent", "").strip(), visit.query.get("after", "")
    if state not in STATES:
        raise InvalidInput(f"There is no state {state[:80]!r} of lanes.", f"Use {', '.join(STATES)}.")
    wanted = _wanted(asked, visit.query.get("prefix", ""))
    filtered = bool(state or agent)
    limit = SEARCHED if filtered else ROWS + 1
    found = await visit.call("lanes", after=after, limit=limit, **wanted)
    if not found and not after and _incomplete(wanted):
        wanted = {"prefix": f"issue:{wanted['prefix']}"}
        found = await visit.call("lanes", limit=limit, **wanted)
    fits = _fitting(state, agent, visit.now)
    matching = [each for each in found if fits(each)]
    shown = matching[:ROWS]
    blocks = await visit.call("blocks", limit=BLOCKS) if shown else []
    blocked = {each["lane"] for each in blocks if each["lane"] is not None}
    last = shown[-1]["lane"] if len(matching) > ROWS else found[-1]["lane"] if len(found) == limit else ""
    given = {"q": asked, "state": state, "agent": agent}
    values = {
        "lanes": [{**each, **told(each, visit.now), "blocked": each["lane"] in blocked} for each in shown],
        "given": given,
        "states": list(STATES.items()),
        "filtered": bool(asked or filtered or wanted.get("prefix")),
        "searched_to": last if filtered and len(matching) <= ROWS else "",
        "searched": SEARCHED,
        "next_url": url("/lanes", **given, prefix=visit.query.get("prefix", ""), after=last) if last else "",
        "first_page": not after,
    }
    return Page("lanes.html", values, "Lanes", "lanes")


def _wanted(asked: str, prefix: str) -> dict[str, Any]:
    """What to search for: the number of an issue, the address of one, or the beginning of a name."""
    if (number := _NUMBER.fullmatch(asked)) is not None:
        return {"number": int(number[1])}
    if (page := _GITHUB.fullmatch(asked)) is not None:
        return {"prefix": f"{'issue' if page[2] == 'issues' else 'pr'}:{page[1]}#{page[3]}"}
    return {"prefix": asked or prefix}


def _incomplete(wanted: Mapping[str, Any]) -> bool:
    """Whether the searched name may be one without its kind, as in `acme/app#42`."""
    return bool(wanted.get("prefix")) and ":" not in wanted["prefix"]


def _fitting(state: str, agent: str, now: datetime) -> Callable[[Mapping[str, Any]], bool]:
    def fits(lane: Mapping[str, Any]) -> bool:
        holder = lane["holder"]
        if agent and (holder is None or (holder["agent"] or "").lower() != agent.lower()):
            return False
        match state:
            case "":
                return True
            case "waiting":
                return bool(lane["waiting"])
            case "observed":
                return bool(lane["mode"] != "enforce")
            case _:
                return bool(told(lane, now)["word"] == state)

    return fits


def told(lane: Mapping[str, Any], now: datetime) -> dict[str, str]:
    """The state of a lane in a word, and its kind of colour."""
    holder = lane["holder"]
    if lane["unreadable"]:
        return {"word": "unreadable", "kind": "bad"}
    if holder is None:
        return {"word": "free", "kind": "quiet"}
    if holder["asking"]:
        return {"word": "asking", "kind": "warn"}
    if holder["run"] is None:
        return {"word": "not started", "kind": "ready"}
    if holder["expires_at"] is not None and moment_of(holder["expires_at"]) <= now:
        return {"word": "silent", "kind": "bad"}
    if holder["cancel_requested"]:
        return {"word": "stopping", "kind": "warn"}
    return {"word": "external" if holder["external"] else "running", "kind": "busy"}
