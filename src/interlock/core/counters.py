"""Which metrics the history yields, and their labels.

    counts    metric, value and labels of each line, added up
    Naming    at most `VALUES_MAX` values of a label and `SETS_MAX` sets of labels; the rest is `other`

Counters are kept in the store: a line is counted once, by the first process that reads it. Label names never
change, so no counter ever falls. What is counted depends on the line and its item alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from interlock.core.errors import CycleExpired
from interlock.core.model import US_PER_S, EventKind, Reason
from interlock.core.plans.model import EDIT_TYPE, PlanStatus
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus

#: At most this many values of a label, and sets of labels, are counted by name.
VALUES_MAX, SETS_MAX = 50, 500
#: The name of all further values.
OTHER = "other"


class Labels(NamedTuple):
    """The labels of a sample. An empty one is unknown or does not apply."""

    project: str = ""
    type: str = ""
    agent: str = ""
    priority: str = ""


LABELS = Labels._fields


class Metric(NamedTuple):
    """A metric family, in Prometheus' sense."""

    name: str
    kind: str
    help: str
    #: Which of `Labels` it has, and its own label, if any.
    labels: tuple[str, ...] = ()
    own: str = ""
    #: For a histogram: the upper bounds of its buckets, in seconds.
    bounds: tuple[float, ...] = ()


COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
_WORK = LABELS
#: From a tenth of a second to a day: a claim waits for minutes, an agent works for hours.
SPANS_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
#: The store keeps these.
KEPT = (
    Metric("arrivals", COUNTER, "Arrivals, by decision.", _WORK, "decision"),
    Metric("claims", COUNTER, "Runs started.", _WORK),
    Metric("runs", COUNTER, "Runs ended, by outcome.", _WORK, "outcome"),
    Metric("items_ended", COUNTER, "Items ended, by status.", _WORK, "status"),
    Metric(
        "time_to_claim_seconds",
        HISTOGRAM,
        "Time from an item's arrival to its first claim.",
        ("project", "type", "priority"),
        bounds=SPANS_S,
    ),
    Metric(
        "lock_seconds",
        HISTOGRAM,
        "How long runs held their item and its lane.",
        ("project", "type", "agent"),
        bounds=SPANS_S,
    ),
    Metric(
        "refused_writes",
        COUNTER,
        "Refused writes of stale runs, by reason.",
        ("project", "agent"),
        "reason",
    ),
    Metric("promotions", COUNTER, "Items promoted to owner of a free lane.", ("project", "type")),
    Metric(
        "overtakings", COUNTER, "Lane owners overtaken because they could not start.", ("project", "type")
    ),
    Metric(
        "observed",
        COUNTER,
        "Arrivals on lanes in observe mode, by the decision that enforce mode would have made.",
        ("project", "type"),
        "would_be",
    ),
    Metric("parked", COUNTER, "Items parked after a run, by reason.", ("project", "type"), "reason"),
    Metric("retries", COUNTER, "Retries by operators.", ("project", "type")),
    Metric("questions", COUNTER, "Questions to people, by step.", ("project",), "step"),
    Metric("wakes_stopped", COUNTER, "Items stopped by the wake-up limit.", ("project",)),
    Metric("notices_failed", COUNTER, "Notifications given up after the last attempt."),
    Metric("plans_made", COUNTER, "Plans created.", ("project",)),
    Metric("plans_ended", COUNTER, "Plans ended, by status.", ("project",), "status"),
    Metric("plan_edits", COUNTER, "Edits of plans, by outcome.", ("project",), "outcome"),
    Metric("plan_edits_rebased", COUNTER, "Edits rebased onto a newer revision.", ("project",)),
    Metric("plan_cycles", COUNTER, "Edit cycles opened.", ("project",)),
    Metric("plan_lock_seconds", HISTOGRAM, "How long edit cycles were open.", ("project",), bounds=SPANS_S),
    Metric(
        "plan_dispatch_seconds",
        HISTOGRAM,
        "Time from the end of a task's last dependency to its first claim.",
        ("project",),
        bounds=SPANS_S,
    ),
)
#: Gauges, read at each scrape.
LEVELS = (
    Metric("items", GAUGE, "Items, by status; `asking` are those that wait for a person.", own="status"),
    Metric("queue_depth", GAUGE, "Items ready to be claimed.", ("priority",)),
    Metric("oldest_ready_seconds", GAUGE, "Age of the oldest item that is ready to be claimed."),
    Metric("running", GAUGE, "Current runs, counted up to 10,000.", _WORK),
    Metric("oldest_run_seconds", GAUGE, "Age of the oldest current run.", _WORK),
    Metric("questions_open", GAUGE, "Items that wait for a person's answer."),
    Metric("items_stopped", GAUGE, "Items stopped by the wake-up limit that wait for a person."),
    Metric("plan_cycles_open", GAUGE, "Open edit cycles. Their plans start no task."),
    Metric("oldest_plan_cycle_seconds", GAUGE, "Age of the oldest open edit cycle."),
    Metric("plan_ends_owed", GAUGE, "Completions that editors have not answered."),
    Metric("deliveries_waiting", GAUGE, "Queued GitHub deliveries."),
    Metric("deliveries_left", GAUGE, "GitHub deliveries given up after the last attempt."),
    Metric("oldest_delivery_seconds", GAUGE, "Age of the oldest queued delivery."),
    Metric("effects_owed", GAUGE, "Effects queued for GitHub."),
    Metric("effects_overdue_seconds", GAUGE, "How long the next effect has been due."),
    Metric("effects_dead", GAUGE, "Effects that GitHub refused: dead letters."),
    Metric(
        "series_events",
        COUNTER,
        "Events of the first 1,000 series, such as promotions and prevented assignments.",
        own="event",
    ),
    Metric("agent_spent_today_usd", GAUGE, "What an agent's runs used today, in USD.", ("agent",)),
    Metric("pool_spent_today_usd", GAUGE, "What a pool's runs used today, in USD.", own="pool"),
    Metric("project_spent_today_usd", GAUGE, "What a project's runs used today, in USD.", ("project",)),
    Metric("workers", GAUGE, "Workers seen in the last minutes."),
    Metric("counting_behind", GAUGE, "1 while the counters lag behind the history."),
)
BY_NAME: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in KEPT})
#: The label value that keeps the sum of a histogram, in microseconds.
SUM = "sum_us"
#: The bucket beyond the last bound.
BEYOND = "+Inf"


