"""Runs stay in sync: which pull request they became, what its checks say, and what became of it."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.handles import read_handle
from interlock.core.model import NewItem
from interlock.github.ci import Ci
from interlock.github.client import GitHub
from interlock.github.intake import Intake
from interlock.github.lookup import Reader
from interlock.github.number_views import number_view
from interlock.github.reconciler import Reconciler
from interlock.github.tokens import PlainToken
from interlock.service.contract import ItemFilter
from interlock.store.links import LinkedRun, LinkStore
from tests.conformance.conftest import clock, empty_file, kept_databases, open_service  # noqa: F401
from tests.github.desk import Desk
from tests.github.issues import Issue
from tests.github.test_intake import OpenDesk, backend, desk, open_desk  # noqa: F401

# ruff: noqa: F811  (fixtures)


class Crash(BaseException):
    """The process dies here."""


def worked(desk: Desk, agent: str = "coder", **fields: Any) -> int:
    """A run of a new item that goes on; its number."""
    desk.service.add([NewItem(title="work", agent=agent, priority=10, **fields)])
    return read_handle(desk.run(agent)).run


def store_of(desk: Desk) -> str:
    return desk.store.lineage().store


def pull_of(desk: Desk, branch: str, *, message: str = "a change", body: str = "", by: str = "bob") -> Issue:
    desk.repo.commit({branch: "1"}, by=by, branch=branch, message=message)
    made = desk.repo.pull("Fix", body, by=by, head=branch)
    desk.take()
    return made


def links(desk: Desk, number: int = 1) -> list[LinkedRun]:
    return desk.store.github.links.of_number(desk.repo.id, number, 10)


def one(desk: Desk, number: int = 1) -> LinkedRun:
    (found,) = links(desk, number)
    return found


def ran(desk: Desk, branch: str, conclusion: str | None, file: str = "ci.yml", **finish: Any) -> Any:
    run = desk.repo.run(file, branch=branch, event="pull_request")
    run.start()
    if conclusion is not None:
        run.finish(conclusion, **finish)
    return run


# Which runs


def test_a_run_is_linked_by_the_branch_of_its_worktree(desk: Desk) -> None:
    run = worked(desk)
    pull_of(desk, f"interlock/run-{run}")
    found = one(desk)
    assert (found.run, found.how, found.outcome) == (run, "branch", "open")
    assert found.head == desk.repo.numbers[1].the_pull().head_sha


def test_a_run_is_linked_by_the_trailer_of_a_commit_on_any_branch(desk: Desk) -> None:
    first, second = worked(desk), worked(desk, "helper")
    desk.repo.commit({"a": "1"}, branch="fix", message=f"one\n\nInterlock-Run: {first}@{store_of(desk)}")
    pull_of(desk, "fix", message=f"two\n\nInterlock-Run: {second}@{store_of(desk)}\n")
    assert [(each.run, each.how) for each in links(desk)] == [(second, "trailer"), (first, "trailer")]


def test_another_stores_run_of_the_same_number_is_not_ours(desk: Desk) -> None:
    run = worked(desk)
    pull_of(desk, f"interlock/run-{run}", message=f"x\n\nInterlock-Run: {run}@another")
    assert links(desk) == []
    other = worked(desk, "helper", lane="issue:acme/other#7")
    pull_of(desk, f"interlock/run-{other}")
    assert links(desk, 2) == [], "it worked on another repository"
    pull_of(desk, "interlock/run-999999")
    assert links(desk, 3) == [], "there never was such a run"


def test_a_pull_request_is_linked_to_the_last_run_on_the_issue_that_it_closes(desk: Desk) -> None:
    desk.repo.issue("Crash", by="alice", assignees=["coder-bot"])
    desk.take()
    desk.finish(desk.run("coder"))
    last = desk.service.next("coder")[0]
    pull_of(desk, "mine", body="Fixes #1", by="alice")
    found = one(desk, 2)
    assert (found.run, found.item, found.how) == (last.fence, last.item.id, "closes")
    desk.repo.numbers[2].merge(by="alice")
    desk.take()
    assert one(desk, 2).outcome == "merged"
    assert desk.service.show(last.item.id).item.status == "in_progress", "a fact about it, not its end"


def test_two_runs_on_one_pull_request_share_what_its_checks_say(desk: Desk) -> None:
    first = worked(desk)
    branch = f"interlock/run-{first}"
    pull_of(desk, branch)
    ran(desk, branch, "failure")
    second = worked(desk, "helper")
    message = f"more\n\nInterlock-Run: {second}@{store_of(desk)}"
    desk.repo.commit({"b": "2"}, by="bob", branch=branch, message=message)
    ran(desk, branch, "success")
    desk.take()
    assert [(each.run, each.ci_outcome) for each in links(desk)] == [(second, "success"), (first, "success")]


# What checks say


@pytest.fixture
def followed(desk: Desk) -> str:
    """The branch of an open pull request, number 1, of a run."""
    run = worked(desk)
    pull_of(desk, f"interlock/run-{run}")
    return f"interlock/run-{run}"


def test_checks_decide_and_a_new_head_waits_again(desk: Desk, followed: str) -> None:
    assert (one(desk).ci_outcome, one(desk).ci_why) == (None, "no checks")
    run = ran(desk, followed, None)
    desk.take()
    assert (one(desk).ci_outcome, one(desk).ci_why) == ("pending", "waiting for ci")
    run.finish("failure")
    desk.take()
    assert (one(desk).ci_outcome, one(desk).ci_why) == ("failure", "ci failed")
    late = ran(desk, followed, "success", "late.yml")
    old = desk.new()
    desk.repo.commit({"a": "2"}, by="bob", branch=followed)
    desk.take()
    assert (one(desk).ci_outcome, one(desk).ci_why) == ("pending", "no check has started")
    desk.take(old)
    assert one(desk).ci_outcome == "pending", "what a replaced head says changes nothing"
    assert late.head_sha != one(desk).head
    ran(desk, followed, "success")
    desk.take()
    assert (one(desk).ci_outcome, one(desk).ci_why) == ("success", "its check passed")


def test_a_force_push_begins_anew(desk: Desk, followed: str) -> None:
    ran(desk, followed, "success")
    desk.take()
    main = desk.repo.refs()["refs/heads/main"]
    desk.repo.commit({"z": "1"}, by="bob", branch=followed, parent=main)
    desk.take()
    assert one(desk).ci_outcome == "pending"
    assert len(links(desk)) == 1


def test_an_attempt_that_runs_again_replaces_the_last_one(desk: Desk, followed: str) -> None:
    run = ran(desk, followed, "failure")
    desk.take()
    run.rerun(by="bob")
    desk.take()
    assert one(desk).ci_outcome == "pending"
    run.start()
    run.finish("success")
    desk.take()
    assert one(desk).ci_outcome == "success"
    (kept,) = desk.store.github.links.workflow_runs(desk.repo.id, one(desk).head, 10)
    assert (kept.attempt, kept.conclusion) == (2, "success")


@pytest.mark.parametrize("by_rule", [True, False])
def test_only_required_checks_count_where_the_repository_names_them(
    desk: Desk, followed: str, *, by_rule: bool
) -> None:
    desk.repo.require_checks("ci", "e2e", by_rule=by_rule)
    ran(desk, followed, "failure", "optional.yml")
    ran(desk, followed, "success")
    desk.take()
    assert (one(desk).ci_outcome, one(desk).ci_why) == ("pending", "waiting for e2e")
    desk.repo.status(one(desk).head, "success", by="bob", context="e2e")
    desk.repo.status(one(desk).head, "failure", by="bob", context="interlock/lane")
    desk.take()
    assert (one(desk).ci_outcome, one(desk).ci_why) == ("success", "all 2 required checks passed")


def test_statuses_and_checks_of_other_apps_count(desk: Desk, followed: str) -> None:
    desk.github.app_named("jenkins")
    head = one(desk).head
    check = desk.repo.check_run(head, "unit", by="bob", app="jenkins")
    desk.repo.status(head, "success", by="bob", context="ci/old")
    desk.repo.status(head, "failure", by="bob", context="interlock/lane")
    desk.take()
    assert (one(desk).ci_outcome, one(desk).ci_why) == ("pending", "waiting for unit")
    check.update(by="bob", conclusion="cancelled")
    desk.take()
    assert (one(desk).ci_outcome, one(desk).ci_why) == ("cancelled", "unit was cancelled")


def test_links_to_logs_and_artifacts_say_when_they_expire(desk: Desk, followed: str) -> None:
    run = ran(desk, followed, None)
    artifact = run.artifact("report")
    run.finish("success")
    desk.take()
    (kept,) = desk.store.github.links.workflow_runs(desk.repo.id, one(desk).head, 10)
    assert kept.url == desk.repo.hook_shapes.workflow_run(run)["html_url"]
    assert kept.logs_until_us == (run.created_at + 90 * 86_400) * 1_000_000
    assert desk.github.stamp(artifact.expires_at) in kept.artifacts
    requests = desk.client.counted
    ran(desk, followed, None, "other.yml")
    desk.take()
    route = ("GET", "/repos/{repo}/actions/runs/{run_id}/artifacts")
    assert desk.client.counted[route] == requests[route], "of an attempt that ended they are read once"


@pytest.mark.parametrize(("act", "outcome"), [("merge", "merged"), ("close", "closed")])
def test_merged_and_closed_are_kept_beside_the_run(desk: Desk, followed: str, act: str, outcome: str) -> None:
    ran(desk, followed, "success")
    getattr(desk.repo.numbers[1], act)(by="alice")
    desk.take()
    found = one(desk)
    assert (found.outcome, found.ci_outcome) == (outcome, "success")
    assert desk.service.show(found.item).runs[-1].status == "running"


def test_a_commit_that_a_run_pushed_without_a_pull_request_is_followed(desk: Desk) -> None:
    run = worked(desk)
    message = f"fix\n\nInterlock-Run: {run}@{store_of(desk)}"
    sha = desk.repo.commit({"a": "1"}, by="bob", message=message)
    build = desk.repo.run("ci.yml", branch="main", event="push")
    desk.take()
    (found,) = desk.store.github.links.of_run(run, 10)
    assert (found.number, found.head, found.ci_outcome, found.outcome) == (0, sha, "pending", None)
    desk.repo.commit({"a": "2"}, by="alice")
    build.start()
    build.finish("failure")
    desk.take()
    (found,) = desk.store.github.links.of_run(run, 10)
    assert (found.head, found.ci_outcome) == (sha, "failure")


# What people see


def test_people_see_it_in_show_why_ls_and_status(desk: Desk, followed: str) -> None:
    run = ran(desk, followed, None)
    run.artifact("report")
    run.finish("failure")
    desk.take()
    item, head = one(desk).item, one(desk).head
    shown = desk.service.show(item)
    (link,) = shown.links
    assert (link.pull_request, link.how, link.ci_outcome, link.commit) == (1, "branch", "failure", head)
    (kept,) = link.workflow_runs
    assert (kept.conclusion, kept.artifacts[0]["name"]) == ("failure", "report")
    assert (shown.item.ci_outcome, shown.item.outcome) == ("failure", None)
    assert desk.service.why(item).ci == "Its pull request acme/app#1 is open; CI: failure: ci failed."

    def listed(ci: str, **fields: Any) -> list[int]:
        return [each.id for each in desk.service.items(ItemFilter(ci=ci, **fields))]

    assert listed("failure") == [item]
    assert listed("failure", agent="nobody") == listed("success") == []
    assert item not in listed("none")
    desk.repo.numbers[1].close(by="alice")
    desk.take()
    assert [each.outcome for each in desk.service.items(ItemFilter(ci="failure"))] == ["closed"]
    (again,) = number_view(desk.service, desk.store.github, None, 1).links
    assert (again.run, again.outcome) == (link.run, "closed")
    with pytest.raises(InvalidInput, match="Unknown CI outcome"):
        listed("red")
    with pytest.raises(InvalidInput, match="cannot be combined"):
        listed("failure", asking=True)


@pytest.mark.parametrize("right", ["actions", "checks", "statuses"])
def test_a_token_without_the_right_says_so_and_loses_nothing(desk: Desk, right: str) -> None:
    """With one of the two it may not look either: a failure may be among what it does not see."""
    run = worked(desk)
    branch = f"interlock/run-{run}"
    token = desk.github.actions_token(
        desk.repo, {"issues": "read", "pull_requests": "read", "contents": "read", right: "read"}
    )
    poor = GitHub(PlainToken(token), api_url=desk.github.api_url, sleep=lambda _: None)
    desk.intake = Intake(desk.service, desk.store, Reader(poor))
    with poor:
        pull_of(desk, branch)
        ran(desk, branch, "failure")
        desk.take()
    assert (one(desk).ci_outcome, one(desk).ci_why) == (None, "the token has no permission to read checks")
    assert desk.owed() == 0


def test_without_a_token_the_branch_still_links(desk: Desk) -> None:
    run = worked(desk)
    desk.repo.pull("Fix", by="bob", head=f"interlock/run-{run}", files={"a": "1"})
    for each in desk.new():
        desk.blind.ingest(each.event, each.guid, each.body)
    found = one(desk)
    assert (found.run, found.ci_outcome) == (run, None)
    assert "no token" in found.ci_why


# Any order, crashes, and what was missed


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_deliveries_does_not_matter(open_desk: OpenDesk, seed: int) -> None:
    """Repeated and in any order, once everything has happened: the same links and outcomes."""
    rng = random.Random(seed)
    desk = open_desk()
    desk.rules()
    first, second = worked(desk), worked(desk, "helper")
    branch = f"interlock/run-{first}"
    desk.repo.pull("Fix", by="bob", head=branch, files={"a": "1"})
    run = ran(desk, branch, "failure")
    run.rerun(by="bob")
    run.finish("success")
    message = f"x\n\nInterlock-Run: {second}@{store_of(desk)}"
    desk.repo.commit({"a": "2"}, by="bob", branch=branch, message=message)
    ran(desk, branch, "success")
    ran(desk, branch, "cancelled", "lint.yml")
    desk.repo.numbers[1].merge(by="alice")
    deliveries = desk.new() * 2
    rng.shuffle(deliveries)
    desk.take(deliveries)
    found = links(desk)
    assert [(each.run, each.how) for each in found] == [(second, "trailer"), (first, "branch")]
    assert {(each.ci_outcome, each.ci_why, each.outcome) for each in found} == {
        ("cancelled", "lint was cancelled", "merged")
    }
    assert {each.head for each in found} == {desk.repo.numbers[1].the_pull().head_sha}
    assert len(desk.store.github.links.workflow_runs(desk.repo.id, found[0].head, 10)) == 2


@pytest.mark.parametrize("moment", [(LinkStore, "head"), (Ci, "checks")])
def test_whoever_looked_before_a_push_does_not_overwrite_who_looked_after_it(
    open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch, moment: tuple[type, str]
) -> None:
    """One looks; before it goes on, somebody pushes and another process looks."""
    desk, other = open_desk(), open_desk()
    desk.rules()
    branch = f"interlock/run-{worked(desk)}"
    pull_of(desk, branch)
    other.new()
    ran(desk, branch, "success")
    late = desk.new()
    real, looks = getattr(*moment), 0

    def slow(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        first = looks == 1
        found = real(*args) if moment[0] is Ci else None
        if first:
            desk.repo.commit({"a": "2"}, by="bob", branch=branch)
            ran(desk, branch, "failure")
            other.take()
        return real(*args) if moment[0] is LinkStore else found

    monkeypatch.setattr(*moment, slow)
    desk.take(late[-1:])
    assert looks > 1
    assert (one(desk).ci_outcome, one(desk).head) == ("failure", desk.repo.numbers[1].the_pull().head_sha)


def test_a_crash_at_any_request_or_write_is_made_up_for(
    desk: Desk, followed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each delivery dies after n steps, for every n; the sweep goes on. The end is the same."""
    links_type = type(desk.store.github.links)
    steps, allowed = 0, 0

    def dying(work: Any) -> Any:
        def step(*args: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == allowed:
                raise Crash
            return work(*args, **named)

        return step

    for owner, name in ((links_type, "advance"), (links_type, "head"), (GitHub, "get"), (GitHub, "pages")):
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))
    for n in range(1, 12):
        ran(desk, followed, "failure" if n % 2 else "success")
        for each in desk.new():
            steps, allowed = 0, n
            with suppress(Crash):
                desk.intake.ingest(each.event, each.guid, each.body)
        steps, allowed = 0, 0
        while desk.intake.sweep().decided:
            pass
        assert one(desk).ci_outcome == ("failure" if n % 2 else "success"), n
        assert desk.owed() == 0


def test_reconciling_finds_what_no_delivery_told_of(desk: Desk, followed: str) -> None:
    run = ran(desk, followed, None)
    desk.take()
    assert one(desk).ci_outcome == "pending"
    run.finish("success")
    desk.new()  # lost
    reconciler = Reconciler(desk.intake, desk.service, desk.store.github, desk.client)
    assert reconciler.see_checks() == 1
    assert one(desk).ci_outcome == "success"
    list(reconciler.look_at_all(["acme/app"]))
    desk.github.clock.advance(5)
    desk.repo.commit({"b": "1"}, by="bob", branch=followed)
    desk.new()  # lost
    list(reconciler.look_at_all(["acme/app"]))
    reconciler.see_checks()
    assert one(desk).ci_outcome == "pending"
    desk.clock.advance(3_601)
    reconciler.see_checks()
    assert (one(desk).ci_outcome, one(desk).ci_why) == (None, "no checks")
