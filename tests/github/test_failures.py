"""A failed check becomes work on the lane of its pull request, or of its branch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import clock, empty_file, kept_databases, open_service  # noqa: F401
from tests.github.desk import Desk
from tests.github.issues import Issue
from tests.github.test_intake import OpenDesk, backend, desk, open_desk  # noqa: F401

# ruff: noqa: F811  (fixtures)


@pytest.fixture
def pull(desk: Desk) -> Issue:
    """A pull request of the agent coder whose review is done."""
    desk.repo.commit({"a": "1"}, by="coder-bot", branch="fix")
    made = desk.repo.pull("Fix", by="coder-bot", head="fix")
    desk.take()
    desk.finish(desk.run("critic"))
    return made


def ran(desk: Desk, conclusion: str, *, branch: str = "fix", event: str = "pull_request") -> Any:
    run = desk.repo.run("ci.yml", branch=branch, event=event)
    run.start()
    run.finish(conclusion)
    return run


def test_a_failed_run_is_work_for_the_agent_that_opened_the_pull_request(desk: Desk, pull: Issue) -> None:
    run = ran(desk, "failure")
    deliveries = desk.new()
    desk.take(deliveries)
    desk.take(deliveries)
    (item,) = desk.open()
    assert (item.type, item.agent, item.lane) == ("build_failure", "coder", "issue:acme/app#1")
    sha = pull.the_pull().head_sha
    assert item.title == f"ci failed on #1 at {sha[:12]}"
    (message,) = desk.service.show(item.id).messages
    assert (message.reason, message.url) == (
        "check_failed",
        desk.repo.hook_shapes.workflow_run(run)["html_url"],
    )
    payload = desk.service.show(item.id).item.payload
    assert payload is not None
    assert (payload["event_type"], payload["pr_number"]) == ("workflow_run.completed", 1)
    assert (payload["head_sha"], payload["branch"]) == (sha, "fix")


@pytest.mark.parametrize("conclusion", ["success", "cancelled", "skipped", "neutral"])
def test_other_conclusions_make_nothing(desk: Desk, pull: Issue, conclusion: str) -> None:
    ran(desk, conclusion)
    desk.take()
    assert desk.open() == []
    assert pull.state == "open"


def test_a_run_that_runs_again_has_not_failed_and_each_attempt_fails_once(desk: Desk, pull: Issue) -> None:
    run = ran(desk, "failure")
    first = desk.new()
    run.rerun(by="bob")
    desk.take(first)
    desk.take()
    assert desk.open() == []
    run.start()
    run.finish("timed_out")
    desk.take()
    assert [i.type for i in desk.open()] == ["build_failure"]
    assert pull.number == 1


def test_the_failure_of_an_old_commit_has_been_replaced(desk: Desk, pull: Issue) -> None:
    ran(desk, "failure")
    failed = desk.new()
    desk.repo.commit({"a": "2"}, by="coder-bot", branch="fix")
    desk.take(failed)
    assert [i.type for i in desk.open()] == ["pr_review"], "of the new head"
    assert pull.number == 1


def test_a_failure_on_a_branch_without_a_pull_request_is_on_the_lane_of_the_branch(desk: Desk) -> None:
    ran(desk, "failure", branch="main", event="push")
    ran(desk, "failure", branch="main", event="push")
    desk.take()
    (item,) = desk.open()
    assert (item.type, item.agent, item.lane) == ("build_failure", None, "branch:acme/app:main")
    assert item.messages == 2
    payload = desk.service.show(item.id).item.payload
    assert payload is not None
    assert {"issue_number", "pr_number"}.isdisjoint(payload)


def test_a_workflow_that_checks_nothing_makes_nothing(desk: Desk) -> None:
    """An agent's own workflow, which a comment has started, must not become work when it fails."""
    ran(desk, "failure", branch="main", event="issue_comment")
    ran(desk, "failure", branch="main", event="workflow_dispatch")
    desk.take()
    assert desk.open() == []


def test_checks_of_others_make_what_rules_say(desk: Desk, pull: Issue) -> None:
    desk.github.app_named("jenkins")
    sha = pull.the_pull().head_sha

    def fail() -> None:
        desk.repo.check_run(sha, "unit", by="bob", app="jenkins").update(by="bob", conclusion="failure")
        desk.repo.check_run(sha, "lint", by="bob").update(by="bob", conclusion="failure")
        desk.repo.status(sha, "failure", by="bob", context="ci/old")
        desk.repo.status(sha, "failure", by="bob", context="interlock/lane")
        desk.take()

    fail()
    assert desk.open() == [], "no default rule is for them"
    desk.rules('[[rule]]\nevent = ["check_run", "status"]\ntype = "check"\n')
    fail()
    (item,) = desk.open()
    assert [text for text, _ in desk.said(item)] == [
        f"unit failed on #1 at {sha[:12]}.",
        f"ci/old failed on #1 at {sha[:12]}.",
    ]


def test_a_failed_check_of_the_own_bots_push_is_not_muted(desk: Desk, pull: Issue) -> None:
    """Facts are never muted, whoever caused them: here the agent's own push, on its own lane."""
    for n in range(3):
        desk.repo.commit({"a": str(n + 2)}, by="coder-bot", branch="fix")
        ran(desk, "failure")
        desk.take()
        assert ("build_failure", "coder") in {(i.type, i.agent) for i in desk.open()}
        for agent in ("critic", "coder"):
            desk.finish(desk.run(agent))
    assert pull.number == 1


def test_the_end_of_the_log_comes_with_the_work(desk: Desk, pull: Issue) -> None:
    """Clean, bounded, read once, and the token goes to GitHub only: the fake's storage refuses one."""
    noise = "".join(f"2026-11-17T10:00:00.1234567Z \x1b[31mline {n}\x1b[0m\r\n" for n in range(3_000))
    secret = desk.client.token.text(lambda *_: {})
    end = f"##[error]\x07 token {secret} and ghp_{'x' * 36}\nprogress 1%\rprogress 99%\nü\x00 ends"
    run = desk.repo.run("ci.yml", branch="fix", event="pull_request")
    run.start()
    run.finish("failure", log=noise + end)
    desk.take()
    (item,) = desk.open()
    payload = desk.service.show(item.id).item.payload
    assert payload is not None
    lines = payload["log_tail"].split("\n")
    assert lines[-4:] == ["line 2999", "##[error] token *** and ***", "progress 99%", "ü ends"]
    assert len(lines) == 100
    assert (payload["job"], payload["job_url"]) == (
        "build",
        desk.repo.hook_shapes.job(run.jobs[-1])["html_url"],
    )
    assert payload["log_expires_at"] == desk.github.stamp(run.created_at + 90 * 86_400)
    assert pull.number == 1


def test_a_long_log_costs_its_end_only(desk: Desk, pull: Issue) -> None:
    run = desk.repo.run("ci.yml", branch="fix", event="pull_request")
    run.start()
    run.finish("failure", log="é" * 3_000_000 + "\nthe end")
    desk.take()
    payload = desk.service.show(desk.open()[0].id).item.payload
    assert payload is not None
    assert payload["log_tail"] == "the end"
    assert pull.number == 1


def test_a_log_that_is_gone_or_away_holds_up_nothing(desk: Desk, pull: Issue) -> None:
    run = ran(desk, "failure")
    desk.github.clock.advance(91 * 86_400)
    desk.take()
    (item,) = desk.open()
    payload = desk.service.show(item.id).item.payload
    assert payload is not None
    assert payload["job"] == "build"
    assert "log_tail" not in payload
    assert (run.status, pull.number) == ("completed", 1)
