"""Series through a server: it asks GitHub with its own token, and the command asks the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import interlock
from interlock.core.errors import GitHubLimited, GitHubUnavailable, InvalidInput, NotFound
from interlock.github.limits import Limits
from interlock.github.wiring import start_check
from interlock.http.periodic_jobs import open_periodic_jobs
from interlock.service.opening import open_local
from interlock.settings import load
from tests.acceptance.command import Command, CommandHere
from tests.github.fake import FakeGitHub, Repository
from tests.github.test_series_commands import outputs
from tests.http.requests import ask
from tests.http.up import Up


@pytest.fixture
def up(tmp_path: Path, github: FakeGitHub, repo: Repository) -> Iterator[Up]:
    for n in (1, 2, 3):
        repo.issue(f"RFC-093-{n:02}: Part {n}", by="alice")
    (tmp_path / "server").mkdir()
    token = {"GH_TOKEN": github.token("boss"), "GITHUB_API_URL": github.api_url}
    up = Up(tmp_path / "server", INTERLOCK_SERIES_ASSIGNEE="alice", **token)
    yield up
    up.end()


@pytest.fixture
def here(tmp_path: Path, up: Up, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command on another machine, which has no token for GitHub."""
    for name in ("INTERLOCK_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "GITHUB_API_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/app")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(up.directory / "config"))  # where its token is
    return CommandHere(tmp_path, env={"INTERLOCK_URL": up.url})


def test_the_life_of_a_series(here: Command, up: Up, repo: Repository, tmp_path: Path) -> None:
    assert "No series yet" in here("series", "status").out
    assert here("series", "acquire", 2).code == 4
    assert outputs(tmp_path) == {"status": "queued", "active_issue": "1", "position": "1", "assign": "false"}
    (cycle,) = here.ok("series", "reconcile", "rfc-93")["series"]
    assert cycle["active_issue"] == 1
    assert repo.numbers[1].assignees == ["alice"]
    (shown,) = here.ok("series", "status", "rfc-93")["series"]
    assert (shown["active_issue"], shown["queue"]) == (1, [2, 3])
    assert here("series", "promote", "RFC-093").code == 4
    assert here("series", "promote", "RFC-093", "--force", "--reason", "urgent").code == 0
    assert here.ok("series", "release", 2)["active_issue"] == 3
    assert here.ok("series", "rebuild", "RFC-093")["queue"] == [1, 2]
    assert here.ok("series", "metrics")["promotion_events"] == 3
    assert "RFC-093  #3" in here("series", "status").out
    with interlock.connect(up.url) as il:
        (view,) = il.service.series("acme/app")
        assert (view.series, view.active_issue, view.queue) == ("RFC-093", 3, (1, 2))
        assert il.service.acquire_issue("acme/app", 1).status == "queued"
        assert il.service.series_metrics("acme/app")["duplicate_prevented"] == 2
        assert il.service.series("acme/other") == []
        with pytest.raises(NotFound, match="no issue #99"):
            il.service.acquire_issue("acme/app", 99)
        with pytest.raises(InvalidInput, match="is not a repository"):
            il.service.reconcile_series("app")
        repo.github.faults.outage = True
        with pytest.raises(GitHubUnavailable):
            il.service.reconcile_series("acme/app")
        assert il.service.series("acme/app")[0].active_issue == 3
        assert il.service.series_metrics("acme/app")["promotion_events"] == 3
        repo.github.faults.outage = False


def test_mistakes_are_named(here: Command) -> None:
    for args, code, says in (
        (("reconcile", "--no-send"), 2, "A server sends effects to GitHub by itself"),
        (("status", "nothing"), 2, "Invalid series name"),
        (("promote", "RFC-7"), 1, "no open issue of RFC-007"),
        (("acquire", "99"), 1, "no issue #99"),
    ):
        answer = here("series", *args)
        assert says in answer.err
        assert answer.code == code


def test_a_server_without_a_token_shows_series_and_keeps_none(
    here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blind").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "blind" / "config"))
    up = Up(tmp_path / "blind")
    here.env["INTERLOCK_URL"] = up.url
    try:
        assert here.ok("series", "status")["series"] == []
        refused = here("series", "reconcile")
        assert (refused.code, "The server has no token for GitHub." in refused.err) == (2, True)
        assert "Its operator sets INTERLOCK_GITHUB_TOKEN" in refused.err
        body = {"repository": "acme/app"}
        assert ask(up.url, "POST", "/v1/series/reconcile", body, token=up.token).status == 424
    finally:
        up.end()


def test_all_who_ask_with_the_servers_token_know_what_github_allows(
    tmp_path: Path, github: FakeGitHub, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While GitHub wants silence nobody asks, whoever of them heard it."""
    monkeypatch.setenv("GH_TOKEN", github.token("boss"))
    monkeypatch.setenv("GITHUB_API_URL", github.api_url)
    repo.issue("RFC-093-01: Part 1", by="alice")
    settings = load(url=f"sqlite:///{tmp_path}/store.db")
    limits, told = Limits(clock=time.time), list[str]()
    with (
        closing(open_local(settings)) as service,
        open_periodic_jobs(settings, service, limits, lambda: None) as (jobs, keep, allowances),
        start_check(service, settings, told.append, limits=limits) as look,
    ):
        service.reconcile_series("acme/app")
        assert allowances()["core"][0] < allowances()["core"][1], "what it asked is counted"
        for each in github.deliveries:
            keep(each.event, each.guid, each.body)
        work = {each.name: each.work for each in jobs}
        work["deliveries"]()
        (lease,) = service.next("coder", types=["issue_triage"])
        limits.learn(403, {"retry-after": "600"}, "You have exceeded a secondary rate limit.")
        asked = len(github.requests)
        with pytest.raises(GitHubLimited):
            service.reconcile_series("acme/app")
        with pytest.raises(GitHubLimited):
            work["series"]()
        assert look(lease) is None
        assert len(told) == 1
        assert len(github.requests) == asked
