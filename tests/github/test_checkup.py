"""`github doctor`: what will not work, and why, before somebody waits for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from interlock.github.checkup import EVENTS, check_up
from interlock.github.client import GitHub
from interlock.github.tokens import PlainToken
from tests.acceptance.command import CommandHere
from tests.github.fake import FakeGitHub, Repository

#: The account of the token is an agent's alone.
AGENTS_OWN = '[agents]\nboss = "coder"\n'


def looked(github: FakeGitHub, who: str = "boss", repo: str = "acme/app", **how: Any) -> dict[str, str]:
    """The checks: what each says, with the remedy if it failed."""
    token = PlainToken(github.token(who))
    with GitHub(token, api_url=github.api_url, sleep=lambda _: None, **how) as client:
        checks = check_up(client, repo)
    return {each.name: each.detail if each.ok else f"✗ {each.detail} {each.mend}" for each in checks}


def test_a_set_up_that_works(github: FakeGitHub, repo: Repository) -> None:
    repo.commit({".github/interlock.toml": AGENTS_OWN})
    found = looked(github)
    left = found.pop("allowance")
    assert left.endswith(" of 5,000 requests are left this hour.")
    assert found == {
        "token": "Requests come from a user.",
        "access": "acme/app can be read and written.",
        "account": "The token is of boss, the account of the agent coder.",
        "rules": "acme/app has no rules of its own.",
        "labels": "All labels in the rules exist.",
        "checks": "Checks, statuses and workflow runs can be read.",
        "webhook": "A webhook sends every event that creates work.",
        "clock": "The clock agrees with GitHub's.",
    }


def test_a_person_and_an_agent_with_one_account(github: FakeGitHub, repo: Repository) -> None:
    assert looked(github)["account"] == (
        "✗ The token is of boss, a person with write access to acme/app: comments by boss wake no agent."
        " Use a token of an app or a bot. If only an agent uses boss, add it to [agents]."
    )
    repo.commit({".github/interlock.toml": AGENTS_OWN})
    repo.collaborator("alice")
    with GitHub(PlainToken(github.token("boss")), api_url=github.api_url, sleep=lambda _: None) as client:
        checks = check_up(client, "acme/app", ["alice", "mallory"])
    shared = (
        "Runs write as alice, a person with write access to acme/app:"
        " comments by alice on the lane of such a run wake no agent."
    )
    assert [(each.ok, each.detail) for each in checks if each.name == "account"] == [
        (True, "The token is of boss, the account of the agent coder."),
        (False, shared),
    ], "mallory may not write, and wakes nobody anyway"


def test_a_repository_that_is_not_there(github: FakeGitHub, repo: Repository) -> None:
    found = looked(github, repo="acme/nothing")
    assert list(found) == ["repository"]
    assert found["repository"].endswith(" Give the token access to the repository, or correct the name.")


def test_github_that_is_away(github: FakeGitHub, repo: Repository) -> None:
    github.faults.outage = True
    assert list(looked(github)) == ["repository"]


def test_a_token_that_may_only_read(github: FakeGitHub, repo: Repository) -> None:
    found = looked(github, who="mallory")
    assert found["access"].startswith("✗ The token can read acme/app but not write to it: ")
    assert found["webhook"] == "Webhooks were not checked: only an administrator's token can read them."


def test_a_token_that_may_not_read_checks(github: FakeGitHub, repo: Repository) -> None:
    token = github.actions_token(repo, {"contents": "read", "issues": "write", "statuses": "read"})
    with GitHub(PlainToken(token), api_url=github.api_url, sleep=lambda _: None) as client:
        (found,) = (each for each in check_up(client, "acme/app") if each.name == "checks")
    assert not found.ok
    assert found.detail.startswith("The token cannot read checks and actions, ")


def test_rules_that_cannot_be_read_and_labels_that_are_not_there(
    github: FakeGitHub, repo: Repository
) -> None:
    rule = '[[rule]]\nevent = "issues.labeled"\nlabel = ["ready", "bug", "any*"]\ntype = "x"\n'
    repo.commit({".github/interlock.toml": f"[priorities]\nurgent = 10\n{rule}"})
    found = looked(github)
    assert found["rules"] == "acme/app has 1 rule of its own."
    assert found["labels"].startswith(
        "✗ The rules of acme/app name labels that do not exist: ready and urgent."
    )
    repo.commit({".github/interlock.toml": "colour = 1\n"})
    assert looked(github)["rules"].startswith(
        "✗ .github/interlock.toml of acme/app has the unknown field 'colour'."
    )


def test_no_webhook_and_one_that_sends_too_little(github: FakeGitHub) -> None:
    repo = github.repository("acme/app", admin=["boss"])
    assert looked(github)["webhook"] == "No active webhook: events arrive through Actions only."
    repo.hook(events=sorted(EVENTS - {"workflow_run", "issues"}))
    assert looked(github)["webhook"].startswith("✗ No webhook sends issues and workflow_run.")


def test_a_clock_that_is_wrong_and_an_allowance_that_is_nearly_used_up(
    github: FakeGitHub, repo: Repository
) -> None:
    github.faults.limits.hourly["user"] = 4
    found = looked(github, clock=lambda: github.clock() - 120)
    told = re.match(r"✗ This machine's clock is (\d+) s behind GitHub's\.", found["clock"])
    assert told is not None
    assert 110 <= int(told[1]) <= 121  # GitHub's clock goes on, and counts whole seconds
    assert found["allowance"].startswith("✗ 0 of 4 requests are left this hour.")


def test_the_command(
    github: FakeGitHub, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INTERLOCK_GITHUB_TOKEN", "GITHUB_TOKEN", "INTERLOCK_GITHUB_APP_ID", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GH_TOKEN", github.token("boss"))
    monkeypatch.setenv("GITHUB_API_URL", github.api_url)
    here = CommandHere(tmp_path)
    answer = here("github", "doctor")
    assert (answer.code, answer.err.splitlines()[0]) == (2, "No repository was given.")
    assert here("github", "doctor", "--repo", "acme").err.startswith("'acme' is not a repository.")
    assert here("github", "doctor", "--repo", "acme/app").code == 1, "a person may have the account"
    repo.commit({".github/interlock.toml": AGENTS_OWN})
    assert here("github", "doctor", "--repo", "acme/app").code == 0
    with monkeypatch.context() as none:
        none.delenv("GH_TOKEN")
        answer = here("github", "doctor", "--repo", "acme/app")
        assert (answer.code, "No GitHub token" in answer.out) == (1, True)
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/none")
    answer = here("--json", "github", "doctor")
    assert (answer.code, json.loads(answer.out)["ok"]) == (1, False)