class HistoryLine(NamedTuple):
    """An event of the history, with the fields of its item that it needs. Null: no such field."""

    kind: str
    reason: str
    project: str | None
    type: str | None
    agent: str | None
    priority: int | None
    span_us: int | None
    #: The status of the item after an ended run, and the decision on an arrival.
    item_status: str | None
    verdict: str | None
    #: For a task's first start: when its last dependency ended.
    dispatch_us: int | None
    #: For an edit of a plan: its run, its base, and the new revision.
    by_run: int | None
    base: int | None
    revision: int | None


class Count(NamedTuple):
    """One counter of the store."""

    metric: str
    #: The value of the metric's own label; for a histogram, a bound or `SUM`.
    value: str
    labels: Labels


_KINDS = {str(kind): kind for kind in EventKind}
_ARRIVALS = {EventKind.ITEM_DUPLICATE: "duplicate", EventKind.ITEM_REJECTED: "rejected"}
_ADDED = frozenset({EventKind.ITEM_ADDED, EventKind.ITEM_COALESCED, EventKind.ITEM_OBSERVED, *_ARRIVALS})
#: The statuses of ended items that have their own events, and of ended runs.
ENDED: Mapping[str, ItemStatus] = {
    EventKind.ITEM_CANCELLED: ItemStatus.CANCELLED,
    EventKind.ITEM_SUPERSEDED: ItemStatus.SUPERSEDED,
    EventKind.ITEM_COALESCED: ItemStatus.COALESCED,
}
RUNS: Mapping[str, str] = {
    kind: kind.removeprefix("run.")
    for kind in (
        *(EventKind.RUN_SUCCEEDED, EventKind.RUN_FAILED, EventKind.RUN_CANCELLED),
        *(EventKind.RUN_TIMED_OUT, EventKind.RUN_LOST, EventKind.RUN_RELEASED),
    )
}
FAILED_RUNS = frozenset({EventKind.RUN_FAILED, EventKind.RUN_LOST, EventKind.RUN_TIMED_OUT})
_PLAIN = {
    EventKind.LANE_PROMOTED: "promotions",
    EventKind.LANE_OVERTAKEN: "overtakings",
    EventKind.ITEM_RETRIED: "retries",
    EventKind.WAKE_STOPPED: "wakes_stopped",
    EventKind.NOTICE_FAILED: "notices_failed",
    EventKind.PLAN_CREATED: "plans_made",
    EventKind.PLAN_CYCLE_OPENED: "plan_cycles",
}
_BY_REASON = {
    EventKind.RUN_REFUSED: "refused_writes",
    EventKind.ITEM_PARKED: "parked",
    EventKind.PLAN_ENDED: "plans_ended",
}
_REASONS = frozenset({*Reason, *PlanStatus})
_QUESTIONS = {
    EventKind.QUESTION_ASKED: "asked",
    EventKind.QUESTION_ANSWERED: "answered",
    EventKind.QUESTION_TIMED_OUT: "timed_out",
}
_WOULD_BE = "would_be_"


