"""The figures as tables for people, as Markdown for the docs and as JSON for programs. Ratios come first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.figure import Figure, Row, Target

BEGIN = "<!-- figures: begin. Made by `python -m bench --markdown`; do not edit. -->"
END = "<!-- figures: end -->"
TARGET_HEADER = ("target", "measured", "met")


def show(console: Console, machine: Mapping[str, str], figures: Sequence[Figure]) -> None:
    for name, value in machine.items():
        console.print(f"{name}: {value}", highlight=False)
    targets = Table(*TARGET_HEADER, title="Targets", title_justify="left")
    for figure in figures:
        for target in figure.targets:
            targets.add_row(*target_cells(target))
    if targets.rows:
        console.print(targets)
    for figure in figures:
        table = Table(*header(figure), title=figure.title, title_justify="left")
        for row in figure.rows:
            table.add_row(*cells(figure, row))
        console.print(table)


def write_markdown(path: Path, machine: Mapping[str, str], figures: Sequence[Figure]) -> None:
    """Replace what stands between the markers of an existing page, or write the tables alone."""
    tables = markdown(machine, figures)
    if path.exists():
        page = path.read_text(encoding="utf-8")
        before, begin, rest = page.partition(BEGIN)
        _, end, after = rest.partition(END)
        if begin and end:
            tables = f"{before}{BEGIN}\n\n{tables}\n{END}{after}"
    path.write_text(tables, encoding="utf-8")


def markdown(machine: Mapping[str, str], figures: Sequence[Figure]) -> str:
    targets = [target_cells(target) for figure in figures for target in figure.targets]
    parts = [[f"- {name}: {value}" for name, value in machine.items()]]
    if targets:
        parts += [["### Targets"], markdown_table(TARGET_HEADER, targets)]
    for figure in figures:
        parts.append([f"### {figure.title}"])
        parts.append(markdown_table(header(figure), [cells(figure, row) for row in figure.rows]))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *rows)]


def write_json(path: Path, machine: Mapping[str, str], figures: Sequence[Figure]) -> None:
    document = {"machine": dict(machine), "figures": [as_json(figure) for figure in figures]}
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def header(figure: Figure) -> tuple[str, ...]:
    ratio = (f"ratio to {figure.base}",) if figure.base else ()
    ratio += (f"{figure.ours} to it",) if figure.ours else ()
    cost = ("CPU µs/item: workers", "server") if shows_cost(figure) else ()
    value = (figure.unit,) if figure.exact else (f"median {figure.unit}", "spread")
    return ("subject", *ratio, *value, *cost, "note")


def cells(figure: Figure, row: Row) -> tuple[str, ...]:
    ratio = (shown(figure.ratio(row), places=2),) if figure.base else ()
    ratio += (shown(figure.ours_to(row), places=2),) if figure.ours else ()
    cost = (shown(row.worker_us), shown(row.server_us)) if shows_cost(figure) else ()
    spread = f"{row.spread:.0%}" if len(row.samples) > 1 else "-"
    value = (shown(row.median),) if figure.exact else (shown(row.median), spread)
    return (row.subject, *ratio, *value, *cost, row.note)


def target_cells(target: Target) -> tuple[str, ...]:
    measured = f"{shown(target.measured, places=2)} {target.unit}".rstrip()
    return (target.text, measured, "yes" if target.met else "NO")


def shown(value: float | None, *, places: int | None = None) -> str:
    if value is None:
        return "-"
    if places is not None and abs(value) < 100:
        return f"{value:.{places}f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shows_cost(figure: Figure) -> bool:
    return any(row.worker_us is not None for row in figure.rows)


def as_json(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "title": figure.title,
        "unit": figure.unit,
        "base": figure.base,
        "targets": [
            {"text": target.text, "measured": target.measured, "unit": target.unit, "met": target.met}
            for target in figure.targets
        ],
        "rows": [
            {
                "subject": row.subject,
                "ratio": figure.ratio(row),
                "ours_to_it": figure.ours_to(row),
                "median": row.median,
                "samples": row.values,
                "worker_cpu_us": row.worker_us,
                "server_cpu_us": row.server_us,
                "note": row.note,
            }
            for row in figure.rows
        ],
    }
