"""Agents, pools and lanes as tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import ceil

from interlock.cli.page import Console, Table, Text
from interlock.cli.views import words
from interlock.core.overtaking import OVERTAKE_AFTER_S
from interlock.core.timing import span
from interlock.service.contract import AgentView, GateView, HolderView, LaneView, PoolView


def agents(console: Console, found: Sequence[AgentView]) -> None:
    """Agents: their load and their limits."""
    if not found:
        console.print("No agents yet. Create one: interlock agents set NAME. A claim creates it too.")
        return
    pooled = any(agent.pool for agent in found)
    columns = ("AGENT", "RUNS", "PENDING", *(("POOL",) if pooled else ()), "TYPES", "LABELS", "LAST CLAIM")
    made = words.table(*columns, right=("RUNS", "PENDING"), wrapped=("POOL", "TYPES", "LABELS"))
    name_width = max(console.width // 4, 20)
    for agent in found:
        made.add_row(
            Text(words.shorten(agent.name, name_width), style="bold" if agent.running else ""),
            _runs(agent.running, agent.max),
            str(agent.pending),
            *((agent.pool or "",) if pooled else ()),
            ", ".join(agent.types) or Text("any", style=words.QUIET),
            ", ".join(agent.labels) or Text("none", style=words.QUIET),
            _asked(agent),
        )
    console.print(made)
    for agent in found:
        if held := starts_nothing(agent):
            console.print(Text(words.harmless(f"{agent.name} {held}"), style="yellow"))
        if (after_s := agent.overtake_after_s) != OVERTAKE_AFTER_S:
            after = f"after {span(after_s)} without a claim" if after_s else "never"
            console.print(Text(words.harmless(f"{agent.name} may be overtaken: {after}")))


def _runs(running: int, most: int | None) -> str:
    return str(running) if most is None else f"{running} of {most}"


def _asked(agent: AgentView) -> Text | str:
    """When it last asked for work, in minutes: the store's precision is half a minute."""
    if agent.last_seen_at is None:
        return Text("never", style=words.QUIET)
    minutes = ceil((words.now() - agent.last_seen_at) / timedelta(minutes=1))
    if minutes <= 1:
        return "< 1 min ago"
    return f"{minutes} min ago" if minutes < 60 else words.relative(agent.last_seen_at)


def starts_nothing(agent: AgentView) -> str | None:
    """Why an agent starts nothing, whatever waits for it: a predicate; None if it may start something."""
    if agent.paused:
        return f"is paused: {agent.paused_reason}" if agent.paused_reason else "is paused"
    if agent.walled_until is None:
        return None
    why = f": {agent.wall_reason}" if agent.wall_reason else ""
    return f"starts nothing until {words.at(agent.walled_until)}{why}"


def pools(console: Console, found: Sequence[PoolView]) -> None:
    """Pools: the load and the limit of their agents."""
    if not found:
        console.print("No pools. Create one: interlock pools set NAME --max N.")
        return
    made = words.table("POOL", "RUNS", "AGENTS", right=("RUNS",), wrapped=("AGENTS",))
    for pool in found:
        full = "yellow" if pool.running >= pool.max else ""
        made.add_row(
            words.shorten(pool.name, max(console.width // 3, 20)),
            Text(_runs(pool.running, pool.max), style=full),
            ", ".join(pool.agents) or Text("none", style=words.QUIET),
        )
    console.print(made)


def lanes(console: Console, found: Sequence[LaneView]) -> None:
    """Lanes: their holders and how many items wait."""
    if not found:
        console.print("No lane is held.")
        return
    console.print(lane_table(found, console.width))


def lane_table(found: Sequence[LaneView], width: int) -> Table:
    """The table alone, for the live view as well: lanes are cut at their front, holders at their end."""
    modes = any(lane.mode != "enforce" for lane in found)
    gates = any(lane.gate is not None for lane in found)
    optional = (*(("MODE",) if modes else ()), *(("GATE",) if gates else ()))
    columns = ("LANE", "HELD BY", "SINCE", "LEASE", "LINE", *optional)
    others = [
        (
            words.relative(held.since) if (held := lane.holder) is not None else "",
            _lease(held) if held is not None else "",
            str(lane.waiting),
            *((lane.mode,) if modes else ()),
            *((_gate(lane.gate) if lane.gate is not None else "",) if gates else ()),
        )
        for lane in found
    ]
    taken = sum(max(map(len, cells)) + 2 for cells in zip(columns[2:], *others, strict=True)) + 2
    left = max(width - taken, 32)
    longest_lane = max([4, *(len(lane.lane) for lane in found)])
    longest_holder = max([7, *(len(_holder(lane)) for lane in found)])
    lane_width = min(longest_lane, max(left * 3 // 5, left - longest_holder))
    made = words.table(*columns, right=("LINE",))
    for lane, (since, lease, line, *more) in zip(found, others, strict=True):
        made.add_row(
            words.shorten_lane(lane.lane, lane_width),
            _holder(lane, left - lane_width),
            since,
            lease,
            Text(line, style="yellow" if lane.waiting else words.QUIET),
            *more,
        )
    return made


def gates(console: Console, found: Sequence[GateView]) -> None:
    """Gates of lanes: their series and exempt types."""
    if not found:
        console.print("No lane has a gate.")
        return
    made = words.table("LANE", "GATE", "SINCE", "RUN", "EXEMPT")
    for gate in found:
        made.add_row(
            words.shorten_lane(gate.lane, max(console.width // 2, 20)),
            Text(_gate(gate), style="" if gate.open else "yellow"),
            words.relative(gate.since),
            "" if gate.run is None else str(gate.run),
            ", ".join(gate.exempt) or Text("none", style=words.QUIET),
        )
    console.print(made)


def _gate(gate: GateView) -> str:
    return f"{'open' if gate.open else 'shut'} by {gate.series.rpartition('/')[2]}"


def _lease(held: HolderView) -> str:
    if held.external and not held.cancel_requested:
        return "external"
    return words.relative(held.expires_at) if held.expires_at is not None else ""


def _holder(lane: LaneView, width: int = 10_000) -> Text:
    """The holder of a lane. A long name is cut, the run number never."""
    held = lane.holder
    if held is not None and held.run is not None:
        run = f", run {held.run}" + (" asks a person" if held.asking else "")
        return Text(words.shorten(held.agent or "someone", width - len(run)) + run, style="bold green")
    if held is not None:
        waits = " asks a person" if held.asking else f" for {held.agent or 'anyone'}"
        return Text(words.shorten(f"item {held.item}{waits}", width), style="cyan")
    unreadable = lane.unreadable is not None
    return Text("unreadable, counts as held", style="bold red") if unreadable else Text("")
