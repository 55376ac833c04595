"""What Interlock relies on in GitHub's behaviour, as the fake has it: facts that a client must live with."""

from __future__ import annotations

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import jwt
import pytest

from tests.git_fixtures import clone, commit, git
from tests.github.fake import FakeGitHub, Repository
from tests.github.fixtures import ask, key_pair
from tests.github.hooks import signed
from tests.github.openapi import OLD_VERSION
from tests.patience import PATIENCE_S

R = "/repos/acme/app"


@pytest.fixture
def token(github: FakeGitHub, repo: Repository) -> str:
    return github.token("alice")


# Compare and swap, conditions, paging


def test_a_condition_on_a_write_is_refused(github: FakeGitHub, repo: Repository, token: str) -> None:
    repo.issue("one", by="carol")
    etag = ask(github, "GET", f"{R}/issues/1", token=token).headers["etag"]
    answer = ask(github, "PATCH", f"{R}/issues/1", {"title": "x"}, token=token, headers={"If-Match": etag})
    assert (answer.status, repo.numbers[1].title) == (400, "one")
    assert "Conditional request headers are not allowed" in answer.body["message"]


def test_an_unchanged_read_is_304_and_costs_nothing(github: FakeGitHub, repo: Repository, token: str) -> None:
    issue = repo.issue("one", by="carol")
    first = ask(github, "GET", f"{R}/issues/1", token=token)
    headers = {"If-None-Match": first.headers["etag"]}
    again = ask(github, "GET", f"{R}/issues/1", token=token, headers=headers)
    assert (again.status, again.body) == (304, b"")
    assert again.headers["x-ratelimit-remaining"] == first.headers["x-ratelimit-remaining"]
    issue.edit(by="carol", title="two")
    changed = ask(github, "GET", f"{R}/issues/1", token=token, headers=headers)
    assert (changed.status, changed.body["title"]) == (200, "two")
    assert int(changed.headers["x-ratelimit-remaining"]) == int(first.headers["x-ratelimit-remaining"]) - 1


def test_lists_come_in_pages(github: FakeGitHub, repo: Repository, token: str) -> None:
    for number in range(7):
        repo.issue(f"issue {number}", by="carol")
    first = ask(github, "GET", f"{R}/issues?per_page=3", token=token)
    assert [issue["number"] for issue in first.body] == [7, 6, 5]
    parts = (part.split("; ") for part in first.headers["link"].split(", "))
    links = {rel: url for url, rel in parts}
    assert set(links) == {'rel="next"', 'rel="last"'}
    last = ask(github, "GET", links['rel="last"'].strip("<>"), token=token)
    assert [issue["number"] for issue in last.body] == [1]
    assert 'rel="next"' not in last.headers["link"]


# Names


def test_a_renamed_repository_is_found_by_redirects(github: FakeGitHub, repo: Repository, token: str) -> None:
    repo.issue("one", by="carol")
    repo.rename("app2", by="boss")
    moved = ask(github, "GET", f"{R}/issues/1?x=1", token=token)
    assert moved.status == 301
    github.wrong_requests.clear()
    assert ask(github, "GET", moved.headers["location"], token=token).body["number"] == 1
    github.wrong_requests.clear()
    write = ask(github, "PATCH", f"{R}/issues/1", {"title": "x"}, token=token)
    assert write.status == 307
    assert ask(github, "PATCH", write.headers["location"], {"title": "x"}, token=token).status == 200
    repo.transfer("other", by="boss")
    assert ask(github, "GET", R, token=token).headers["location"].endswith(f"/repositories/{repo.id}")
    github.repository("acme/app", write=["alice"])
    assert ask(github, "GET", R, token=token).status == 200, "a new repository takes the name"


def test_an_issue_moves_or_is_gone(github: FakeGitHub, repo: Repository, token: str) -> None:
    other = github.repository("acme/other", write=["alice"])
    repo.issue("one", by="carol").transfer(other, by="boss")
    moved = ask(github, "GET", f"{R}/issues/1", token=token)
    assert (moved.status, moved.headers["location"]) == (
        301,
        f"{github.api_url}/repositories/{other.id}/issues/1",
    )
    repo.issue("two", by="carol").delete(by="boss")
    assert ask(github, "GET", f"{R}/issues/2", token=token).status == 410
    assert ask(github, "GET", f"{R}/issues/99", token=token).status == 404


# Who may


