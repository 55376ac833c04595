"""Rounds: each subject is measured once a round, so that noise of a shared machine hits all alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.subject import NotAvailable

Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Row:
    """The samples of one subject in one figure."""

    subject: str
    samples: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.samples) if self.samples else None

    @property
    def spread(self) -> float:
        """How far the samples lie apart, relative to their median."""
        median = self.median
        return 0.0 if not median else (max(self.samples) - min(self.samples)) / median


@dataclass(slots=True, kw_only=True)
class Figure:
    """One table of the report. `base` is the row that ratios are relative to."""

    name: str
    title: str
    unit: str
    rows: list[Row]
    base: str | None = None
    #: Whether a greater number is better.
    more_is_better: bool = True

    def ratio(self, row: Row) -> float | None:
        base = next((other.median for other in self.rows if other.subject == self.base), None)
        return row.median / base if base and row.median is not None else None


def interleave(
    measures: Mapping[str, Callable[[], tuple[float, str]]], *, rounds: int, warm_up: bool, say: Say
) -> list[Row]:
    """Run every measure `rounds` times in turn, after one discarded round; each answers (value, note)."""
    rows = {name: Row(subject=name) for name in measures}
    absent: set[str] = set()
    for number in range(0 if warm_up else 1, rounds + 1):
        for name, measure in measures.items():
            if name in absent:
                continue
            try:
                value, note = measure()
            except NotAvailable as reason:
                absent.add(name)
                rows[name].note = f"not measured: {reason}"
                continue
            say(f"  {'warm-up' if number == 0 else f'round {number}'}  {name}: {value:,.4g} {note}")
            if number > 0:
                rows[name].samples.append(value)
                rows[name].note = note
    return list(rows.values())