class Naming:
    """The label values in use, and the name of a new one. It forgets nothing."""

    def __init__(self, known: Iterable[Labels]) -> None:
        self.sets = set(known)
        self._values: dict[str, set[str]] = {label: set() for label in LABELS}
        for labels in self.sets:
            for label, value in zip(LABELS, labels, strict=True):
                self._values[label].add(value)

    def named(self, labels: Labels) -> Labels:
        """The labels for counting: unchanged, or `other` beyond the limit."""
        found = Labels(*map(self._value, LABELS, labels))
        if found not in self.sets:
            if len(self.sets) >= SETS_MAX:
                found = Labels(*(OTHER if value else "" for value in labels))
            self.sets.add(found)
        return found

    def _value(self, label: str, value: str) -> str:
        values = self._values[label]
        if value in values:
            return value
        if len(values - {"", OTHER}) >= VALUES_MAX:
            return OTHER
        values.add(value)
        return value


def counts(lines: Iterable[HistoryLine], naming: Naming) -> dict[Count, int]:
    """What some lines of the history add to the counters."""
    found: dict[Count, int] = {}
    named: dict[_Said, Labels] = {}  # most lines are like others: the same metric of the same work
    for line in lines:
        for metric, value, n in _counted(line):
            said = metric, line.project, line.type, line.agent, line.priority
            if (labels := named.get(said)) is None:
                labels = named[said] = naming.named(_labels(*said))
            count = Count(metric, value, labels)
            found[count] = found.get(count, 0) + n
    return found


#: A metric, and what a line says for its labels.
_Said = tuple[str, str | None, str | None, str | None, int | None]


def _labels(
    metric: str, project: str | None, type_: str | None, agent: str | None, priority: int | None
) -> Labels:
    wanted = BY_NAME[metric].labels
    said = (project or "", type_ or "", agent or "", "" if priority is None else str(priority))
    return Labels(*(value if name in wanted else "" for name, value in zip(LABELS, said, strict=True)))


def _counted(line: HistoryLine) -> Iterator[tuple[str, str, int]]:  # noqa: PLR0912  (each kind of line once)
    kind, reason = _KINDS.get(line.kind), line.reason
    if kind is None:  # written by a newer version on the same store
        return
    if kind in _ADDED:
        unasked = "follow_up" if reason == Reason.UNREAD_MESSAGES else "planned"
        yield "arrivals", line.verdict or _ARRIVALS.get(kind, unasked), 1
    if kind is EventKind.ITEM_OBSERVED:
        yield "observed", reason.removeprefix(_WOULD_BE), 1
    if kind is EventKind.RUN_STARTED:
        yield "claims", "", 1
        if line.span_us is not None:
            yield from _span("time_to_claim_seconds", line.span_us)
        if line.dispatch_us is not None:
            yield from _span("plan_dispatch_seconds", line.dispatch_us)
    if kind in RUNS:
        yield "runs", RUNS[kind], 1
        yield from _span("lock_seconds", line.span_us or 0)
        if kind is EventKind.RUN_SUCCEEDED:
            yield "items_ended", ItemStatus.COMPLETED, 1
            if line.type == EDIT_TYPE:
                yield "plan_edits", "completed", 1
        elif line.item_status == ItemStatus.FAILED:
            yield "items_ended", ItemStatus.FAILED, 1
    if kind in ENDED:
        yield "items_ended", ENDED[kind], 1
    if kind in _PLAIN:
        yield _PLAIN[kind], "", 1
    if kind in _BY_REASON:
        yield _BY_REASON[kind], reason if reason in _REASONS else OTHER, 1
    if kind in _QUESTIONS:
        yield "questions", _QUESTIONS[kind], 1
    if kind is EventKind.PLAN_MODIFIED:
        if line.by_run is None:  # the editor's counts when its run ends, with a change or without
            yield "plan_edits", "completed", 1
        if (line.base or 0) + 1 < (line.revision or 0):
            yield "plan_edits_rebased", "", 1
    if kind is EventKind.PLAN_EDIT_REFUSED and reason != CycleExpired.code:  # a late one has timed out
        yield "plan_edits", "refused", 1
    if kind is EventKind.PLAN_CYCLE_CLOSED:
        yield from _span("plan_lock_seconds", line.span_us or 0)
        if reason != Reason.EDIT_ANSWERED:
            yield "plan_edits", "timed_out" if reason == Reason.EDIT_CYCLE_EXPIRED else "failed", 1


def _span(metric: str, span_us: int) -> Iterator[tuple[str, str, int]]:
    """A span in its bucket. A clock that was set back gives no negative span."""
    span_us = max(0, span_us)
    bounds = BY_NAME[metric].bounds
    at = bisect_left(bounds, span_us / US_PER_S)
    yield metric, bound_text(bounds[at]) if at < len(bounds) else BEYOND, 1
    yield metric, SUM, span_us


def bound_text(bound_s: float) -> str:
    """The name of a bucket."""
    return f"{bound_s:g}"
