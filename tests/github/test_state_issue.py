"""The state issue shows the state, decides nothing, and is put right whatever happens to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.core.series.document import LABEL, Corrupt, Document, UnknownVersion, read
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.github.series_desk import BOT, SeriesDesk


@pytest.fixture
def desk(github: FakeGitHub, repo: Repository, tmp_path: Path) -> Iterator[SeriesDesk]:
    desk = SeriesDesk(github, repo, f"sqlite:///{tmp_path}/store.db", directory=tmp_path)
    yield desk
    desk.close()


def document(issue: Issue) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((issue.body or "").split("```json\n")[1].split("```")[0])
    return found


def body(**changes: object) -> str:
    shown: dict[str, object] = {
        "series": "RFC-093",
        "active_issue": None,
        "queue": [],
        "updated_at": "2025-09-19T03:15:22Z",
    }
    return f"Some words.\n\n```json\n{json.dumps({**shown, 'version': 1, **changes})}\n```\n"


def test_it_shows_what_the_seed_wants(desk: SeriesDesk) -> None:
    first, second, third = (desk.issue(n) for n in (1, 2, 3))
    desk.reconcile()
    shown = desk.state()
    assert shown.title == "RFC-093 Series State"
    assert shown.labels == [LABEL]
    found = document(shown)
    assert list(found) == ["series", "active_issue", "queue", "updated_at", "version"]
    assert found["active_issue"] == first.number
    assert found["queue"] == [second.number, third.number]
    assert found["version"] == 1
    assert found["updated_at"].endswith("Z")
    assert f"| #{second.number} | 1 |" in (shown.body or "")
    assert f"#{first.number} is the active issue of RFC-093" in (shown.body or "")
    before = shown.body
    desk.reconcile()
    desk.reconcile()
    count = len(desk.github.requests)
    desk.reconcile()
    assert not [r for r in desk.github.requests[count:] if r[0] != "GET"]
    assert before is not None


BROKEN = {
    "empty": lambda _: "",
    "no fence": lambda text: text.replace("```", ""),
    "half a document": lambda text: text.replace('"queue"', '"que"'),
    "no JSON": lambda text: text.replace("{", "(").replace("}", ")"),
    "two documents": lambda text: text + "\n\n```json\n{}\n```",
    "without end": lambda _: "```json\n" + "[" * 50_000 + "\n```",
    "a list": lambda _: "```json\n[]\n```",
    "another active issue": lambda text: text.replace('"active_issue": 1', '"active_issue": 3'),
    "no number": lambda text: text.replace('"active_issue": 1', '"active_issue": "x"'),
    "no version": lambda text: text.replace('"version": 1', '"version": null'),
    "no time": lambda text: text.replace('Z"', '"'),
    "other words": lambda text: "Hello.\n" + text,
    "control characters": lambda text: text + "\x00\x1b[31m",
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_broken_is_written_anew_and_decides_nothing(desk: SeriesDesk, how: str) -> None:
    first, second = desk.issue(1), desk.issue(2)
    desk.issue(3)
    desk.reconcile()
    desk.reconcile()
    shown = desk.state()
    assert document(shown)["active_issue"] == 1
    shown.edit(by="alice", body=BROKEN[how](shown.body or ""))
    (cycle,) = desk.reconcile()
    assert desk.view().active_issue == first.number
    assert desk.assigned() == {first.number: [BOT]}
    assert document(desk.state())["active_issue"] == first.number
    assert document(desk.state())["queue"][0] == second.number
    assert len(shown.comments) == 1, cycle
    desk.reconcile()
    assert len(shown.comments) == 1


def test_a_deleted_a_closed_and_a_doubled_one(desk: SeriesDesk) -> None:
    desk.issue(1)
    desk.reconcile()
    shown = desk.state()
    shown.close(by="alice")
    desk.reconcile()
    assert desk.state() is shown
    assert "Reopened." in shown.comments[-1].body
    twin = desk.repo.issue(shown.title, shown.body, by="alice", labels=[LABEL])
    desk.reconcile()
    assert desk.state() is shown
    assert twin.state == "closed"
    assert f"Closed #{twin.number}, a duplicate state issue" in shown.comments[-1].body
    for each in (shown, twin):
        each.delete(by="boss")
    desk.reconcile()
    again = desk.state()
    assert again is not shown
    assert f"Replaces #{shown.number}, which is gone" in again.comments[-1].body


def test_without_its_label_it_is_found_by_its_title(desk: SeriesDesk) -> None:
    desk.issue(1)
    desk.reconcile()
    shown = desk.state()
    # It is ours only if somebody who may write has made it.
    shown.unlabel(LABEL, by="alice")
    desk.reconcile()
    assert desk.state() is shown
    assert shown.labels == [LABEL]


def test_an_unknown_version_is_refused_and_not_overwritten(desk: SeriesDesk) -> None:
    issue = desk.issue(1)
    newer = desk.repo.issue("RFC-093 Series State", body(version=2), by="alice", labels=[LABEL])
    (cycle,) = desk.reconcile()
    assert cycle.refused
    assert "version 2" in cycle.problems[0]
    assert newer.body == body(version=2)
    assert desk.assigned() == {}
    with pytest.raises(Exception, match="version 2"):
        desk.acquire(issue)
    assert desk.assigned() == {}


class TestFirstContact:
    def test_what_an_older_tool_left_is_taken_over(self, desk: SeriesDesk) -> None:
        first, second, third = (desk.issue(n) for n in (1, 2, 3))
        left = body(active_issue=second.number, queue=[third.number, first.number])
        desk.repo.issue("RFC-093 Series State", left, by="alice", labels=[LABEL])
        desk.reconcile()
        assert desk.view().active_issue == second.number
        assert desk.view().queue == (third.number, first.number)

    def test_but_not_what_a_stranger_wrote(self, desk: SeriesDesk) -> None:
        first, second = desk.issue(1), desk.issue(2)
        left = body(active_issue=second.number)
        desk.github.user("mallory")
        desk.repo.issue("RFC-093 Series State", left, by="mallory")
        desk.reconcile()
        assert desk.view().active_issue == first.number

    def test_unless_somebody_who_may_write_has_labelled_it(self, desk: SeriesDesk) -> None:
        desk.issue(1)
        second = desk.issue(2)
        left = body(active_issue=second.number)
        issue = desk.repo.issue("RFC-093 Series State", left, by="mallory")
        issue.label(LABEL, by="alice")
        desk.reconcile()
        assert desk.view().active_issue == second.number

    def test_an_assigned_one_is_active_whatever_it_says(self, desk: SeriesDesk) -> None:
        first, second = desk.issue(1), desk.issue(2)
        first.assign("alice", by="boss")
        left = body(active_issue=second.number)
        desk.repo.issue("RFC-093 Series State", left, by="alice", labels=[LABEL])
        desk.reconcile()
        assert desk.view().active_issue == first.number
        assert desk.assigned() == {first.number: ["alice"]}

    def test_later_it_is_never_read(self, desk: SeriesDesk) -> None:
        first, second = desk.issue(1), desk.issue(2)
        desk.reconcile()
        desk.state().edit(by="alice", body=body(active_issue=second.number))
        desk.reconcile()
        assert desk.view().active_issue == first.number


def test_what_is_no_document() -> None:
    assert isinstance(read(None), Corrupt)
    assert isinstance(read(body()), Document)
    assert isinstance(read(body(version=7)), UnknownVersion)
    assert isinstance(read(body(queue=[0])), Corrupt)
    assert isinstance(read(body(queue=[True])), Corrupt)
    assert isinstance(read(body(series=1)), Corrupt)
    assert isinstance(read(body(updated_at="yesterdayZ")), Corrupt)
