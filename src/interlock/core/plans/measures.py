"""Figures of a graph: its critical path, its total work and its parallelism."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from interlock.core.plans.graph import topological
from interlock.core.record import Record


class Measures(Record):
    """A task of unknown duration counts as zero."""

    #: The keys of the longest chain, first to last.
    critical_path: tuple[str, ...]
    critical_path_s: float
    #: The sum of all durations.
    total_work_s: float
    #: `total_work_s / critical_path_s`: how many agents the graph could keep busy on average.
    parallelism: float | None
    #: How many tasks the longest chain has, whatever their durations.
    depth: int


def measured(
    keys: Sequence[str], links: Sequence[tuple[str, str]], durations_s: Mapping[str, float]
) -> Measures:
    """Measure a graph without cycles."""
    targets: dict[str, list[str]] = defaultdict(list)
    for source, target in links:
        targets[source].append(target)
    #: For each task its earliest start, and its place in the longest chain that leads to it.
    start_s, level = dict.fromkeys(keys, 0.0), dict.fromkeys(keys, 1)
    came_from: dict[str, str] = {}
    for key in topological(keys, links):
        end_s = start_s[key] + durations_s.get(key, 0.0)
        for target in targets[key]:
            level[target] = max(level[target], level[key] + 1)
            if end_s > start_s[target]:
                start_s[target], came_from[target] = end_s, key
    last = max(keys, key=lambda k: start_s[k] + durations_s.get(k, 0.0), default=None)
    path: list[str] = []
    length_s = 0.0 if last is None else start_s[last] + durations_s.get(last, 0.0)
    while last is not None and length_s > 0:
        path.append(last)
        last = came_from.get(last)
    work_s = sum(durations_s.get(key, 0.0) for key in keys)
    return Measures(
        critical_path=tuple(reversed(path)),
        critical_path_s=length_s,
        total_work_s=work_s,
        parallelism=work_s / length_s if length_s > 0 else None,
        depth=max(level.values(), default=0),
    )
