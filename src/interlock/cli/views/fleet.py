"""Agents, pools and lanes as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from interlock.cli.views import words
from interlock.service.contract import AgentView, LaneView, PoolView


def agents(console: Console, found: Sequence[AgentView]) -> None:
    """Agents: what they do now, what they may do."""
    if not found:
        console.print("No agent has been seen yet. Type interlock agents set NAME, or let one claim.")
        return
    numbers, pooled = ("RUNNING", "MAX", "PENDING"), any(agent.pool for agent in found)
    columns = ("AGENT", *numbers, *(("POOL",) if pooled else ()), "TYPES", "LABELS", "SEEN", "")
    made = words.table(*columns, right=numbers)
    for agent in found:
        if agent.paused:
            held = f"paused: {agent.paused_reason}" if agent.paused_reason else "paused"
        elif agent.walled_until is not None:
            held = f"waits until {words.clock(agent.walled_until)}"
            held += f": {agent.wall_reason}" if agent.wall_reason else ""
        else:
            held = ""
        made.add_row(
            Text(agent.name, style="bold" if agent.running else ""),
            str(agent.running),
            "-" if agent.max is None else str(agent.max),
            str(agent.pending),
            *((agent.pool or "",) if pooled else ()),
            ", ".join(agent.types) or Text("any", style=words.QUIET),
            ", ".join(agent.labels) or Text("none", style=words.QUIET),
            words.relative(agent.last_seen_at) if agent.last_seen_at else Text("never", style=words.QUIET),
            Text(words.harmless(held), style="yellow"),
        )
    console.print(made)


def pools(console: Console, found: Sequence[PoolView]) -> None:
    """Pools: what their agents do now, what they may do together."""
    if not found:
        console.print("There is no pool. Type interlock pools set NAME --max N.")
        return
    made = words.table("POOL", "RUNNING", "MAX", "AGENTS", right=("RUNNING", "MAX"))
    for pool in found:
        full = "yellow" if pool.running >= pool.max else ""
        agents = ", ".join(pool.agents) or Text("none", style=words.QUIET)
        made.add_row(pool.name, Text(str(pool.running), style=full), str(pool.max), agents)
    console.print(made)


def lanes(console: Console, found: Sequence[LaneView]) -> None:
    """Lanes: who holds them and how many wait."""
    if not found:
        console.print("No lane is held.")
        return
    console.print(lane_table(found, console.width))


def lane_table(found: Sequence[LaneView], width: int) -> Table:
    """The table alone, for the live view as well."""
    made = words.table("LANE", "HELD BY", "SINCE", "LEASE", "LINE", right=("LINE",))
    modes = any(lane.mode != "enforce" for lane in found)
    if modes:
        made.add_column("MODE", no_wrap=True)
    most = max(20, min(max(len(lane.lane) for lane in found), width * 2 // 5))
    for lane in found:
        held = lane.holder
        row: list[Text | str] = [words.shorten_lane(lane.lane, most), "", "", ""]
        if held is not None and held.run is not None:
            row[1] = Text(f"{held.agent}, run {held.run}", style="bold green")
            row[3] = words.relative(held.expires_at) if held.expires_at else ""
        elif held is not None:
            row[1] = Text(f"item {held.item} for {held.agent or 'anyone'}", style="cyan")
        elif lane.unreadable is not None:
            row[1] = Text("unreadable, counts as held", style="bold red")
        if held is not None:
            row[2] = words.relative(held.since)
        row.append(Text(str(lane.waiting), style="yellow" if lane.waiting else words.QUIET))
        made.add_row(*row, *([lane.mode] if modes else []))
    return made
