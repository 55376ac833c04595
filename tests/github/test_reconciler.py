"""What deliveries missed is found: a look at what changed takes in each thing once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.app import open_service
from interlock.github import hosted_agents
from interlock.github.reconciler import MissedEvents, Reconciler
from tests.acceptance.command import CommandHere
from tests.clock import Clock
from tests.github.desk import Desk
from tests.github.fake import FakeGitHub, Repository


class Scene:
    """A desk that gets no deliveries unless a test hands them over."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.repo = desk, desk.repo
        self.reconciler = Reconciler(desk.intake, desk.service, desk.store.github, desk.client)
        desk.rules()
        desk.repo.issue("Old", by="alice")
        self.look()
        desk.new()

    def look(self) -> tuple[int, int, int]:
        """Reconcile; how many numbers, remarks and deliveries were not known."""
        (found,) = self.reconciler.look_at_all(["acme/app"])
        return found.numbers, found.remarks, found.deliveries


@pytest.fixture
def scene(github: FakeGitHub, repo: Repository, tmp_path: Path) -> Iterator[Scene]:
    service = open_service(f"sqlite:///{tmp_path}/store.db")
    desk = Desk(github, repo, service, Clock())
    with desk.client:
        yield Scene(desk)
    service.close()


def test_a_repository_is_followed_from_the_first_look_on(scene: Scene) -> None:
    assert scene.desk.open() == []
    assert scene.look()[:2] == (0, 0)


def test_what_changed_without_a_delivery_is_taken_in_once(scene: Scene) -> None:
    scene.look()
    scene.desk.github.clock.advance(600)
    issue = scene.repo.issue("Crash", by="alice", labels=["bug"])
    pull = scene.repo.pull("Fix", by="bob", head="fix", files={"a": "b"})
    assert scene.look()[:2] == (2, 0)
    lanes = {item.lane: item.type for item in scene.desk.open()}
    assert lanes[f"issue:acme/app#{issue.number}"] == "issue_triage"
    assert lanes[f"issue:acme/app#{pull.number}"] == "pr_review"
    before = scene.desk.state()
    assert scene.look()[:2] == (0, 0)
    scene.desk.take()  # and now the deliveries come after all
    assert scene.desk.state() == before


def test_what_was_closed_without_a_delivery_ends(scene: Scene) -> None:
    scene.desk.github.clock.advance(600)
    issue = scene.repo.issue("Crash", by="alice")
    scene.desk.take()
    lane = f"issue:acme/app#{issue.number}"
    assert lane in {item.lane for item in scene.desk.open()}
    issue.close(by="alice")
    scene.look()
    assert lane not in {item.lane for item in scene.desk.open()}


def test_a_blocker_of_another_repository_is_seen_to_be_closed(scene: Scene) -> None:
    """No delivery comes of it, and the blocked issue itself does not change."""
    other = scene.desk.github.repository("acme/other", admin=["boss"], write=["alice"])
    blocker, issue = other.issue("First", by="alice"), scene.repo.issue("Then", by="alice")
    issue.add_blocker(blocker, by="alice")
    scene.desk.take()
    (item,) = [each for each in scene.desk.open() if each.lane == f"issue:acme/app#{issue.number}"]
    assert item.blocked_by == ("acme/other#1",)
    blocker.close(by="alice")
    scene.look()
    assert scene.desk.service.blocks() == []


def test_a_blocker_that_was_opened_again_without_a_delivery_blocks(scene: Scene) -> None:
    blocker, issue = scene.repo.issue("First", by="alice"), scene.repo.issue("Then", by="alice")
    issue.add_blocker(blocker, by="alice")
    blocker.close(by="alice")
    scene.desk.take()
    assert scene.desk.service.blocks() == []
    scene.desk.github.clock.advance(600)
    blocker.reopen(by="alice")
    scene.look()
    assert [block.lane for block in scene.desk.service.blocks()] == [f"issue:acme/app#{issue.number}"]


def test_remarks_without_deliveries_reach_their_agents_once(scene: Scene) -> None:
    scene.desk.github.clock.advance(600)
    issue = scene.repo.issue("Crash", by="alice")
    pull = scene.repo.pull("Fix", by="coder-bot", head="fix", files={"a": "b"})
    issue.comment("@coder look", by="alice")
    pull.review_comment("Rename it", by="alice", path="a")
    assert scene.look()[:2] == (2, 2)
    messages = [text for item in scene.desk.open() for text, _ in scene.desk.said(item)]
    assert any("@coder look" in text for text in messages)
    assert any("Rename it" in text for text in messages)
    before = scene.desk.state()
    scene.desk.take()
    assert scene.desk.state() == before


