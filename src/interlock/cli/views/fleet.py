"""A fleet as a table: its workers, what they do, and what they said last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from interlock.cli.page import Table, Text, cell_len
from interlock.cli.views import words
from interlock.core.timing import span

if TYPE_CHECKING:
    from rich.console import Group

    from interlock.cli.page import Console
    from interlock.fleet.fleet_worker import FleetRow

_COLUMNS = ("WORKER", "AGENT", "STATE", "RUNNING", "ITEM", "RESTARTS", "UP", "LAST LINE")
#: Columns that may be cut, with the least width left for all of them at which each is shown.
_ELASTIC = {"AGENT": 60, "ITEM": 20, "LAST LINE": 0}
_GAP, _TEXT_MIN = 2, 12
_STYLES = {
    "working": "green",
    "idle": words.QUIET,
    "starting": words.QUIET,
    "draining": "yellow",
    "stopping": "yellow",
    "suspended": "bold yellow",
    "crashed": "bold red",
    "stopped": words.QUIET,
}
_SIGNS = {"working": "●", "crashed": "✗", "suspended": "‖", "draining": "◐", "stopping": "◐"}
_ENDING = {
    0: "Ctrl-C drains: no more items are claimed, and runs may end.",
    1: "Draining. Ctrl-C stops what still runs, and gives its items back.",
    2: "Stopping. Ctrl-C kills what still runs.",
    3: "Killing what still runs.",
}


def picture(name: str, rows: Sequence[FleetRow], asked: int, width: int) -> Group:
    """The screen of a supervisor: a headline, the table, and what Ctrl-C does."""
    from rich.console import Group

    ending = Text(words.shorten(_ENDING[min(asked, 3)], width), style=words.QUIET)
    return Group("", headline(name, rows, width), table(rows, width), ending)


def headline(name: str, rows: Sequence[FleetRow], width: int) -> Text:
    """How many workers are in which state."""
    counted = {state: sum(row.state == state for row in rows) for state in _STYLES}
    parts = [(f"{count} {state}", _STYLES[state]) for state, count in counted.items() if count]
    room = width - sum(len(text) + 3 for text, _ in parts)
    made = Text.assemble((words.shorten(name, max(room, _TEXT_MIN)), "bold"))
    for part in parts:
        made.append(" · ", words.QUIET).append(*part)
    return made


def table(rows: Sequence[FleetRow], width: int) -> Table:
    """One row for each worker. Names and states are never cut; a narrow terminal loses the agent first."""
    shown = [_cells(row) for row in rows]
    widths = _widths(shown, width)
    made = words.table(*widths, right=("RUNNING", "RESTARTS"))
    for row, cells in zip(rows, shown, strict=True):
        styles = {"WORKER": "bold", "STATE": _STYLES[row.state], "LAST LINE": words.QUIET}
        made.add_row(
            *(
                Text(words.shorten(cells[name], room), style=styles.get(name, ""))
                for name, room in widths.items()
            )
        )
    return made


def print_status(file: str, pid: int | None, rows: Sequence[FleetRow], console: Console) -> None:
    """`interlock fleet status` for people."""
    alive = sum(row.pid is not None for row in rows)
    if pid is not None:
        console.print(Text(f"The fleet of {file} runs in process {pid}."))
    elif alive:
        one = "1 worker of it still runs" if alive == 1 else f"{alive} workers of it still run"
        console.print(Text(f"The fleet of {file} has no supervisor, and {one}.", style="yellow"))
        console.print(Text("interlock fleet up adopts them, interlock fleet down stops them.", style="cyan"))
    else:
        console.print(Text(f"The fleet of {file} does not run."))
    if rows:
        console.print(table(rows, console.width))


def as_json(row: FleetRow) -> dict[str, Any]:
    """A worker in `fleet status --json`."""
    return {
        "worker": row.name,
        "agent": row.agent,
        "state": row.state,
        "pid": row.pid,
        "restarts": row.restarts,
        "since": row.since,
        "runs": [{"run": run, "item": item, "title": title} for run, item, title in row.runs],
        "last_line": row.last_line,
        "last_at": row.last_at,
    }


def _cells(row: FleetRow) -> dict[str, str]:
    item = ", ".join(f"{item} {title}".strip() for _, item, title in row.runs)
    last = words.uncoloured(row.last_line)
    if row.last_at is not None:
        last = f"{words.clock(row.last_at)} {last}"
    return {
        "WORKER": row.name,
        "AGENT": row.agent,
        "STATE": f"{_SIGNS.get(row.state, '○')} {row.state}",
        "RUNNING": str(len(row.runs)),
        "ITEM": words.harmless(item),
        "RESTARTS": str(row.restarts),
        "UP": "" if row.since is None else span((datetime.now(UTC) - row.since).total_seconds()),
        "LAST LINE": last,
    }


def _widths(rows: Sequence[dict[str, str]], width: int) -> dict[str, int]:
    """The columns that fit, with their widths; the last line gets the rest."""
    full = {name: max([len(name), *(cell_len(row[name]) for row in rows)]) for name in _COLUMNS}
    full["STATE"], full["UP"] = max(full["STATE"], 11), max(full["UP"], 6)
    left = width - sum(full[name] + _GAP for name in _COLUMNS if name not in _ELASTIC)
    same = all(row["AGENT"] in ("", row["WORKER"]) for row in rows)
    shown = [name for name, least in _ELASTIC.items() if left >= least and not (name == "AGENT" and same)]
    room: dict[str, int] = {}
    for name in shown:
        most = left if name == shown[-1] else max(left // 3, _TEXT_MIN)
        room[name] = most if name == shown[-1] else min(full[name], most)
        left -= room[name] + _GAP
    return {name: room.get(name, full[name]) for name in _COLUMNS if name not in _ELASTIC or name in room}
