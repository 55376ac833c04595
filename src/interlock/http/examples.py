"""Requests that the documentation shows and the tests send, in an order in which they work."""

from __future__ import annotations

from typing import Any

#: By use case: one for each that takes a body. `{run}` stands for the handle of a run, `{number}` for its
#: number, and `{token}` for the id of a token.
EXAMPLES: dict[str, dict[str, Any]] = {
    "set_pool": {"name": "gpu", "max_concurrency": 3},
    "set_agent": {"name": "coder", "max_concurrency": 2, "labels": ["python"], "pool": "gpu"},
    "add": {
        "items": [
            {
                "title": "Fix the login page",
                "lane": "issue:acme/app#42",
                "priority": 5,
                "payload": {"issue_number": 42},
                "message": "It is blank on small screens.",
            }
        ]
    },
    "edit": {"priority": 7, "by": "anna"},
    "msg": {"text": "On tablets too.", "author": "anna"},
    "next": {"agent": "coder", "wait_s": 0},
    "unwanted": {"run": "{run}"},
    "renew": {"reports": [{"run": "{run}", "seen": 1}]},
    "inbox": {"run": "{run}", "seen": 1},
    "sender_of": {"run": "{run}"},
    "item_of": {"handle": "{run}"},
    "act_as": {"run": "{run}", "account": "octocat"},
    "pass_fence": {"run": "{run}", "fence": 1, "armed_us": 0},
    "done": {"reports": [{"run": "{run}", "result": {"pull_request": 43}}]},
    "fail": {"reports": [{"run": "{run}", "error": "The tests fail.", "retry": True}]},
    "release": {"reports": [{"run": "{run}"}]},
    "ask": {"run": "{run}", "question": "Which of the two login pages?", "timeout_s": 86_400},
    "cancel": {"why": "It was fixed elsewhere.", "by": "anna"},
    "take_back": {"why": "Its machine is gone.", "by": "anna"},
    "retry": {"why": "The server is back."},
    "end_external": {"run": "{number}", "outcome": "done", "why": "Its pull request was merged."},
    "block": {"lane": "issue:acme/app#42", "blocker": "acme/app#3", "why": "It needs the new API."},
    "unblock": {"lane": "issue:acme/app#42", "blocker": "acme/app#3"},
    "set_gate": {
        "lane": "issue:acme/app#44",
        "series": "series:acme/app/RFC-093",
        "open": False,
        "why": "It is not its turn.",
    },
    "remove_gate": {"lane": "issue:acme/app#44", "why": "The series is over."},
    "set_mode": {"scope": "project", "value": "acme/app", "mode": "observe"},
    "see_worker": {
        "name": "host-7-coder",
        "host": "host-7",
        "pid": 4711,
        "folder": "/srv/app",
        "agent": "coder",
        "slots": 2,
        "runs": 1,
    },
    "leave_worker": {"name": "host-7-coder"},
    "pause_agent": {"name": "coder", "paused": True, "why": "Its quota is used up."},
    "pause_project": {"project": "acme/app", "paused": True, "why": "A release is under way."},
    "sweep": {},
    "next_notice": {"name": "on_dead_letter"},
    "end_notice": {
        "notice": {
            "name": "on_dead_letter",
            "event": {
                "seq": 7,
                "at": "2026-11-17T12:00:00+00:00",
                "kind": "item.failed",
                "item": 3,
                "lane": None,
                "run": None,
                "reason": "attempts_used_up",
                "data": {},
                "agent": None,
                "project": None,
            },
            "item": None,
            "attempt": 1,
            "after": 6,
            "token": 1,
        }
    },
    "create_plan": {
        "name": "release",
        "tasks": [{"key": "build"}, {"key": "publish", "priority": 3}],
        "edges": [{"from": "build", "to": "publish"}],
    },
    "edit_plan": {
        "base": 1,
        "operations": [{"op": "add_task", "key": "announce"}],
        "why": "Nobody would know.",
    },
    "plan_batch": {"run": "{run}"},
    "set_edit_deadline": {"edit_deadline_s": 600},
    "pause_plan": {"why": "The build machine is full."},
    "resume_plan": {"why": "It has room again."},
    "cancel_plan": {"why": "There will be no release."},
    "acquire_issue": {"repository": "acme/app", "issue": 42},
    "release_issue": {"repository": "acme/app", "issue": 42, "why": "It is done."},
    "promote_series": {"repository": "acme/app", "series": "RFC-093"},
    "reconcile_series": {"repository": "acme/app", "series": ["RFC-093"]},
    "rebuild_series": {"repository": "acme/app", "series": "RFC-093"},
    "remove_agent": {"name": "painter"},
    "remove_pool": {"name": "arm"},
    "create_token": {"name": "laptop", "scope": "agent:coder", "expires_s": 2_592_000},
    "revoke_token": {"token": "{token}"},
}
