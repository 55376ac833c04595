"""Agents that GitHub hosts: started by an assignment that is read back, ended by what GitHub shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.app import open_service as open_store
from interlock.core.commands import Outcome
from interlock.core.errors import InvalidInput, LeaseLost
from interlock.core.model import NewItem
from interlock.github import hosted_agents
from interlock.github.client import GitHub
from interlock.github.facts import NumberState
from interlock.github.hosted_agents import ObservedIssue, Pull, reconcile, run_end_of, start
from interlock.github.tokens import PlainToken
from interlock.service.contract import Service
from tests.acceptance.command import Command
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue

COPILOT = "Copilot"


class Scene:
    """An issue of a repository with a hosted agent, and an item for it."""

    def __init__(self, github: FakeGitHub, repo: Repository, service: Service) -> None:
        self.github, self.repo, self.service = github, repo, service
        repo.hosted_agent = True
        self.issue: Issue = repo.issue("It is broken", by="alice")
        self.client = self.client_of(github.token("alice"))
        self.item = self.add()

    def client_of(self, token: str, *, kind: str = "user") -> GitHub:
        plain = PlainToken(token, kind=kind)
        return GitHub(plain, api_url=self.github.api_url, sleep=lambda _: None)

    def add(self) -> int:
        payload = json.dumps({"repository": "acme/app", "issue_number": self.issue.number})
        new = NewItem(title="Fix it", agent="copilot", payload=payload, lane="issue:acme/app#1")
        (answer,) = self.service.add([new])
        assert answer.arrival is not None
        return answer.arrival

    def start(self) -> hosted_agents.HostedStart:
        return start(self.service, self.client, self.item)

    def reconcile(self, *, later: timedelta = timedelta()) -> list[tuple[str, str]]:
        ended = reconcile(self.service, self.client, now=datetime.now(UTC) + later)
        return [(each.outcome, each.why) for each in ended]

    def pull(self, body: str = "", *, by: str = COPILOT) -> Issue:
        text = body or f"Fixes #{self.issue.number}"
        return self.repo.pull("A change", text, by=by, head=f"copilot/{by}", files={"a": by})

    def shown(self) -> Any:
        return self.service.show(self.item).item


@pytest.fixture
def scene(github: FakeGitHub, repo: Repository, tmp_path: Path) -> Iterator[Scene]:
    service = open_store(f"sqlite:///{tmp_path}/store.db")
    scene = Scene(github, repo, service)
    yield scene
    scene.client.close()
    service.close()


LATER = hosted_agents.SETTLED_AFTER


class TestStart:
    def test_the_agent_is_assigned_and_its_run_has_no_lease(self, scene: Scene) -> None:
        started = scene.start()
        assert scene.issue.assignees == [COPILOT]
        (item,) = scene.service.external()
        assert (item.id, item.run, item.external) == (scene.item, started.run, True)
        assert started.why.endswith(f"is assigned to acme/app#{scene.issue.number}.")

    def test_an_assignment_that_github_drops_gives_the_item_back_with_the_reason(self, scene: Scene) -> None:
        scene.repo.hosted_agent = False
        started = scene.start()
        assert started.run is None
        assert "did not assign copilot-swe-agent[bot]" in started.why
        assert scene.service.external() == []
        assert scene.shown().status == "pending"
        (ended,) = scene.service.show(scene.item).runs
        assert (ended.status, "did not assign" in (ended.error or "")) == ("released", True)
        # It waits until somebody may have mended it, and is not tried again at once.
        assert scene.start().why == f"Item {scene.item} cannot be claimed now."

    def test_a_refusal_gives_the_item_back(self, scene: Scene) -> None:
        scene.github.faults.refuse(403, "Resource not accessible", on="assignees")
        started = scene.start()
        assert (started.run, scene.shown().status) == (None, "pending")

    def test_without_an_answer_the_run_stays_and_the_next_look_finds_out(self, scene: Scene) -> None:
        scene.github.faults.lose_answers(times=4, on="assignees")
        started = scene.start()
        assert started.run is not None
        assert started.why.startswith("Assignment uncertain")
        assert scene.issue.assignees == [COPILOT]
        assert scene.reconcile(later=LATER) == []

    def test_only_a_users_token_can_do_it(self, scene: Scene) -> None:
        token = scene.github.actions_token(scene.repo)
        with scene.client_of(token, kind="actions") as client, pytest.raises(InvalidInput):
            start(scene.service, client, scene.item)
        assert scene.shown().status == "pending"

    def test_an_item_that_is_about_no_issue_is_refused(self, scene: Scene) -> None:
        (answer,) = scene.service.add([NewItem(title="Else", agent="copilot")])
        assert answer.arrival is not None
        with pytest.raises(InvalidInput):
            start(scene.service, scene.client, answer.arrival)


class TestEnd:
    def test_it_goes_on_while_the_agent_is_assigned_or_its_pull_request_is_open(self, scene: Scene) -> None:
        scene.start()
        assert scene.reconcile(later=LATER) == []
        scene.pull()
        scene.issue.unassign(COPILOT, by="alice")
        assert scene.reconcile(later=LATER) == []

    def test_a_merged_pull_request_completes_the_item_and_is_its_result(self, scene: Scene) -> None:
        scene.start()
        pull = scene.pull()
        pull.merge(by="alice")
        ((outcome, why),) = scene.reconcile()
        assert (outcome, why.startswith("merged: ")) == ("done", True)
        assert scene.shown().status == "completed"
        (ended,) = scene.service.show(scene.item).runs
        assert ended.result["pull_request"].endswith(f"/pull/{pull.number}")
        assert scene.reconcile() == []

    def test_a_pull_request_that_somebody_closed_ends_it_for_good(self, scene: Scene) -> None:
        scene.start()
        scene.pull().close(by="alice")
        ((outcome, why),) = scene.reconcile()
        assert (outcome, why.startswith("closed unmerged: ")) == ("cancel", True)
        assert scene.shown().status == "cancelled"

    def test_pull_requests_of_others_and_of_other_issues_say_nothing(self, scene: Scene) -> None:
        scene.start()
        scene.pull(by="bob").close(by="bob")
        scene.pull("Fixes #99").close(by="alice")
        assert scene.reconcile(later=LATER) == []

    def test_a_pull_request_that_was_closed_before_says_nothing(self, scene: Scene) -> None:
        scene.pull().close(by="alice")
        assert scene.issue.closed_at is None
        closed = next(i for i in scene.repo.numbers.values() if i.pull)
        closed.closed_at = scene.github.now() - 3600
        scene.start()
        assert scene.reconcile(later=LATER) == []

    @pytest.mark.parametrize(("reason", "outcome"), [("completed", "done"), ("not_planned", "cancel")])
    def test_a_closed_issue_ends_it(self, scene: Scene, reason: str, outcome: str) -> None:
        scene.start()
        scene.issue.close(by="alice", reason=reason)
        ((found, _),) = scene.reconcile()
        assert found == outcome

    def test_who_unassigns_the_agent_ends_it(self, scene: Scene) -> None:
        scene.start()
        scene.issue.unassign(COPILOT, by="alice")
        assert scene.reconcile() == []  # too young to tell
        ((outcome, why),) = scene.reconcile(later=LATER)
        assert (outcome, why.startswith("unassigned: ")) == ("cancel", True)

    def test_a_run_whose_starter_died_before_the_assignment_is_given_back(self, scene: Scene) -> None:
        scene.service.next("copilot", item=scene.item, external=True)
        assert scene.reconcile() == []
        ((outcome, why),) = scene.reconcile(later=LATER)
        assert (outcome, why.startswith("never assigned: ")) == ("release", True)
        assert scene.shown().status == "pending"

    def test_an_end_is_not_written_for_a_run_that_came_in_between(self, scene: Scene) -> None:
        """Taken out: the run's number in the write; the new run then ends by what the old one left."""
        scene.start()
        scene.issue.close(by="alice")
        later: list[int] = []

        def another() -> None:
            scene.service.take_back(scene.item, why="by hand")
            (lease,) = scene.service.next("copilot", item=scene.item, external=True)
            later.append(lease.fence)

        scene.github.faults.before(another, on=f"GET /repos/acme/app/issues/{scene.issue.number}")
        assert scene.reconcile() == []
        assert [i.run for i in scene.service.external()] == later
        with pytest.raises(LeaseLost):
            scene.service.end_external(scene.item, later[0] - 1, "done", why="late")