def test_who_asks_decides_what_is_allowed(github: FakeGitHub, repo: Repository) -> None:
    repo.issue("one", by="alice")
    assert ask(github, "GET", f"{R}/issues/1", token="ghp_unknown").status == 401
    assert ask(github, "POST", f"{R}/issues/1/comments", {"body": "x"}).status == 401
    carol = github.token("carol")
    assert ask(github, "POST", f"{R}/issues/1/comments", {"body": "x"}, token=carol).status == 201
    assert ask(github, "POST", f"{R}/issues/1/labels", {"labels": ["bug"]}, token=carol).status == 403
    made = ask(github, "POST", f"{R}/issues", {"title": "t", "labels": ["bug"]}, token=carol)
    assert (made.status, made.body["labels"]) == (201, []), "labels of somebody without access are dropped"
    repo.private = True
    assert ask(github, "GET", f"{R}/issues/1", token=carol).status == 404
    narrow = github.actions_token(repo, {"issues": "read"})
    assert ask(github, "GET", f"{R}/issues/1", token=narrow).status == 200
    refused = ask(github, "POST", f"{R}/issues/1/labels", {"labels": ["bug"]}, token=narrow)
    assert (refused.status, refused.body["message"]) == (403, "Resource not accessible by integration")


def test_an_apps_token_may_what_its_permissions_say(github: FakeGitHub, repo: Repository) -> None:
    """Whatever a person may do: anybody opens an issue, an app needs `issues: write` for it."""
    repo.issue("one", by="carol")
    repo.pull("Mend", by="alice", head="feature", files={"a": "1\n"})
    writes = [
        ("POST", f"{R}/issues", {"title": "t"}),
        ("PATCH", f"{R}/issues/1", {"body": "x"}),
        ("POST", f"{R}/issues/1/comments", {"body": "x"}),
        ("POST", f"{R}/issues/1/assignees", {"assignees": ["bob"]}),
        ("DELETE", f"{R}/issues/1/assignees", {"assignees": ["bob"]}),
        ("POST", f"{R}/issues/1/reactions", {"content": "eyes"}),
    ]

    def statuses(**permissions: str) -> set[int]:
        token = github.actions_token(repo, permissions)
        return {ask(github, *each, token=token).status for each in writes}

    assert statuses(issues="read", contents="write") == {403}
    assert statuses(pull_requests="write") == {403}
    assert statuses(issues="write") == {200, 201}
    pulls = github.actions_token(repo, {"pull_requests": "write"})
    assert ask(github, "POST", f"{R}/issues/2/comments", {"body": "x"}, token=pulls).status == 201
    assert ask(github, "GET", f"{R}/issues/1", token=pulls).status == 403
    assert ask(github, "GET", f"{R}/collaborators/bob/permission", token=pulls).status == 200


def test_an_app_signs_for_a_token_of_its_installation(github: FakeGitHub, repo: Repository) -> None:
    private, public = key_pair()
    app = github.app_named("interlock", public_key=public)
    now, path = github.now(), f"/app/installations/{app.installation_id}/access_tokens"

    def signed_by(key: str, **claims: int) -> str:
        whole = {"iss": str(app.id), "iat": now - 60, "exp": now + 500, **claims}
        return jwt.encode(whole, key, algorithm="RS256")

    assert ask(github, "GET", "/app", token=signed_by(private)).body["slug"] == "interlock"
    for wrong in (
        signed_by(key_pair()[0]),
        signed_by(private, exp=now + 700),
        signed_by(private, iat=now + 60),
    ):
        assert ask(github, "POST", path, {}, token=wrong).status == 401
    assert ask(github, "POST", path, {}, token=github.token("boss")).status == 401
    token = ask(github, "POST", path, {}, token=signed_by(private)).body["token"]
    repo.issue("one", by="carol")
    comment = ask(github, "POST", f"{R}/issues/1/comments", {"body": "x"}, token=token)
    assert comment.body["user"]["login"] == "interlock[bot]"
    assert ask(github, "GET", "/user", token=token).status == 403
    github.app_hook(app)
    github.faults.lose_deliveries(2)
    repo.numbers[1].close(by="alice")
    assert ask(github, "GET", "/app/hook/config", token=signed_by(private)).body["content_type"] == "json"
    [lost] = ask(github, "GET", "/app/hook/deliveries", token=signed_by(private)).body
    assert (lost["event"], lost["action"], lost["status_code"]) == ("issues", "closed", 502)
    one = ask(github, "GET", f"/app/hook/deliveries/{lost['id']}", token=signed_by(private)).body
    assert one["request"]["payload"]["installation"]["id"] == app.installation_id
    attempts = f"/app/hook/deliveries/{lost['id']}/attempts"
    assert ask(github, "POST", attempts, token=signed_by(private)).status == 202
    assert github.deliveries[-1].guid == lost["guid"]
    github.clock.advance(3600)
    assert ask(github, "GET", f"{R}/issues/1", token=token).status == 401, "it holds for an hour"


