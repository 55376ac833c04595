"""A worker's slots as a table, one row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli.page import Table, cell_len
from interlock.cli.views import words
from interlock.core.timing import span
from interlock.process.clock import now_s

if TYPE_CHECKING:
    from interlock.worker.worker import Worker

_COLUMNS = ("SLOT", "RUN", "ITEM", "TITLE", "LANE", "SINCE", "STATE", "LAST OUTPUT")
_GAP, _TEXT_MIN = 2, 9
#: Columns that may be cut, with the least width left for all of them at which each is shown.
_ELASTIC = {"TITLE": 20, "LANE": 48, "LAST OUTPUT": 0}


def slots(worker: Worker, width: int) -> Table:
    """One row for each slot. Numbers and states are never cut; a narrow terminal loses the lane first."""
    runs = {run.slot: run for run in worker.runs()}
    rows: list[dict[str, str]] = []
    for n in range(1, worker.options.slots + 1):
        row = dict.fromkeys(_COLUMNS, "") | {
            "SLOT": str(n),
            "STATE": "draining" if worker.draining else "idle",
        }
        if (run := runs.get(n)) is not None:
            row |= {
                "RUN": str(run.fence),
                "ITEM": str(run.item.id),
                "TITLE": words.harmless(run.item.title),
                "LANE": run.item.lane or "",
                "SINCE": span(now_s() - run.begun_s),
                "LAST OUTPUT": words.uncoloured(run.last_line),
            }
            if run.state != "running" or not worker.draining:
                row["STATE"] = run.state
        rows.append(row)
    widths = column_widths(rows, width)
    table = words.table(*widths)
    for row in rows:
        row["LANE"] = words.shorten_lane(row["LANE"], widths.get("LANE", 0))
        table.add_row(*(words.shorten(row[name], room) for name, room in widths.items()))
    return table


def column_widths(rows: list[dict[str, str]], width: int) -> dict[str, int]:
    """The columns that fit, with their widths; the last output gets the rest."""
    full = {name: max(len(name), *(cell_len(row[name]) for row in rows)) for name in _COLUMNS}
    # Spans and states come and go; columns that move all the time are hard to read.
    full["SINCE"], full["STATE"] = max(full["SINCE"], 6), max(full["STATE"], 9)
    left = width - sum(full[name] + _GAP for name in _COLUMNS if name not in _ELASTIC)
    shown = [name for name, least in _ELASTIC.items() if left >= least]
    room: dict[str, int] = {}
    for name in shown:
        room[name] = left if name == shown[-1] else min(full[name], max(left // 3, _TEXT_MIN))
        left -= room[name] + _GAP
    return {name: room.get(name, full[name]) for name in _COLUMNS if name not in _ELASTIC or name in room}
