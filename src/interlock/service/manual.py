"""The documentation of each operation: a sentence for each parameter, an example of a body, words for HTTP.

Documents and help read it through `operations`. It is separate from the table so that commands need not load
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.ci import CiFilter
from interlock.core.names import RECAP_MAX, WINDOW_MAX_S
from interlock.core.plans.model import PlanStatus
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus
from interlock.service.contract import EffectStatus, StatsBy


def _words(values: Any) -> str:
    return ", ".join(f"`{value}`" for value in values)


class ManualEntry(NamedTuple):
    """The documentation of one operation."""

    #: Its parameters, except those in `COMMON`.
    parameters: Mapping[str, str] = {}
    #: An example of a body. `{run}` is the handle of a run, `{number}` its number, and `{token}` the id of a
    #: token.
    example: Mapping[str, Any] | None = None
    #: The description for HTTP, where the function's docstring does not fit.
    about: str = ""


_REPOSITORY = "The repository, as in `acme/app`."
_ONE_SERIES = "The series, as in `RFC-093`."

#: Parameters that mean the same in all operations.
COMMON: Mapping[str, str] = {
    "agent": "The agent, by its name; case does not matter.",
    "by": "The operator's name, for the history.",
    "create": "Accept a new name; otherwise a new name is refused.",
    "edit_deadline_s": "Seconds the editor has for an edit.",
    "handle": "The run's handle, from its claim.",
    "issue": "The issue's number.",
    "item": "The item's number.",
    "labels": "Labels that the agent has.",
    "paused": "`true` pauses, `false` resumes.",
    "plan": "The plan's number.",
    "project": "The project.",
    "reports": "One report for each run, named by its handle.",
    "repository": _REPOSITORY,
    "result": "The result, kept with the run.",
    "run": "The run's handle, from its claim.",
    "sender": "Who wrote it; default: a person.",
    "types": "Only items of these types.",
    "why": "Why, for the history.",
}

#: The fields of a new item, in `add` and `edit`.
ITEM: Mapping[str, str] = {
    "title": "The work, in one line.",
    "lane": "The key that one run may hold at a time, as in issue:acme/app#42.",
    "no_lane": "No lane, although the payload names a repository and a number.",
    "agent": "Only this agent may claim it.",
    "policy": "If the lane is taken: queue (default), coalesce, supersede, latest or reject.",
    "type": "Kind of work; default: task.",
    "priority": "Higher is claimed earlier; default: 0.",
    "payload": "An object, or its JSON text.",
    "message": "The item's first message.",
    "author": "Who wrote the message.",
    "dedupe_key": "A second arrival with this key in 30 days is a duplicate.",
    "project": "The project; default: default.",
    "position": "Place in the lane's order; counts before the time of arrival.",
    "run_at": "Earliest start: 2027-01-31T09:00Z, or +30s, +5m, +2h.",
    "run_after_s": "Earliest start, in seconds from now.",
    "lease_s": "Length of its leases.",
    "timeout_s": "Time limit of a run.",
    "claim_within_s": "Once it is ready, end it if no agent claims it within this time.",
    "max_attempts": "Attempts before it is a dead letter; default: 3.",
    "retry_lane": "Between attempts, give the lane up (`yield`, the default) or keep it (`keep`).",
    "labels": "Labels that an agent must have.",
    "from_person": "A person wrote it; default outside of a run.",
    "from_agent": "This agent wrote it.",
    "from_bot": "Our own bot wrote it: it starts, wakes and supersedes nothing.",
    "from_system": "Another system wrote it: CI, Dependabot, …",
    "from_outsider": "An outsider wrote it, as on a public issue: it starts nothing.",
    "reason": "Why the message came, as in issue_commented.",
    "url": "Where the message was written, such as the URL of a comment.",
    "said": "Sorts the messages of one source in the order in which they were written.",
    "sender": "Who wrote it; instead of the fields that begin with `from_`.",
}

ENTRIES: Mapping[str, ManualEntry] = {
    "add": ManualEntry(
        {"items": "The items, each with the fields of a new item."},
        {
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
        "Add items: each is decided on, in order, all in one transaction.",
    ),
    "items": ManualEntry(
        {
            "wanted": "Which items.",
            "all": "`true`: ended items too.",
            "statuses": f"Only items with this status; may be repeated. One of {_words(ItemStatus)}.",
            "lane": "Only items on this lane.",
            "agent": "Only items of this agent.",
            "project": "Only items of this project.",
            "type": "Only items of this type.",
            "types": "Only items of one of these types; may be repeated.",
            "label": "Only items that need this label. Searches the newest 10,000 items of each status.",
            "text": "Only items with this text in their title, lane, agent or dedupe key. Searches the newest"
            " 10,000 items of each status.",
            "asking": "`true`: only items that wait for a person's answer.",
            "ci": "Only items with this outcome of their newest pull request's checks; ended ones too. One of"
            f" {_words(CiFilter)}.",
            "before": "Only items that arrived before the item with this number: the previous page.",
        }
    ),
    "show": ManualEntry(),
    "edit": ManualEntry(
        {
            "changes": "The changes, by field name.",
            "expected": "Only if the item still has this version.",
        },
        {"priority": 7, "by": "anna"},
        "Change fields of an item that has not started: `title`, `type`, `agent`, `labels`, `priority`,"
        " `position`, and `run_at` or `run_after_s`. With `If-Match`, only if the item still has that"
        " version; otherwise the answer is 412 (`stale_revision`).",
    ),
    "why": ManualEntry(),
    "hindered": ManualEntry(),
    "msg": ManualEntry(
        {
            "text": "The message.",
            "author": "Who wrote it, by name.",
            "reason": ITEM["reason"],
            "url": ITEM["url"],
        },
        {"text": "On tablets too.", "author": "anna"},
    ),
    "cancel": ManualEntry(
        {"force": "Revoke a running lease now, without grace."},
        {"why": "It was fixed elsewhere.", "by": "anna"},
    ),
    "take_back": ManualEntry(
        {"run": "Only from the run with this number."},
        {"why": "Its machine is gone.", "by": "anna"},
        "Take an item from its run as an operator, and offer it again. If `run` is no longer its current run,"
        " nothing changes and the answer is 412 (`stale_revision`).",
    ),
    "retry": ManualEntry({}, {"why": "The server is back."}),
    "retry_dead": ManualEntry(
        {
            "agent": "Only items of this agent.",
            "lane": "Only items on this lane.",
            "project": "Only items of this project.",
            "before": "Only items that arrived before the item with this number: the rest of an answer.",
            "dry_run": "Only list the dead letters that it would retry.",
            "limit": "How many to retry at most.",
        },
        {"types": ["task"], "project": "acme/app", "dry_run": True},
    ),
    "end_external": ManualEntry(
        {
            "run": "The run's number.",
            "outcome": "How it ended: `done`, `fail`, `release`, `cancel` or `yield`.",
        },
        {"run": "{number}", "outcome": "done", "why": "Its pull request was merged."},
        "Report the observed end of an external run: `done`, `fail`, `release`, `cancel` or"
        " `yield`. If the item's current run is another one or is not external, nothing changes and the"
        " answer is 410 (`lease_lost`).",
    ),
    "stopped": ManualEntry(),
    "external": ManualEntry(),
    "next": ManualEntry(
        {
            "agent": "Who claims. Case does not matter.",
            "labels": "Labels that the agent has, for items that need them.",
            "limit": "How many items to claim at most.",
            "wait_s": "How many seconds to wait for work, at most 60.",
            "lease_s": "Length of the lease.",
            "worker": "The process that works, for the history.",
            "item": "Only this item, if it may be claimed.",
            "external": "Work outside this machine: no lease, no deadline.",
        },
        {"agent": "coder", "wait_s": 0},
    ),
    "renew": ManualEntry({}, {"reports": [{"run": "{run}", "seen": 1}]}),
    "done": ManualEntry(
        {"next": "Claim in the same transaction; the answer then has `leases`."},
        {"reports": [{"run": "{run}", "result": {"pull_request": 43}}], "next": {"limit": 1}},
    ),
    "fail": ManualEntry({}, {"reports": [{"run": "{run}", "error": "The tests fail.", "retry": True}]}),
    "release": ManualEntry({}, {"reports": [{"run": "{run}"}]}),
    "ask": ManualEntry(
        {
            "question": "What the agent needs to know.",
            "timeout_s": "Seconds for which the item keeps its lane while it waits; default: 72 h. With"
            " `keep_lease`: for which the run keeps its lease; default: 1 h.",
            "yield_lane": "Give up the lane while it waits.",
            "keep_lease": "Go on with the run while it waits; it gets the answer as a message.",
        },
        {"run": "{run}", "question": "Which of the two login pages?", "timeout_s": 86_400},
    ),
    "close_question": ManualEntry({}, {"run": "{run}"}),
    "inbox": ManualEntry(
        {"seen": "The number of the last message that was read."},
        {"run": "{run}", "seen": 1},
    ),
    "sender_of": ManualEntry({}, {"run": "{run}"}),
    "item_of": ManualEntry({}, {"handle": "{run}"}),
    "unwanted": ManualEntry({}, {"run": "{run}"}),
    "act_as": ManualEntry(
        {"account": "The GitHub account that the run acts as."},
        {"run": "{run}", "account": "octocat"},
    ),
    "cost": ManualEntry(
        {
            "usd": "Money that it has used so far, in US dollars.",
            "input_tokens": "Tokens that it has read so far, cached ones included.",
            "output_tokens": "Tokens that it has written so far.",
        },
        {"run": "{run}", "usd": 0.42, "input_tokens": 12000, "output_tokens": 900},
    ),
    "append_log": ManualEntry(
        {
            "start": "Where the piece begins: the characters that were sent or left out before.",
            "text": "The output, at most 16,384 characters.",
        },
        {"run": "{run}", "start": 0, "text": "12 tests passed\n"},
    ),
    "run_log": ManualEntry(
        {"run": "A run's number.", "offset": "Leaves out what is before this place."},
    ),
    "last_lines": ManualEntry({"runs": "The numbers of runs, at most 100."}),
    "pass_fence": ManualEntry(
        {
            "fence": "The fence that the run met.",
            "armed_us": "When that fence was armed, in microseconds since 1970.",
        },
        {"run": "{run}", "fence": 1, "armed_us": 0},
        "Report a fence of this store's lineage that is ahead of the run: later runs get numbers"
        " above it. `false` if another store armed the fence in this store's name. If the run has ended,"
        " the fence belongs to a later run, and the answer is 410 (`lease_lost`).",
    ),
    "plan_batch": ManualEntry({}, {"run": "{run}"}),
    "recent_runs": ManualEntry(
        {
            "lane": "Only runs on this lane.",
            "agent": "Only runs of this agent.",
            "worker": "Only runs of workers whose names begin with this.",
            "since": "Only runs that had not ended before this time.",
            "until": "Only runs that started before this time.",
        }
    ),
    "lanes": ManualEntry(
        {
            "prefix": "Only lanes with this prefix.",
            "after": "Only lanes after this one, in order of their names, for the next page.",
            "number": "Only lanes of the issue or pull request with this number, in any repository.",
        }
    ),
    "on_lane": ManualEntry({"lane": "The lane."}),
    "cancel_lane": ManualEntry(
        {"lane": "The lane.", "force": "Revoke a running lease now, without grace."},
        {"lane": "issue:acme/app#42", "why": "It was fixed elsewhere."},
    ),
    "blocks": ManualEntry({"lane": "Only blocks of this lane, without those of its items."}),
    "block": ManualEntry(
        {
            "lane": "The lane; or `item`.",
            "item": "The item's number; or `lane`.",
            "blocker": "What must come first, as in acme/app#3.",
            "url": "Where to look at it.",
        },
        {"lane": "issue:acme/app#42", "blocker": "acme/app#3", "why": "It needs the new API."},
    ),
    "unblock": ManualEntry(
        {
            "lane": "The lane; or `item`.",
            "item": "The item's number; or `lane`.",
            "blocker": "Only this blocker; default: all.",
        },
        {"lane": "issue:acme/app#42", "blocker": "acme/app#3"},
    ),
    "gates": ManualEntry(
        {
            "series": "Only gates of this series, as in `series:acme/app/RFC-093`.",
            "lane": "Only the gate of this lane.",
        }
    ),
    "set_gate": ManualEntry(
        {
            "lane": "The lane.",
            "series": "The lane of the series, as in `series:acme/app/RFC-093`.",
            "open": "Whether work on the lane may start.",
            "exempt": "Types of items that may start while the gate is shut.",
            "run": "Open it only while the series' owner has the run with this number.",
        },
        {
            "lane": "issue:acme/app#44",
            "series": "series:acme/app/RFC-093",
            "open": False,
            "why": "It is not its turn.",
        },
    ),
    "remove_gate": ManualEntry(
        {"lane": "The lane."},
        {"lane": "issue:acme/app#44", "why": "The series has ended."},
    ),
    "series": ManualEntry(
        {
            "repository": "The repository, as in `acme/app`; without one, all that have series.",
            "series": "Only this series, as in `RFC-093`.",
        }
    ),
    "series_metrics": ManualEntry(),
    "acquire_issue": ManualEntry(
        {"assign": "The GitHub account to assign."},
        {"repository": "acme/app", "issue": 42},
    ),
    "release_issue": ManualEntry({}, {"repository": "acme/app", "issue": 42, "why": "It is done."}),
    "promote_series": ManualEntry(
        {"series": _ONE_SERIES, "force": "Release the active issue first."},
        {"repository": "acme/app", "series": "RFC-093"},
    ),
    "reconcile_series": ManualEntry(
        {"series": "Only these series, as in `RFC-093`."},
        {"repository": "acme/app", "series": ["RFC-093"]},
    ),
    "rebuild_series": ManualEntry(
        {"series": _ONE_SERIES},
        {"repository": "acme/app", "series": "RFC-093"},
    ),
    "modes": ManualEntry(),
    "set_mode": ManualEntry(
        {
            "scope": "What it is set for: `project` or `lane`.",
            "value": "The project, or the prefix of lanes.",
            "mode": "How strictly lanes are kept: `enforce`, `observe` or `off`.",
        },
        {"scope": "project", "value": "acme/app", "mode": "observe"},
    ),
    "events": ManualEntry(
        {
            "after": "Only events after the one with this number.",
            "item": "Only events of the item with this number.",
            "lane": "Only events of this lane.",
            "newest": "`true`: the last events, not the first, if there are more than `limit`.",
            "before": "Only events before the one with this number.",
            "kinds": "Only events of this kind, as in `run.failed`; may be repeated.",
            "agent": "Only events of this agent.",
            "run": "Only events of the run with this number.",
        }
    ),
    "stats": ManualEntry(
        {
            "window_s": "The window for rates and spans, in seconds: 1 to"
            f" {WINDOW_MAX_S:,}; default: an hour.",
            "by": f"Runs are counted for each of these too. One of {_words(StatsBy)}.",
        }
    ),
    "budgets": ManualEntry(),
    "set_budget": ManualEntry(
        {
            "scope": "`agent`, `pool` or `project`.",
            "name": "The name of that agent, pool or project.",
            "per": "`day`, if left out, or `month`.",
            "usd": "The most that may be spent, in US dollars.",
            "when_spent": "When it is used up, running work may `finish`, the default, or is told to stop:"
            " `cancel`.",
        },
        {"scope": "agent", "name": "coder", "per": "day", "usd": 20, "when_spent": "finish"},
    ),
    "remove_budget": ManualEntry(
        {
            "scope": "`agent`, `pool` or `project`.",
            "name": "The name of that agent, pool or project.",
            "per": "`day`, if left out, or `month`.",
        },
        {"scope": "agent", "name": "coder", "per": "day"},
    ),
    "set_reserve": ManualEntry(
        {
            "type": "The type of items.",
            "usd": "What a run holds back of its budgets, in US dollars; 0 for nothing.",
        },
        {"type": "task", "usd": 0.5},
    ),
    "set_time_zone": ManualEntry(
        {"time_zone": "The time zone, as in `Europe/Berlin`."}, {"time_zone": "Europe/Berlin"}
    ),
    "spending": ManualEntry({"days": "How many days, today included: 1 to 366; 7 if left out."}),
    "trend": ManualEntry({"minutes": "How many minutes: 1 to 180; 60 if left out."}),
    "attention": ManualEntry(),
    "upcoming": ManualEntry(),
    "recap": ManualEntry(
        {
            "window_s": f"How far back it looks, in seconds: 1 to {WINDOW_MAX_S:,}; default: 8 hours.",
            "limit": f"The most rows of each section, at most {RECAP_MAX}; default: 20.",
        }
    ),
    "demo": ManualEntry(),
    "start_demo": ManualEntry({}, {}),
    "stop_demo": ManualEntry({}, {}),
    "metrics": ManualEntry(),
    "doctor": ManualEntry(),
    "lineage": ManualEntry(),
    "owed_to_github": ManualEntry(),
    "effects": ManualEntry(
        {
            "status": f"Their status, `waiting` unless given. One of {_words(EffectStatus)}.",
            "after": "Only waiting effects after the one with this id: the next page.",
        }
    ),
    "retry_effects": ManualEntry(
        {"effects": "The ids of dead effects; default: all, up to 1,000."}, {"effects": ["7:42:1"]}
    ),
    "drop_effects": ManualEntry(
        {"effects": "The ids of dead effects."}, {"effects": ["7:42:1"], "why": "The issue was deleted."}
    ),
    "agents": ManualEntry(),
    "near_agent": ManualEntry({"name": "The name as it was typed."}),
    "unknown_agents": ManualEntry(),
    "set_agent": ManualEntry(
        {
            "name": "The agent; created if new.",
            "max_concurrency": "Its limit of runs at once.",
            "unlimited": "Remove that limit.",
            "types": "The types that it takes; replaces all.",
            "labels": "The labels that it has; replaces all.",
            "pool": "The pool whose capacity it shares; empty: none.",
            "overtake_after_s": "After this many seconds without a claim, others may overtake its items: 60"
            " unless set; 0: never.",
        },
        {"name": "coder", "max_concurrency": 2, "labels": ["python"], "pool": "gpu"},
    ),
    "remove_agent": ManualEntry({"name": "The agent."}, {"name": "painter"}),
    "pause_agent": ManualEntry(
        {"name": "The agent."},
        {"name": "coder", "paused": True, "why": "Its quota is used up."},
    ),
    "pools": ManualEntry(),
    "set_pool": ManualEntry(
        {
            "name": "The pool; created if new.",
            "max_concurrency": "The limit of runs that its agents share.",
        },
        {"name": "gpu", "max_concurrency": 3},
    ),
    "remove_pool": ManualEntry({"name": "The pool."}, {"name": "arm"}),
    "paused_projects": ManualEntry(),
    "pause_project": ManualEntry(
        {}, {"project": "acme/app", "paused": True, "why": "A release is under way."}
    ),
    "workers": ManualEntry(),
    "see_worker": ManualEntry(
        {
            "name": "The worker.",
            "host": "The machine that it runs on.",
            "pid": "The number of its process there.",
            "folder": "The directory that it runs in.",
            "slots": "How many runs it can have at once.",
            "runs": "Its current runs.",
        },
        {
            "name": "host-7-coder",
            "host": "host-7",
            "pid": 4711,
            "folder": "/srv/app",
            "agent": "coder",
            "slots": 2,
            "runs": 1,
        },
    ),
    "leave_worker": ManualEntry({"name": "The worker."}, {"name": "host-7-coder"}),
    "sweep": ManualEntry({}, {}),
    "next_notice": ManualEntry(
        {"name": "The setting that has the command, as in `on_dead_letter`."},
        {"name": "on_dead_letter"},
    ),
    "end_notice": ManualEntry(
        {
            "notice": "The notice, as received.",
            "error": "Why the command failed; null if it succeeded.",
        },
        {
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
    ),
    "plans": ManualEntry(
        {
            "ended": "`true`: ended plans too.",
            "statuses": f"Only plans with this status; may be repeated. One of {_words(PlanStatus)}.",
            "project": "Only plans of this project.",
            "editor": "Only plans that this agent edits.",
            "before": "Only plans that were created before the plan with this number: the previous page.",
        }
    ),
    "create_plan": ManualEntry(
        {
            "name": "The plan's name.",
            "graph": "Its tasks and edges.",
            "editor": "The agent that edits it when tasks end; empty: none.",
        },
        {
            "name": "release",
            "tasks": [{"key": "build"}, {"key": "publish", "priority": 3}],
            "edges": [{"from": "build", "to": "publish"}],
        },
    ),
    "plan": ManualEntry({"tasks_max": "Leave tasks and edges out if the plan has more tasks."}),
    "edit_plan": ManualEntry(
        {
            "base": "The revision that the edit was made for.",
            "operations": "What to change, in order; or `graph`.",
            "graph": "All tasks and edges as they should be; or `operations`.",
            "run": "The handle of the run that does the edit.",
            "through": "The last completion that the edit answers.",
        },
        {
            "base": 1,
            "operations": [{"op": "add_task", "key": "announce"}],
            "why": "Users must hear of it.",
        },
    ),
    "cancel_plan": ManualEntry({}, {"why": "There will be no release."}),
    "pause_plan": ManualEntry({}, {"why": "The build machine is full."}),
    "resume_plan": ManualEntry({}, {"why": "It has room again."}),
    "set_edit_deadline": ManualEntry({}, {"edit_deadline_s": 600}),
    "plan_tasks": ManualEntry(
        {
            "all": "`true`: ended tasks too.",
            "statuses": f"Only tasks with this status; may be repeated. One of {_words(ItemStatus)}.",
            "after": "Only tasks after the one with this item: the next page.",
        }
    ),
    "plan_stats": ManualEntry(),
    "plan_history": ManualEntry({"after": "Only revisions after this one."}),
    "plan_at": ManualEntry({"revision": "The revision's number."}),
    "tokens": ManualEntry(),
    "create_token": ManualEntry(
        {
            "name": "Its holder, such as a machine.",
            "scope": "admin, read, or agent:NAME, which acts for that agent only.",
            "expires_s": "After how many seconds it expires; default: never.",
        },
        {"name": "laptop", "scope": "agent:coder", "expires_s": 2_592_000},
    ),
    "revoke_token": ManualEntry({"token": "Its name or its id."}, {"token": "{token}"}),
    "sign_in_link": ManualEntry({"caller": "The id of the token; a server always takes the caller's."}, {}),
}

#: Of the stream of events, which is no operation.
STREAM = {
    "after": "Begin after the event with this number; default: after the latest event.",
    "every_ms": "Send only the number of the newest event, at most once in this time: 100 to 2000.",
}
