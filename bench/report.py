"""The figures as a table for people, as Markdown for the docs and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.rounds import Figure, Row


def show(console: Console, machine: Mapping[str, str], figures: Sequence[Figure]) -> None:
    for name, value in machine.items():
        console.print(f"{name}: {value}", highlight=False)
    for figure in figures:
        table = Table(*header(figure), title=figure.title, title_justify="left")
        for row in figure.rows:
            table.add_row(*cells(figure, row))
        console.print(table)


def markdown(machine: Mapping[str, str], figures: Sequence[Figure]) -> str:
    lines = [f"- {name}: {value}" for name, value in machine.items()]
    for figure in figures:
        names = header(figure)
        lines += ["", f"### {figure.title}", "", "| " + " | ".join(names) + " |"]
        lines += ["|" + "---|" * len(names)]
        lines += ["| " + " | ".join(cells(figure, row)) + " |" for row in figure.rows]
    return "\n".join(lines) + "\n"


def write_json(path: Path, machine: Mapping[str, str], figures: Sequence[Figure]) -> None:
    document = {"machine": dict(machine), "figures": [as_json(figure) for figure in figures]}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def header(figure: Figure) -> tuple[str, ...]:
    base = f"ratio to {figure.base}" if figure.base else "ratio"
    return ("subject", f"median {figure.unit}", base, "spread", "note")


def cells(figure: Figure, row: Row) -> tuple[str, ...]:
    if row.median is None:
        return (row.subject, "-", "-", "-", row.note)
    ratio = figure.ratio(row)
    shown = f"{row.median:,.0f}" if row.median >= 100 else f"{row.median:.3g}"
    return (row.subject, shown, "-" if ratio is None else f"{ratio:.2f}", f"{row.spread:.0%}", row.note)


def as_json(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "title": figure.title,
        "unit": figure.unit,
        "base": figure.base,
        "more_is_better": figure.more_is_better,
        "rows": [
            {
                "subject": row.subject,
                "median": row.median,
                "ratio": figure.ratio(row),
                "samples": row.samples,
                "note": row.note,
            }
            for row in figure.rows
        ],
    }
