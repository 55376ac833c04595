"""The figures as tables for people, as Markdown for the docs and as JSON for programs. Ratios come first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.figure import Figure, Row, Target

BEGIN = "<!-- figures: begin. Made by `python -m bench --markdown`; do not edit. -->"
END = "<!-- figures: end -->"
TARGET_HEADER = ("target", "measured", "met")
#: The command that made a section.
COMMAND = re.compile(r"^`python -m bench (\w+)`", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """When and of which version figures were made, and how far to trust what a clock said."""

    on: str
    trust: str


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


def write_markdown(path: Path, machine: Mapping[str, str], made: Made, figures: Sequence[Figure]) -> None:
    """Write the tables. A page with the markers keeps the figures of other commands."""
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    before, begin, rest = page.partition(BEGIN)
    shown, end, after = rest.partition(END)
    new = sections(machine, made, figures)
    if not begin or not end:
        path.write_text("\n\n".join(new) + "\n", encoding="utf-8")
        return
    merged = "\n\n".join(merge(shown.strip(), new))
    path.write_text(f"{before}{BEGIN}\n\n{merged}\n\n{END}{after}", encoding="utf-8")


def sections(machine: Mapping[str, str], made: Made, figures: Sequence[Figure]) -> list[str]:
    """The machine, then a section for each figure: its title, its command, its targets, its table."""
    parts = ["\n".join(f"- {name}: {value}" for name, value in machine.items())]
    for figure in figures:
        targets = [target_cells(target) for target in figure.targets]
        when = f"Counted on {made.on}." if figure.exact else f"Measured on {made.on}{made.trust}."
        lines = [f"### {figure.title}", "", f"`python -m bench {figure.command}`. {when}", ""]
        if targets:
            lines += [*markdown_table(TARGET_HEADER, targets), ""]
        lines += markdown_table(header(figure), [cells(figure, row) for row in figure.rows])
        parts.append("\n".join(lines))
    return parts


def merge(shown: str, new: Sequence[str]) -> list[str]:
    """The sections of a page in the order of their figures, the old ones of the same commands replaced."""
    old = ["### " + part.strip() for part in ("\n" + shown).split("\n### ")[1:]]
    replaced = {command_of(part) for part in new[1:]}
    kept = [part for part in old if command_of(part) not in replaced]
    return [new[0], *sorted([*kept, *new[1:]], key=letter)]


def command_of(section: str) -> str:
    found = COMMAND.search(section)
    return found[1] if found else ""


def letter(section: str) -> str:
    return section.removeprefix("### ")[:2]


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
