"""Before a run starts the world is looked at again: what is over or under way elsewhere never starts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.app import open_service as open_store
from interlock.core.model import NewItem
from interlock.github.client import GitHub
from interlock.github.dispatch import StartCheck
from interlock.github.lookup import Reader
from interlock.github.tokens import PlainToken
from interlock.service.contract import ItemFilter, Report
from tests.clock import Clock
from tests.faults.workers import Site
from tests.github.desk import Desk
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.http.up import Up
from tests.patience import PATIENCE_S


@pytest.fixture
def desk(github: FakeGitHub, repo: Repository, tmp_path: Path) -> Iterator[Desk]:
    service = open_store(f"sqlite:///{tmp_path}/store.db")
    desk = Desk(github, repo, service, Clock())
    desk.rules()
    desk.new()
    with desk.client:
        yield desk
    service.close()


class Scene:
    """An issue, and the item that it made."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.told = desk, list[str]()
        self.issue: Issue = desk.repo.issue("It is broken", by="alice")
        self.url = f"{desk.github.html_url}/acme/app/issues/{self.issue.number}"
        desk.take()
        reader = Reader(desk.client)
        self.look = StartCheck(desk.service, desk.store.github, reader, desk.intake, self.told.append)

    def start(self) -> str | None:
        """Claim the item, and look: why it must not start."""
        (self.lease,) = self.desk.service.next("coder")
        return self.look(self.lease)

    def pull(self, body: str, title: str = "A change") -> Issue:
        return self.desk.repo.pull(title, body, by="bob", head="change", files={"a": "b"})


@pytest.fixture
def scene(desk: Desk) -> Scene:
    return Scene(desk)


class TestTheLook:
    def test_an_open_issue_starts(self, scene: Scene) -> None:
        assert scene.start() is None
        assert scene.told == []

    @pytest.mark.parametrize(("reason", "why"), [("completed", "closed"), ("not_planned", "closed_undone")])
    def test_an_issue_that_was_closed_meanwhile_does_not(self, scene: Scene, reason: str, why: str) -> None:
        scene.issue.close(by="alice", reason=reason)  # and its delivery never comes
        assert scene.start() == f"{why}: {scene.url}"
        scene.desk.service.release([Report(scene.lease.run)])
        item = scene.desk.service.show(scene.lease.item.id)
        assert item.item.status == "cancelled"
        cancelled = next(e for e in item.events if e.kind == "cancel.requested")
        assert cancelled.reason == f"{why}: {scene.url}"

    def test_one_that_a_pull_request_closes_does_not(self, scene: Scene) -> None:
        pull = scene.pull(f"Fixes #{scene.issue.number}")
        assert scene.start() == f"has_pull_request: {scene.desk.github.html_url}/acme/app/pull/{pull.number}"

    def test_the_title_counts_too(self, scene: Scene) -> None:
        scene.pull("", title=f"Fix #{scene.issue.number}")
        assert (scene.start() or "").startswith("has_pull_request: ")

    def test_one_that_was_merged_elsewhere_meanwhile_counts(self, scene: Scene) -> None:
        """Into another branch, say: GitHub does not close the issue then."""
        pull = scene.pull(f"Fixes #{scene.issue.number}")
        scene.desk.github.clock.advance(3600)
        pull.merge(by="bob")
        scene.issue.reopen(by="alice")
        assert (scene.start() or "").startswith("has_pull_request: ")

    def test_one_that_was_merged_before_does_not_count(self, scene: Scene) -> None:
        """The issue was opened again, since that was not enough."""
        scene.pull(f"Fixes #{scene.issue.number}").merge(by="bob")
        scene.desk.take()
        scene.issue.reopen(by="alice")
        scene.desk.take()
        assert scene.start() is None

    @pytest.mark.parametrize("known", [True, False])
    def test_the_branch_of_an_earlier_run_on_the_lane_counts(self, scene: Scene, known: bool) -> None:
        """Whatever the pull request says of itself. A run that this store never had proves nothing."""
        assert scene.start() is None
        scene.desk.service.done([Report(scene.lease.run)])
        branch = f"interlock/run-{scene.lease.fence + (0 if known else 1_000)}"
        scene.desk.repo.pull("A change", "", by="bob", head=branch, files={"a": "b"})
        scene.issue.label("bug", by="alice")
        scene.desk.take()
        assert (scene.start() is not None) is known

    def test_a_pull_request_that_was_closed_does_not_count(self, scene: Scene) -> None:
        scene.pull(f"Fixes #{scene.issue.number}").close(by="bob")
        assert scene.start() is None

    def test_one_that_only_mentions_it_does_not_count(self, scene: Scene) -> None:
        scene.pull(f"See #{scene.issue.number}")
        assert scene.start() is None

    def test_a_second_attempt_goes_on_with_its_pull_request(self, scene: Scene) -> None:
        assert scene.start() is None
        scene.desk.service.fail([Report(scene.lease.run)])
        scene.pull(f"Fixes #{scene.issue.number}")
        scene.desk.service.retry(scene.lease.item.id)
        assert scene.start() is None

    def test_whom_a_comment_woke_goes_on_with_its_pull_request(self, scene: Scene) -> None:
        scene.pull(f"Fixes #{scene.issue.number}")
        scene.issue.comment("Please rename it", by="alice")
        scene.desk.take()
        assert scene.start() is None

    def test_one_that_waits_for_another_issue_waits(self, scene: Scene) -> None:
        other = scene.desk.repo.issue("First", by="alice")
        scene.issue.add_blocker(other, by="alice")  # and its delivery never comes
        item = scene.desk.open()[0].id
        (lease,) = scene.desk.service.next("coder", item=item)
        assert scene.look(lease) == f"waits for acme/app#{other.number}"
        assert scene.desk.service.next("coder", item=item) == []
        waiting = scene.desk.service.show(item).item
        assert (waiting.status, waiting.blocked_by) == ("pending", (f"acme/app#{other.number}",))

    def test_a_transferred_issue_does_not_start(self, scene: Scene) -> None:
        other = scene.desk.github.repository("acme/other", admin=["boss"], write=["alice"])
        scene.issue.transfer(other, by="boss")
        assert scene.start() == "transferred: acme/app#1"

    def test_without_an_answer_it_starts_and_says_so(self, scene: Scene) -> None:
        scene.issue.close(by="alice")
        scene.desk.github.faults.outage = True
        assert scene.start() is None
        assert scene.told[0].startswith(f"Item {scene.lease.item.id} starts without a check on GitHub: ")

    def test_what_github_did_not_make_is_not_looked_at(self, scene: Scene) -> None:
        before = len(scene.desk.github.requests)
        payload = json.dumps({"repository": "acme/app", "issue_number": scene.issue.number})
        scene.desk.service.add([NewItem(title="by hand", type="other", payload=payload, lane="x")])
        (lease,) = scene.desk.service.next("coder", types=["other"])
        assert scene.look(lease) is None
        assert len(scene.desk.github.requests) == before

    def test_a_look_at_what_has_not_changed_costs_nothing_of_the_allowance(self, scene: Scene) -> None:
        assert scene.start() is None
        before = len(scene.desk.github.requests)
        assert scene.look(scene.lease) is None
        assert [status for *_, status in scene.desk.github.requests[before:]] == [304, 304, 304]


