"""A series' life on GitHub: one issue active, the others in line, whatever happens to any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.core.series.snapshot import RolloutStage, SeriesOptions, Unassigned
from interlock.github.effects import AssignmentRemoval, IssueRef
from interlock.github.series.effects import AssignmentMethod
from interlock.github.series.options import SeriesRules
from interlock.service.series import CALLER_ASSIGNS, Cycle
from tests.git_fixtures import git
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.github.series_desk import BOT, SeriesDesk

#: The owner's ref of the series.
OWNER = "refs/interlock/owner/series-acme-app-rfc-093-*"


@pytest.fixture
def desk(
    request: pytest.FixtureRequest, github: FakeGitHub, repo: Repository, tmp_path: Path
) -> Iterator[SeriesDesk]:
    in_git = getattr(request, "param", "sqlite") == "git"
    url = f"git+file://{repo.bare}" if in_git else f"sqlite:///{tmp_path}/store.db"
    desk = SeriesDesk(github, repo, url, directory=tmp_path)
    yield desk
    desk.close()


#: For tests that are about the store too. Git takes its time.
both = pytest.mark.parametrize("desk", ["sqlite", "git"], indirect=True)


@both
def test_the_first_is_assigned_and_the_others_wait_in_order(desk: SeriesDesk) -> None:
    third, first, second = desk.issue(3), desk.issue(1), desk.issue(2)
    desk.reconcile()
    view = desk.view()
    assert (view.active_issue, view.queue) == (first.number, (second.number, third.number))
    assert desk.assigned() == {first.number: [BOT]}
    assert view.state == "assigning"
    assert desk.reconcile()[0].done == ()
    assert desk.view().state == "assigned"


def test_a_merged_pull_request_promotes_the_next_one(desk: SeriesDesk) -> None:
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.reconcile()
    desk.merge(first)
    (cycle,) = desk.reconcile()
    assert cycle.active_issue == second.number
    assert desk.assigned() == {second.number: [BOT]}
    assert cycle.metrics["promotion_events"] == 1
    assert "ended: closed by a merged pull request" in " ".join(cycle.done)


def test_a_closed_one_is_abandoned(desk: SeriesDesk) -> None:
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    first.close(by="alice")
    (cycle,) = desk.reconcile()
    assert cycle.active_issue == second.number
    assert "ended: closed without a merged pull request" in " ".join(cycle.done)


@both
def test_who_is_assigned_by_hand_on_a_free_series_is_adopted(desk: SeriesDesk) -> None:
    first, second, third = desk.issue(1), desk.issue(2), desk.issue(3)
    third.assign("alice", by="boss")
    desk.reconcile()
    assert desk.view().active_issue == third.number
    assert desk.view().queue == (first.number, second.number)
    assert desk.assigned() == {third.number: ["alice"]}
    third.assign("bob", by="boss")
    third.unassign("alice", by="boss")
    desk.reconcile()
    assert (desk.view().state, desk.view().assignee) == ("assigned", "bob")


@both
def test_who_is_assigned_beside_the_active_one_is_unassigned_and_counted(desk: SeriesDesk) -> None:
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.reconcile()
    second.assign("alice", by="boss")
    (cycle,) = desk.reconcile()
    assert desk.assigned() == {first.number: [BOT]}
    assert cycle.metrics["duplicate_prevented"] == 1
    assert desk.reconcile()[0].metrics["duplicate_prevented"] == 0
    second.assign("alice", by="boss")
    desk.reconcile()
    assert desk.assigned() == {first.number: [BOT]}
    assert desk.view().metrics["duplicate_prevented"] == 2


class TestMeanwhile:
    """A keeper has looked at GitHub, and before it writes, another one brings the series further."""

    def reconcile(self, desk: SeriesDesk, meanwhile: Callable[[], object]) -> Cycle:
        slow, left = desk.keeper(), [meanwhile]
        other = desk.keeper(lanes=desk.git_lanes("other") if desk.in_git else None)
        pages = slow._at.github.pages

        def listed(route: str, **more: Any) -> Iterator[Any]:
            yield from list(pages(route, **more))
            if route.endswith("/issues") and left:
                left.pop()()
                other.reconcile()

        slow._at.github.pages = listed  # type: ignore[method-assign]
        (cycle,) = slow.reconcile()
        assert not left
        return cycle

    @both
    def test_the_run_of_an_issue_that_it_has_not_seen_goes_on(self, desk: SeriesDesk) -> None:
        """Taken out: the look again in `rounds` for a run that is newer; the issue counts as retitled."""
        first = desk.issue(1)
        desk.reconcile()
        third = desk.issue(3)  # the slow one puts it in line, and reads the lane anew
        made: list[Issue] = []

        def meanwhile() -> None:
            desk.merge(first)
            made.append(desk.issue(2))

        self.reconcile(desk, meanwhile)
        view = desk.view()
        assert (view.active_issue, view.queue) == (made[0].number, (third.number,))
        assert view.metrics["promotion_events"] == 2
        assert desk.assigned() == {made[0].number: [BOT]}

    @both
    def test_an_assignment_that_was_one_too_many_is_left_to_the_issue_that_has_the_series_now(
        self, desk: SeriesDesk
    ) -> None:
        """Taken out: the comparison of runs in `_unassign`, and in git alice loses what she has. With a
        database the effect is owed, and then dropped: it is for the run alone."""
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        desk.reconcile()
        second.assign("alice", by="boss")
        cycle = self.reconcile(desk, lambda: desk.merge(first))
        assert " unassigned: " not in " ".join(cycle.done)
        assert desk.view().active_issue == second.number
        assert desk.assigned() == {second.number: ["alice"]}
        assert not [each for each in second.timeline if each["event"] == "unassigned"]

    def test_an_unassignment_that_is_still_owed_goes_with_its_run(self, desk: SeriesDesk) -> None:
        """Taken out: `while_running` in the outbox; somebody who died before he sent it takes alice away."""
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        second.assign("alice", by="boss")
        (active,) = desk.service.external()
        place = IssueRef(desk.repo.id, second.number)
        removal = AssignmentRemoval(logins=["alice"], while_running=True)
        owed = removal.row(place, "series-unassign:1", run=active.run)
        desk.lanes.store.github.outbox.enqueue([owed])
        desk.merge(first)
        desk.reconcile()
        assert desk.assigned() == {second.number: ["alice"]}

    @both
    def test_an_issue_that_was_closed_since_is_not_started(self, desk: SeriesDesk) -> None:
        """Taken out: the look again in `rounds` after a conflict; it is put in line, started and assigned."""
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        desk.merge(first)
        cycle = self.reconcile(desk, lambda: second.close(by="alice"))
        assert cycle.metrics["conflicts"] == 1
        assert (desk.view().active_issue, desk.view().queue) == (None, ())
        assert not [each for each in second.timeline if each["event"] == "assigned"]


class TestObserve:
    @pytest.fixture(autouse=True)
    def observe(self, desk: SeriesDesk) -> None:
        desk.mode(RolloutStage.OBSERVE)

    def test_nobody_is_assigned_or_unassigned(self, desk: SeriesDesk) -> None:
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        assert desk.assigned() == {}
        assert desk.view().active_issue is None
        first.assign("alice", by="boss")
        second.assign("bob", by="boss")
        (cycle,) = desk.reconcile()
        assert desk.view().active_issue == first.number
        assert len(desk.assigned()) == 2
        assert cycle.metrics["duplicate_prevented"] == 1
        assert desk.reconcile()[0].metrics["duplicate_prevented"] == 0
        assert f"#{second.number} is also assigned." in (desk.state().body or "")

    def test_nobody_is_held_back(self, desk: SeriesDesk) -> None:
        first, second = desk.issue(1), desk.issue(2)
        first.assign("alice", by="boss")
        desk.reconcile()
        answer = desk.acquire(second)
        assert (answer.status, answer.assign) == ("queued", True)


class TestUnassignedByHand:
    def test_the_first_look_releases_it_unless_somebody_may_be_swapping(self, desk: SeriesDesk) -> None:
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        desk.reconcile()
        first.unassign(BOT, by="alice")
        desk.reconcile()
        assert desk.view().active_issue == first.number
        desk.github.clock.advance(11)
        desk.reconcile()
        assert desk.view().active_issue == second.number
        assert [(w.number, w.why) for w in desk.view().waiting] == [(first.number, "released")]

    def test_what_comes_back_in_time_counts_as_never_gone(self, desk: SeriesDesk) -> None:
        first = desk.issue(1)
        desk.issue(2)
        desk.reconcile()
        desk.reconcile()
        first.unassign(BOT, by="alice")
        desk.reconcile()
        first.assign(BOT, by="alice")
        desk.reconcile()
        desk.github.clock.advance(120)
        first.unassign(BOT, by="alice")
        desk.reconcile()
        assert desk.view().active_issue == first.number

    def test_it_is_kept_by_choice(self, desk: SeriesDesk) -> None:
        first = desk.issue(1)
        desk.issue(2)
        desk.rules = SeriesRules(
            assigning=AssignmentMethod(login=BOT), choices=SeriesOptions(unassigned=Unassigned.KEPT)
        )
        desk.reconcile()
        desk.reconcile()
        first.unassign(BOT, by="alice")
        for _ in range(3):
            desk.reconcile()
            desk.github.clock.advance(100)
        assert desk.view().active_issue == first.number
        assert desk.assigned() == {}

    def test_it_is_wanted_again_when_somebody_assigns_it(self, desk: SeriesDesk) -> None:
        first = desk.issue(1)
        desk.reconcile()
        desk.keeper().release(first.number)
        assert desk.view().active_issue is None
        assert desk.assigned() == {}
        desk.reconcile()
        assert desk.view().active_issue is None
        first.assign("alice", by="boss")
        desk.reconcile()
        assert desk.view().active_issue == first.number


class TestDependencies:
    def test_a_blocked_issue_waits_and_holds_up_nobody(self, desk: SeriesDesk) -> None:
        other = desk.repo.issue("Groundwork", by="alice")
        first, second = desk.issue(1, body=f"Depends on #{other.number}"), desk.issue(2)
        desk.reconcile()
        assert desk.view().active_issue == second.number
        assert desk.acquire(first).status == "queued-dependency"
        other.close(by="alice")
        desk.reconcile()
        assert desk.view().queue == (first.number,)

    def test_blocked_by_and_sub_issues_and_other_series(self, desk: SeriesDesk) -> None:
        other = desk.repo.issue("Groundwork", by="alice")
        elsewhere = desk.issue(1, "RFC-092")
        first, second, third, last = (desk.issue(n) for n in (1, 2, 3, 4))
        first.add_blocker(other, by="alice")
        second.add_child(other, by="alice")
        third.edit(by="alice", body="depends on: RFC-92")
        desk.reconcile()
        assert desk.view().active_issue == last.number
        assert {w.number: w.why for w in desk.view().waiting} == {
            first.number: f"blocked by #{other.number}",
            second.number: f"blocked by #{other.number}",
            third.number: "blocked by RFC-092",
        }
        other.close(by="alice")
        elsewhere.close(by="alice")
        desk.reconcile()
        assert desk.view().queue == (first.number, second.number, third.number)

    @both
    def test_an_active_issue_yields_to_a_later_one_that_it_needs(self, desk: SeriesDesk) -> None:
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        desk.reconcile()
        first.add_blocker(second, by="alice")
        desk.reconcile()
        assert desk.view().active_issue == second.number
        assert desk.assigned() == {second.number: [BOT]}
        told = f"blocked by #{second.number} of its series"
        if desk.in_git:
            (ref,) = git(desk.repo.bare, "for-each-ref", "--format=%(refname)", OWNER).split()
            said = git(desk.repo.bare, "log", "--format=%B", ref)
            assert f"gives its place in the series back ({told})" in said
        else:
            (event,) = [e for e in desk.service.events(limit=200) if e.kind == "series.yielded"]
            assert (event.reason, event.lane) == (told, desk.view().lane)
        desk.merge(second)
        desk.reconcile()
        assert desk.view().active_issue == first.number


#: How the active issue leaves, and what is said of it.
LEAVES = {
    "delete": "deleted",
    "retitle": "retitled out of the series",
    "transfer": "transferred to another repository",
    "convert": "converted to a discussion",
}


def members(desk: SeriesDesk) -> list[Issue]:
    here = [i for i in desk.repo.numbers.values() if not i.deleted and i.moved_to is None]
    return [i for i in here if "RFC-093-" in i.title and i.state == "open"]


class TestWhoLeaves:
    @both
    @pytest.mark.parametrize("how", LEAVES)
    def test_the_next_one_is_promoted(self, desk: SeriesDesk, github: FakeGitHub, how: str) -> None:
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        match how:
            case "delete":
                first.delete(by="boss")
            case "retitle":
                first.edit(by="boss", title="Something else")
            case "convert":
                first.convert(by="boss")
            case _:
                first.transfer(github.repository("acme/lib", admin=["boss"]), by="boss")
        (cycle,) = desk.reconcile()
        assert desk.view().active_issue == second.number
        assert f"#{first.number} ended: {LEAVES[how]}" in cycle.done
        assert first.number not in {int(g.lane.rpartition("#")[2]) for g in desk.service.gates()}
        assert [i for i in members(desk) if i.assignees] == [second]

    def test_who_was_merged_and_opened_again_is_not_completed_by_that(self, desk: SeriesDesk) -> None:
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        desk.merge(first)
        desk.github.clock.advance(2)
        first.reopen(by="alice")
        desk.reconcile()
        assert desk.view().active_issue == first.number
        desk.github.clock.advance(2)
        first.close(by="alice")
        (cycle,) = desk.reconcile()
        assert f"#{first.number} ended: closed without a merged pull request" in cycle.done
        assert desk.view().active_issue == second.number

    def test_a_new_title_brings_it_to_its_new_place(self, desk: SeriesDesk) -> None:
        first, second, third = desk.issue(1), desk.issue(2), desk.issue(3)
        desk.reconcile()
        second.edit(by="boss", title="RFC-093-09: Later")
        desk.reconcile()
        assert desk.view().queue == (third.number, second.number)
        first.edit(by="boss", title="RFC-094-01: Elsewhere")
        desk.reconcile()
        assert desk.view().active_issue == third.number
        assert desk.view("RFC-094").active_issue == first.number

    def test_a_reopened_one_is_in_line_again(self, desk: SeriesDesk) -> None:
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        first.close(by="alice")
        desk.reconcile()
        first.reopen(by="alice")
        first.unassign(BOT, by="alice")
        desk.reconcile()
        assert (desk.view().active_issue, desk.view().queue) == (second.number, (first.number,))


@both
def test_a_caller_is_told_to_assign_only_once_nobody_else_is(desk: SeriesDesk) -> None:
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.reconcile()
    desk.keeper()._give_back("RFC-093", first.number, "not now")
    desk.github.faults.refuse(403, "Resource not accessible by integration", 10**9, on="DELETE ")
    answer = desk.acquire(second, CALLER_ASSIGNS)
    assert (answer.status, answer.assign) == ("acquired", False)
    desk.github.faults.over()
    desk.github.clock.advance(900)
    if not desk.in_git:
        desk.lanes.store.github.outbox.retry(10)
    desk.reconcile()
    assert len(desk.assigned()) == 1


@both
def test_a_dropped_assignment_is_said_and_promotes_nobody(desk: SeriesDesk) -> None:
    desk.rules = SeriesRules(assigning=AssignmentMethod(login="stranger"), choices=SeriesOptions())
    first, _ = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.reconcile()
    view = desk.view()
    assert view.active_issue == first.number
    assert "stranger" in view.problems[0]
    assert "could not be assigned" in (desk.state().body or "")
    assert desk.assigned() == {}


def test_each_promotion_is_told_once_where_the_rollout_says_so(desk: SeriesDesk) -> None:
    desk.mode(RolloutStage.COMMENT)
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.merge(first)
    desk.reconcile()
    desk.reconcile()
    said = [comment.body for comment in desk.state().comments]
    assert len(said) == 2
    assert f"from #{first.number} to #{second.number}" in said[1]
    assert "merged" in said[1]
