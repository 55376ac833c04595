"""Random histories of a series: after one reconcile it is what the plain model says, and never has two.

`INTERLOCK_SERIES_STORIES=500` tells as many. Issues are opened, retitled, assigned, merged, abandoned,
reopened and deleted, dependencies come and go, deliveries are lost since nobody hands them on, two reconcile
at once, and a process dies before or after any of its requests and writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.core.series.standing import Choices, Member, Unassigned
from interlock.core.series.titles import Titles
from interlock.github.series.acting import Assigning
from interlock.github.series.cycle import Rules
from interlock.github.series.lane import SeriesLane
from interlock.github.series.notebook import Notebook, looks_of, numbers_of
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.github.series_desk import BOT, SeriesDesk
from tests.unit.series.model import World, expected

STORIES = int(os.environ.get("INTERLOCK_SERIES_STORIES", "12"))
SERIES = "RFC-093"


class Died(BaseException):
    """What no `except Exception` catches."""


class Mortal:
    """Something whose calls end the process, as it were, before or after the n-th of them."""

    def __init__(self, inner: Any, life: list[int]) -> None:
        self._inner, self._life = inner, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found) or name.startswith("_"):
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._tick()
            answer = found(*args, **named)
            self._tick()
            return answer

        return call

    def _tick(self) -> None:
        self._life[0] -= 1
        if self._life[0] <= 0:
            raise Died


@pytest.fixture
def desk(github: FakeGitHub, repo: Repository, tmp_path: Path) -> Iterator[SeriesDesk]:
    limits = github.faults.limits
    limits.creations_per_minute = limits.creations_per_hour = 10**9
    rules = Rules(assigning=Assigning(login=BOT), choices=Choices(unassigned=Unassigned.KEPT))
    desk = SeriesDesk(github, repo, f"sqlite:///{tmp_path}/store.db", rules, directory=tmp_path)
    yield desk
    desk.close()


def members(desk: SeriesDesk) -> list[Issue]:
    titles = Titles()
    found = []
    for issue in desk.repo.numbers.values():
        place = titles.place(issue.title)
        if issue.pull is None and not issue.deleted and issue.state == "open" and place is not None:
            found += [issue] if place.series == SERIES else []
    return found


def world(desk: SeriesDesk) -> World:
    """What is there now, for the model."""
    there = {issue.number for issue in members(desk)}
    lane = SeriesLane(desk.lanes, "acme/app", SERIES)
    page = Notebook(desk.notes, lane.name).read() or {}
    made = World(members={}, choices=desk.rules.choices, released=numbers_of(page, "released"))
    made.looks = looks_of(page)
    made.placed = list(lane.placed())
    for issue in members(desk):
        blockers = {other.number for other in issue.blocked_by if other.state == "open" and not other.deleted}
        place = Titles().place(issue.title)
        assert place is not None
        made.members[issue.number] = Member(
            number=issue.number,
            micro=place.micro,
            assigned=tuple(sorted(login.lower() for login in issue.assignees)),
            needs=tuple(f"#{n}" for n in sorted(blockers)),
            needs_own=tuple(sorted(blockers & there)),
        )
    return made


class Story:
    """Acts on a desk, each chosen by Hypothesis."""

    def __init__(self, desk: SeriesDesk, data: st.DataObject) -> None:
        self.desk, self._data = desk, data

    def pick(self, issues: list[Issue]) -> Issue | None:
        at = self._data.draw(st.integers(0, 9), label="issue")
        return issues[at % len(issues)] if issues else None

    def known(self) -> list[Issue]:
        return [i for i in self.desk.repo.numbers.values() if i.pull is None and not i.deleted]

    def open(self) -> None:
        self.desk.issue(self._data.draw(st.integers(1, 9)))

    def retitle(self) -> None:
        issue = self.pick(members(self.desk))
        if issue is not None:
            title = self._data.draw(st.sampled_from(["RFC-093-05: x", "RFC-094-01: x", "Nothing"]))
            issue.edit(by="alice", title=title)

    def assign(self) -> None:
        issue = self.pick(members(self.desk))
        if issue is not None:
            issue.assign(self._data.draw(st.sampled_from(["alice", BOT])), by="boss")

    def unassign(self) -> None:
        issue = self.pick([i for i in members(self.desk) if i.assignees])
        if issue is not None:
            issue.unassign(*issue.assignees, by="alice")

    def merge(self) -> None:
        issue = self.pick(members(self.desk))
        if issue is not None:
            self.desk.merge(issue)

    def close(self) -> None:
        issue = self.pick(members(self.desk))
        if issue is not None:
            issue.close(by="alice", reason=self._data.draw(st.sampled_from(["completed", "not_planned"])))

    def reopen(self) -> None:
        issue = self.pick([i for i in self.known() if i.state == "closed" and "RFC-" in i.title])
        if issue is not None and "State" not in issue.title:
            issue.reopen(by="alice")

    def delete(self) -> None:
        issue = self.pick(members(self.desk))
        if issue is not None:
            issue.delete(by="boss")

    def block(self) -> None:
        issue, other = self.pick(members(self.desk)), self.pick(members(self.desk))
        if issue is None or other is None or other is issue:
            return
        if other not in issue.blocked_by and issue not in other.blocked_by:
            issue.add_blocker(other, by="alice")

    def unblock(self) -> None:
        issue = self.pick([i for i in members(self.desk) if i.blocked_by])
        if issue is not None:
            issue.remove_blocker(issue.blocked_by[0], by="alice")

    def break_the_state_issue(self) -> None:
        found = [i for i in self.known() if i.title.endswith("Series State") and i.state == "open"]
        issue = self.pick(found)
        if issue is not None:
            issue.edit(by="alice", body="```json\n{}\n```")

    def acquire(self) -> None:
        issue = self.pick(members(self.desk))
        if issue is not None:
            self.desk.acquire(issue)

    def reconcile(self) -> None:
        self.desk.reconcile()

    def reconcile_twice_at_once(self) -> None:
        threads = [threading.Thread(target=self.desk.reconcile) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def die(self) -> None:
        """A reconcile ends before or after any of its writes to the store."""
        life = [self._data.draw(st.integers(1, 60), label="life")]
        keeper = self.desk.keeper()
        at: Any = keeper._at
        for name in ("lanes", "notes", "acting"):
            object.__setattr__(at, name, Mortal(getattr(at, name), life))
        with suppress(Died):
            keeper.reconcile()


ACTS: list[Callable[[Story], None]] = [
    Story.open,
    Story.open,
    Story.retitle,
    Story.assign,
    Story.unassign,
    Story.merge,
    Story.close,
    Story.reopen,
    Story.delete,
    Story.block,
    Story.unblock,
    Story.break_the_state_issue,
    Story.acquire,
    Story.reconcile,
    Story.reconcile_twice_at_once,
    Story.die,
    Story.die,
]


@settings(
    max_examples=STORIES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
@given(data=st.data())
def test_after_one_reconcile_a_series_is_what_the_model_says(desk: SeriesDesk, data: st.DataObject) -> None:
    for issue in list(desk.repo.numbers.values()):  # of the story before
        if not issue.deleted and issue.pull is None and "State" not in issue.title:
            issue.delete(by="boss")
    desk.reconcile()
    story = Story(desk, data)
    for _ in range(3):
        story.open()
    for act in data.draw(st.lists(st.sampled_from(ACTS), max_size=8), label="acts"):
        act(story)
    wanted = expected(world(desk))
    desk.reconcile()
    found = world(desk)
    assert found.active == wanted.active
    assert [p.number for p in found.placed if p.run is None] == wanted.line
    assigned = {number for number, member in found.members.items() if member.assigned}
    assert len(assigned) <= 1
    if not desk.service.owed_to_github().owed:  # a sender that died has the number leased for a while
        assert assigned == wanted.assigned
    gates = desk.service.gates(series=f"series:acme/app/{SERIES}")
    assert {int(gate.lane.rpartition("#")[2]): gate.open for gate in gates} == wanted.gates
    assert all(check.ok for check in desk.service.doctor())
