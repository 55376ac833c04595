"""What happened while a person was away, on every backend."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest

from interlock.core.errors import InvalidInput
from interlock.service.contract import RecapEntryView, RecapView
from interlock.service.local import LocalService
from interlock.store.links import Head, Link
from tests.conformance.scene import LANE, Scene

HOUR_S = 3_600.0
#: Of the random story; more of them with the environment variable.
STEPS, STORIES = 120, int(os.environ.get("INTERLOCK_RECAP_STORIES", "1"))


def items(entries: tuple[RecapEntryView, ...]) -> list[int]:
    return [each.item for each in entries]


def recap(scene: Scene, window_s: float = HOUR_S, **more: Any) -> RecapView:
    return scene.service.recap(window_s=window_s, **more)


def test_each_outcome_has_its_section(scene: Scene) -> None:
    """One hour of a store. Taken out: any line of the rules in `core/recap.py`."""
    before = scene.put_running("before")
    scene.done(before)
    scene.clock.advance(HOUR_S)

    slow = scene.put("slow")
    scene.clock.advance(600)
    lease = scene.claim()
    scene.clock.advance(60)
    scene.done(lease)
    bad = scene.put_running("bad", lane=LANE)
    scene.fail(bad, error="boom " * 1_000, retry=False)
    again = scene.put_running("fails once", max_attempts=2)
    scene.fail(again, error="flaky")
    scene.pass_s(60)
    scene.done(scene.claim())
    first = scene.put_running("holds", lane="issue:acme/app#7", agent="coder")
    old = scene.put("old", lane="issue:acme/app#7", agent="coder", policy="latest")
    new = scene.put("new", lane="issue:acme/app#7", agent="coder", policy="latest")
    scene.cancel(scene.put("unwanted"))
    question = scene.put_running("colour")
    scene.service.ask(question.run, "Which colour?")

    found = recap(scene)
    assert found.complete
    assert dict(found.counts) == {
        "finished": 2,
        "failed": 1,
        "superseded": 1,
        "cancelled": 1,
        "retries": 1,
        "runs": 6,
    }
    assert items(found.finished) == [again.item.id, slow]
    assert found.finished[1].span_s == pytest.approx(60, abs=1)
    (failed,) = found.failed
    assert (failed.item, failed.lane, failed.run) == (bad.item.id, LANE, bad.fence)
    assert failed.error == ("boom " * 1_000)[:1_000]
    assert [(each.item, each.by_item) for each in found.superseded] == [(old, new)]
    assert found.waits[0].item == slow
    assert found.waits[0].span_s == pytest.approx(600, abs=1)
    assert found.waits[0].error is None
    assert {note.kind for note in found.needs} == {"question", "dead_letter"}
    assert dict(found.needs_counts) == {"question": 1, "dead_letter": 1}
    assert scene.status(first.item.id) == "in_progress"


def test_a_retry_takes_a_failure_back(scene: Scene) -> None:
    bad = scene.put_running("bad")
    scene.fail(bad, retry=False)
    assert items(recap(scene).failed) == [bad.item.id]
    scene.clock.advance(1)
    scene.service.retry(bad.item.id)
    assert items(recap(scene).failed) == []
    scene.done(scene.claim())
    found = recap(scene)
    assert (items(found.finished), items(found.failed)) == ([bad.item.id], [])


def test_a_section_has_few_rows_and_says_how_many_there_are(scene: Scene) -> None:
    for n in range(7):
        scene.clock.advance(1)
        scene.fail(scene.put_running(f"work {n}"), retry=False, error="x")
    found = recap(scene, limit=3)
    assert [each.title for each in found.failed] == ["work 6", "work 5", "work 4"]
    assert (len(found.waits), found.counts["failed"]) == (3, 7)
    assert (len(found.needs), found.needs_counts["dead_letter"], found.needs_more) == (5, 7, 2)


@pytest.mark.parametrize(("window_s", "limit"), [(0, 5), (1e12, 5), (60, 0), (60, 101), (True, 5)])
def test_wrong_numbers_are_refused(scene: Scene, window_s: Any, limit: Any) -> None:
    with pytest.raises(InvalidInput):
        recap(scene, window_s, limit=limit)


def test_ended_items_have_their_pull_requests_and_checks(scene: Scene) -> None:
    if not isinstance(scene.service, LocalService):
        pytest.skip("a server follows pull requests by itself")
    lease = scene.put_running("fix")
    github = scene.service.store.github
    github.repository(1, "acme/app")
    for number in range(5, 10):
        page = f"https://github.com/acme/app/pull/{number}"
        head = Head(1, number, "", 1, "a" * 40, "fix", page, "open", "failure", "1 failed", followed=True)
        github.links.advance(head, [Link(lease.fence, lease.item.id, 1, number, "", "trailer")], [])
    scene.done(lease)
    (finished,) = recap(scene).finished
    assert [link.pull_request for link in finished.links] == [9, 8, 7], "the newest three"
    newest = finished.links[0]
    assert (newest.repository, newest.outcome, newest.ci_outcome) == ("acme/app", "open", "failure")
    assert newest.checks_url == f"{newest.url}/checks"


def test_it_reads_as_much_of_a_large_store_as_of_a_small_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the limit of the events, or the one statement for all rows of a section."""
    if not isinstance(scene.service, LocalService):
        pytest.skip("a server counts no statements")
    monkeypatch.setattr("interlock.store.reads.EVENTS_MAX", 60)
    reads = scene.service.store
    statements: Counter[str] = Counter()
    rows = 0
    usual = reads._read  # type: ignore[attr-defined]

    def counted(name: str, /, **params: Any) -> list[Any]:
        nonlocal rows
        found: list[Any] = usual(name, **params)
        statements[name] += 1
        rows += len(found)
        return found

    def costs() -> tuple[int, int]:
        nonlocal rows
        statements.clear()
        rows = 0
        monkeypatch.setattr(reads, "_read", counted)
        found = recap(scene, 24 * HOUR_S, limit=5)
        monkeypatch.setattr(reads, "_read", usual)
        assert not found.complete
        assert len(found.finished) == 5
        assert statements["recap_events"] == 1
        return sum(statements.values()), rows

    found = []
    for count in (30, 150):
        for _ in range(count):
            scene.clock.advance(1)
            scene.done(scene.put_running())
        found.append(costs())
    assert found[0] == found[1]


