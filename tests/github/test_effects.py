"""Each request of `github.effects` does at GitHub what it says; twice is harmless where it says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interlock.core.errors import GitHubRefused, InvalidInput
from interlock.github import effects
from interlock.github.client import GitHub
from interlock.github.effects import ReactionTarget
from interlock.github.remarks import COMMENT_MAX, has_mark, marked, marks
from interlock.github.tokens import PlainToken
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue

APP = "acme/app"


@pytest.fixture
def client(github: FakeGitHub, repo: Repository) -> Iterator[GitHub]:
    with GitHub(PlainToken(github.token("alice")), api_url=github.api_url, clock=github.clock) as client:
        yield client


@pytest.fixture
def issue(repo: Repository) -> Issue:
    return repo.issue("one", by="carol")


def test_a_comment_is_found_again_by_its_mark(client: GitHub, issue: Issue) -> None:
    text = marked("Done.", agent="coder", effect="a1")
    made = effects.Comment(text=text).request(APP, issue.number).send(client).body
    assert has_mark(made["body"], effect="a1")
    assert not has_mark(made["body"], effect="a2")
    assert marks(made["body"])["agent"] == "coder"
    better = effects.StickyComment(text=marked("Better.", effect="a1"), topic="t")
    better.edit_request(APP, made["id"]).send(client)
    assert [comment.body.split("\n")[0] for comment in issue.comments] == ["Better."]


def test_a_text_that_is_too_long_is_cut_and_keeps_its_mark(client: GitHub, issue: Issue) -> None:
    comment = effects.Comment(text=marked("x " * 35_000, effect="a1"))
    made = comment.request(APP, issue.number).send(client).body
    assert len(made["body"]) == COMMENT_MAX
    assert has_mark(made["body"], effect="a1")


def test_a_reaction_comes_once_and_goes(client: GitHub, repo: Repository, issue: Issue) -> None:
    comment = issue.comment("look", by="bob")
    for subject, there in (
        (ReactionTarget("issue", 1), issue.reactions),
        (ReactionTarget("comment", comment.id), comment.reactions),
    ):
        reaction = effects.Reaction.on(subject).request(APP)
        first, second = (reaction.send(client).body["id"] for _ in range(2))
        assert first == second
        assert [each.content for each in there] == ["eyes"]
        removal = effects.ReactionRemoval.on(subject).removal_request(APP, first)
        removal.send(client)
        assert there == []
        with pytest.raises(GitHubRefused) as gone:
            removal.send(client)
        assert gone.value.status == 404


def test_labels_are_added_and_dropped_assignees_are_named(client: GitHub, issue: Issue) -> None:
    for _ in range(2):
        effects.LabelAddition(labels=["bug", "new/one"]).request(APP, 1).send(client)
    assert issue.labels == ["bug", "new/one"]
    answer = effects.Assignment(logins=["Bob", "stranger"]).request(APP, 1).send(client).body
    assert effects.not_assigned(answer, ["Bob", "stranger"]) == ("stranger",)
    answer = effects.AssignmentRemoval(logins=["bob"]).request(APP, 1).send(client).body
    assert effects.assigned(answer, ["bob"]) == ()


def test_a_hosted_agent_is_listed_under_another_name(client: GitHub, repo: Repository, issue: Issue) -> None:
    repo.hosted_agent = True
    agent = ["copilot-swe-agent[bot]"]
    answer = effects.Assignment(logins=agent).request(APP, 1).send(client).body
    assert effects.not_assigned(answer, agent) == ()


def test_a_workflow_is_dispatched(client: GitHub, repo: Repository) -> None:
    repo.workflow("agent.yml", inputs=["number"])
    started = effects.Dispatch(workflow="agent.yml", ref="main", inputs={"number": "7"})
    run_id = started.request(APP).send(client).body["workflow_run_id"]
    assert repo.workflow_runs[run_id].inputs == {"number": "7"}


def test_a_status_shows_who_holds_the_lane(client: GitHub, repo: Repository) -> None:
    sha = repo.refs()["refs/heads/main"]
    for state in ("pending", "failure"):
        shown = effects.CommitStatus(
            sha=sha, state=state, description="x" * 200, url="https://example.com/run"
        )
        shown.request(APP).send(client)
    assert [(s.context, s.state) for s in repo.newest_statuses(sha)] == [("interlock/lane", "failure")]


def test_what_github_does_not_know_is_refused_here() -> None:
    with pytest.raises(InvalidInput, match="'wave' is not a reaction"):
        effects.Reaction.on(ReactionTarget("issue", 1), "wave")
    with pytest.raises(InvalidInput, match="'green' is not a state"):
        effects.CommitStatus(sha="a" * 40, state="green").request(APP)
