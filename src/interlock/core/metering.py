"""What is counted of the history, and under which labels.

    counts    metric, value and labels of each line, added up
    Naming    at most `VALUES_MAX` values of a label and `SETS_MAX` sets of labels; the rest is `other`

Counters are kept in the store: a line is counted once, by whoever comes first, and names that were given out
stay, so that no counter ever falls. What is counted depends on the line and its item alone.
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

#: How many values of one label have a name of their own, and how many sets of labels.
VALUES_MAX, SETS_MAX = 50, 500
#: What all further values are called.
OTHER = "other"


class Labels(NamedTuple):
    """What a number is about. Empty: it does not say, or that is not known."""

    project: str = ""
    type: str = ""
    agent: str = ""
    priority: str = ""


LABELS = Labels._fields


class Metric(NamedTuple):
    """A family of numbers, as Prometheus calls it."""

    name: str
    kind: str
    help: str
    #: Which of `Labels` it has, and the label of its own, if it has one.
    labels: tuple[str, ...] = ()
    own: str = ""
    #: Of a histogram: the upper bounds of its buckets, in seconds.
    bounds: tuple[float, ...] = ()


COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
_WORK = LABELS
#: From a tenth of a second to a day: a claim waits for minutes, an agent works for hours.
SPANS_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
#: The store keeps these.
KEPT = (
    Metric("arrivals", COUNTER, "Arrivals, by what was decided on them.", _WORK, "decision"),
    Metric("claims", COUNTER, "Runs that were started.", _WORK),
    Metric("runs", COUNTER, "Runs that ended, by how.", _WORK, "outcome"),
    Metric("items_ended", COUNTER, "Items that ended, by how.", _WORK, "status"),
    Metric(
        "time_to_claim_seconds",
        HISTOGRAM,
        "From an item's arrival to its first start.",
        ("project", "type", "priority"),
        bounds=SPANS_S,
    ),
    Metric(
        "lock_seconds",
        HISTOGRAM,
        "How long runs held what they worked on.",
        ("project", "type", "agent"),
        bounds=SPANS_S,
    ),
    Metric(
        "refused_writes",
        COUNTER,
        "Writes of runs that were no longer current, by why they were refused.",
        ("project", "agent"),
        "reason",
    ),
    Metric("promotions", COUNTER, "Items that a freed lane went to.", ("project", "type")),
    Metric("overtakings", COUNTER, "Owners that could not start and made room.", ("project", "type")),
    Metric(
        "observed",
        COUNTER,
        "Arrivals on lanes that are only observed, by what would have been decided.",
        ("project", "type"),
        "would_be",
    ),
    Metric("parked", COUNTER, "Items that had to wait after a run, by why.", ("project", "type"), "reason"),
    Metric("retries", COUNTER, "Attempts that operators gave to ended items.", ("project", "type")),
    Metric("questions", COUNTER, "Questions to people, by what became of them.", ("project",), "step"),
    Metric("wakes_stopped", COUNTER, "Wake-ups that were one too many without a person.", ("project",)),
    Metric("notices_failed", COUNTER, "Notification commands that were given up."),
    Metric("plans_made", COUNTER, "Plans that were made.", ("project",)),
    Metric("plans_ended", COUNTER, "Plans that ended, by how.", ("project",), "status"),
    Metric("plan_edits", COUNTER, "Edits of plans, by what became of them.", ("project",), "outcome"),
    Metric("plan_edits_rebased", COUNTER, "Edits that were applied on top of later changes.", ("project",)),
    Metric("plan_cycles", COUNTER, "Edit cycles that were opened.", ("project",)),
    Metric("plan_lock_seconds", HISTOGRAM, "How long edit cycles were open.", ("project",), bounds=SPANS_S),
    Metric(
        "plan_dispatch_seconds",
        HISTOGRAM,
        "From the moment when nothing a task depends on was open to its first start.",
        ("project",),
        bounds=SPANS_S,
    ),
)
#: What there is now, asked when somebody looks.
LEVELS = (
    Metric("items", GAUGE, "Items, by status; those that wait for a person are asking.", own="status"),
    Metric("queue_depth", GAUGE, "Items that may be claimed.", ("priority",)),
    Metric("oldest_ready_seconds", GAUGE, "How long the oldest item that may be claimed has been there."),
    Metric("running", GAUGE, "Runs that go on, each of which holds a lock; counted to 10,000.", _WORK),
    Metric("oldest_run_seconds", GAUGE, "How long the oldest run goes on.", _WORK),
    Metric("questions_open", GAUGE, "Items that wait for the answer of a person."),
    Metric("items_stopped", GAUGE, "Items that wait for a person, since they woke too often in a row."),
    Metric("plan_cycles_open", GAUGE, "Edit cycles that are open: their plans give out no task."),
    Metric("oldest_plan_cycle_seconds", GAUGE, "How long the oldest edit cycle is open."),
    Metric("plan_ends_owed", GAUGE, "Ends of tasks that editors owe an answer to."),
    Metric("deliveries_waiting", GAUGE, "Deliveries of GitHub that wait to be decided on."),
    Metric("deliveries_left", GAUGE, "Deliveries of GitHub that were given up on and wait for a person."),
    Metric("oldest_delivery_seconds", GAUGE, "How long the oldest delivery that nobody gave up on waits."),
    Metric("effects_owed", GAUGE, "Effects that are owed to GitHub."),
    Metric("effects_overdue_seconds", GAUGE, "How long the next effect has been due."),
    Metric("effects_dead", GAUGE, "Effects that GitHub refused for good and that wait for a person."),
    Metric(
        "series_events",
        COUNTER,
        "What `series metrics` counts, of the first 1,000 series: promotions, prevented assignments.",
        own="event",
    ),
    Metric("workers", GAUGE, "Workers that were seen within the last minutes."),
    Metric("counting_behind", GAUGE, "1 while the counters lag behind the history, as after a long pause."),
)
BY_NAME: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in KEPT})
#: The value under which the sum of a histogram's spans is kept, in microseconds.
SUM = "sum_us"
#: And the bucket of spans beyond the last bound.
BEYOND = "+Inf"


class Line(NamedTuple):
    """A line of the history, with what it takes of its item. Null: it has none."""

    kind: str
    reason: str
    project: str | None
    type: str | None
    agent: str | None
    priority: int | None
    span_us: int | None
    #: What became of the item of an ended run, and the decision on an arrival.
    item_status: str | None
    verdict: str | None
    #: Of a task's first start: since when it waited for no other.
    dispatch_us: int | None
    #: Of an edit of a plan: the run that made it, its base, and the revision that it made.
    by_run: int | None
    base: int | None
    revision: int | None


class Count(NamedTuple):
    """One counter of the store."""

    metric: str
    #: The value of the metric's own label; of a histogram, a bound or `SUM`.
    value: str
    labels: Labels


_KINDS = {str(kind): kind for kind in EventKind}
_ARRIVALS = {EventKind.ITEM_DUPLICATE: "duplicate", EventKind.ITEM_REJECTED: "rejected"}
_ADDED = frozenset({EventKind.ITEM_ADDED, EventKind.ITEM_COALESCED, EventKind.ITEM_OBSERVED, *_ARRIVALS})
#: How items end with events of their own, and how runs end.
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
    """Which labels are in use, and what a new one is called. It forgets nothing."""

    def __init__(self, known: Iterable[Labels]) -> None:
        self.sets = set(known)
        self._values: dict[str, set[str]] = {label: set() for label in LABELS}
        for labels in self.sets:
            for label, value in zip(LABELS, labels, strict=True):
                self._values[label].add(value)

    def named(self, labels: Labels) -> Labels:
        """The labels under which this is counted: as they are, or `other` where there are too many."""
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


def counts(lines: Iterable[Line], naming: Naming) -> dict[Count, int]:
    """What some lines of the history add to the counters."""
    found: dict[Count, int] = {}
    for line in lines:
        for metric, value, n in _counted(line):
            count = Count(metric, value, naming.named(_labels(line, BY_NAME[metric].labels)))
            found[count] = found.get(count, 0) + n
    return found


def _labels(line: Line, wanted: tuple[str, ...]) -> Labels:
    priority = "" if line.priority is None else str(line.priority)
    said = Labels(line.project or "", line.type or "", line.agent or "", priority)
    return Labels(*(value if name in wanted else "" for name, value in zip(LABELS, said, strict=True)))


def _counted(line: Line) -> Iterator[tuple[str, str, int]]:  # noqa: PLR0912  (each kind of line once)
    kind, reason = _KINDS.get(line.kind), line.reason
    if kind is None:  # a newer version that works on the same store has written it
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
    """A span in its bucket. A clock that was set back makes no span of less than nothing."""
    span_us = max(0, span_us)
    bounds = BY_NAME[metric].bounds
    at = bisect_left(bounds, span_us / US_PER_S)
    yield metric, bound_text(bounds[at]) if at < len(bounds) else BEYOND, 1
    yield metric, SUM, span_us


def bound_text(bound_s: float) -> str:
    """How a bucket is called."""
    return f"{bound_s:g}"
