"""Stores of one shape each, filled quickly by the same statements on both databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping

#: What every item has that its shape does not say otherwise.
_PLAIN = {
    "id": "n",
    "project": "'default'",
    "type": "'task'",
    "title": "'item ' || n",
    "agent_key": "''",
    "policy": "'queue'",
    "priority": "n % 3",
    "position": "2147483647",
    "ticket": "n",
    "sort_key": "n - (n % 3) * 1000000000000",
    "max_attempts": "3",
    "retry_lane": "'yield'",
    "created_us": "{now_us}",
    "status": "'pending'",
    "attempt": "0",
    "releases": "0",
    "message_count": "0",
    "delivered": "0",
    "seen": "0",
    "front": "false",
    "reason": "''",
}
_RUN = {
    "status": "'in_progress'",
    "attempt": "1",
    "run": "n",
    "run_bits": "n",
    "run_agent": "'runner' || n % 7",
    "run_started_us": "{now_us}",
    "run_lease_s": "86400",
    "lease_until_us": "{now_us} + 86400000000",
    "due_us": "{now_us} + 86400000000",
    "first_claimed_us": "{now_us}",
}
_LANES = "INSERT INTO lanes (lane) SELECT 'issue:acme/app#' || n FROM numbered"
_OWN_LANE = "'issue:acme/app#' || n"
_RUNS = (
    "INSERT INTO runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason) "
    "SELECT n, n, 1, 'coder', 'w', {now_us}, {now_us}, 'succeeded', 'reported' FROM numbered"
)
#: The plan of a shape that has one.
PLAN = 900_000_000
_PLAN_LANE = f"INSERT INTO lanes (lane) SELECT 'plan:{PLAN}' FROM numbered WHERE n = 1"
_PLAN = (
    "INSERT INTO plans (id, project, name, edit_deadline_s, status, created_us, revision, tasks, edges, "
    "open_tasks, completed, failed, last_n, answered_n, edits_completed, edits_timed_out, edits_refused, "
    f"edits_rebased, cycles, lock_us) SELECT {PLAN}, 'default', 'large', 600, 'running', {{now_us}}, 1, "
    "1000000, 0, 1000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM numbered WHERE n = 1"
)
_TASKS = (
    "INSERT INTO tasks (item, plan, key, rank, unmet, broken, doomed, added_revision) "
    f"SELECT n, {PLAN}, 't' || n, n, 0, 0, false, 1 FROM numbered"
)
#: What the items of a shape have, and what is there besides, before the items (`-`) or after them.
SHAPES: Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "ready": ({}, ()),
    "for others": ({"agent_key": "'other'"}, ()),
    "labelled": ({"labels": "{gpu}"}, ()),
    "of one type": ({"type": "'chore'"}, ()),
    "of a paused project": (
        {"project": "'frozen'"},
        ("INSERT INTO paused_projects (project, why) SELECT 'frozen', 'release' FROM numbered WHERE n = 1",),
    ),
    "on one lane": (
        {
            "lane": "'issue:acme/app#1'",
            "agent_key": "CASE n WHEN 1 THEN 'gone' ELSE 'other' END",
            "status": "CASE n WHEN 1 THEN 'pending' ELSE 'deferred' END",
        },
        ("-INSERT INTO lanes (lane) SELECT 'issue:acme/app#1' FROM numbered WHERE n = 1",),
    ),
    "one lane each": ({"lane": _OWN_LANE}, (f"-{_LANES}",)),
    "scheduled": ({"status": "'waiting'", "due_us": "{now_us} + 86400000000"}, ()),
    "running": ({**_RUN, "lane": _OWN_LANE}, (f"-{_LANES}",)),
    "ended": (
        {
            "status": "CASE n % 10 WHEN 0 THEN 'failed' ELSE 'completed' END",
            "attempt": "1",
            "first_claimed_us": "{now_us}",
            "ended_us": "{now_us}",
        },
        (_RUNS,),
    ),
    "of one plan": ({"plan": f"{PLAN}"}, (f"-{_PLAN_LANE}", f"-{_PLAN}", _TASKS)),
}
_EVENTS = (
    "INSERT INTO events (seq, at_us, kind, reason, project, item, lane) "
    "SELECT n, {now_us}, 'item.added', '', project, id, lane FROM numbered JOIN items ON id = n"
)
_NUMBERED = (
    "WITH RECURSIVE numbered(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbered WHERE n < {last}) "
)


def fill(
    shape: str, last: int, now_us: int, execute: Callable[[str], object], *, gpu: str, first: int = 1
) -> None:
    """Put items numbered from `first` to `last` into a store that has those before. `gpu` is a list of one
    label, as the database keeps it."""
    own, besides = SHAPES[shape]
    item = {**_PLAIN, **own}
    names, values = ", ".join(item), ", ".join(item.values())
    before = [text[1:] for text in besides if text.startswith("-")]
    after = [text for text in besides if not text.startswith("-")]
    for text in (*before, f"INSERT INTO items ({names}) SELECT {values} FROM numbered", *after, _EVENTS):
        execute(f"{_NUMBERED}{text}".format(first=first, last=last, now_us=now_us, gpu=f"'{gpu}'"))
