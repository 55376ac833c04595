"""What is reported: figures of rows, and the targets they are held against."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement of one subject."""

    value: float
    note: str = ""
    #: Processor time for each item, of the workers and of the database server, where there is one.
    worker_us: float | None = None
    server_us: float | None = None


@dataclass(slots=True, kw_only=True)
class Row:
    """The samples of one subject in one figure."""

    subject: str
    samples: list[Sample] = field(default_factory=list)
    note: str = ""
    #: The row that its ratio is relative to, where a figure has several bases.
    base: str | None = None

    @property
    def values(self) -> list[float]:
        return [sample.value for sample in self.samples]

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.samples else None

    @property
    def spread(self) -> float:
        """How far nine tenths of the samples lie apart, relative to their median; of a few samples all."""
        median, ordered = self.median, sorted(self.values)
        tail = len(ordered) // 20
        return 0.0 if not median else (ordered[-1 - tail] - ordered[tail]) / median

    @property
    def worker_us(self) -> float | None:
        return _median_known([sample.worker_us for sample in self.samples])

    @property
    def server_us(self) -> float | None:
        return _median_known([sample.server_us for sample in self.samples])


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a figure was meant to show, and whether it does; a measure that is missing meets nothing."""

    text: str
    measured: float | None
    met: bool
    unit: str = ""

    @classmethod
    def at_least(cls, text: str, measured: float | None, bound: float) -> Self:
        return cls(
            text=f"{text}: at least {bound:g}",
            measured=measured,
            met=measured is not None and measured >= bound,
        )

    @classmethod
    def at_most(cls, text: str, measured: float | None, bound: float, unit: str = "") -> Self:
        return cls(
            text=f"{text}: at most {bound:g} {unit}".rstrip(),
            measured=measured,
            met=measured is not None and measured <= bound,
            unit=unit,
        )


@dataclass(slots=True, kw_only=True)
class Figure:
    """One table of the report. `base` is what ratios are relative to: a row, unless rows name their own."""

    name: str
    title: str
    unit: str
    rows: list[Row]
    base: str | None = None
    #: The row that is shown as a ratio to every other: how we do beside each peer.
    ours: str | None = None
    #: Whether the values are counts, which have no spread.
    exact: bool = False
    targets: list[Target] = field(default_factory=list)
    #: How `python -m bench` calls it, once it is made.
    command: str = ""

    def median(self, subject: str) -> float | None:
        return next((row.median for row in self.rows if row.subject == subject), None)

    def cost_us(self, subject: str) -> float | None:
        """Processor time of workers and database for each item."""
        row = next((row for row in self.rows if row.subject == subject), None)
        if row is None or row.worker_us is None or row.server_us is None:
            return None
        return row.worker_us + row.server_us

    def best(self, *subjects: str) -> float | None:
        """The greatest median among some subjects."""
        known = [median for subject in subjects if (median := self.median(subject)) is not None]
        return max(known, default=None)

    def ratio(self, row: Row) -> float | None:
        base = row.base or self.base
        return divided(row.median, self.median(base)) if base else None

    def ours_to(self, row: Row) -> float | None:
        """Our rate divided by that of another row."""
        return divided(self.median(self.ours), row.median) if self.ours else None


def divided(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _median_known(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
