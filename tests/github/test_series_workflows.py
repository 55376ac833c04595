"""Series through the files that `interlock series init` writes, on every store, with their permissions."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from interlock.github import client
from interlock.github.series import issues
from tests.acceptance.command import CommandHere
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.github.runner import Done, Runner
from tests.github.test_series_at_once import most_at_once

BOT = "coder-bot"
TEN_MINUTES_S = 601
GENERATED = "as generated"


class Workplace:
    """A repository with the generated workflows, and one store behind them."""

    def __init__(
        self, github: FakeGitHub, repo: Repository, directory: Path, url: str | None, mode: str
    ) -> None:
        repo.collaborator(BOT)
        self.github, self.repo, self.url = github, repo, url
        (directory / "desk").mkdir()
        self.desk = CommandHere(directory / "desk", env={"INTERLOCK_URL": url or f"git+file://{repo.bare}"})
        found = self.desk.ok("series", "init", "--dry-run", "--stage", mode, "--install", "interlock")
        self.runner = Runner(
            github,
            repo,
            directory,
            found["files"],
            variables={"INTERLOCK_SERIES_ASSIGNEE": BOT},
            url=url,
        )

    def issue(self, micro: int, series: str = "RFC-093", *, by: str = "alice", **more: Any) -> Issue:
        return self.repo.issue(f"{series}-{micro:02}: Part {micro}", by=by, **more)

    def reconcile(self) -> Done:
        return self.runner.run("series.yml")

    def assign(self, issue: Issue) -> Done:
        return self.runner.run("assign.yml", inputs={"number": str(issue.number)}, event="workflow_dispatch")

    def keeper_environ(self) -> dict[str, str]:
        """For a person who has a token and the same store."""
        return {
            **self.desk.env,
            "GH_TOKEN": self.github.token("boss"),
            "GITHUB_API_URL": self.github.api_url,
            "GITHUB_REPOSITORY": "acme/app",
            "INTERLOCK_SERIES_ASSIGNEE": BOT,
        }

    def state(self, series: str = "RFC-093") -> str:
        """What the state issue says."""
        return self.repo.numbers[self.status(series)["state_issue"]].body or ""

    def later(self, seconds: float = TEN_MINUTES_S) -> None:
        """What a database put off is due by then; its clock is not GitHub's."""
        self.github.clock.advance(seconds)
        due = "UPDATE {}github_outboxes SET due_us = 1 WHERE due_us IS NOT NULL"
        if self.url is not None and self.url.startswith("sqlite:"):
            with closing(apsw.Connection(self.url.removeprefix("sqlite:///"))) as file:
                file.execute(due.format(""))
        elif self.url is not None and self.url.startswith("postgres"):
            with psycopg.connect(self.url) as database:
                database.execute(due.format("interlock.").encode())

    def merge(self, issue: Issue) -> None:
        head = f"fix-{issue.number}"
        text = f"Closes #{issue.number}"
        self.repo.pull(f"Fix {head}", text, by="bob", head=head, files={head: "x"}).merge(by="boss")

    def status(self, series: str = "RFC-093") -> dict[str, Any]:
        (found,) = self.desk.ok("series", "status", series, "--repo", "acme/app")["series"]
        return dict(found)

    def doctor(self) -> str:
        (found,) = [c for c in self.desk("--json", "doctor").json["checks"] if c["name"] == "series"]
        return "" if found["ok"] else found["detail"]

    def assigned(self) -> dict[int, list[str]]:
        return {
            number: sorted(issue.assignees)
            for number, issue in self.repo.numbers.items()
            if issue.assignees and issue.state == "open" and not issue.deleted
        }


def workplace(request: pytest.FixtureRequest, store: str, mode: str) -> Workplace:
    github, repo, tmp_path = (request.getfixturevalue(each) for each in ("github", "repo", "tmp_path"))
    limits = github.faults.limits
    limits.hourly = dict.fromkeys(limits.hourly, 10**9)
    limits.creations_per_minute = limits.creations_per_hour = 10**9
    urls = {"sqlite": f"sqlite:///{tmp_path}/store.db", "git": f"git+file://{repo.bare}", GENERATED: None}
    url = request.getfixturevalue("pg_database18") if store == "postgres18" else urls[store]
    return Workplace(github, repo, tmp_path, url, mode)


@pytest.fixture(params=["sqlite", "postgres18", "git"])
def at(request: pytest.FixtureRequest) -> Workplace:
    return workplace(request, request.param, "comment")