def test_a_look_that_waits_for_github_holds_up_no_other(desk: Desk, scene: Scene) -> None:
    """A server looks for all its workers."""
    desk.repo.issue("Another one", by="alice")
    desk.take()
    slow, quick = desk.service.next("coder", limit=2)
    until, token = threading.Event(), PlainToken(desk.github.token("boss"))
    held = desk.github.faults.hold(on=f"/issues/{scene.issue.number}", until=until)
    client = GitHub(token, api_url=desk.github.api_url, timeout_s=PATIENCE_S)
    look = StartCheck(desk.service, desk.store.github, Reader(client), desk.intake, scene.told.append)
    with client, ThreadPoolExecutor(2) as at_once:
        first = at_once.submit(look, slow)
        assert held.wait(PATIENCE_S)
        second = at_once.submit(look, quick)
        assert second.result(PATIENCE_S) is None
        assert not first.done()
        until.set()
        assert first.result(PATIENCE_S) is None
    assert scene.told == []


def test_a_worker_does_not_start_what_is_over(
    github: FakeGitHub, desk: Desk, scene: Scene, tmp_path: Path
) -> None:
    """A real worker: the command never runs, and the item ends with the reason."""
    scene.issue.close(by="alice", reason="not_planned")
    site = Site(tmp_path, f"sqlite:///{tmp_path}/store.db")
    token = {"INTERLOCK_GITHUB_TOKEN": github.token("boss"), "GITHUB_API_URL": github.api_url}
    worker = site.work("touch started", "--limit", "1", env=token)
    try:
        told = worker.until("not_started")
        assert f"closed_undone: {scene.url}" in told["text"]
        item = told["item"]
        site.until_status(item, "cancelled")
        assert not site.file("started").exists()
    finally:
        site.close()


def test_behind_a_server_the_servers_token_looks(
    github: FakeGitHub, desk: Desk, scene: Scene, tmp_path: Path
) -> None:
    """The worker has a token for its agent, and nothing of GitHub."""
    scene.issue.close(by="alice", reason="not_planned")
    token = {"INTERLOCK_GITHUB_TOKEN": github.token("boss"), "GITHUB_API_URL": github.api_url}
    here, there = tmp_path / "server", tmp_path / "worker"
    for directory in (here, there):
        directory.mkdir()
    store = {"INTERLOCK_URL": f"sqlite:///{tmp_path}/store.db"}
    up = Up(here, **store, **token)
    site = Site(there, up.url)
    made = desk.service.create_token("worker", scope="agent:coder").token or ""
    worker = site.work("touch started", "--limit", "1", env={"INTERLOCK_TOKEN": made})
    try:
        assert f"closed_undone: {scene.url}" in worker.until("not_started")["text"]
        assert not (there / "started").exists()
        deadline_s = time.monotonic() + PATIENCE_S
        while desk.service.items(ItemFilter(all=True))[0].status != "cancelled":
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
    finally:
        site.close()
        up.end()
