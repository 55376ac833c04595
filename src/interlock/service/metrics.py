"""The metrics of a store: counters of its history, and gauges of its present state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress

from interlock.core import counters
from interlock.core.costs import Spender
from interlock.core.counters import COUNTER, HISTOGRAM, KEPT, LABELS, LEVELS, Count, Labels, Metric, Naming
from interlock.core.errors import StoreSealed, StoreUnavailable
from interlock.core.model import US_PER_S
from interlock.core.states import ItemStatus
from interlock.core.workers import is_alive
from interlock.service.contract import MetricView, SampleView, TrendView
from interlock.service.costs import spending_since
from interlock.service.item_view import moment
from interlock.store.metrics import Levels, Sample
from interlock.store.port import Store

PREFIX = "interlock_"
#: One pass counts at most this many times `LINES` events.
STEPS = 10
#: At most this many agents, pools and projects have a sample of what they spent.
SPENDING_MAX = 1_000
#: At most this many workers are read.
WORKERS_MAX = 1_000
MINUTE_US = 60 * US_PER_S
Value = tuple[Labels, str, float]


def fold(store: Store) -> bool:
    """Count new events step by step. Returns whether more are to be counted."""
    return all(store.meter.fold() for _ in range(STEPS))


def metrics(store: Store) -> list[MetricView]:
    """Every metric of a store. A reader without write access gets the last stored counters."""
    behind = True
    with suppress(StoreUnavailable, StoreSealed):
        behind = fold(store)
    counters = store.meter.counters()
    naming = Naming(count.labels for count in counters)
    levels = _levels(store, store.meter.levels(), naming) | {
        "counting_behind": [(Labels(), "", float(behind))]
    }
    kept = _by_metric(counters)
    return [
        *(_counted(metric, kept[metric.name]) for metric in KEPT),
        *(_view(metric, _samples(metric, levels[metric.name])) for metric in LEVELS),
    ]


def sample(store: Store) -> None:
    """Keep the numbers of the present minute, unless another process did."""
    depths, totals, now_us = store.depths(), store.meter.totals(), store.now_us()
    status, oldest_us = depths.by_status, depths.oldest_pending_us
    store.meter.keep(
        Sample(
            minute=now_us // MINUTE_US,
            ready=sum(depths.depth_by_priority.values()),
            waiting=sum(status.get(each, 0) for each in (ItemStatus.WAITING, ItemStatus.DEFERRED)),
            running=status.get(ItemStatus.IN_PROGRESS, 0),
            oldest_us=0 if oldest_us is None else max(0, now_us - oldest_us),
            arrivals=sum(n for (metric, _), n in totals.items() if metric == "arrivals"),
            claims=sum(n for (metric, _), n in totals.items() if metric == "claims"),
            completions=totals.get(("runs", "succeeded"), 0),
            failures=sum(totals.get(("runs", kind.removeprefix("run.")), 0) for kind in counters.FAILED_RUNS),
        )
    )


def trend(store: Store, minutes: int) -> list[TrendView]:
    """The kept numbers of the last minutes, each with what was counted since the minute before."""
    first = store.now_us() // MINUTE_US - minutes
    samples = store.meter.samples(first - 1)
    before = {each.minute + 1: each for each in samples}
    return [_point(each, before.get(each.minute)) for each in samples if each.minute >= first]


def _point(now: Sample, before: Sample | None) -> TrendView:
    return TrendView(
        at=moment(now.minute * MINUTE_US),
        ready=now.ready,
        waiting=now.waiting,
        running=now.running,
        oldest_ready_s=now.oldest_us / US_PER_S,
        arrivals=None if before is None else now.arrivals - before.arrivals,
        claims=None if before is None else now.claims - before.claims,
        completions=None if before is None else now.completions - before.completions,
        failures=None if before is None else now.failures - before.failures,
    )


def _by_metric(counters: Mapping[Count, int]) -> Mapping[str, dict[tuple[Labels, str], int]]:
    found: defaultdict[str, dict[tuple[Labels, str], int]] = defaultdict(dict)
    for count, n in sorted(counters.items(), key=lambda each: each[0]):
        found[count.metric][count.labels, count.value] = n
    return found


def _counted(metric: Metric, found: Mapping[tuple[Labels, str], int]) -> MetricView:
    if metric.kind == HISTOGRAM:
        labels = dict.fromkeys(labels for labels, _ in found)
        return _view(metric, (sample for each in labels for sample in _histogram(metric, each, found)))
    return _view(metric, _samples(metric, [(labels, value, n) for (labels, value), n in found.items()]))


def _histogram(
    metric: Metric, labels: Labels, found: Mapping[tuple[Labels, str], int]
) -> Iterable[SampleView]:
    named, so_far = _named(metric, labels), 0
    for bound in (*map(counters.bound_text, metric.bounds), counters.BEYOND):
        so_far += found.get((labels, bound), 0)
        yield SampleView(suffix="_bucket", labels={**named, "le": bound}, value=so_far)
    yield SampleView(suffix="_sum", labels=named, value=found.get((labels, counters.SUM), 0) / US_PER_S)
    yield SampleView(suffix="_count", labels=named, value=so_far)


def _samples(metric: Metric, values: Iterable[Value]) -> Iterable[SampleView]:
    suffix = "_total" if metric.kind == COUNTER else ""
    for labels, value, n in values:
        own = {metric.own: value} if metric.own else {}
        yield SampleView(suffix=suffix, labels={**_named(metric, labels), **own}, value=n)


def _named(metric: Metric, labels: Labels) -> dict[str, str]:
    return {name: value for name, value in zip(LABELS, labels, strict=True) if name in metric.labels}


def _view(metric: Metric, samples: Iterable[SampleView]) -> MetricView:
    return MetricView(name=PREFIX + metric.name, kind=metric.kind, help=metric.help, samples=tuple(samples))


def _levels(store: Store, levels: Levels, naming: Naming) -> dict[str, list[Value]]:
    depths, now_us = store.depths(), store.now_us()

    def age_s(since_us: int | None) -> float:
        return 0.0 if since_us is None else max(0, now_us - since_us) / US_PER_S

    ready: defaultdict[Labels, float] = defaultdict(float)
    for priority, n in depths.depth_by_priority.items():
        ready[naming.named(Labels(priority=str(priority)))] += n
    running: defaultdict[Labels, float] = defaultdict(float)
    oldest: defaultdict[Labels, float] = defaultdict(float)
    for each in levels.running:
        labels = naming.named(each.labels)
        running[labels] += each.n
        oldest[labels] = max(oldest[labels], age_s(each.since_us))
    single = {
        "oldest_ready_seconds": age_s(depths.oldest_pending_us),
        "questions_open": levels.asking,
        "items_stopped": levels.stopped,
        "plan_cycles_open": levels.cycles,
        "oldest_plan_cycle_seconds": age_s(levels.cycle_since_us),
        "plan_ends_owed": levels.ends_owed,
        "deliveries_waiting": levels.deliveries,
        "deliveries_left": levels.deliveries_left,
        "oldest_delivery_seconds": age_s(levels.delivery_since_us),
        "effects_owed": levels.unsent,
        "effects_overdue_seconds": age_s(levels.unsent_due_us),
        "effects_dead": levels.dead,
        "workers": sum(is_alive(worker, now_us) for worker in store.workers(WORKERS_MAX)),
    }
    spent: defaultdict[str, list[Value]] = defaultdict(list)
    for row in spending_since(store, 1, SPENDING_MAX):
        is_label = row.scope in LABELS
        labels = Labels(**{row.scope: row.name}) if is_label else Labels()
        spent[row.scope].append((labels, "" if is_label else row.name, row.cost.usd))
    return {
        **{f"{scope}_spent_today_usd": spent[scope] for scope in Spender},
        "items": [(Labels(), status, depths.shown.get(status, 0)) for status in (*ItemStatus, "asking")],
        "queue_depth": [(labels, "", n) for labels, n in ready.items()],
        "series_events": [(Labels(), event, n) for event, n in sorted(levels.series.items())],
        "running": [(labels, "", n) for labels, n in running.items()],
        "oldest_run_seconds": [(labels, "", n) for labels, n in oldest.items()],
        **{name: [(Labels(), "", float(n))] for name, n in single.items()},
    }