#: For loops as a whole: on git through the very address that the files name, with the job's token.
as_generated = pytest.mark.parametrize("at", ["sqlite", "postgres18", GENERATED], indirect=True)


@as_generated
def test_queued_merged_promoted_assigned(at: Workplace) -> None:
    """The whole loop: whoever asked while the series was taken asked for a place in line, and no more."""
    first, second = at.issue(1), at.issue(2)
    done = at.assign(first)
    assert done.green, done.said
    assert done.outputs["status"] == "acquired"
    assert at.assigned() == {first.number: [BOT]}
    done = at.assign(second)
    assert done.green, "an issue that has to wait is no failure"
    assert (done.outputs["status"], done.outputs["assign"]) == ("queued", "false")
    at.merge(first)
    done = at.reconcile()
    assert done.green, done.said
    assert at.assigned() == {second.number: [BOT]}
    assert json.loads(done.files["assignment_mutex_metrics.json"])["promotion_events"] == 2
    assert at.status()["active_issue"] == second.number
    assert most_at_once(at.repo) == 1


@as_generated
def test_a_dispatch_leads_to_one_assignment(at: Workplace) -> None:
    """A promotion starts the workflow; its acquire is told to assign once, and nobody else is."""
    at.runner.variables["INTERLOCK_SERIES_WORKFLOW"] = "assign.yml"
    first = at.issue(1)
    done = at.reconcile()
    assert done.green, done.said
    assert "#1 is assigned" not in done.said
    assert "assign.yml" in done.said
    assert at.assigned() == {}
    (told,) = at.runner.run_dispatched()
    assert told.green, told.said
    assert told.outputs["assign"] == "true"
    assert at.assigned() == {first.number: [BOT]}
    assert at.assign(first).outputs["assign"] == "false"
    assert at.reconcile().green
    assert at.runner.run_dispatched() == []


def test_a_dispatch_that_leads_nowhere_is_reported_and_repeated(at: Workplace) -> None:
    at.runner.variables["INTERLOCK_SERIES_WORKFLOW"] = "assign.yml"
    first = at.issue(1)
    at.reconcile()
    for run in at.repo.workflow_runs.values():
        run.finish("cancelled")
    assert at.status()["problems"] == []
    at.later()
    at.reconcile()
    (problem,) = at.status()["problems"]
    assert "#1 has no assignee" in problem
    assert "assign.yml" in problem
    assert problem in at.doctor()
    (told,) = at.runner.run_dispatched()
    assert told.outputs["assign"] == "true"
    assert at.assigned() == {first.number: [BOT]}
    at.reconcile()
    assert at.status()["problems"] == []
    assert at.doctor() == ""


@pytest.mark.parametrize(
    ("at", "fault"),
    [("sqlite", "429"), ("sqlite", "500"), ("postgres18", "403"), ("git", "403")],
    indirect=["at"],
)
def test_who_took_the_lane_and_did_not_assign_is_replaced(at: Workplace, fault: str) -> None:
    """Whatever ends the job after the lane is taken, the series goes on ten minutes later."""
    first = at.issue(1)
    faults = at.github.faults
    if fault == "429":
        faults.throttle(10**9, status=429, retry_after_s=3600, on="/assignees")
    elif fault == "500":
        faults.fail(500, 10**9, on="/assignees")
    else:
        faults.refuse(403, "Resource not accessible by integration", 10**9, on="/assignees")
    done = at.assign(first)
    assert done.outputs["assign"] == "true"
    assert not done.green
    faults.over()
    at.later(300)
    at.reconcile()
    assert at.assigned() == {}, "whoever was told may still do so"
    at.later(302)
    at.reconcile()
    assert at.assigned() == {first.number: [BOT]}
    (problem,) = at.status()["problems"]
    assert "#1 had no assignee for 10 minutes" in problem
    at.reconcile()
    assert at.status()["problems"] == []


def test_the_old_issue_is_unassigned_before_the_new_one_is_assigned(at: Workplace) -> None:
    """On release, on promote --force and where an issue yields; not at all while GitHub keeps the old one."""
    first, second, third = at.issue(1), at.issue(2), at.issue(3)
    at.reconcile()
    at.reconcile()
    keep = CommandHere(at.desk.directory, env=at.keeper_environ())
    keep.ok("series", "release", first.number)
    assert at.assigned() == {second.number: [BOT]}
    keep.ok("series", "promote", "RFC-093", "--force")
    assert at.assigned() == {third.number: [BOT]}
    fourth = at.issue(4)
    third.add_blocker(fourth, by="alice")
    at.reconcile()
    assert at.assigned() == {fourth.number: [BOT]}
    fifth = at.issue(5)
    at.reconcile()
    at.github.faults.refuse(403, "Resource not accessible by integration", 10**9, on="DELETE ")
    keep.ok("series", "promote", "RFC-093", "--force")
    assert at.assigned() == {fourth.number: [BOT]}
    at.github.faults.over()
    at.later()
    at.reconcile()
    at.reconcile()
    assert at.assigned() == {fifth.number: [BOT]}
    assert most_at_once(at.repo) == 1


