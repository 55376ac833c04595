"""The store's events in plain words, one short line each."""

from __future__ import annotations

from interlock.demo.stage import Stage
from interlock.service.contract import EventView

LOUD = "bold white on red"
QUIET = "bright_black"

Line = tuple[str, str]
"""A style and a text."""


def place(stage: Stage, lane: str | None) -> str:
    """A lane in a word: `#41` or `release-2.4`."""
    shown = stage.shown_lane(lane)
    return "#" + shown.rpartition("#")[2] if "#" in shown else shown.rpartition("/")[2]


def line(stage: Stage, event: EventView) -> Line:
    """What happened, and how loudly to say it."""
    kind = event.kind
    if kind.startswith("item."):
        return _of_item(stage, event)
    if kind.startswith("run."):
        return _of_run(stage, event)
    where = place(stage, event.lane)
    match kind:
        case "lane.promoted":
            item = stage.history.items[event.data["to_item"]]
            return "yellow", f"{where} is handed on to {_for(stage, item.agent)}, who was next in line"
        case "lane.overtaken":
            return "yellow", f"{where}: an agent that can start overtakes one that cannot"
        case "message.added":
            return "blue", f"{where}: message {event.data['n']} is kept for whoever works on it"
        case "cancel.requested":
            return "magenta", f"{where}: {_agent_of(stage, event)} is asked to stop, something newer came"
        case _:
            return QUIET, f"{kind} {event.reason}".strip()


def _of_item(stage: Stage, event: EventView) -> Line:
    where = place(stage, event.lane)
    item = stage.history.items.get(event.item or 0)
    who = _for(stage, item.agent if item else None)
    data = event.data
    match event.kind:
        case "item.added" if data.get("follows_item"):
            return "cyan", f"{where}: a message came too late for its run, so it becomes an item of its own"
        case "item.added" if data.get("status") == "deferred":
            holder = stage.history.runs.get(data.get("holder_run") or 0)
            behind = f"behind {stage.shown(holder.agent)} (run {holder.run})" if holder else "in line"
            return "yellow", f"{where} asked of {who} as well: waits {behind}"
        case "item.added":
            urgent = f", priority {data['priority']}" if data.get("priority") else ""
            newer = ", replacing" if data.get("verdict") == "superseding" else ""
            asked = f"asked of {who}" if item and item.agent else "offered to anyone"
            return "cyan", f"{where} {asked}{urgent}{newer}: {item.title if item else ''}"
        case "item.coalesced":
            return "blue", f"{where}: a comment for {who} joins its work, no second run"
        case "item.superseded":
            return (
                QUIET,
                f"{where}: item {event.item} gives way to item {data.get('by_item')}, its message goes along",
            )
        case "item.parked":
            return "blue", f"{where}: waits before the next attempt; its lane is free meanwhile"
        case "item.reentered":
            return "blue", f"{where}: item {event.item} comes back for another attempt"
        case kind:
            return QUIET, f"{where}: {kind} {event.reason}".strip()


def _of_run(stage: Stage, event: EventView) -> Line:
    where, who, run = place(stage, event.lane), _agent_of(stage, event), event.run
    item = stage.history.items.get(event.item or 0)
    where = where or place(stage, item.lane if item else None)
    match event.kind:
        case "run.started":
            promoted = event.data.get("promoted_from")
            after = f", promoted after run {promoted}" if promoted else ""
            again = (
                f", attempt {len(_runs_until(stage, event))}" if len(_runs_until(stage, event)) > 1 else ""
            )
            return "green", f"{where} started by {who}: run {run}{again}{after}"
        case "run.succeeded":
            return "bold green", f"{where} done by {who}: result of run {run} recorded"
        case "run.failed":
            return "red", f"{where}: run {run} of {who} failed"
        case "run.lost":
            return "bold red", f"{where}: the lease of {who} ran out, run {run} is over; offered again"
        case "run.refused" if _ended_well(stage, event):
            return QUIET, f"{where}: a renewal of {who} (run {run}) crossed its own end"
        case "run.refused":
            wanted = event.data.get("wanted")
            return LOUD, f"{where}: late `{wanted}` of {who} (run {run}) REFUSED, nothing changed"
        case kind:
            return "magenta", f"{where}: run {run} of {who} ended, {kind.removeprefix('run.')}"


def _ended_well(stage: Stage, event: EventView) -> bool:
    run = stage.history.runs.get(event.run or 0)
    return run is not None and run.ended is not None and run.how == "succeeded" and run.ended.at <= event.at


def _runs_until(stage: Stage, event: EventView) -> list[int]:
    return [r.run for r in stage.history.runs_of(event.item or 0) if r.started.seq <= event.seq]


def _agent_of(stage: Stage, event: EventView) -> str:
    run = stage.history.runs.get(event.run or 0)
    return stage.shown(run.agent if run else event.agent)


def _for(stage: Stage, agent: str | None) -> str:
    return stage.shown(agent)
