"""Metrics on every backend: they agree with `stats`, count every line once, and never fall."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interlock.core.counters import SETS_MAX, VALUES_MAX
from interlock.core.errors import CycleExpired, EditRefused
from interlock.core.model import NewItem
from interlock.service.contract import MetricView, Service
from interlock.store import metrics
from interlock.store.series_notes import Note
from tests.conformance.conftest import OpenService
from tests.conformance.planner import EDITOR, Planner, add, edge
from tests.conformance.scene import LANE, Scene


class Numbers:
    """The samples of one look, by the name of the metric."""

    def __init__(self, found: list[MetricView]) -> None:
        self.metrics = {metric.name.removeprefix("interlock_"): metric for metric in found}

    def __call__(self, metric: str, suffix: str | None = None, **labels: str) -> float:
        """The sum of the samples that have these labels."""
        samples = self.metrics[metric].samples
        wanted = labels.items()
        return sum(
            sample.value
            for sample in samples
            if suffix in (None, sample.suffix) and wanted <= dict(sample.labels).items()
        )

    def by(self, metric: str, label: str) -> dict[str, float]:
        found: Counter[str] = Counter()
        for sample in self.metrics[metric].samples:
            found[sample.labels[label]] += int(sample.value)
        return {name: n for name, n in found.items() if n}

    @property
    def counters(self) -> dict[tuple[str, str], float]:
        return {
            (view.name + sample.suffix, str(sorted(sample.labels.items()))): sample.value
            for view in self.metrics.values()
            if view.kind != "gauge"
            for sample in view.samples
        }


def look(service: Service) -> Numbers:
    return Numbers(service.metrics())


def live(scene: Scene) -> None:
    """Something of everything that happens to items."""
    scene.service.set_mode(scope="lane", value="watched:", mode="observe")
    for _ in range(2):
        scene.put("watched", lane="watched:1")
    scene.put("urgent", priority=9, type="bug", project="acme")
    first = scene.claim()
    scene.clock.advance(2.0)
    scene.done(first)
    for _ in range(2):
        scene.done(scene.claim())
    owner = scene.put_running(lane=LANE, agent="coder", policy="coalesce", message="a")
    scene.add(lane=LANE, agent="coder", policy="coalesce", message="b")
    scene.put("other's", lane=LANE, agent="tester", policy="queue")
    scene.add("no room", lane=LANE, policy="reject")
    scene.add("once", dedupe_key="k")
    scene.add("once", dedupe_key="k")
    scene.done(owner, seen=2)
    zombie = scene.claim("tester")
    scene.lose(zombie)
    assert scene.done(zombie).refusal is not None
    scene.fail(scene.claim("tester"), retry=False)
    scene.fail(scene.claim())
    scene.cancel(scene.put("not wanted"))


def test_the_counters_say_what_stats_says(scene: Scene) -> None:
    live(scene)
    stats, now = scene.service.stats(), look(scene.service)
    assert now("claims") == stats.claims > 5
    ends = now.by("runs", "outcome")
    assert ends["succeeded"] == stats.completions
    assert (ends["lost"], stats.lease_losses) == (1, 1)
    assert ends["failed"] + ends["lost"] == stats.failures
    assert now("refused_writes", reason="lease_lost") == stats.refused_writes == 1
    assert now("promotions") == stats.promotions == 1
    items = now.by("items_ended", "status")
    assert (items["failed"], items["coalesced"]) == (stats.failed_items, stats.coalesced)
    assert {f"would_be_{name}": n for name, n in now.by("observed", "would_be").items()} == stats.would_have
    decisions = now.by("arrivals", "decision")
    assert (decisions["duplicate"], decisions["rejected"]) == (stats.duplicates, stats.rejected) == (1, 1)
    assert now.by("items", "status") == stats.items
    assert now.by("queue_depth", "priority") == {str(p): n for p, n in stats.depth_by_priority.items()}
    assert now("lock_seconds", "_count") == sum(ends.values())
    assert now("time_to_claim_seconds", "_count") == now("claims") - 1, "one item was claimed twice"
    assert now("lock_seconds", "_sum", type="bug") == 2.0
    assert now("counting_behind") == 0


def test_ended_items_are_those_that_there_are(scene: Scene) -> None:
    live(scene)
    now = look(scene.service)
    ended = {status: n for status, n in now.by("items", "status").items() if status in _TERMINAL}
    assert now.by("items_ended", "status") == ended


_TERMINAL = ("completed", "failed", "cancelled", "superseded", "coalesced")


def test_a_second_look_counts_nothing_twice_and_another_service_sees_the_same(
    scene: Scene, open_service: OpenService
) -> None:
    live(scene)
    first = look(scene.service).counters
    assert look(scene.service).counters == first
    restarted = open_service()
    assert look(restarted).counters == first
    scene.done(scene.put_running("more", agent="extra"))
    later = look(restarted).counters
    assert all(later[name] >= n for name, n in first.items()), "no counter falls"
    assert sum(later.values()) > sum(first.values())


def test_many_who_count_at_once_count_each_line_once(
    open_service: OpenService, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "LINES", 7)
    look(scene.service)
    for _ in range(10):
        scene.service.add([NewItem(title="work", project=f"p{n}") for n in range(10)])
    services = [scene.service, *(open_service() for _ in range(3))]
    with ThreadPoolExecutor(len(services)) as pool:
        for _ in range(6):
            list(pool.map(lambda service: service.metrics(), services))
    assert look(scene.service)("arrivals", decision="admitted") == 100


def test_counting_goes_on_step_by_step_and_says_that_it_lags(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(scene.service)
    monkeypatch.setattr(metrics, "LINES", 5)
    monkeypatch.setattr("interlock.service.metrics.STEPS", 2)
    scene.service.add([NewItem(title="work") for _ in range(25)])
    seen = [(now("arrivals"), now("counting_behind")) for now in (look(scene.service) for _ in range(3))]
    assert seen == [(10, 1), (20, 1), (25, 0)]


def test_counting_begins_at_the_end_of_a_long_history(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "LINES", 5)
    scene.service.add([NewItem(title="old") for _ in range(6)])
    assert look(scene.service)("arrivals") == 0
    scene.put("new")
    assert look(scene.service)("arrivals") == 1


def test_a_kind_of_line_that_only_a_newer_version_knows_is_told_and_counts_as_nothing(
    scene: Scene, query: Callable[[str], object]
) -> None:
    """Workers of two versions are there while a fleet is upgraded."""
    look(scene.service)
    scene.put("old"), scene.put("new")
    query("UPDATE events SET kind = 'item.teleported' WHERE seq = (SELECT max(seq) FROM events)")
    assert look(scene.service)("arrivals") == 1
    assert [event.kind for event in scene.history()] == ["item.added", "item.teleported"]
    scene.put("newer")
    assert look(scene.service)("arrivals") == 2


def test_ten_thousand_projects_and_agents_have_a_bounded_number_of_labels(scene: Scene, backend: str) -> None:
    count = 10_000 if backend == "sqlite" else 1_000
    for start in range(0, count, 1_000):
        numbers = range(start, start + 1_000)
        scene.service.add(
            [NewItem(title="w", project=f"p{n}", agent=f"a{n}", priority=n % 900) for n in numbers]
        )
        now = look(scene.service)
    while now("counting_behind"):
        now = look(scene.service)
    assert now("arrivals") == count, "none is lost"
    assert now("queue_depth") == count
    samples = now.metrics["arrivals"].samples
    assert len(samples) <= SETS_MAX + 16
    for label in ("project", "agent", "priority"):
        assert len({sample.labels[label] for sample in samples}) <= VALUES_MAX + 2
    assert now("arrivals", project="p0", agent="a0") == 1
    assert now("arrivals", project="other") >= count - SETS_MAX
    assert len(now.metrics["queue_depth"].samples) <= VALUES_MAX + 2


def test_current_locks_have_their_labels_and_ages(scene: Scene) -> None:
    scene.put_running("work", project="acme", type="bug", priority=8, agent="coder")
    scene.clock.advance(30.0)
    scene.put_running("work", project="acme", type="bug", priority=8, agent="coder")
    now = look(scene.service)
    labels = {"project": "acme", "type": "bug", "agent": "coder", "priority": "8"}
    assert now("running", **labels) == now("running") == 2
    assert now("oldest_run_seconds", **labels) == pytest.approx(30, abs=0.1)
    scene.put("waiting")
    scene.clock.advance(5.0)
    assert look(scene.service)("oldest_ready_seconds") == pytest.approx(5, abs=0.1)


def test_what_waits_for_people_is_shown(scene: Scene) -> None:
    scene.service.ask(scene.put_running("unclear").run, "Which?")
    assert look(scene.service)("questions_open") == 1
    assert look(scene.service)("questions", step="asked") == 1


def test_plans_are_counted_as_their_own_figures_count_them(planner: Planner) -> None:
    planner.make("A>B, C, D", editor=EDITOR, edit_deadline_s=30)
    planner.do("A")
    now = look(planner.service)
    assert (now("plan_cycles_open"), now("plan_ends_owed")) == (1, 1)
    edit = planner.ask()
    planner.clock.advance(4.0)
    with pytest.raises(EditRefused):
        planner.edit(edge("B", "B"), lease=edit)
    planner.edit(add("E"), lease=edit)
    planner.edit(add("F"))
    planner.edit(add("G"), base=planner.view().revision - 1)
    planner.do("C")
    late = planner.ask()
    planner.pass_s(30)
    with pytest.raises(CycleExpired):
        planner.edit(add("H"), lease=late)
    planner.clock.advance(3.0)
    planner.done(planner.start("B"))
    planner.fail(planner.ask(), retry=False)
    stats, now = planner.service.plan_stats(planner.plan), look(planner.service)
    assert now.by("plan_edits", "outcome") == {
        "completed": stats.edits_completed,
        "timed_out": stats.edits_timed_out,
        "refused": stats.edits_refused,
        "failed": stats.edits_failed,
    }
    assert (now("plan_cycles"), now("plan_edits_rebased")) == (stats.cycles, stats.edits_rebased) == (3, 1)
    assert now("plan_lock_seconds", "_sum") == pytest.approx(stats.lock_s)
    assert (now("plan_cycles_open"), now("plan_ends_owed")) == (0, 0)
    assert now("plans_made") == 1
    assert now("plan_dispatch_seconds", "_count") == 3, "A, B and C were started"
    assert now("plan_dispatch_seconds", "_sum") == pytest.approx(4 + 37, abs=0.5), "C, then B"


def test_what_is_counted_of_series_is_added_up(scene: Scene) -> None:
    github = scene.service.store.github  # type: ignore[attr-defined]
    for n in (1, 2):
        counts = {"promotion_events": n, "duplicate_prevented": 3, "retries": 0, "conflicts": 0}
        page = json.dumps({"counts": counts})
        assert github.keep_note(Note(f"series:acme/app/RFC-{n}", 1, page))
    for n, broken in enumerate(("{}", "[]", "not JSON", '{"counts": 7}'), 3):
        assert github.keep_note(Note(f"series:acme/app/RFC-{n}", 1, broken))
    assert look(scene.service).by("series_events", "event") == {
        "promotion_events": 3,
        "duplicate_prevented": 6,
    }


def test_a_pruned_item_leaves_its_counts(scene: Scene) -> None:
    done = scene.put_running("work", type="bug")
    scene.done(done)
    before = look(scene.service).counters
    scene.clock.advance(100.0)
    store: Any = scene.service.store  # type: ignore[attr-defined]
    assert store.prune_items(store.now_us(), 0, 10, really=True).items == 1
    assert look(scene.service).counters == before
