"""`interlock github`: ingest, status, sweep and send, as a person or a script calls them."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from interlock.github.effects import Assignment, Comment, IssueRef
from interlock.store.outbox import Effect
from interlock.store.sqlite.store import SqliteStore
from tests.acceptance.command import Command, CommandHere
from tests.git_fixtures import git
from tests.github.fake import FakeGitHub, Repository
from tests.github.hooks import Delivery
from tests.patience import PATIENCE_S


@pytest.fixture
def here(tmp_path: Path, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command in this process, with a token for the fake."""
    for name in ("INTERLOCK_GITHUB_TOKEN", "GITHUB_TOKEN", "INTERLOCK_GITHUB_APP_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GH_TOKEN", github.token("boss"))
    monkeypatch.setenv("GITHUB_API_URL", github.api_url)
    return CommandHere(tmp_path)


def ingest(here: Command, delivery: Delivery) -> dict[str, object]:
    args = ("--event", delivery.event, "--delivery", delivery.guid, "-")
    return dict(here.ok("github", "ingest", *args, stdin=delivery.body))


def test_a_delivery_becomes_an_item_that_status_explains(here: Command, repo: Repository) -> None:
    repo.issue("Crash", by="alice", labels=["bug"])
    opened, labeled = (d for d in repo.github.deliveries if d.event == "issues")
    assert ingest(here, opened)["status"] == "decided"
    assert ingest(here, opened)["status"] == "repeated"
    assert ingest(here, labeled)["outcome"] == "#1: no change"
    shown = here.ok("github", "status", 1)
    assert shown["facts"]["labels"] == ["bug"]
    assert [(each["type"], each["priority"]) for each in shown["wanted"]] == [("issue_triage", 8)]
    assert [item["type"] for item in shown["items"]] == ["issue_triage"]
    assert [(each["name"], each["status"]) for each in shown["follows"]] == [("1.1:add", "done")]
    text = here("github", "status", 1, "--repo", "Acme/App").out
    assert "acme/app#1  open: Crash" in text
    assert "lane issue:acme/app#1" in text


def payload(name: str = "acme/app", repository: int = 7, number: int = 1, **parts: object) -> bytes:
    issue = {
        "number": number,
        "state": "open",
        "title": "Crash",
        "user": {"login": "alice"},
        "html_url": "",
        "labels": [],
        "assignees": [],
        "updated_at": "2026-11-01T12:00:00Z",
    }
    body = {"action": "opened", "repository": {"id": repository, "full_name": name}}
    return json.dumps({**body, "issue": {**issue, **parts}}).encode()


