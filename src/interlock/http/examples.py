"""Requests that the documentation shows and the tests send, in an order in which they work."""

from __future__ import annotations

from typing import Any

#: By use case. A text `{run}` stands for the handle that the claim gave.
EXAMPLES: dict[str, dict[str, Any]] = {
    "set_agent": {"name": "coder", "max_concurrency": 2, "labels": ["python"]},
    "add": {
        "items": [
            {
                "title": "Fix the login page",
                "lane": "issue:acme/app#42",
                "priority": 5,
                "payload": {"url": "https://github.com/acme/app/issues/42"},
                "message": "It is blank on small screens.",
            }
        ]
    },
    "next": {"agent": "coder", "wait_s": 0},
    "renew": {"reports": [{"run": "{run}", "seen": 1}]},
    "inbox": {"run": "{run}", "seen": 1},
    "done": {"reports": [{"run": "{run}", "result": {"pull_request": 43}}]},
    "create_plan": {
        "name": "release",
        "tasks": [{"key": "build"}, {"key": "publish", "priority": 3}],
        "edges": [{"from": "build", "to": "publish"}],
    },
    "create_token": {"name": "laptop", "scope": "agent:coder", "expires_s": 2_592_000},
}
