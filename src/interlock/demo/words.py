"""The store's events in plain words, one short line for each."""

from __future__ import annotations

from interlock.demo.stage import Stage
from interlock.proof.checker import LoggedEvent

LOUD = "bold white on red"
QUIET = "bright_black"

#: The style and the sentence of each kind of event.
_SENTENCES = {
    "item.added": ("cyan", "{where} {asked}{urgent}{newer}: {title}"),
    "item.added as follow-up": (
        "cyan",
        "{where}: a message came too late for its run and becomes its own item",
    ),
    "item.added as deferred": ("yellow", "{where} asked of {who} as well: waits {behind}"),
    "item.coalesced": ("blue", "{where}: a comment for {who} joins its work, no second run"),
    "item.superseded": (QUIET, "{where}: item {item} gives way to item {by_item}, with its message"),
    "item.parked": ("blue", "{where}: waits before the next attempt"),
    "item.reentered": ("blue", "{where}: item {item} comes back"),
    "run.started": ("green", "{where} started by {who}: run {run}{again}{after}"),
    "run.succeeded": ("bold green", "{where} done by {who}: result of run {run} recorded"),
    "run.failed": ("red", "{where}: run {run} of {who} failed"),
    "run.lost": ("bold red", "{where}: the lease of {who} expired, run {run} ended; {then}"),
    "run.refused": (LOUD, "{where}: late `{wanted}` of {who} (run {run}) REFUSED, nothing changed"),
    "lane.promoted": ("yellow", "{where} is handed on to {who}, who was next in line"),
    "lane.overtaken": ("yellow", "{where}: an agent that can start overtakes one that cannot"),
    "message.added": ("blue", "{where}: message {n} is kept for its run"),
    "cancel.requested": ("magenta", "{where}: {who} is asked to stop, something newer came"),
}


def sentence(stage: Stage, line: LoggedEvent) -> tuple[str, str]:
    """The style and the text of an event."""
    history, data = stage.history, line.data
    item, run = stage.items.get(line.item or 0), history.runs.get(line.run or 0)
    agent = item.agent if item else None
    if line.kind.startswith(("run.", "cancel.")):
        agent = run.agent if run else line.agent
    holder = history.runs.get(data.get("holder_run") or 0)
    attempt = sum(r.started.seq <= line.seq for r in history.runs_of(line.item or 0))
    kind = line.kind
    if kind == "item.added" and data.get("follows_item"):
        kind = "item.added as follow-up"
    elif kind == "item.added" and data.get("status") == "deferred":
        kind = "item.added as deferred"
    style, text = _SENTENCES.get(kind, (QUIET, "{where}: {kind} {reason}"))
    facts = {
        "where": stage.place(line.lane or (item.lane if item else None)),
        "who": stage.shown(agent),
        "title": item.title if item else "",
        "asked": f"asked of {stage.shown(agent)}" if agent else "offered to anyone",
        "urgent": f", priority {data['priority']}" if data.get("priority") else "",
        "newer": ", replacing" if data.get("verdict") == "superseding" else "",
        "behind": f"behind {stage.shown(holder.agent)} (run {holder.number})" if holder else "in line",
        "again": f", attempt {attempt}" if attempt > 1 else "",
        "after": f", promoted after run {data['promoted_from']}" if data.get("promoted_from") else "",
        "then": "offered again" if data.get("item_status") == "pending" else "that was its last attempt",
        "kind": kind,
        "reason": line.reason,
    }
    return style, text.format_map({**data, "item": line.item, "run": line.run, **facts})