# -- a random story, and a plain model of it ----------------------------------------------------------

ENDED = ("completed", "failed", "superseded", "cancelled", "coalesced")
SECTIONS = {"completed": "finished", "failed": "failed", "superseded": "superseded", "cancelled": "cancelled"}


class Story:
    """Random commands, and for each item when its status changed to an end or back: no event is looked at."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene, self.random = scene, random.Random(seed)
        self.leases: list[Any] = []
        self.changes: list[tuple[int, int, str]] = []
        self.statuses: dict[int, str] = {}
        self.waits: list[tuple[int, int, int]] = []
        self.begun: set[int] = set()
        self.retries: list[int] = []
        self.runs: list[int] = []

    def step(self) -> None:
        self.scene.clock.advance(self.random.uniform(1, 300))
        action = self.random.choices(
            (self.add, self.claim, self.done, self.fail, self.lose, self.cancel, self.retry),
            (8, 8, 4, 4, 1, 1, 2),
        )[0]
        action()
        self.look()

    def add(self) -> None:
        lane = self.random.choice([None, "issue:a/b#1", "issue:a/b#2"])
        policy = self.random.choice(["queue", "latest", "coalesce"])
        self.scene.add(lane=lane, agent="coder", policy=policy, max_attempts=self.random.choice([1, 2]))

    def claim(self) -> None:
        for lease in self.scene.service.next("coder", lease_s=600):
            self.leases.append(lease)
            now_us = self.scene.clock.now_us
            self.runs.append(now_us)
            if lease.item.id not in self.begun:
                self.begun.add(lease.item.id)
                added_us = round(lease.item.created_at.timestamp() * 1_000_000)
                self.waits.append((now_us, now_us - added_us, lease.item.id))

    def take(self) -> Any:
        return self.leases.pop(self.random.randrange(len(self.leases))) if self.leases else None

    def done(self) -> None:
        if (lease := self.take()) is not None:
            self.scene.done(lease)

    def fail(self) -> None:
        if (lease := self.take()) is not None and self.scene.fail(lease).refusal is None:
            self.count_retry(lease)

    def lose(self) -> None:
        """All current leases run out."""
        held = [lease for lease in self.leases if self.scene.item(lease.item.id).run == lease.fence]
        self.leases.clear()
        self.scene.pass_s(700)
        for lease in held:
            self.count_retry(lease)

    def count_retry(self, lease: Any) -> None:
        if self.scene.status(lease.item.id) not in ENDED:
            self.retries.append(self.scene.clock.now_us)

    def cancel(self) -> None:
        waiting = [i.id for i in self.scene.unfinished() if i.status != "in_progress"]
        if waiting:
            self.scene.cancel(self.random.choice(waiting))

    def retry(self) -> None:
        failed = [item for item, status in self.statuses.items() if status == "failed"]
        if failed:
            self.scene.service.retry(self.random.choice(failed))

    def look(self) -> None:
        for item in self.scene.every(limit=10_000):
            before = self.statuses.get(item.id)
            if item.status != before and (item.status in ENDED or before in ENDED):
                self.changes.append((self.scene.clock.now_us, item.id, item.status))
            self.statuses[item.id] = item.status

    def expected(self, window_s: float) -> tuple[dict[str, list[int]], list[tuple[int, int]], Counter[str]]:
        """The items of each section, the waits, and the counts."""
        since_us = self.scene.clock.now_us - round(window_s * 1_000_000)
        last = {item: (at_us, status) for at_us, item, status in self.changes if at_us >= since_us}
        sections: dict[str, list[int]] = {name: [] for name in SECTIONS.values()}
        for item, (_, status) in last.items():
            if status in SECTIONS:
                sections[SECTIONS[status]].append(item)
        waits = [(wait_us, item) for at_us, wait_us, item in self.waits if at_us >= since_us]
        counts = Counter({name: len(found) for name, found in sections.items()})
        counts["retries"] = sum(at_us >= since_us for at_us in self.retries)
        counts["runs"] = sum(at_us >= since_us for at_us in self.runs)
        return sections, sorted(waits, reverse=True), counts


@pytest.mark.parametrize("seed", range(STORIES))
def test_it_agrees_with_a_plain_model_of_a_random_story(scene: Scene, seed: int) -> None:
    story = Story(scene, seed)
    for _ in range(STEPS):
        story.step()
    scene.clock.advance(0.5)
    assert len({status for *_, status in story.changes}) >= 4, "a story in which much happens"
    for hours in (0.01, 0.5, 1, 2, 3, 24):
        sections, waits, counts = story.expected(hours * HOUR_S)
        found = recap(scene, hours * HOUR_S, limit=100)
        assert Counter({n: c for n, c in found.counts.items() if c}) == +counts
        for name in ("finished", "failed", "superseded"):
            entries = getattr(found, name)
            assert sorted(items(entries)) == sorted(sections[name]), (name, hours)
            assert [each.at for each in entries] == sorted((each.at for each in entries), reverse=True)
        spans = [(round((each.span_s or 0) * 1_000_000), each.item) for each in found.waits]
        assert sorted(spans, reverse=True) == waits[:100]
        assert [span for span, _ in spans] == [span for span, _ in waits[:100]]