def test_a_hosted_agent_is_assigned_by_a_users_token_only(
    github: FakeGitHub, repo: Repository, token: str
) -> None:
    repo.issue("one", by="carol")
    repo.hosted_agent = True
    body = {"assignees": ["copilot-swe-agent[bot]"]}
    actions = github.actions_token(repo)
    assert ask(github, "POST", f"{R}/issues/1/assignees", body, token=actions).body["assignees"] == []
    found = ask(github, "POST", f"{R}/issues/1/assignees", body, token=token).body["assignees"]
    assert [user["login"] for user in found] == ["Copilot"]


# Limits


def test_limits_are_those_of_the_token(github: FakeGitHub, repo: Repository, token: str) -> None:
    actions = github.actions_token(repo)
    assert ask(github, "GET", R, token=actions).headers["x-ratelimit-limit"] == "1000"
    assert ask(github, "GET", R).headers["x-ratelimit-limit"] == "60"
    github.faults.limits.hourly["user"] = 2
    assert [ask(github, "GET", R, token=token).status for _ in range(3)] == [200, 200, 403]
    refused = ask(github, "GET", R, token=token)
    assert (refused.status, refused.headers["x-ratelimit-remaining"]) == (403, "0")
    assert ask(github, "GET", "/rate_limit", token=token).status == 200
    github.clock.advance(3600)
    assert ask(github, "GET", R, token=token).status == 200


def test_too_many_creations_are_refused_for_a_while(github: FakeGitHub, repo: Repository, token: str) -> None:
    repo.issue("one", by="carol")
    github.faults.limits.creations_per_minute = 2
    github.faults.limits.creations_per_hour = 3

    def create() -> int:
        return ask(github, "POST", f"{R}/issues/1/comments", {"body": "x"}, token=token).status

    assert [create() for _ in range(3)] == [201, 201, 403]
    refused = ask(github, "POST", f"{R}/issues/1/comments", {"body": "x"}, token=token)
    assert 0 < int(refused.headers["retry-after"]) <= 61
    github.clock.advance(61)
    assert [create(), create()] == [201, 403], "the hour has its own limit"
    assert len(repo.numbers[1].comments) == 3


# Faults


def test_a_lost_answer_leaves_the_write(github: FakeGitHub, repo: Repository, token: str) -> None:
    issue = repo.issue("one", by="carol")
    github.faults.lose_answers(on="POST")
    with pytest.raises(http.client.RemoteDisconnected):
        ask(github, "POST", f"{R}/issues/1/comments", {"body": "x"}, token=token)
    assert len(issue.comments) == 1
    github.faults.drop(on="POST")
    with pytest.raises(http.client.RemoteDisconnected):
        ask(github, "POST", f"{R}/issues/1/comments", {"body": "y"}, token=token)
    assert len(issue.comments) == 1


def test_reads_may_be_stale(github: FakeGitHub, repo: Repository, token: str) -> None:
    repo.issue("one", by="carol")
    with github.faults.stale_reads():
        ask(github, "PATCH", f"{R}/issues/1", {"state": "closed"}, token=token)
        sha = repo.commit({"a": "b"}, by="alice")
        assert ask(github, "GET", f"{R}/issues/1", token=token).body["state"] == "open"
        assert ask(github, "GET", f"{R}/git/ref/heads/main", token=token).body["object"]["sha"] != sha
    assert ask(github, "GET", f"{R}/issues/1", token=token).body["state"] == "closed"


