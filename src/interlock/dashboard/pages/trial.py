"""Tries rules for GitHub's events on a payload: what it would create, and why. Nothing is stored."""

from __future__ import annotations

import asyncio
from typing import Any

from interlock.core.errors import InterlockError
from interlock.dashboard.visit import Page, Visit
from interlock.github.delivery import read
from interlock.github.rulefile import parse
from interlock.github.rules import DEFAULTS, Rules, default_rules
from interlock.github.trial import Trial, event_of, trial

#: A delivery with the fields that matter: somebody assigned an issue with a label.
EXAMPLE = """{
  "action": "assigned",
  "issue": {
    "number": 42,
    "title": "The login page is blank on small screens",
    "state": "open",
    "html_url": "https://github.com/acme/app/issues/42",
    "user": {"login": "anna"},
    "labels": [{"name": "bug"}],
    "assignees": [{"login": "acme-coder"}],
    "body": "Seen on tablets too.",
    "created_at": "2026-11-19T09:00:00Z",
    "updated_at": "2026-11-19T09:05:00Z"
  },
  "repository": {"id": 7, "full_name": "acme/app"},
  "sender": {"login": "anna"}
}"""
EXAMPLE_RULES = """# The accounts that agents write as.
[agents]
acme-coder = "coder"
"""
_FIELDS = ("payload", "event", "rules")
#: Events whose name the payload may not show.
EVENTS = (
    *("issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"),
    *("workflow_run", "check_run", "check_suite", "status"),
)


async def try_payload(visit: Visit) -> Page:
    """The form, and the result of a sent one."""
    given = {name: visit.form.get(name, "").replace("\r\n", "\n") for name in _FIELDS}
    if not visit.form and "example" in visit.query:
        given |= {"payload": EXAMPLE, "rules": EXAMPLE_RULES}
    outsider = "outsider" in visit.form
    found, problem = None, None
    if visit.form and given["payload"].strip():
        try:
            found = await asyncio.to_thread(_tried, given, may_write=not outsider)
        except InterlockError as error:
            problem = {"sentence": error.sentence, "hint": error.hint}
    values = {
        "given": given,
        "outsider": outsider,
        "trial": found,
        "problem": problem,
        "empty": bool(visit.form) and not given["payload"].strip(),
        "events": EVENTS,
    }
    return Page("trial.html", values, "Try a payload", "settings", 422 if problem else 200)


def _tried(given: dict[str, str], *, may_write: bool) -> Trial:
    body = given["payload"].encode()
    rules: Rules = parse(given["rules"], "these rules") if given["rules"].strip() else default_rules()
    return trial(read(given["event"].strip() or event_of(body), "trial", body), rules, may_write=may_write)


def default_rule_rows() -> list[dict[str, Any]]:
    """The rules that apply where a repository's own rules do not match."""
    return [
        {
            "name": rule.name.removeprefix("default: "),
            "events": rule.events,
            "does": rule.does.value,
            "type": rule.type,
            "policy": rule.policy.value if rule.type else "",
        }
        for rule in DEFAULTS
    ]
