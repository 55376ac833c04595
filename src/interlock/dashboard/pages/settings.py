"""The settings: the visitor, modes, paused projects, tokens, and the rules for GitHub's events."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from interlock import __version__
from interlock.core.errors import InvalidInput
from interlock.core.model import Mode
from interlock.dashboard.pages.trial import default_rule_rows
from interlock.dashboard.rendering import moment_of, url
from interlock.dashboard.visit import Page, Visit

#: Rows of modes, of paused projects and of valid tokens; and of tokens that are no longer valid.
ROWS, ENDED_ROWS = 15, 15
_DAY_S = 86_400
#: When a new token expires.
EXPIRIES = {
    "never": None,
    "1 day": _DAY_S,
    "30 days": 30 * _DAY_S,
    "90 days": 90 * _DAY_S,
    "1 year": 365 * _DAY_S,
}
SCOPES = ("agent", "read", "admin")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


async def settings(visit: Visit) -> Page:
    """What is set in the store, and who may use it."""
    modes = await visit.call("modes")
    paused = await visit.call("paused_projects")
    lineage = await visit.call("lineage")
    values = {
        "modes": _part(visit, "modes", modes),
        "mode_words": [each.value for each in Mode],
        "paused": _part(visit, "projects", sorted(paused.items())),
        "lineage": lineage,
        "version": __version__,
        "rules": default_rule_rows(),
        "expiries": list(EXPIRIES),
        "tokens": await _tokens(visit) if visit.may("tokens") else None,
    }
    return Page("settings.html", values, "Settings", "settings")


async def _tokens(visit: Visit) -> dict[str, Any]:
    """A page of the valid tokens, the newest first, and the last ones that are no longer valid."""
    found = [{**token, "state": _state(token, visit)} for token in reversed(await visit.call("tokens"))]
    valid = [token for token in found if not token["state"]]
    ended = [token for token in found if token["state"]]
    return {
        "valid": _part(visit, "tokens", valid),
        "ended": ended[:ENDED_ROWS],
        "ended_count": len(ended),
    }


def _part(visit: Visit, name: str, rows: Sequence[Any]) -> dict[str, Any]:
    """A page of the rows of a section. The address says how many come before it."""
    start = visit.query_number(name, 0) or 0
    end = start + ROWS
    following = f"{url('/settings', **{name: end})}#{name}" if end < len(rows) else ""
    return {"rows": rows[start:end], "count": len(rows), "next_url": following}


def _state(token: Mapping[str, Any], visit: Visit) -> str:
    """Why a token is not valid; empty if it is."""
    if token["revoked_at"]:
        return "revoked"
    expires = token["expires_at"]
    return "expired" if expires and moment_of(expires) <= visit.now else ""


async def new_token(visit: Visit) -> Page:
    """Create a token. This answer alone shows it."""
    given = {name: visit.form.get(name, "").strip() for name in ("name", "scope", "agent", "expires")}
    if given["expires"] not in EXPIRIES or given["scope"] not in SCOPES:
        raise InvalidInput("The form is not valid.", "Reload the page, then send it again.")
    scope = f"agent:{given['agent']}" if given["scope"] == "agent" else given["scope"]
    expires_s = EXPIRIES[given["expires"]]
    more = {} if expires_s is None else {"expires_s": expires_s}
    made = await visit.call("create_token", name=given["name"], scope=scope, **more)
    address = visit.server_url
    values = {
        "token": made,
        "line": f"export INTERLOCK_URL={shlex.quote(address)} INTERLOCK_TOKEN={made['token']}",
        "only_here": urlsplit(address).hostname in _LOOPBACK,
    }
    return Page("token.html", values, "New token", "settings")
