"""Rules that make work of the end of an issue or pull request, and of a check that passes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.model import Policy
from interlock.core.policies import Policies
from interlock.github.delivery import read
from interlock.github.intake import Intake
from interlock.github.lookup import Reader
from interlock.service.contract import Report
from interlock.service.local import LocalService
from tests.conformance.conftest import clock, empty_file, kept_databases, open_service  # noqa: F401
from tests.github.desk import Desk
from tests.github.test_failures import pull, ran  # noqa: F401
from tests.github.test_intake import OpenDesk, backend, desk, open_desk  # noqa: F401

# ruff: noqa: F811  (fixtures)

ENDS = """
[[rule]]
event = "pull_request.merged"
branch = "main"
type = "release_notes"
agent = "coder"

[[rule]]
event = ["issues.closed", "pull_request.closed"]
type = "farewell"
"""
GREEN = """
[[rule]]
event = "workflow_run.completed"
conclusion = "success"
branch = "main"
check = "ci"
type = "deploy"
"""


def kinds(desk: Desk) -> list[tuple[str, str | None, str]]:
    shown = (desk.service.show(item.id).item for item in desk.open())
    return sorted((i.type, i.agent, str((i.payload or {})["event_type"])) for i in shown)


def test_a_merge_makes_release_notes_and_ends_the_review(desk: Desk) -> None:
    desk.rules(ENDS)
    desk.repo.commit({"a": "1"}, by="alice", branch="fix")
    made = desk.repo.pull("Fix", by="alice", head="fix")
    desk.take()
    assert [item.type for item in desk.open()] == ["pr_review"]
    made.merge(by="alice")
    deliveries = desk.new()
    desk.take(deliveries)
    desk.take(deliveries)
    assert kinds(desk) == [("release_notes", "coder", "pull_request.merged")]
    made.comment("Well done", by="alice")
    desk.take()
    desk.intake.sweep()
    assert [item.type for item in desk.open()] == ["release_notes"]


def test_a_closed_issue_and_a_pull_request_closed_without_merging_make_work_too(desk: Desk) -> None:
    desk.rules(ENDS)
    desk.repo.commit({"a": "1"}, by="alice", branch="fix")
    made, issue = desk.repo.pull("Fix", by="alice", head="fix"), desk.repo.issue("Crash", by="alice")
    desk.take()
    made.close(by="alice")
    issue.close(by="alice")
    desk.take()
    assert kinds(desk) == [("farewell", None, "issues.closed"), ("farewell", None, "pull_request.closed")]
    issue.reopen(by="alice")
    desk.take()
    assert kinds(desk) == [
        ("farewell", None, "pull_request.closed"),
        ("issue_triage", None, "issues.reopened"),
    ]


def test_an_end_at_first_sight_makes_work_only_if_it_is_delivered(desk: Desk) -> None:
    desk.rules(ENDS)
    old, new = (desk.repo.issue(title, by="alice") for title in ("Old", "New"))
    old.close(by="alice")
    desk.new()
    old.comment("Thanks", by="alice")
    new.close(by="alice")
    desk.take()
    assert [item.lane for item in desk.open()] == [f"issue:acme/app#{new.number}"]


def test_work_for_the_end_survives_a_run_that_fails_after_it(desk: Desk) -> None:
    desk.rules(ENDS)
    issue = desk.repo.issue("Crash", by="alice")
    desk.take()
    lease = desk.run("critic")
    issue.close(by="alice")
    desk.take()
    desk.intake.sweep()  # the history is followed from here
    desk.service.fail([Report(run=lease, error="broken")])
    desk.intake.sweep()
    assert [item.type for item in desk.open()] == ["farewell"]


def test_a_green_run_of_the_main_branch_makes_a_deployment(desk: Desk) -> None:
    desk.rules(GREEN)
    desk.repo.commit({"a": "1"}, by="alice", branch="side")
    for branch, conclusion in (("main", "failure"), ("side", "success"), ("main", "success")):
        ran(desk, conclusion, branch=branch, event="push")
    desk.take()
    assert kinds(desk) == [("deploy", None, "workflow_run.completed")]
    (item,) = desk.open()
    assert item.lane == "branch:acme/app:main"
    assert item.title.startswith("ci passed on main at ")


@pytest.mark.parametrize("how", ["green", "moved"])
def test_work_for_a_failed_check_is_withdrawn_when_the_check_passes_or_the_head_moves(
    desk: Desk, pull: Any, how: str
) -> None:
    run = ran(desk, "failure")
    desk.take()
    (item,) = desk.open()
    if how == "green":
        run.rerun(by="bob")
        run.start()
        run.finish("success")
    else:
        desk.repo.commit({"a": "2"}, by="bob", branch="fix")
    desk.take()
    ended = desk.service.show(item.id)
    assert ended.item.status == "cancelled"
    assert "build_failure" not in [each.type for each in desk.open()]


def test_work_for_two_failed_checks_stays_until_both_pass(desk: Desk, pull: Any) -> None:
    runs = [ran(desk, "failure"), desk.repo.run("lint.yml", branch="fix", event="pull_request")]
    runs[1].start()
    runs[1].finish("failure")
    desk.take()
    (item,) = desk.open()
    for run, left in zip(runs, (1, 0), strict=True):
        run.rerun(by="bob")
        run.start()
        run.finish("success")
        desk.take()
        assert len(desk.open()) == left
    assert desk.service.show(item.id).item.status == "cancelled"


def test_a_deployment_that_was_told_to_a_failure_outlives_it(desk: Desk) -> None:
    desk.rules(GREEN)
    lint = desk.repo.run("lint.yml", branch="main", event="push")
    lint.start()
    lint.finish("failure")
    ran(desk, "success", branch="main", event="push")
    desk.take()
    lint.rerun(by="bob")
    lint.start()
    lint.finish("success")
    desk.take()
    assert [item.type for item in desk.open()] == ["deploy"]


def test_a_run_on_a_failed_check_goes_on_when_its_own_push_moves_the_head(desk: Desk, pull: Any) -> None:
    ran(desk, "failure")
    desk.take()
    (lease,) = desk.service.next("coder")
    desk.repo.commit({"a": "2"}, by="coder-bot", branch="fix")
    desk.take()
    item = desk.service.show(lease.item.id).item
    assert (item.status, item.cancel_requested) == ("in_progress", False)


def test_a_late_green_run_of_an_older_commit_withdraws_nothing(desk: Desk) -> None:
    first = ran(desk, "failure", branch="main", event="push")
    desk.repo.commit({"a": "2"}, by="bob")
    ran(desk, "failure", branch="main", event="push")
    desk.take()
    first.rerun(by="bob")
    first.start()
    first.finish("success")
    desk.take()
    assert [item.type for item in desk.open()] == ["build_failure"]


def test_an_issue_that_is_first_seen_by_its_label_has_the_event_of_the_label(desk: Desk) -> None:
    issue = desk.repo.issue("Crash", by="alice", labels=["documentation"])
    desk.new()
    issue.label("bug", by="alice")
    desk.take()
    (item,) = desk.open()
    payload = desk.service.show(item.id).item.payload or {}
    assert (payload["event_type"], payload["label"], item.priority) == ("issues.labeled", "bug", 8)


def test_reviews_and_failures_have_priorities_of_their_own_which_labels_and_tables_replace(
    desk: Desk,
) -> None:
    desk.repo.commit({"a": "1"}, by="coder-bot", branch="fix")
    desk.repo.commit({"a": "2"}, by="coder-bot", branch="docs")
    desk.repo.pull("Fix", by="coder-bot", head="fix")
    desk.repo.pull("Docs", by="coder-bot", head="docs").label("documentation", by="alice")
    ran(desk, "failure", branch="main", event="push")
    desk.take()
    found = {(item.type, item.priority) for item in desk.open()}
    assert found == {("pr_review", 5), ("pr_review", 3), ("build_failure", 8)}
    desk.rules("[priorities]\npr_review = 7\n")
    desk.repo.commit({"b": "1"}, by="coder-bot", branch="more")
    desk.repo.pull("More", by="coder-bot", head="more")
    desk.take()
    assert ("pr_review", 7) in {(item.type, item.priority) for item in desk.open()}


def test_without_a_token_events_of_one_second_in_swapped_order_leave_no_work_on_a_closed_issue(
    desk: Desk, open_desk: OpenDesk
) -> None:
    desk.github.clock.stop(desk.github.now())
    issue = desk.repo.issue("Crash", by="alice")
    opened = desk.new()
    issue.label("bug", by="alice")
    labeled = desk.new()
    issue.close(by="alice")
    closed = desk.new()
    issue.reopen(by="alice")
    reopened = desk.new()
    for deliveries, left in (
        ([*closed, *labeled, *opened], 0),
        ([*opened, *closed, *labeled], 0),
        ([*opened, *closed, *labeled, *reopened], 1),
    ):
        other = open_desk(elsewhere=True)
        for each in deliveries:
            other.blind.ingest(each.event, each.guid, each.body)
        assert len(other.open()) == left


def test_a_sender_without_a_login_is_refused_in_a_sentence() -> None:
    body = json.dumps({"sender": {"id": 7}, "repository": {"id": 1, "full_name": "acme/app"}}).encode()
    with pytest.raises(InvalidInput) as caught:
        read("issues", "d-1", body)
    assert caught.value.sentence == "The payload's 'sender' has no 'login'."


def test_a_rule_that_names_a_policy_beats_the_settings_and_the_default_rules_do_not(desk: Desk) -> None:
    policies = Policies(types={"pr_review": Policy.LATEST, "implement": Policy.LATEST, "open": Policy.LATEST})
    desk.intake = Intake(LocalService(desk.store, policies=policies), desk.store, Reader(desk.client))
    named = '[[rule]]\nevent = "issues.labeled"\nlabel = "{0}"\ntype = "{0}"\n'
    desk.rules(named.format("implement") + 'policy = "queue"\n' + named.format("open"))
    desk.repo.commit({"a": "1"}, by="alice", branch="fix")
    desk.repo.pull("Fix", by="alice", head="fix")
    desk.repo.issue("One", by="alice", labels=["implement"])
    desk.repo.issue("Two", by="alice", labels=["open"])
    desk.take()
    found = {item.type: item.policy for item in desk.open()}
    assert found == {
        "pr_review": "latest",
        "implement": "queue",
        "open": "latest",
        "issue_triage": "coalesce",
    }