@pytest.fixture
def blind(here: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command without a token."""
    monkeypatch.delenv("GH_TOKEN")
    return here


def take(blind: Command, delivery: str, body: bytes) -> str:
    answer = blind("github", "ingest", "--event", "issues", "--delivery", delivery, "-", stdin=body)
    assert answer.code == 0
    return answer.out


class TestWithoutAToken:
    def test_an_old_delivery_does_not_bring_back_an_old_name(self, blind: Command) -> None:
        take(blind, "1", payload("acme/new"))
        take(blind, "2", payload("acme/old", number=2))
        take(blind, "3", payload("no slash", number=3))
        assert blind.ok("github", "status", "2")["repository"] == "acme/new"

    def test_a_time_that_is_none_hides_nothing_that_comes_later(self, blind: Command) -> None:
        take(blind, "1", payload(updated_at="garbage"))
        take(blind, "2", payload(state="closed", updated_at="2026-11-02T12:00:00Z"))
        assert blind.ok("github", "status", "1")["facts"]["state"] == "completed"

    def test_what_cannot_be_read_is_kept_and_status_says_why(self, blind: Command) -> None:
        assert "Will be retried: The payload lacks data about #1" in take(blind, "1", payload(labels=None))
        (left,) = blind.ok("github", "status", "1")["deliveries"]
        assert "Without a token GitHub cannot be asked" in left["why"]

    def test_a_repository_that_was_made_again_hides_nothing_of_the_old_one(self, blind: Command) -> None:
        take(blind, "1", payload(repository=7, number=1))
        take(blind, "2", payload(repository=8, number=2))
        assert [blind("github", "status", n, "--repo", "acme/app").code for n in ("1", "2", "#1")] == [
            0,
            0,
            0,
        ]
        assert blind("github", "status", "3", "--repo", "acme/app").code == 1

    @pytest.mark.parametrize("number", ["x", "0", "99999999999999999999"])
    def test_what_is_no_number_is_refused(self, blind: Command, number: str) -> None:
        assert blind("github", "status", number).code == 2


UNHEARD = "Event '{}' creates no work."


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            "isues",
            f"{UNHEARD.format('isues')} Did you mean 'issues'?",
        ),
        ("star", UNHEARD.format("star")),
        ("issues", ""),
        ("sub_issues", ""),
    ],
)
def test_an_event_of_which_nothing_is_made_is_named(here: Command, event: str, said: str) -> None:
    body = '{"issue": {}}'
    answer = here("github", "ingest", "--event", event, "--delivery", "d1", "-", stdin=body)
    assert answer.code == 0
    assert answer.err.strip() == said


def test_what_was_decided_on_a_workflow_run_is_said(here: Command, repo: Repository) -> None:
    """Taken out: the words for an event without any. It printed "Decided:" and nothing else."""
    repo.commit({"a": "1"}, by="alice", branch="main")
    repo.run("ci.yml", branch="main", event="push")
    (requested,) = (each for each in repo.github.deliveries if each.event == "workflow_run")
    args = ("--event", requested.event, "--delivery", requested.guid, "-")
    said = here("github", "ingest", *args, stdin=requested.body).out
    assert said == "Decided: Event 'workflow_run.requested' creates no work.\n"


def test_what_github_did_not_answer_is_done_by_a_sweep(
    here: Command, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.github.intake.back_off_s", lambda _: 0.0)
    repo.issue("Crash", by="alice")
    (opened,) = (d for d in repo.github.deliveries if d.event == "issues")
    file = tmp_path / "opened.json"
    file.write_bytes(opened.body)
    repo.github.faults.refuse(403, "Resource not accessible", on="GET /repos/acme/app/issues/1")
    answer = here("github", "ingest", "--event", "issues", "--delivery", "d1", str(file))
    assert (answer.code, answer.out.startswith("Will be retried: ")) == (0, True)
    shown = here.ok("github", "status", 1)
    assert (shown["facts"], len(shown["deliveries"]), shown["deliveries"][0]["tries"]) == (None, 1, 1)
    for _ in range(11):
        repo.github.faults.refuse(403, "Resource not accessible", on="GET /repos/acme/app/issues/1")
    while here.ok("github", "status", 1)["deliveries"][0]["due_at"] is not None:
        assert here.ok("github", "sweep") == {"decided": 0, "put_off": 1, "carried_out": 0}
    assert here.ok("github", "sweep", "--again") == {"decided": 1, "put_off": 0, "carried_out": 1}
    assert len(here.ok("ls")["items"]) == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("status", "1"), "There is no store yet"),
        (("ingest", "--event", "issues", "--delivery", "d1", "no-such-file"), "no-such-file cannot be read"),
        (("ingest", "--event", "Issues!", "--delivery", "d1", "-"), "is not a valid event name"),
        (("ingest", "--event", "issues", "--delivery", "", "-"), "is not a valid delivery id"),
        (("ingest", "--event", "issues", "--delivery", "d1", "-"), "not valid JSON"),
    ],
)
def test_mistakes_are_named(here: Command, args: tuple[str, ...], says: str) -> None:
    answer = here("github", *args, stdin="{")
    assert answer.code != 0
    assert says in answer.err


def test_status_of_what_was_never_seen(here: Command, repo: Repository) -> None:
    assert repo.full_name == "acme/app"
    body = json.dumps({"repository": {"id": repo.id, "full_name": "acme/app"}})
    here.ok("github", "ingest", "--event", "star", "--delivery", "d1", "-", stdin=body)
    assert "has not seen acme/app#3" in here("github", "status", 3).err
    assert "has not seen repository acme/other" in here("github", "status", 3, "--repo", "acme/other").err


def test_processes_that_take_in_one_number_at_once_make_each_thing_once(
    here: Command, repo: Repository, tmp_path: Path, github: FakeGitHub
) -> None:
    """Each round, two deliveries of one issue meet two processes, whose looks at it wait for each other."""
    here.ok("ls")
    il = Command(tmp_path, env={"GH_TOKEN": os.environ["GH_TOKEN"], "GITHUB_API_URL": github.api_url})
    repo.collaborator("coder-bot")
    repo.commit({".github/interlock.toml": '[agents]\ncoder-bot = "coder"\n'})
    issue = repo.issue("Crash", by="alice", assignees=["coder-bot"])
    rounds = [[d for d in github.deliveries if d.event == "issues"]]
    for name in ("bug", "feature"):
        seen = len(github.deliveries)
        issue.label(name, by="alice")
        issue.edit(by="alice", title=f"Crash of {name}")
        rounds.append([d for d in github.deliveries[seen:] if d.event == "issues"])
    for deliveries in rounds:
        go = threading.Event()
        held = [github.faults.hold(on="GET /repos/acme/app/issues/1", until=go) for _ in deliveries]
        processes = []
        for n, each in enumerate(deliveries):
            file = tmp_path / f"{each.guid}.json"
            file.write_bytes(each.body)
            args = ("--event", each.event, "--delivery", each.guid, str(file))
            processes.append(il.start("github", "ingest", *args))
            assert held[n].wait(PATIENCE_S)
        go.set()
        for process in processes:
            said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, said
    here.ok("github", "sweep")
    found = here.ok("ls")["items"]
    assert sorted((i["type"], i["agent"], i["priority"]) for i in found) == [
        ("issue_triage", None, 8),
        ("issue_work", "coder", 8),
    ]
    shown = here.ok("github", "status", 1)
    assert {each["status"] for each in shown["follows"]} == {"done"}
    assert shown["deliveries"] == []


def enqueue(here: Command, repo: Repository, *effects: Effect) -> None:
    """As whoever causes them does, in the command's own store."""
    here.ok("migrate")
    store = SqliteStore(here.directory / ".interlock" / "interlock.db")
    store.github.repository(repo.id, repo.full_name)
    store.github.outbox.enqueue(effects)
    store.close()


def test_what_is_owed_is_sent_and_shown(here: Command, repo: Repository) -> None:
    issue = repo.issue("Crash", by="alice")
    place = IssueRef(repo.id, issue.number)
    enqueue(
        here, repo, Comment(text="hello").row(place, "c1"), Assignment(logins=["nobody"]).row(place, "a1")
    )
    assert "Queued for GitHub: 2: interlock github send" in here("ls").out
    assert "Queued for GitHub: 2" in here("top").out
    answer = here("github", "send")
    assert answer.out.splitlines()[0] == "1 sent, 1 postponed."
    assert answer.out.splitlines()[1].startswith("More is queued: next in ")
    assert [comment.body.split("\n")[0] for comment in issue.comments] == ["hello"]
    shown = here.ok("github", "status", 1)["effects"]
    assert [(each["name"], each["status"]) for each in shown] == [("a1", "owed"), ("c1", "done")]
    assert "comment c1 done: posted" in here("github", "status", 1).out
    assert here.ok("github", "send") == {
        "sent": 0,
        "dropped": 0,
        "put_off": 0,
        "dead": 0,
        "stopped": "",
        "next_s": pytest.approx(15, abs=6),
    }


def test_what_waits_for_a_person_is_seen_everywhere_and_sent_again(
    here: Command, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.service.relay.REFUSALS", 1)
    issue = repo.issue("Crash", by="alice")
    enqueue(here, repo, Comment(text="hello").row(IssueRef(repo.id, issue.number), "c1"))
    repo.github.faults.refuse(403, "This issue is locked", on="/comments")
    assert here("github", "send").out == "0 sent, 1 failed: interlock doctor shows the reasons.\n"
    for command in (("ls",), ("ls", "--dead"), ("top",)):
        assert "Queued for GitHub: 1, 1 of them failed: interlock doctor" in here(*command).out
    checks = {each["name"]: each for each in here("--json", "doctor").json["checks"]}
    told = checks["no_dead_effects"]
    assert (told["ok"], "acme/app#1 comment: " in told["detail"], "locked" in told["detail"]) == (
        False,
        True,
        True,
    )
    assert here.ok("github", "send", "--again")["sent"] == 1
    assert "Owed" not in here("ls").out
    assert len(issue.comments) == 1


def test_nobody_sends_without_a_token(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GH_TOKEN")
    assert "No GitHub token" in here("github", "send").err


def test_a_run_is_followed_from_its_worktree_to_its_merge(
    here: Command, github: FakeGitHub, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything real: a worker in a clone, an agent that commits and pushes with git, events, commands."""
    login = f"http://x:{github.token('boss')}@{repo.clone_url.removeprefix('http://')}"
    repo.commit({"README": "hi"})
    for args in (("init", "-q"), ("remote", "add", "origin", login), ("pull", "-q", "origin", "main")):
        git(tmp_path, *args)
    git(tmp_path, "branch", "-q", "--set-upstream-to=origin/main")
    repo.commit({".github/interlock.toml": '[agents]\nboss = "coder"\n'})
    agent = 'echo 2 > README && git commit -qam "Say more" && git push -q origin HEAD:refs/heads/any'
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "boss")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "boss@example.org")
    item = here.ok("add", "work")["item"]["id"]
    worked = here("work", "--agent", "coder", "--worktree", "--limit", 1, "--", "sh", "-c", agent)
    assert worked.code == 0, worked.out + worked.err
    pull = repo.pull("Fix", by="boss", head="any")
    run = repo.run("ci.yml", branch="any", event="pull_request")
    run.artifact("report")
    run.start()
    run.finish("failure", log="E   assert 1 == 2")
    for delivery in github.deliveries:
        ingest(here, delivery)
    (link,) = here.ok("show", item)["links"]
    assert (link["pull_request"], link["how"], link["ci_outcome"]) == (pull.number, "trailer", "failure")
    listed = here("ls", "--ci", "failure").out
    assert "failure" in listed.splitlines()[1]
    assert "CI" in listed.splitlines()[0]
    assert [each["id"] for each in here.ok("ls", "--ci", "failure")["items"]] == [item]
    assert here("ls", "--ci", "success").out.startswith("No item matches.")
    assert here("ls", "--ci", "red").code == 2
    assert "Its pull request acme/app#1 is open; CI: failure: ci failed." in here("why", item).out
    shown = here("show", item).out
    assert "run 1  acme/app#1 open, found by its trailer" in shown
    assert f"CI of {link['commit'][:12]}: failure: ci failed" in shown
    assert "report until 20" in shown
    assert "run 1  acme/app#1 open" in here("github", "status", 1).out
    (failure,) = here.ok("ls", "--type", "build_failure")["items"]
    assert (failure["lane"], failure["agent"]) == ("issue:acme/app#1", "coder")
    payload = here.ok("show", failure["id"])["item"]["payload"]
    assert (payload["log_tail"], payload["job"]) == ("E   assert 1 == 2", "build")
    seen = len(github.deliveries)
    pull.merge(by="boss")
    for delivery in github.deliveries[seen:]:
        ingest(here, delivery)
    (merged,) = here.ok("ls", "--ci", "failure")["items"]
    assert (merged["status"], merged["outcome"]) == ("completed", "merged")
    assert here.ok("github", "reconcile")["checked"] == 0