@pytest.mark.parametrize(
    ("at", "status"),
    [("sqlite", 451), ("sqlite", 403), ("sqlite", 500), ("postgres18", 451), ("git", 451)],
    indirect=["at"],
)
def test_a_dependency_that_cannot_be_read_concerns_one_issue(
    at: Workplace, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_TRIES", 1)
    far = at.github.repository("acme/lib", admin=["boss"]).issue("Groundwork", by="boss")
    first, second = at.issue(1, body=f"Depends on acme/lib#{far.number}"), at.issue(2)
    other = at.issue(1, "RFC-094")
    if status == 500:
        at.github.faults.fail(500, 10**9, on="/repos/acme/lib/")
    else:
        at.github.faults.refuse(status, "Repository access blocked", 10**9, on="/repos/acme/lib/")
    at.reconcile()
    assert at.assigned() == {second.number: [BOT], other.number: [BOT]}
    (problem,) = at.status()["problems"]
    assert f"#{first.number} waits: acme/lib#{far.number} cannot be read" in problem
    assert problem in at.doctor()
    assert problem in at.state()
    assert at.status("RFC-094")["problems"] == []


def test_one_series_fails_alone(at: Workplace) -> None:
    """Here the state issue of one cannot be written, and the history of another one's issue not be read."""
    issues = {name: (at.issue(1, name), at.issue(2, name)) for name in ("RFC-001", "RFC-002", "RFC-003")}
    at.reconcile()
    at.reconcile()
    for first, _ in issues.values():
        at.merge(first)
    locked = at.status("RFC-001")["state_issue"]
    faults = at.github.faults
    faults.refuse(403, "Issue is locked", 10**9, on=f"PATCH /repos/acme/app/issues/{locked}")
    faults.refuse(451, "Unavailable", 10**9, on=f"/issues/{issues['RFC-002'][0].number}/timeline")
    done = at.reconcile()
    assert not done.green
    seconds = [issues[name][1].number for name in ("RFC-001", "RFC-003")]
    assert at.assigned() == {number: [BOT] for number in seconds}
    assert "Could not update the state issue" in at.status("RFC-001")["problems"][0]
    assert "451" in at.status("RFC-002")["problems"][0]
    assert "451" in at.state("RFC-002")
    assert "451" in at.doctor()
    assert at.status("RFC-003")["problems"] == []
    faults.over()
    assert at.reconcile().green
    assert len(at.assigned()) == 3
    assert at.doctor() == ""


def test_a_strangers_issue_is_ignored_unless_somebody_who_may_write_labels_it(at: Workplace) -> None:
    at.repo.collaborator("reader", "read")
    at.repo.collaborator("sorter", "triage")
    first = at.issue(1)
    strange = [at.issue(0, by=who) for who in ("mallory", "reader", "sorter")]
    lone = at.issue(1, "RFC-666", by="mallory")
    assert at.reconcile().green
    assert at.assigned() == {first.number: [BOT]}
    assert [each["number"] for each in at.status()["ignored"]] == [each.number for each in strange]
    assert at.status()["ignored"][0]["why"].startswith("mallory has no write access to acme/app")
    assert "mallory has no write access" in at.state()
    assert at.desk.ok("series", "status", "RFC-666", "--repo", "acme/app")["series"] == []
    done = at.assign(strange[0])
    assert (done.green, done.outputs["status"], done.outputs["assign"]) == (False, "ignored", "false")
    assert at.assign(lone).outputs["assign"] == "false"
    strange[0].label("rfc-series", by="sorter")
    at.reconcile()
    assert "not set by an account with write access" in at.status()["ignored"][0]["why"]
    strange[0].label("rfc-series", by="boss")
    strange[0].unlabel("rfc-series", by="boss")
    strange[0].label("rfc-series", by="boss")
    strange[0].edit(by="mallory", body=f"Depends on #{first.number}, #{strange[1].number}")
    at.reconcile()
    assert at.status()["queue"] == [strange[0].number]
    assert '"Depends on" lines are ignored' in at.status()["ignored"][0]["why"]
    strange[0].edit(by="mallory", title="RFC-093-07: Other")
    at.reconcile()
    assert at.status()["queue"] == []
    assert at.assigned() == {first.number: [BOT]}


def test_a_stale_read_after_a_merge_changes_nothing(at: Workplace) -> None:
    first, second = at.issue(1), at.issue(2)
    at.reconcile()
    at.reconcile()
    with at.github.faults.stale_reads():
        stale = at.github.faults.stale
    at.later(5)
    at.merge(first)
    at.reconcile()
    at.reconcile()
    at.later(5)
    before, counts = at.status(), len(first.timeline)
    at.github.faults.stale = stale
    assert at.reconcile().green
    at.github.faults.stale = None
    assert len(first.timeline) == counts, "nobody touched the closed issue"
    for name in ("active_issue", "queue", "metrics"):
        assert at.status()[name] == before[name]
    assert not any("manual edit" in each.body for each in at.repo.numbers[before["state_issue"]].comments)
    assert at.reconcile().green
    assert at.assigned() == {second.number: [BOT]}
    first.unassign(BOT, by="alice")
    first.reopen(by="alice")
    at.reconcile()
    assert at.status()["queue"] == [first.number], "what is opened again is a member again"


def test_a_state_issue_that_github_does_not_show_yet(at: Workplace) -> None:
    first = at.issue(1)
    number = max(at.repo.numbers) + 1
    at.github.faults.refuse(404, "Not Found", 10**9, on=f"/issues/{number}")
    at.github.faults.hide_issue(number)
    assert at.reconcile().green
    assert at.reconcile().green
    assert at.assigned() == {first.number: [BOT]}
    at.github.faults.over()
    at.later()
    assert at.reconcile().green
    assert [i.number for i in at.repo.numbers.values() if "Series State" in i.title] == [number]
    assert len(at.repo.numbers[number].comments) == 1, "the promotion is told once"
    assert at.status()["problems"] == []


def test_cycles_and_too_many_issues_are_reported(at: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = at.issue(1), at.issue(2)
    far = at.issue(1, "RFC-094", body=f"Depends on #{second.number}")
    first.edit(by="alice", body=f"Depends on #{second.number}")
    second.edit(by="alice", body="Depends on RFC-094")
    last = at.issue(3)
    at.reconcile()
    (problem,) = at.status()["problems"]
    assert f"Dependency cycle: #{second.number} → #{far.number} → #{second.number}." in problem
    assert at.status("RFC-094")["problems"][0].startswith("Dependency cycle: ")
    assert "Dependency cycle" in at.doctor()
    assert "Dependency cycle" in at.state()
    assert at.assigned() == {last.number: [BOT]}
    far.edit(by="alice", body="")
    at.reconcile()
    assert at.status()["problems"] == []
    monkeypatch.setattr(issues, "OPEN_MAX", 2)
    assert at.reconcile().green
    assert at.status()["problems"] == ["acme/app has more than 2 open issues: only the oldest 2 are read."]
    assert "more than 2 open issues" in at.doctor()
    assert at.status()["active_issue"] == last.number, "what the list lacks is read by its number"


def test_a_manual_unassign_is_reflected_by_the_next_cron(at: Workplace) -> None:
    first, second = at.issue(1), at.issue(2)
    at.reconcile()
    at.reconcile()
    first.unassign(BOT, by="alice")
    at.later(900)
    at.reconcile()
    assert at.assigned() == {second.number: [BOT]}
    assert at.status()["waiting"] == [{"number": first.number, "why": "released"}]


@pytest.mark.parametrize("file", ["series.yml", "assign.yml"])
def test_each_permission_that_a_generated_workflow_asks_for_is_needed(
    request: pytest.FixtureRequest, file: str
) -> None:
    """Less, and a run fails or says what it could not do; the fake enforces it."""
    at = workplace(request, GENERATED, "comment")
    first = at.issue(1)
    (job,) = at.runner.workflows[file]["jobs"].values()
    if file == "series.yml":
        at.runner.variables["INTERLOCK_SERIES_WORKFLOW"] = "assign.yml"
    for name in (*(["actions"] if file == "series.yml" else []), "contents", "issues"):
        level = job["permissions"][name]
        job["permissions"][name] = "read"
        done = at.assign(first) if file == "assign.yml" else at.reconcile()
        known = at.desk.ok("series", "status", "--repo", "acme/app")["series"]
        assert not done.green or any(view["problems"] for view in known), name
        assert at.assigned() == {}
        job["permissions"][name] = level
