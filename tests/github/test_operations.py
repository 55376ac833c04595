"""Every operation of the fake, asked once or more.

The `github` fixture holds each answer and each delivery against GitHub's own descriptions when a test ends.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest

from tests.github.fake import FakeGitHub, Repository
from tests.github.fixtures import ask
from tests.github.openapi import OLD_VERSION, VERSIONS

R = "/repos/acme/app"
Ask = Callable[..., Any]


@pytest.fixture
def alice(github: FakeGitHub, repo: Repository) -> Ask:
    return _asker(github, github.token("alice"))


@pytest.fixture
def boss(github: FakeGitHub, repo: Repository) -> Ask:
    return _asker(github, github.token("boss"))


def _asker(github: FakeGitHub, token: str) -> Ask:
    def asked(line: str, body: Any = None, status: int = 200, version: str = VERSIONS[-1]) -> Any:
        """The body of an answer that has this status. Reads are asked in every version."""
        method, path = line.split(" ", 1)
        for other in VERSIONS if method == "GET" else ():
            ask(github, method, path, token=token, version=other)
        answer = ask(github, method, path, body, token=token, version=version)
        assert answer.status == status, (line, answer.body)
        return answer.body

    return asked


def test_accounts_limits_and_the_repository(
    github: FakeGitHub, repo: Repository, alice: Ask, boss: Ask
) -> None:
    assert alice("GET /user")["login"] == "alice"
    assert alice("GET /rate_limit")["rate"]["limit"] == 5000
    assert alice(f"GET {R}")["permissions"]["push"] is True
    assert alice(f"GET {R}/collaborators/bob/permission")["permission"] == "write"
    assert alice(f"GET {R}/collaborators/carol/permission", status=404)["message"] == "Not Found"
    alice(f"GET {R}/assignees/bob", status=204)
    assert boss(f"PATCH {R}", {"name": "app2"})["full_name"] == "acme/app2"


def test_labels(repo: Repository, alice: Ask) -> None:
    assert [label["name"] for label in alice(f"GET {R}/labels")] == ["bug"]
    alice(f"POST {R}/labels", {"name": "agent", "color": "00ff00"}, 201)
    assert alice(f"POST {R}/labels", {"name": "Agent"}, 422)["errors"][0]["code"] == "already_exists"
    assert alice(f"GET {R}/labels/agent")["color"] == "00ff00"
    assert alice(f"PATCH {R}/labels/agent", {"new_name": "robot"})["name"] == "robot"
    issue = repo.issue("one", by="carol", labels=["bug"])
    assert len(alice(f"POST {R}/issues/{issue.number}/labels", {"labels": ["robot", "new"]})) == 3
    alice(f"DELETE {R}/issues/{issue.number}/labels/new")
    assert (
        alice(f"DELETE {R}/issues/{issue.number}/labels/new", status=404)["message"] == "Label does not exist"
    )
    alice(f"PUT {R}/issues/{issue.number}/labels", {"labels": ["bug"]})
    assert [label["name"] for label in alice(f"GET {R}/issues/{issue.number}/labels")] == ["bug"]
    alice(f"DELETE {R}/labels/robot", status=204)


def test_issues_comments_and_reactions(github: FakeGitHub, repo: Repository, alice: Ask) -> None:
    made = alice(f"POST {R}/issues", {"title": "one", "labels": ["bug"], "assignees": ["nobody", "bob"]}, 201)
    assert [user["login"] for user in made["assignees"]] == ["bob"], "an unknown name is dropped silently"
    assert "assignee" not in made
    assert alice(f"POST {R}/issues", {"title": "two"}, 201, OLD_VERSION)["assignee"] is None
    closed = alice(f"PATCH {R}/issues/1", {"state": "closed", "state_reason": "not_planned"})
    assert (closed["state"], closed["state_reason"]) == ("closed", "not_planned")
    assert alice(f"PATCH {R}/issues/1", {"state": "open"})["state_reason"] == "reopened"
    assert (
        alice(f"POST {R}/issues/1/assignees", {"assignees": ["alice", "ghost"]}, 201)["assignees"][-1][
            "login"
        ]
        == "alice"
    )
    assert len(alice(f"DELETE {R}/issues/1/assignees", {"assignees": ["alice"]})["assignees"]) == 1
    comment = alice(f"POST {R}/issues/2/comments", {"body": "see #1"}, 201)
    assert alice(f"PATCH {R}/issues/comments/{comment['id']}", {"body": "look"})["body"] == "look"
    for subject in (f"{R}/issues/comments/{comment['id']}", f"{R}/issues/1"):
        first = alice(f"POST {subject}/reactions", {"content": "eyes"}, 201)
        assert alice(f"POST {subject}/reactions", {"content": "eyes"}, 200)["id"] == first["id"]
        assert len(alice(f"GET {subject}/reactions?content=eyes")) == 1
        alice(f"DELETE {subject}/reactions/{first['id']}", status=204)
    assert [c["id"] for c in alice(f"GET {R}/issues/2/comments")] == [comment["id"]]
    assert [c["id"] for c in alice(f"GET {R}/issues/comments?sort=updated")] == [comment["id"]]
    assert alice(f"GET {R}/issues/comments/{comment['id']}")["body"] == "look"
    events = [entry["event"] for entry in alice(f"GET {R}/issues/1/timeline")]
    assert {"labeled", "assigned", "closed", "reopened", "cross-referenced"} <= set(events)
    assert "cross-referenced" not in [entry["event"] for entry in alice(f"GET {R}/issues/1/events")]
    alice(f"DELETE {R}/issues/comments/{comment['id']}", status=204)
    assert [i["number"] for i in alice(f"GET {R}/issues?labels=bug&state=all")] == [1]
    assert alice(f"GET {R}/issues/1")["author_association"] == "COLLABORATOR"
    query = urllib.parse.quote("repo:acme/app is:issue is:open label:bug one")
    assert [i["number"] for i in alice(f"GET /search/issues?q={query}")["items"]] == [1]
    assert github.events().count("issues.opened") == 2


def test_sub_issues_and_blockers(repo: Repository, alice: Ask) -> None:
    one, two = repo.issue("one", by="carol"), repo.issue("two", by="carol")
    alice(f"POST {R}/issues/1/sub_issues", {"sub_issue_id": two.id}, 201)
    assert alice(f"GET {R}/issues/1/sub_issues")[0]["number"] == 2
    assert alice(f"GET {R}/issues/2/parent")["number"] == 1
    alice(f"DELETE {R}/issues/1/sub_issue", {"sub_issue_id": two.id})
    alice(f"POST {R}/issues/1/dependencies/blocked_by", {"issue_id": two.id}, 201)
    assert alice(f"GET {R}/issues/1")["issue_dependencies_summary"]["blocked_by"] == 1
    assert alice(f"GET {R}/issues/1/dependencies/blocked_by")[0]["id"] == two.id
    assert alice(f"GET {R}/issues/2/dependencies/blocking")[0]["id"] == one.id
    alice(f"DELETE {R}/issues/1/dependencies/blocked_by/{two.id}")


def test_pull_requests_and_reviews(github: FakeGitHub, repo: Repository, alice: Ask) -> None:
    repo.issue("one", by="carol")
    sha = repo.commit({"a": "1\n"}, branch="feature", by="bob")
    new = {"title": "Mend", "head": "feature", "base": "main", "body": "Fixes #1"}
    assert alice(f"POST {R}/pulls", new, 201)["number"] == 2, "issues and pull requests share numbers"
    assert "already exists" in str(alice(f"POST {R}/pulls", new, 422)["errors"])
    for path in ("pulls", "pulls/2", "pulls/2/files", "issues/2", f"commits/{sha}/pulls"):
        alice(f"GET {R}/{path}")
    assert alice(f"GET {R}/issues/1/timeline")[0]["source"]["issue"]["pull_request"]["merged_at"] is None
    alice(f"PATCH {R}/pulls/2", {"title": "Mend it"})
    alice(f"POST {R}/pulls/2/requested_reviewers", {"reviewers": ["alice"]}, 422)
    alice(f"POST {R}/pulls/2/requested_reviewers", {"reviewers": ["bob", "boss"]}, 201)
    alice(f"DELETE {R}/pulls/2/requested_reviewers", {"reviewers": ["boss"]})
    bob = _asker(github, github.token("bob"))
    comments = [{"path": "a", "body": "why?", "line": 1}]
    review = bob(
        f"POST {R}/pulls/2/reviews", {"event": "REQUEST_CHANGES", "body": "no", "comments": comments}
    )
    assert alice(f"GET {R}/pulls/2/requested_reviewers") == {"users": [], "teams": []}
    [comment] = alice(f"GET {R}/pulls/2/comments")
    alice(f"POST {R}/pulls/2/comments/{comment['id']}/replies", {"body": "because"}, 201)
    own = alice(f"POST {R}/pulls/2/comments", {"body": "b", "path": "a", "line": 1, "commit_id": sha}, 201)[
        "id"
    ]
    alice(f"PATCH {R}/pulls/comments/{own}", {"body": "c"})
    reaction = alice(f"POST {R}/pulls/comments/{own}/reactions", {"content": "eyes"}, 201)["id"]
    alice(f"GET {R}/pulls/comments/{own}/reactions")
    alice(f"DELETE {R}/pulls/comments/{own}/reactions/{reaction}", status=204)
    alice(f"GET {R}/pulls/comments/{own}")
    alice(f"DELETE {R}/pulls/comments/{own}", status=204)
    assert alice(f"GET {R}/pulls/2/reviews")[0]["state"] == "CHANGES_REQUESTED"
    dismissed = alice(f"PUT {R}/pulls/2/reviews/{review['id']}/dismissals", {"message": "outdated"})
    assert dismissed["state"] == "DISMISSED"
    draft = bob(f"POST {R}/pulls/2/reviews", {"body": "still thinking"})
    assert draft["id"] not in {r["id"] for r in alice(f"GET {R}/pulls/2/reviews")}
    bob(f"POST {R}/pulls/2/reviews/{draft['id']}/events", {"event": "APPROVE"})
    repo.numbers[2].to_draft(by="alice")
    alice(f"PUT {R}/pulls/2/merge", {}, 405)
    repo.numbers[2].ready(by="alice")
    repo.commit({"a": "2\n"}, branch="feature", by="bob")
    alice(f"PUT {R}/pulls/2/merge", {"sha": sha}, 409)
    alice(f"PUT {R}/pulls/2/merge", {})
    assert (repo.numbers[1].state, repo.numbers[1].state_reason) == ("closed", "completed")
    assert "pull_request.synchronize" in github.events()


def test_git_and_contents(repo: Repository, alice: Ask) -> None:
    first = repo.refs()["refs/heads/main"]
    second = repo.commit({"a": "1\n"}, by="bob")
    new = {"ref": "refs/interlock/owner/x", "sha": first}
    alice(f"POST {R}/git/refs", new, 201)
    assert alice(f"POST {R}/git/refs", new, 422)["message"] == "Reference already exists"
    assert alice(f"GET {R}/git/ref/interlock/owner/x")["object"]["sha"] == first
    assert len(alice(f"GET {R}/git/matching-refs/interlock/")) == 1
    assert alice(f"PATCH {R}/git/refs/interlock/owner/x", {"sha": second})["object"]["sha"] == second
    assert "fast forward" in alice(f"PATCH {R}/git/refs/interlock/owner/x", {"sha": first}, 422)["message"]
    alice(f"PATCH {R}/git/refs/interlock/owner/x", {"sha": first, "force": True})
    alice(f"DELETE {R}/git/refs/interlock/owner/x", status=204)
    assert alice(f"GET {R}/git/commits/{second}")["parents"][0]["sha"] == first
    assert alice(f"GET {R}/commits/main")["sha"] == second
    file = alice(f"GET {R}/contents/README.md")
    write = {"message": "m", "content": "aGk=", "sha": file["sha"]}
    alice(f"PUT {R}/contents/README.md", write)
    alice(f"PUT {R}/contents/README.md", write, 409)
    alice(f"PUT {R}/contents/state/new.json", {"message": "m", "content": "aGk="}, 201)


def test_statuses_and_checks(github: FakeGitHub, repo: Repository, alice: Ask, boss: Ask) -> None:
    sha = repo.refs()["refs/heads/main"]
    assert alice(f"GET {R}/commits/{sha}/status")["state"] == "pending"
    alice(f"POST {R}/statuses/{sha}", {"state": "success", "context": "ci"}, 201)
    assert alice(f"GET {R}/commits/{sha}/status")["state"] == "success"
    assert len(alice(f"GET {R}/commits/main/statuses")) == 1
    app = _asker(github, github.actions_token(repo))
    alice(f"POST {R}/check-runs", {"name": "x", "head_sha": sha}, 403)
    run = app(
        f"POST {R}/check-runs", {"name": "interlock/lane", "head_sha": sha, "status": "in_progress"}, 201
    )
    output = {"title": "free", "summary": "nobody holds it"}
    app(f"PATCH {R}/check-runs/{run['id']}", {"conclusion": "success", "output": output})
    assert alice(f"GET {R}/check-runs/{run['id']}")["conclusion"] == "success"
    assert alice(f"GET {R}/commits/main/check-runs")["check_runs"][0]["name"] == "interlock/lane"
    assert alice(f"GET {R}/commits/main/check-suites")["check_suites"][0]["conclusion"] == "success"
    assert alice(f"GET {R}/rules/branches/main") == []
    repo.require_checks("ci")
    [rule] = alice(f"GET {R}/rules/branches/main")
    assert rule["parameters"]["required_status_checks"] == [{"context": "ci"}]
    repo.require_checks("ci", by_rule=False)
    path = f"{R}/branches/main/protection/required_status_checks"
    assert boss(f"GET {path}")["contexts"] == ["ci"]
    alice(f"GET {path}", status=404)
    seen = alice(f"GET {R}/branches/main")
    assert seen["commit"]["sha"] == sha
    assert seen["protection"]["required_status_checks"]["contexts"] == ["ci"]
    alice(f"GET {R}/branches/none", status=404)


def test_workflows(github: FakeGitHub, repo: Repository, alice: Ask) -> None:
    repo.workflow("agent.yml", on=["workflow_dispatch", "issue_comment"], inputs=["number"])
    assert alice(f"GET {R}/actions/workflows")["total_count"] == 1
    path, body = f"{R}/actions/workflows/agent.yml/dispatches", {"ref": "main", "inputs": {"number": "1"}}
    run_id = alice(f"POST {path}", body)["workflow_run_id"]
    alice(f"POST {path}", body, 204, OLD_VERSION)
    alice(f"POST {path}", {**body, "return_run_details": True}, 200, OLD_VERSION)
    assert "Unexpected inputs" in alice(f"POST {path}", {"ref": "main", "inputs": {"x": "1"}}, 422)["message"]
    run = repo.workflow_runs[run_id]
    run.start()
    run.artifact("logs")
    for part in ("", "/jobs", "/attempts/1", "/attempts/1/jobs", "/artifacts"):
        alice(f"GET {R}/actions/runs/{run_id}{part}")
    run.stubborn = True
    alice(f"POST {R}/actions/runs/{run_id}/cancel", status=202)
    assert alice(f"GET {R}/actions/runs/{run_id}")["status"] == "in_progress"
    alice(f"POST {R}/actions/runs/{run_id}/force-cancel", status=202)
    assert alice(f"GET {R}/actions/runs/{run_id}")["conclusion"] == "cancelled"
    alice(f"POST {R}/actions/runs/{run_id}/cancel", status=409)
    alice(f"POST {R}/actions/runs/{run_id}/rerun", status=201)
    run.finish("failure", log="E   assert 1 == 2\n")
    ended = alice(f"GET {R}/actions/runs?status=completed")["workflow_runs"]
    assert [(r["id"], r["run_attempt"]) for r in ended] == [(run_id, 2)]
    assert alice(f"GET {R}/actions/workflows/agent.yml/runs")["total_count"] == 3
    github.clock.advance(91 * 86_400)
    alice(f"GET {R}/actions/jobs/{run.jobs[-1].id}/logs", status=410)
    github.clock.advance(-91 * 86_400)
    for where in (f"runs/{run_id}", f"jobs/{run.jobs[-1].id}"):
        alice(f"GET {R}/actions/{where}/logs", status=302)
        assert ask(
            github, "GET", f"/_files/{where.replace('runs/', 'logs-').replace('jobs/', 'job-')}"
        ).body.endswith(b"== 2\n")


def test_the_commits_of_a_pull_request(repo: Repository, alice: Ask) -> None:
    shas = [repo.commit({"a": text}, branch="fix", message=f"step {text}") for text in "12"]
    repo.pull("Fix", by="alice", head="fix")
    listed = alice(f"GET {R}/pulls/1/commits")
    assert [(each["sha"], each["commit"]["message"]) for each in listed] == list(
        zip(shas, ["step 1", "step 2"], strict=True)
    )


def test_webhooks_and_their_deliveries(github: FakeGitHub, repo: Repository, boss: Ask) -> None:
    repo.issue("one", by="carol", labels=["bug"])
    hook = boss(f"GET {R}/hooks")[0]["id"]
    assert boss(f"GET {R}/hooks/{hook}")["events"] == ["*"]
    assert boss(f"GET {R}/hooks/{hook}/config")["secret"] == "********"
    config = {"url": "http://127.0.0.1:9/", "secret": "s"}
    made = boss(f"POST {R}/hooks", {"config": config, "events": ["release"]}, 201)
    assert made["config"]["secret"] == "********"
    listed = boss(f"GET {R}/hooks/{hook}/deliveries")
    assert [d["action"] for d in listed] == ["labeled", "opened"]
    one = boss(f"GET {R}/hooks/{hook}/deliveries/{listed[1]['id']}")
    assert one["request"]["payload"]["issue"]["number"] == 1
    boss(f"POST {R}/hooks/{hook}/deliveries/{listed[1]['id']}/attempts", status=202)
    again = boss(f"GET {R}/hooks/{hook}/deliveries?per_page=1")[0]
    assert (again["guid"], again["redelivery"]) == (listed[1]["guid"], True)
