"""What lines of the history add to the counters, and how many labels there can be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from interlock.core.counters import (
    BY_NAME,
    KEPT,
    LABELS,
    LEVELS,
    OTHER,
    SETS_MAX,
    SUM,
    VALUES_MAX,
    Count,
    HistoryLine,
    Labels,
    Naming,
    counts,
)
from interlock.core.model import EventKind

#: Kinds of events that say nothing which a metric tells.
UNCOUNTED = {
    *(EventKind.ITEM_REENTERED, EventKind.ITEM_EDITED, EventKind.CANCEL_REQUESTED, EventKind.MESSAGE_ADDED),
    *(EventKind.AGENT_SET, EventKind.AGENT_REMOVED, EventKind.AGENT_PAUSED, EventKind.AGENT_RESUMED),
    *(EventKind.AGENT_WALLED, EventKind.POOL_SET, EventKind.POOL_REMOVED, EventKind.PROJECT_PAUSED),
    *(EventKind.BUDGET_SET, EventKind.BUDGET_REMOVED),
    *(EventKind.PROJECT_RESUMED, EventKind.MODE_SET, EventKind.STORE_CHANGED, EventKind.STORE_LEAPT),
    *(EventKind.CLOCK_STEPPED, EventKind.PLAN_PAUSED, EventKind.PLAN_RESUMED, EventKind.PLAN_DEADLINE_SET),
    *(EventKind.PLAN_CANCELLED, EventKind.PLAN_REOPENED, EventKind.BLOCK_SET, EventKind.BLOCK_REMOVED),
    *(EventKind.GATE_CLOSED, EventKind.GATE_OPENED, EventKind.GATE_REMOVED, EventKind.SERIES_YIELDED),
}
EVERYWHERE = Labels("default", "task", "coder", "5")


def line(kind: EventKind, reason: str = "", **more: Any) -> HistoryLine:
    fields: dict[str, Any] = dict.fromkeys(HistoryLine._fields)
    labels = {**EVERYWHERE._asdict(), "priority": 5}
    return HistoryLine(**{**fields, **labels, "kind": kind.value, "reason": reason, **more})


def counted(*lines: HistoryLine) -> dict[tuple[str, str], int]:
    found: Counter[tuple[str, str]] = Counter()
    for count, n in counts(lines, Naming(())).items():
        found[count.metric, count.value] += n
    return dict(found)


@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_of_event_is_counted_or_known_to_be_left_out(kind: EventKind) -> None:
    assert bool(counted(line(kind, base=1, revision=2))) == (kind not in UNCOUNTED)


def test_the_words_of_an_operator_make_no_label() -> None:
    assert counted(line(EventKind.ITEM_PARKED, "as I like")) == {("parked", OTHER): 1}
    assert counted(line(EventKind.ITEM_PARKED, "back_off")) == {("parked", "back_off"): 1}


def test_an_end_of_a_run_counts_its_lock_and_its_item_only_if_that_ended() -> None:
    done = line(EventKind.RUN_SUCCEEDED, span_us=2_000_000)
    again = line(EventKind.RUN_FAILED, span_us=70_000_000, item_status="waiting")
    last = line(EventKind.RUN_LOST, span_us=10**12, item_status="failed")
    assert counted(done, again, last) == {
        ("runs", "succeeded"): 1,
        ("runs", "failed"): 1,
        ("runs", "lost"): 1,
        ("items_ended", "completed"): 1,
        ("items_ended", "failed"): 1,
        ("lock_seconds", "5"): 1,
        ("lock_seconds", "300"): 1,
        ("lock_seconds", "+Inf"): 1,
        ("lock_seconds", SUM): 10**12 + 72_000_000,
    }


def test_a_bound_belongs_to_its_bucket_and_a_clock_set_back_makes_no_negative_span() -> None:
    spans = [line(EventKind.RUN_STARTED, span_us=us) for us in (1_000_000, 1_000_001, -5)]
    found = counted(*spans)
    assert [found["time_to_claim_seconds", le] for le in ("0.1", "1", "5")] == [1, 1, 1]
    assert found["time_to_claim_seconds", SUM] == 2_000_001


def test_an_edit_is_counted_by_the_one_event_that_settles_it() -> None:
    lines = [
        line(EventKind.RUN_SUCCEEDED, type="plan.edit", span_us=1),
        line(EventKind.PLAN_MODIFIED, by_run=7, base=1, revision=2),
        line(EventKind.PLAN_MODIFIED, base=1, revision=3),
        line(EventKind.PLAN_EDIT_REFUSED, "edit_cycle_expired"),
        line(EventKind.PLAN_EDIT_REFUSED, "stale_revision"),
        line(EventKind.PLAN_CYCLE_CLOSED, "edit_answered", span_us=1),
        line(EventKind.PLAN_CYCLE_CLOSED, "edit_cycle_expired", span_us=1),
        line(EventKind.PLAN_CYCLE_CLOSED, "operator", span_us=1),
    ]
    found = counted(*lines)
    edits = {value: n for (metric, value), n in found.items() if metric == "plan_edits"}
    assert edits == {"completed": 2, "refused": 1, "timed_out": 1, "failed": 1}
    assert found["plan_edits_rebased", ""] == 1


def test_a_metric_has_only_its_own_labels() -> None:
    found = counts([line(EventKind.LANE_PROMOTED)], Naming(()))
    assert found == {Count("promotions", "", Labels("default", "task")): 1}


@pytest.mark.parametrize("different", [("project",), ("agent",), ("project", "agent"), LABELS])
def test_ten_thousand_names_make_a_bounded_number_of_labels_and_lose_nothing(
    different: tuple[str, ...],
) -> None:
    naming, total = Naming(()), 0
    sets: set[Labels] = set()
    for n in range(10_000):
        more: dict[str, Any] = {name: n if name == "priority" else f"{name}-{n}" for name in different}
        found = counts([line(EventKind.RUN_SUCCEEDED, span_us=0, **more)], naming)
        total += sum(c for count, c in found.items() if count.metric == "runs")
        sets |= {count.labels for count in found}
        if n % 500 == 0:
            naming = Naming(sets)  # as the next one reads it from the store
    assert total == 10_000
    assert len(sets) <= SETS_MAX + 2 ** len(LABELS)
    for name in LABELS:
        assert len({getattr(labels, name) for labels in sets}) <= VALUES_MAX + 2
    assert any(OTHER in labels for labels in sets)


def test_a_name_that_is_known_keeps_its_own_counter_when_there_is_no_room_for_more() -> None:
    known = [Labels(f"project-{n}", "", "") for n in range(VALUES_MAX)]
    naming = Naming(known)
    assert naming.named(Labels("project-7")) == Labels("project-7")
    assert naming.named(Labels("new")) == Labels(OTHER)


def test_metrics_are_named_and_described_as_prometheus_wants_them() -> None:
    assert len(BY_NAME) == len(KEPT)
    names = [metric.name for metric in (*KEPT, *LEVELS)]
    assert len(set(names)) == len(names)
    for metric in (*KEPT, *LEVELS):
        assert metric.help.endswith(".")
        assert metric.own not in LABELS
        assert (metric.kind == "histogram") == bool(metric.bounds)
