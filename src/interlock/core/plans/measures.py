"""What a graph's shape and the time its tasks took say: the critical path, the work, the parallelism."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.core.plans.graph import topological


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Over the tasks whose duration is known; the others count as nothing."""

    #: The keys of the longest chain, first to last.
    critical_path: tuple[str, ...]
    critical_path_s: float
    #: The sum of all durations.
    total_work_s: float
    #: How many could work at once on average, were nothing else in the way: work over critical path.
    parallelism: float | None
    #: How many tasks the longest chain has, whatever they took.
    depth: int


def measured(
    keys: Sequence[str], links: Sequence[tuple[str, str]], durations_s: Mapping[str, float]
) -> Measures:
    """Measure a graph without cycles."""
    targets: dict[str, list[str]] = defaultdict(list)
    for source, target in links:
        targets[source].append(target)
    #: For each task: when it could start at the earliest, and how many tasks come before it.
    start_s, level = dict.fromkeys(keys, 0.0), dict.fromkeys(keys, 1)
    came_from: dict[str, str] = {}
    ordered = topological(keys, links)
    assert ordered is not None
    for key in ordered:
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