def test_an_old_remark_that_was_edited_wakes_nobody(scene: Scene) -> None:
    comment = scene.repo.numbers[1].comment("@coder look", by="alice")
    for title in ("One", "Two"):
        scene.desk.github.clock.advance(600)
        scene.repo.issue(title, by="alice")
        scene.look()
    comment.edit("@coder look here", by="alice")
    assert scene.look()[1] == 0


def test_failed_deliveries_are_fetched_once(scene: Scene) -> None:
    scene.desk.github.clock.advance(600)
    scene.desk.github.faults.lose_deliveries(1)
    scene.repo.numbers[1].label("bug", by="alice")
    assert scene.look()[2] == 1
    assert scene.look()[2] == 0


def test_without_the_right_to_see_webhooks_the_rest_is_looked_at(scene: Scene) -> None:
    scene.desk.github.faults.refuse(403, "Forbidden", on="GET /repos/acme/app/hooks", times=10)
    scene.desk.github.clock.advance(600)
    scene.repo.issue("Crash", by="alice")
    assert scene.look()[0] >= 1


def test_an_idle_look_costs_nothing_of_the_allowance(scene: Scene) -> None:
    scene.look()
    before = len(scene.desk.github.requests)
    scene.look()
    spent = [(route, status) for _, route, status in scene.desk.github.requests[before:]]
    assert [each for each in spent if each[1] != 304] == []
    assert len(spent) <= 7


def test_two_looks_at_once_take_in_each_thing_once(scene: Scene) -> None:
    scene.desk.github.clock.advance(600)
    scene.repo.issue("Crash", by="alice")
    desk = scene.desk
    other = Reconciler(desk.intake, desk.service, desk.store.github, desk.client)
    first, second = scene.reconciler.look("acme/app"), other.look("acme/app")
    assert isinstance(first, MissedEvents)
    assert (second.numbers, second.remarks) == (0, 0)


def test_the_end_of_a_hosted_agents_run_is_seen(scene: Scene) -> None:
    scene.repo.hosted_agent = True
    issue = scene.repo.issue("Crash", by="alice")
    scene.desk.take()
    (item,) = scene.desk.open()
    assert hosted_agents.start(scene.desk.service, scene.desk.client, item.id).run is not None
    assert scene.reconciler.see_hosted() == []
    issue.close(by="alice")
    ((ended),) = scene.reconciler.see_hosted()
    assert ended.item == item.id
    assert scene.desk.service.show(item.id).item.status == "completed"


class TestImport:
    def test_open_issues_become_work_by_label(self, scene: Scene) -> None:
        scene.repo.issue("A bug", by="alice", labels=["bug"])
        scene.repo.issue("Done", by="alice", labels=["bug"]).close(by="alice")
        scene.repo.pull("Fix", by="bob", head="fix", files={"a": "b"})
        assert scene.reconciler.take_in("acme/app", ["bug"], "", 10) == [2]
        assert [(item.type, item.priority) for item in scene.desk.open()] == [("issue_triage", 8)]
        assert scene.reconciler.take_in("acme/app", ["bug"], "", 10) == []

    def test_by_the_words_of_a_search_and_no_more_than_wanted(self, scene: Scene) -> None:
        for n in range(3):
            scene.repo.issue(f"Crash {n}", by="alice")
        scene.repo.issue("Slow", by="alice")
        assert len(scene.reconciler.take_in("acme/app", [], "crash", 2)) == 2
        assert all("Crash" in item.title for item in scene.desk.open())


def test_the_commands(
    github: FakeGitHub, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INTERLOCK_GITHUB_TOKEN", "GITHUB_TOKEN", "INTERLOCK_GITHUB_APP_ID", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GH_TOKEN", github.token("boss"))
    monkeypatch.setenv("GITHUB_API_URL", github.api_url)
    here = CommandHere(tmp_path)
    repo.issue("Crash", by="alice")
    assert here("github", "reconcile").out == ("No repositories yet. Name one with --repo OWNER/NAME.\n")
    assert here("github", "import", "--repo", "acme/app").out == "1 issue ingested.\n"
    assert here("github", "import", "--repo", "acme/app").out == "Nothing new was found.\n"
    assert here("github", "reconcile").out == "acme/app: 0 changed, 0 remarks, 0 failed deliveries fetched.\n"
    found = json.loads(here("--json", "github", "reconcile", "--repo", "acme/app").out)
    assert found["repositories"][0]["repository"] == "acme/app"
