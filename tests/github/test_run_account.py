"""Workers report which GitHub account their runs write with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import app
from interlock.github import run_account
from interlock.github.run_account import account_of
from interlock.service.contract import Service
from tests.acceptance.command import Command
from tests.github.fake import FakeGitHub, Repository
from tests.patience import PATIENCE_S

LANE = "issue:acme/app#1"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = app.open_service(f"sqlite:///{tmp_path}/store.db")
    yield made
    made.close()


@pytest.fixture
def il(github: FakeGitHub, tmp_path: Path, service: Service) -> Command:
    env = {"INTERLOCK_URL": f"sqlite:///{tmp_path}/store.db", "GITHUB_API_URL": github.api_url}
    return Command(tmp_path, env={**env, "GH_TOKEN": github.token("alice"), "GITHUB_TOKEN": ""})


def accounts(service: Any) -> list[str]:
    return list(service.store.github.accounts(10))


def test_it_is_that_of_the_token_that_the_command_finds(
    github: FakeGitHub, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_account, "TIMEOUT_S", PATIENCE_S)

    def of(**environ: str) -> str | None:
        return account_of({"GITHUB_API_URL": github.api_url, **environ})

    alice, boss, job = github.token("alice"), github.token("boss"), github.actions_token(repo)
    assert of(GH_TOKEN=alice, INTERLOCK_GITHUB_TOKEN=boss) == "alice"
    assert of(INTERLOCK_GITHUB_TOKEN=boss) == "boss"
    assert of(GITHUB_TOKEN=job, GITHUB_ACTIONS="true", INTERLOCK_GITHUB_TOKEN=boss) is None
    assert of(GH_TOKEN=job) is None, "a job's token is of no user"
    assert of() is None


def test_a_worker_and_a_hold_ask_once_and_report_before_the_command(
    github: FakeGitHub, repo: Repository, il: Command, service: Service
) -> None:
    for n in (1, 2):
        il.ok("add", "Answer", "--lane", f"issue:acme/app#{n}", "--agent", "coder")
    asked = len(github.requests)
    il("work", "--agent", "coder", "--limit", "2", "--", "true")
    assert [each[1] for each in github.requests[asked:]] == ["/user"]
    assert accounts(service) == ["alice"]
    seen = "sqlite3 store.db 'SELECT count(*) FROM github_accounts'"
    answer = il("hold", LANE, "--account", "Bob", "--", "sh", "-c", seen)
    assert answer.out.strip() == "3"
    assert accounts(service) == ["alice", "bob"]
    assert len(github.requests) == asked + 1, "who is named need not be asked for"
    answer = il("github", "doctor", "--repo", "acme/app")
    assert answer.code == 1


def test_a_run_starts_where_github_does_not_say_whose_token_it_is(
    github: FakeGitHub, il: Command, service: Service
) -> None:
    item = il.ok("add", "Answer", "--lane", LANE, "--agent", "coder")["item"]["id"]
    with github.faults.outages():
        answer = il("work", "--agent", "coder", "--limit", "1", "--", "true")
    assert il.ok("show", item)["item"]["status"] == "completed"
    assert (answer.out + answer.err).count("Could not report the GitHub account of runs") == 1
    assert accounts(service) == []
