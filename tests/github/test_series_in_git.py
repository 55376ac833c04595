"""Series without a server, on git over HTTP: broken refs, clocks that are hours off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.github.series.lane import lane_of
from interlock.gitlanes import notes
from interlock.gitlanes.notes import GitNotes
from interlock.gitlanes.remote import LaneRemote
from interlock.store.series_notes import Note
from tests.git_fixtures import git, write_hook
from tests.github.fake import FakeGitHub, Repository
from tests.github.series_desk import BOT, SeriesDesk
from tests.github.test_series_at_once import git_url, most_at_once


@pytest.fixture
def desk(github: FakeGitHub, repo: Repository, tmp_path: Path) -> Iterator[SeriesDesk]:
    limits = github.faults.limits
    limits.hourly = dict.fromkeys(limits.hourly, 10**9)
    desk = SeriesDesk(github, repo, git_url(github, repo), directory=tmp_path)
    yield desk
    desk.close()


def refs(repo: Repository, kind: str) -> list[str]:
    return git(repo.bare, "for-each-ref", "--format=%(refname)", f"refs/interlock/{kind}").split()


@pytest.mark.parametrize("kinds", [["owner"], ["queue"], ["owner", "queue"], ["notes"]], ids="-".join)
def test_refs_that_somebody_broke(desk: SeriesDesk, kinds: list[str]) -> None:
    """What cannot be read counts as held, and is mended: the issue that is assigned stays the active one."""
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    broken = [ref for kind in kinds for ref in refs(desk.repo, kind)]
    other = desk.issue(1, "RFC-094")
    desk.reconcile()
    head = git(desk.repo.bare, "rev-parse", "refs/heads/main").strip()
    for ref in broken:
        git(desk.repo.bare, "update-ref", ref, head)
    desk.merge(other)
    desk.reconcile()
    assert desk.view("RFC-094").active_issue is None, "the other series goes on"
    assert desk.view().active_issue == first.number
    assert desk.view().queue == (second.number,)
    assert desk.assigned() == {first.number: [BOT]}
    assert most_at_once(desk.repo) == 1


def test_one_broken_lane_hides_no_other_series(desk: SeriesDesk) -> None:
    """`status` shows it as held, and a reconcile leaves alone what a newer version wrote."""
    desk.issue(1), desk.issue(1, "RFC-094")
    desk.reconcile()
    (ref,) = [each for each in refs(desk.repo, "owner") if "series" in each and "rfc-093" in each]
    git(desk.repo.bare, "update-ref", ref, git(desk.repo.bare, "rev-parse", "refs/heads/main").strip())
    assert (desk.view().state, desk.view("RFC-094").state) == ("unreadable", "assigning")
    assert "cannot be read" in desk.view().problems[0]
    document = 'x\n\n{"format": 99, "lane": "series:acme/app/RFC-093"}'
    tree = git(desk.repo.bare, "rev-parse", "refs/heads/main^{tree}").strip()
    newer = git(desk.repo.bare, "commit-tree", tree, "-m", document).strip()
    git(desk.repo.bare, "update-ref", ref, newer)
    first, second = desk.reconcile()
    assert (first.refused, second.refused) == (True, False)
    assert "newer" in first.problems[0]
    assert git(desk.repo.bare, "rev-parse", ref).strip() == newer


def test_refs_that_somebody_deleted(desk: SeriesDesk) -> None:
    """They are rebuilt from the live issues, and never count as a free series."""
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.merge(first)
    desk.reconcile()
    first.reopen(by="alice")
    first.unassign(BOT, by="alice")
    for ref in refs(desk.repo, ""):
        git(desk.repo.bare, "update-ref", "-d", ref)
    lanes = desk.git_lanes("another machine")
    answer = desk.keeper(lanes=lanes).acquire(first.number)
    assert (answer.status, answer.active_issue) == ("queued", second.number)
    assert desk.assigned() == {second.number: [BOT]}
    assert most_at_once(desk.repo) == 1


@pytest.mark.parametrize("off_s", [-7200.0, 7200.0])
def test_a_runner_whose_clock_is_hours_off(desk: SeriesDesk, off_s: float) -> None:
    """How long an assignment is gone is measured by GitHub's clock, not by the runners'."""
    first, _ = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.reconcile()
    first.unassign(BOT, by="alice")
    desk.reconcile()

    def now() -> float:
        return time.time() + off_s

    lanes = desk.git_lanes("runner", now=lambda: int(now() * 1e6))
    desk.keeper(lanes=lanes, clock=now).reconcile()
    assert desk.view().active_issue == first.number
    assert lane_of("acme/app", "RFC-093") == desk.view().lane


def test_a_reconcile_that_changes_nothing_fetches_twice_however_many_series(
    desk: SeriesDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once all lanes, once all notes; and so does `series status`."""
    for series in ("RFC-001", "RFC-002", "RFC-003"):
        desk.issue(1, series)
        desk.issue(2, series)
    desk.reconcile()
    desk.reconcile()
    fetched: list[str] = []
    fetch = LaneRemote._fetch

    def counted(remote: LaneRemote, *refs: str) -> None:
        fetched.append(refs[0])
        fetch(remote, *refs)

    monkeypatch.setattr(LaneRemote, "_fetch", counted)
    assert [cycle.done for cycle in desk.reconcile()] == [()] * 3
    assert len(fetched) == 2, fetched
    keeper = desk.keeper()
    assert [view.active_issue for view in keeper.status()] == [1, 3, 5]
    assert len(keeper.metrics()["series"]) == 3
    assert len(fetched) == 6, fetched


class TestNotes:
    LANE = "series:acme/app/RFC-093"

    def chain(self, desk: SeriesDesk) -> int:
        (ref,) = refs(desk.repo, "notes")
        return int(git(desk.repo.bare, "rev-list", "--count", ref))

    def test_their_chain_stays_short(self, desk: SeriesDesk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(notes, "CHAIN_MAX", 4)
        for revision in range(1, 10):
            assert desk.notes.keep_note(Note(self.LANE, revision, f'{{"n": {revision}}}'))
            assert self.chain(desk) <= 4
        assert desk.notes.note(self.LANE) == Note(self.LANE, 9, '{"n": 9}')

    def test_where_the_server_refuses_that_it_grows(
        self, desk: SeriesDesk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(notes, "CHAIN_MAX", 2)
        forward = 'case "$2" in *[1-9a-f]*) git merge-base --is-ancestor "$2" "$3";; esac'
        write_hook(desk.repo.bare, "update", f"#!/bin/sh\n{forward}\n")
        for revision in range(1, 6):
            assert desk.notes.keep_note(Note(self.LANE, revision, "{}"))
        assert self.chain(desk) == 5

    def test_whoever_read_an_older_one_writes_nothing(self, desk: SeriesDesk) -> None:
        assert desk.notes.keep_note(Note(self.LANE, 1, "{}"))
        another = GitNotes(desk.git_lanes("elsewhere").remote)
        assert another.note(self.LANE) is not None
        assert desk.notes.keep_note(Note(self.LANE, 2, "{}"))
        assert not another.keep_note(Note(self.LANE, 2, '{"other": 1}')), "pinned to what it has read"
        assert not another.keep_note(Note(self.LANE, 2, '{"other": 1}'))
        assert desk.notes.note(self.LANE) == Note(self.LANE, 2, "{}")
