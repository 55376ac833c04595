"""The agents, their pools and their workers: who can start something, and who cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from interlock.core.costs import dollars
from interlock.core.names import agent_key
from interlock.dashboard.rendering import moment_of
from interlock.dashboard.visit import Page, Visit
from interlock.service.contract import ItemFilter

#: How many agents and workers are listed, and how many runs of one agent.
AGENTS, WORKERS, RUNS = 40, 25, 15
#: How many projects are listed with what they spent today.
PROJECTS = 50
#: How many budgets are listed.
BUDGETS = 100
#: How many names are told that no agent has, and how many of the newest waiting items are searched for one.
UNKNOWN_MAX, SEARCHED = 5, 200
#: How many workers are read.
WORKERS_READ = 1_000
#: An agent that asked for work so lately is there, with or without a worker.
SEEN_S = 60.0


async def agents(visit: Visit) -> Page:
    """All agents, or the one that the address names."""
    now, asked = visit.now, visit.query.get("agent", "").strip()
    found = await visit.call("agents")
    workers = await visit.call("workers", limit=WORKERS_READ)
    by_agent: dict[str, list[Mapping[str, Any]]] = {}
    for worker in workers:
        by_agent.setdefault(worker["agent"], []).append(worker)
    spent = await _spent(visit)
    told = [
        {
            **each,
            "spent": spent.get(("agent", each["key"])),
            **_told(each, by_agent.get(each["key"], ()), now),
        }
        for each in found
    ]
    told.sort(key=lambda each: (each["rank"], each["key"]))
    if asked:
        key = agent_key(asked)
        chosen = next((each for each in told if each["key"] == key), None)
        return await _one(visit, key, chosen, by_agent.get(key, []))
    pools = await visit.call("pools")
    pools = [{**pool, "spent": spent.get(("pool", pool["name"]))} for pool in pools]
    unknown = await visit.call("unknown_agents", limit=UNKNOWN_MAX + 1)
    values = {
        "one": None,
        "agents": told[:AGENTS],
        "count": len(told),
        "pools": pools,
        "workers": _silent_first(workers)[:WORKERS],
        "worker_count": len(workers),
        "alive": sum(worker["alive"] for worker in workers),
        "unknown": unknown[:UNKNOWN_MAX],
        "budgets": list(map(_budget, (await visit.call("budgets"))["budgets"][:BUDGETS])),
        "projects": [each for (scope, _), each in sorted(spent.items()) if scope == "project"][:PROJECTS],
        "more_unknown": len(unknown) > UNKNOWN_MAX,
    }
    return Page("agents.html", values, "Agents", "agents")


async def _spent(visit: Visit) -> dict[tuple[str, str], Mapping[str, Any]]:
    """What agents, pools and projects used today."""
    return {(each["scope"], each["name"]): each for each in await visit.call("spending", days=1)}


def _budget(budget: Mapping[str, Any]) -> dict[str, Any]:
    amounts = ("usd", "spent_usd", "reserved_usd", "left_usd")
    return {**budget, **{name: dollars(budget[name]) for name in amounts}, "is_spent": not budget["left_usd"]}


async def _one(
    visit: Visit, key: str, agent: Mapping[str, Any] | None, workers: Sequence[Mapping[str, Any]]
) -> Page:
    """One agent: its limits, its workers and its last runs."""
    values = {
        "one": agent,
        "name": key if agent is None else agent["name"],
        "near": None if agent is not None else await visit.call("near_agent", name=key),
        "workers": _silent_first(workers)[:WORKERS],
        "runs": await visit.call("recent_runs", agent=key, limit=RUNS),
        "waiting": [] if agent is not None else await _named(visit, key),
    }
    return Page("agent.html", values, f"Agent {values['name']}", "agents")


async def _named(visit: Visit, key: str) -> list[Mapping[str, Any]]:
    """Of the newest items that wait, those that name an agent."""
    waiting = ItemFilter(statuses=("pending", "deferred"), limit=SEARCHED)
    found = await visit.call("items", wanted=waiting)
    return [item for item in found if item["agent"] == key][:RUNS]


def _silent_first(workers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(workers, key=lambda worker: bool(worker["alive"]))


def _told(agent: Mapping[str, Any], workers: Sequence[Mapping[str, Any]], now: datetime) -> dict[str, Any]:
    """The state of an agent in a word, its kind of colour, and its rank in the list: trouble first."""
    alive = sum(worker["alive"] for worker in workers)
    seen = agent["last_seen_at"]
    fresh = seen is not None and (now - moment_of(seen)).total_seconds() <= SEEN_S
    facts = {"alive": alive, "workers": len(workers), "slots": sum(w["slots"] for w in workers if w["alive"])}
    for holds, word, kind, rank in _states(agent, present=bool(alive) or fresh):
        if holds:
            return {**facts, "word": word, "kind": kind, "rank": rank}
    return {**facts, "word": "idle", "kind": "good", "rank": 3}


def _states(agent: Mapping[str, Any], *, present: bool) -> Iterator[tuple[bool, str, str, int]]:
    running = agent["running"] > 0
    yield agent["paused"] and running, "draining", "warn", 0
    yield agent["paused"], "paused", "warn", 0
    yield agent["walled_until"] is not None, "at a quota limit", "warn", 0
    behind = (agent["deferred"] or 0) > 0 and not running
    yield not present and (agent["pending"] > 0 or behind), "no live worker", "bad", 0
    yield running, "working", "busy", 1
    yield not present, "no live worker", "quiet", 4