def test_outages_errors_and_throttles(github: FakeGitHub, repo: Repository, token: str) -> None:
    with github.faults.outages():
        assert ask(github, "GET", R, token=token).status == 503
    github.faults.fail(502, times=2, on=R)
    github.faults.throttle(status=429, retry_after_s=7)
    assert [ask(github, "GET", R, token=token).status for _ in range(2)] == [502, 502]
    throttled = ask(github, "GET", R, token=token)
    assert (throttled.status, throttled.headers["retry-after"]) == (429, "7")
    assert "secondary rate limit" in throttled.body["message"]
    until = threading.Event()
    held = github.faults.hold(until=until)
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(ask(github, "GET", R, token=token).status))
    asking.start()
    assert held.wait(PATIENCE_S)
    assert not answers
    until.set()
    asking.join(PATIENCE_S)
    assert answers == [200]


def test_what_the_description_does_not_allow_is_refused(
    github: FakeGitHub, repo: Repository, token: str
) -> None:
    for body in ({}, {"title": "t", "labels": "bug"}):
        assert ask(github, "POST", f"{R}/issues", body, token=token).status == 422
    assert ask(github, "GET", f"{R}/issues?nonsense=1", token=token).status == 200
    old_field = {"title": "t", "assignee": "bob"}
    assert ask(github, "POST", f"{R}/issues", old_field, token=token, version=OLD_VERSION).status == 201
    assert len(github.wrong_requests) == 3
    github.wrong_requests.clear()
    assert ask(github, "GET", R, token=token, version="2020-01-01").status == 400


# Webhooks


def test_deliveries_are_signed_and_sent(github: FakeGitHub, repo: Repository) -> None:
    got: list[tuple[dict[str, str], bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            got.append((headers, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        repo.hook(url=f"http://127.0.0.1:{server.server_port}/", secret="s", events=["issues"])
        issue = repo.issue("one", by="carol")
        issue.comment("not wanted by this hook", by="carol")
        github.settle()
        github.faults.lose_deliveries(2)  # to both hooks
        issue.close(by="alice")
        lost = github.deliveries[-1]
        assert (lost.event, lost.action, lost.status_code) == ("issues", "closed", 502)
        github.redeliver(lost)
        github.settle()
        server.shutdown()
    assert [json.loads(body)["action"] for _, body in got] == ["opened", "closed"]
    headers, body = got[1]
    assert headers["x-hub-signature-256"] == signed("s", body)["X-Hub-Signature-256"]
    assert (headers["x-github-event"], headers["x-github-delivery"]) == ("issues", lost.guid)


def test_a_signature_is_the_one_that_github_documents() -> None:
    expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signed("It's a Secret to Everybody", b"Hello, World!")["X-Hub-Signature-256"] == expected


def test_events_of_the_actions_token_start_no_workflow(
    github: FakeGitHub, repo: Repository, token: str
) -> None:
    repo.workflow("agent.yml", on=["issue_comment", "workflow_dispatch"])
    repo.issue("one", by="carol")
    actions = github.actions_token(repo)
    ask(github, "POST", f"{R}/issues/1/comments", {"body": "by a job"}, token=actions)
    assert not repo.workflow_runs
    assert github.deliveries[-1].starts_workflows is False
    path = f"{R}/actions/workflows/agent.yml/dispatches"
    assert ask(github, "POST", path, {"ref": "main"}, token=actions).status == 200
    ask(github, "POST", f"{R}/issues/1/comments", {"body": "by a person"}, token=token)
    assert [run.event for run in repo.workflow_runs.values()] == ["workflow_dispatch", "issue_comment"]


# Git over HTTP


def test_the_same_refs_are_reached_by_git(
    github: FakeGitHub, repo: Repository, token: str, tmp_path: Path
) -> None:
    pull = repo.pull("Mend", by="alice", head="feature", files={"a": "1\n"})
    url = repo.clone_url.replace("http://", f"http://x-access-token:{token}@")
    work = clone(url, tmp_path / "work", "--branch=feature")
    sha = commit(work, {"a": "2\n"}, "more")
    git(work, "push", "--quiet", "origin", "feature")
    assert pull.pull is not None
    assert pull.pull.head_sha == sha
    assert github.events()[-2:] == ["push", "pull_request.synchronize"]
    assert ask(github, "GET", f"{R}/git/ref/heads/feature", token=token).body["object"]["sha"] == sha
    repo.rename("app2", by="boss")
    git(work, "fetch", "--quiet", "origin")
    plain = clone(repo.clone_url, tmp_path / "plain")
    commit(plain, {"b": "1\n"}, "nobody's")
    git(plain, "-c", "core.askPass=true", "push", "origin", "HEAD:refs/heads/x", check=False)
    assert "refs/heads/x" not in repo.refs(), "nobody may push without a token"
