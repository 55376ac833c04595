"""Rounds: each subject is measured once a round, so that noise of a shared machine hits all alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.figure import Row, Sample
from bench.subject import NotAvailable

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often each measure is taken, and whom to tell."""

    count: int
    #: Whether a first round is run and thrown away.
    warm_up: bool
    say: Say

    def interleave(self, measures: Mapping[str, Callable[[], Sample]]) -> list[Row]:
        """Take every measure once a round, in turn."""
        rows = {name: Row(subject=name) for name in measures}
        absent: set[str] = set()
        for number in range(0 if self.warm_up else 1, self.count + 1):
            for name, measure in measures.items():
                if name in absent:
                    continue
                try:
                    sample = measure()
                except NotAvailable as reason:
                    absent.add(name)
                    self.say(f"  {name} is left out: {reason}")
                    rows[name].note = f"not measured: {reason}"
                    continue
                label = "warm-up" if number == 0 else f"round {number}"
                self.say(f"  {label}  {name}: {sample.value:,.4g} {sample.note}")
                if number > 0:
                    rows[name].samples.append(sample)
                    rows[name].note = sample.note
        return list(rows.values())


def quantile(values: list[float], share: float) -> float:
    """The nearest-rank quantile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
