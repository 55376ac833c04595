"""Errors over HTTP: a status, and a body of `application/problem+json`.

The body has the error's stable `code`, its sentence as `detail`, its `hint`, and the hint's parts, `advice`
and `cures`. If a lane is held, `holder` names the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from interlock.core.cures import Cure
from interlock.core.errors import InterlockError, NoGitHubToken
from interlock.http.cures import told

MEDIA_TYPE = "application/problem+json"
#: The client's wait before a retry, if a retry helps.
RETRY_AFTER_S = 1

#: The status of each error; all others are defects.
STATUSES = {
    "bad_request": 400,
    "no_token": 401,
    "bad_signature": 401,
    "not_allowed": 403,
    "not_trusted": 403,
    "not_found": 404,
    "wrong_method": 405,
    "too_slow": 408,
    "held": 409,
    "item_ended": 409,
    "edit_refused": 409,
    "plan_ended": 409,
    "repeated": 409,
    "lease_lost": 410,
    "edit_cycle_expired": 410,
    "unknown_event": 410,
    "stale_revision": 412,
    "too_large": 413,
    "wrong_media_type": 415,
    "wrong_host": 421,
    "invalid_input": 422,
    "invalid_plan": 422,
    "unknown_run": 422,
    # From GitHub: an immediate retry does not help.
    "github_refused": 424,
    "github_limited": 424,
    "github_unavailable": 424,
    "no_github_token": 424,
    "too_many_requests": 429,
    "store_unavailable": 503,
    "store_refused": 503,
    "store_busy": 503,
    "store_replaced": 503,
    "store_sealed": 503,
    "schema_mismatch": 503,
    "closed": 503,
    "stopping": 503,
    "too_busy": 503,
}
_AGAIN = {408, 429, 503}


def status_of(code: str) -> int:
    """The status for an error's code."""
    return STATUSES.get(code, 500)


class Problem(InterlockError):
    """A mistake specific to HTTP requests."""

    def __init__(self, code: str, sentence: str, hint: str = "") -> None:
        super().__init__(sentence, hint)
        self.code = code


def problem(
    code: str,
    sentence: str,
    advice: str,
    cures: Sequence[Cure] = (),
    *,
    reasons: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> Response:
    """The response for an error."""
    status = status_of(code)
    body: dict[str, Any] = {
        "type": f"urn:interlock:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": sentence,
        "code": code,
        **told(advice, cures),
        **({"reasons": list(reasons)} if reasons else {}),
        **(more or {}),
    }
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status in _AGAIN else {}
    if code == "no_token":
        headers["WWW-Authenticate"] = "Bearer"
    return Response(json.dumps(body), status, headers, MEDIA_TYPE)


def problem_of(error: InterlockError) -> Response:
    """The response for an exception."""
    if isinstance(error, NoGitHubToken):  # the caller's own token would not help
        error = NoGitHubToken(
            "The server has no token for GitHub.",
            "Its operator sets INTERLOCK_GITHUB_TOKEN there, and restarts it.",
        )
    more: dict[str, Any] = {"fields": list(error.fields)} if error.fields else {}
    if reason := getattr(error, "reason", ""):
        more["reason"] = reason
    return problem(error.code, error.sentence, error.hint, error.cures, reasons=error.reasons, more=more)