def seen(
    state: NumberState = NumberState.OPEN, *pulls: Pull, assigned: bool = True, since: bool | None = None
) -> ObservedIssue:
    return ObservedIssue(state=state, url="u", assigned=assigned, assigned_since=since, pulls=pulls)


OPEN = Pull(url="p", state=NumberState.OPEN, ended_since=False)
MERGED = Pull(url="p", state=NumberState.MERGED, ended_since=True)
CLOSED = Pull(url="p", state=NumberState.DROPPED, ended_since=True)


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        (seen(), None),
        (seen(NumberState.OPEN, OPEN, assigned=False, since=False), None),
        (seen(NumberState.OPEN, CLOSED, OPEN), None),
        (seen(NumberState.OPEN, CLOSED), Outcome.CANCEL),
        (seen(NumberState.OPEN, CLOSED, MERGED), Outcome.DONE),
        (seen(NumberState.DROPPED, MERGED), Outcome.DONE),
        (seen(NumberState.COMPLETED, OPEN), Outcome.DONE),
        (seen(NumberState.TRANSFERRED), Outcome.CANCEL),
        (seen(NumberState.DELETED), Outcome.CANCEL),
        (seen(assigned=False), None),
        (seen(assigned=False, since=True), Outcome.CANCEL),
        (seen(assigned=False, since=False), Outcome.RELEASE),
    ],
)
def test_what_became_of_it_follows_from_the_facts_alone(
    facts: ObservedIssue, outcome: Outcome | None
) -> None:
    end = run_end_of(facts)
    assert (end and end.outcome) == outcome


def test_the_command_hands_an_item_over_and_sees_its_end(scene: Scene, tmp_path: Path) -> None:
    env = {
        "GITHUB_API_URL": scene.github.api_url,
        "GITHUB_TOKEN": "",
        "GH_TOKEN": scene.github.token("alice"),
    }
    il = Command(tmp_path, url=f"sqlite:///{tmp_path}/store.db", env=env)
    scene.repo.hosted_agent = False
    dropped = il("github", "host", scene.item)
    assert (dropped.code, "did not assign" in dropped.out) == (1, True), dropped
    scene.repo.hosted_agent, scene.issue = True, scene.repo.issue("Another", by="alice")
    (answer,) = scene.service.add(
        [
            NewItem(
                title="x", agent="copilot", payload=json.dumps({"repository": "acme/app", "issue_number": 2})
            )
        ]
    )
    assert il.ok("github", "host", answer.arrival or 0)["run"] is not None
    assert il.ok("github", "reconcile", "--repo", "acme/app")["ended"] == []
    scene.issue.close(by="alice")
    ((ended),) = il.ok("github", "reconcile")["ended"]
    assert (ended["item"], ended["outcome"]) == (answer.arrival, "done")
