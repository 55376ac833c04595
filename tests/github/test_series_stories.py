"""Random histories of a series: after one reconcile it is what the plain model says, and never has two.

Issues are opened, retitled, assigned, merged, abandoned, reopened and deleted, dependencies come and go, and
deliveries come late, twice, in any order or never. Between any two requests to GitHub and writes to the
store, those of the sender included, a process dies, somebody does something, or another process reconciles.

`INTERLOCK_SERIES_STORIES=500` tells as many on each store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from interlock.core.errors import InvalidInput, NotFound
from interlock.core.series.snapshot import Member, SeriesOptions, Unassigned
from interlock.core.series.titles import Titles
from interlock.github.series.controller import SeriesController
from interlock.github.series.effects import AssignmentMethod
from interlock.github.series.lane import SeriesLane
from interlock.github.series.options import SeriesRules
from interlock.github.series.series_note import SeriesNote, looks_of, numbers_of
from interlock.github.series.triggers import repository_of
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.github.series_desk import BOT, Fate, SeriesDesk
from tests.unit.series.model import World, expected

CHOSEN = os.environ.get("INTERLOCK_SERIES_STORIES")
STORIES = {"sqlite": 12, "postgres18": 4, "git": 2}
SERIES = "RFC-093"
#: What `doctor` finds in tests: a clock that they move, and a server that keeps its files in memory.
OF_THE_TEST = ("clock_agrees", "writes_are_durable")
#: The interval of the workflow's schedule, by which the next reconcile comes.
CYCLE_S = 900


class Died(BaseException):
    """What no `except Exception` catches."""


def opened(
    request: pytest.FixtureRequest, github: FakeGitHub, repo: Repository, directory: Path, store: str
) -> SeriesDesk:
    limits = github.faults.limits
    limits.hourly = dict.fromkeys(limits.hourly, 10**9)
    limits.creations_per_minute = limits.creations_per_hour = 10**9
    rules = SeriesRules(
        assigning=AssignmentMethod(login=BOT), choices=SeriesOptions(unassigned=Unassigned.KEPT)
    )
    url = f"sqlite:///{directory}/store.db"
    if store == "git":
        url = f"git+file://{repo.bare}"
    elif store == "postgres18":
        url = request.getfixturevalue("pg_database18")
    return SeriesDesk(github, repo, url, rules, directory=directory, in_step=True)


@pytest.fixture
def desk(
    request: pytest.FixtureRequest, github: FakeGitHub, repo: Repository, tmp_path: Path
) -> Iterator[SeriesDesk]:
    desk = opened(request, github, repo, tmp_path, request.param)
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
    page = SeriesNote(desk.notes, lane.name).read() or {}
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

    # -- what keepers do ----------------------------------------------------------------------------

    def keeper(self, fate: Fate | None = None) -> SeriesController:
        """Of another process; on git of another machine."""
        lanes = self.desk.git_lanes("another") if self.desk.in_git else None
        return self.desk.keeper(lanes=lanes, fate=fate)

    def operation(self) -> Callable[[SeriesController], object]:
        """What a keeper is asked to do."""
        issue = self.pick(members(self.desk))
        what = self._data.draw(st.sampled_from(["reconcile", "reconcile", "acquire", "release", "promote"]))
        if what == "reconcile" or issue is None:
            return lambda keeper: keeper.reconcile()
        number = issue.number
        if what == "acquire":
            return lambda keeper: keeper.acquire(number)
        if what == "release":
            return lambda keeper: keeper.release(number)
        return lambda keeper: keeper.promote(SERIES, force=True)

    def keep(self) -> None:
        self.operation()(self.keeper())

    def keep_twice_at_once(self) -> None:
        keepers = [self.desk.keeper(), self.keeper()]
        threads = [threading.Thread(target=keeper.reconcile) for keeper in keepers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def take_in(self) -> None:
        """Of deliveries, old and new, some come again and some never."""
        told = self.desk.github.deliveries[-6:]
        for nth in self._data.draw(st.lists(st.integers(0, 5), max_size=3), label="deliveries"):
            if told and repository_of(told[nth % len(told)].event, told[nth % len(told)].body):
                self.keeper().reconcile()

    def die(self) -> None:
        """A process ends between two of its requests and writes."""

        def end() -> None:
            raise Died

        with suppress(Died):
            self.operation()(self.keeper(self._fate(end)))

    def be_interrupted(self) -> None:
        """Between two requests of a process somebody does something, or another one reconciles."""
        acts: list[Callable[[Story], None]] = [*HANDS, Story.keep, Story.die]
        act = self._data.draw(st.sampled_from(acts), label="meanwhile")
        with suppress(NotFound, InvalidInput):  # what was asked for is gone meanwhile
            self.operation()(self.keeper(self._fate(lambda: act(self))))

    def _fate(self, what: Callable[[], object]) -> Fate:
        return Fate(self._data.draw(st.integers(1, 40), label="after"), what)


#: What people do.
HANDS: list[Callable[[Story], None]] = [
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
]
ACTS = [*HANDS, Story.keep, Story.keep_twice_at_once, Story.take_in, *2 * [Story.die, Story.be_interrupted]]


@pytest.mark.parametrize("desk", STORIES, indirect=True)
def test_after_one_reconcile_a_series_is_what_the_model_says(
    desk: SeriesDesk, request: pytest.FixtureRequest
) -> None:
    stories = int(CHOSEN or STORIES[request.node.callspec.params["desk"]])

    @settings(
        max_examples=stories,
        deadline=None,
        phases=[Phase.generate] if CHOSEN is None else [*Phase],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(data=st.data())
    def tell(data: st.DataObject) -> None:
        story_of(desk, data)

    tell()


def story_of(desk: SeriesDesk, data: st.DataObject) -> None:
    for issue in list(desk.repo.numbers.values()):  # of the story before
        if not issue.deleted and issue.pull is None and "State" not in issue.title:
            issue.delete(by="boss")
    desk.github.clock.advance(CYCLE_S)
    desk.reconcile()
    story = Story(desk, data)
    for _ in range(3):
        story.open()
    for act in data.draw(st.lists(st.sampled_from(ACTS), max_size=8), label="acts"):
        act(story)
    desk.github.clock.advance(CYCLE_S)
    wanted = expected(world(desk))
    desk.reconcile()
    found = world(desk)
    assert found.active == wanted.active
    assert [p.number for p in found.placed if p.run is None] == wanted.line
    assert {number for number, member in found.members.items() if member.assigned} == wanted.assigned
    gates = desk.service.gates(series=f"series:acme/app/{SERIES}")
    assert {int(gate.lane.rpartition("#")[2]): gate.open for gate in gates} == wanted.gates
    broken = [check for check in desk.service.doctor() if not check.ok]
    assert [check for check in broken if check.name not in OF_THE_TEST] == []
