"""Each request of `github.effects` does at GitHub what it says; twice is harmless where it says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interlock.core.errors import GitHubRefused, InvalidInput
from interlock.github import effects
from interlock.github.client import Answer, GitHub
from interlock.github.effects import Request, Subject
from interlock.github.remarks import marks
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


def sent(client: GitHub, request: Request) -> Answer:
    return client.send(request.method, request.route, request.body, **request.options())


def test_a_comment_is_found_again_by_its_mark(client: GitHub, issue: Issue) -> None:
    text = effects.marked("Done.", agent="coder", effect="a1")
    made = sent(client, effects.comment(APP, issue.number, text)).body
    assert effects.has_mark(made["body"], effect="a1")
    assert not effects.has_mark(made["body"], effect="a2")
    assert marks(made["body"])["agent"] == "coder"
    sent(client, effects.edit_comment(APP, made["id"], effects.marked("Better.", effect="a1")))
    assert [comment.body.split("\n")[0] for comment in issue.comments] == ["Better."]


def test_a_text_that_is_too_long_is_cut_and_keeps_its_mark(client: GitHub, issue: Issue) -> None:
    made = sent(client, effects.comment(APP, issue.number, effects.marked("x " * 35_000, effect="a1"))).body
    assert len(made["body"]) == effects.COMMENT_MAX
    assert effects.has_mark(made["body"], effect="a1")


def test_a_reaction_comes_once_and_goes(client: GitHub, repo: Repository, issue: Issue) -> None:
    comment = issue.comment("look", by="bob")
    for subject, there in (
        (Subject("issue", 1), issue.reactions),
        (Subject("comment", comment.id), comment.reactions),
    ):
        first, second = (sent(client, effects.react(APP, subject)).body["id"] for _ in range(2))
        assert first == second
        assert [reaction.content for reaction in there] == ["eyes"]
        sent(client, effects.unreact(APP, subject, first))
        assert there == []
        with pytest.raises(GitHubRefused) as gone:
            sent(client, effects.unreact(APP, subject, first))
        assert gone.value.status == 404


def test_labels_and_assignees_come_and_go_and_dropped_names_are_named(client: GitHub, issue: Issue) -> None:
    for _ in range(2):
        sent(client, effects.label(APP, 1, ["bug", "new/one"]))
    assert issue.labels == ["bug", "new/one"]
    sent(client, effects.unlabel(APP, 1, "new/one"))
    assert issue.labels == ["bug"]
    answer = sent(client, effects.assign(APP, 1, ["Bob", "stranger"])).body
    assert effects.not_assigned(answer, ["Bob", "stranger"]) == ("stranger",)
    answer = sent(client, effects.unassign(APP, 1, ["bob"])).body
    assert effects.assigned(answer, ["bob"]) == ()


def test_a_hosted_agent_is_listed_under_another_name(client: GitHub, repo: Repository, issue: Issue) -> None:
    repo.hosted_agent = True
    agent = ["copilot-swe-agent[bot]"]
    assert effects.not_assigned(sent(client, effects.assign(APP, 1, agent)).body, agent) == ()


def test_a_review_is_asked_for(client: GitHub, repo: Repository) -> None:
    pull = repo.pull("topic", by="alice", head="topic", files={"a": "1"})
    sent(client, effects.request_review(APP, pull.number, ["bob"]))
    assert pull.the_pull().reviewers == ["bob"]


def test_a_workflow_is_dispatched_and_cancelled_in_the_end_by_force(client: GitHub, repo: Repository) -> None:
    repo.workflow("agent.yml", inputs=["number"])
    run_id = sent(client, effects.dispatch(APP, "agent.yml", "main", {"number": "7"})).body["workflow_run_id"]
    run = repo.workflow_runs[run_id]
    run.stubborn = True
    run.start()
    assert sent(client, effects.cancel_run(APP, run_id)).status == 202
    assert run.status == "in_progress"
    assert sent(client, effects.force_cancel_run(APP, run_id)).status == 202
    assert run.conclusion == "cancelled"
    with pytest.raises(GitHubRefused) as ended:
        sent(client, effects.cancel_run(APP, run_id))
    assert ended.value.status == 409


def test_a_status_shows_who_holds_the_lane(client: GitHub, repo: Repository) -> None:
    sha = repo.refs()["refs/heads/main"]
    for state in ("pending", "failure"):
        sent(client, effects.status(APP, sha, state, description="x" * 200, url="https://example.com/run"))
    assert [(s.context, s.state) for s in repo.newest_statuses(sha)] == [("interlock/lane", "failure")]


def test_what_github_does_not_know_is_refused_here() -> None:
    with pytest.raises(InvalidInput, match="'wave' is no reaction"):
        effects.react(APP, Subject("issue", 1), "wave")
    with pytest.raises(InvalidInput, match="'green' is no state"):
        effects.status(APP, "a" * 40, "green")
