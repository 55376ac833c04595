"""A lane in git whose holder's workflow run has ended: GitHub is asked, and the lane is free at once.

The holders are real processes on a real repository; GitHub is the fake.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from interlock.core.errors import GitHubRefused
from interlock.github.client import GitHub
from interlock.github.tokens import PlainToken
from interlock.github.workflow_runs import AttemptEnds
from interlock.process.workplace import ActionsRun
from tests.acceptance.command import Command
from tests.faults.processes import wait_until
from tests.github.actions import WorkflowRun
from tests.github.fake import FakeGitHub, Repository

APP = "acme/app"
LANE = "issue:acme/app#42"
HELD = 4


class Machines:
    """Machines that hold lanes of one repository, each in its own directory."""

    def __init__(self, root: Path, github: FakeGitHub, repo: Repository) -> None:
        self.root, self.github, self.repo = root, github, repo

    def machine(self, name: str, run: WorkflowRun | None = None, *, token: bool = True) -> Command:
        directory = self.root / name
        directory.mkdir()
        env = {"GITHUB_API_URL": self.github.api_url, "GITHUB_TOKEN": "", "GH_TOKEN": ""}
        if token:
            env["GH_TOKEN"] = self.github.actions_token(self.repo, {"actions": "read"})
        if run is not None:
            env |= {"GITHUB_REPOSITORY": APP, "GITHUB_RUN_ID": str(run.id)}
            env["GITHUB_RUN_ATTEMPT"] = str(len(run.attempts))
        return Command(directory, url=f"git+{self.repo.bare.as_uri()}", env=env)

    def take(self, il: Command) -> int:
        """Try once."""
        return il("hold", LANE, "--if-held", "fail", "--", "true").code

    def die_holding(self, il: Command) -> None:
        """Hold the lane, and die with everything that was started."""
        said = il.directory / "held"
        process = il.start("hold", LANE, "--", sys.executable, "-c", _HOLD, str(said))
        wait_until(said.exists, "it holds the lane")
        process.kill()
        for pid in said.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        process.communicate()
        said.unlink()


#: Tells its supervisor's process and its own, and stays.
_HOLD = (
    "import os, sys, time, pathlib; p = pathlib.Path(sys.argv[1] + '.part');"
    "p.write_text(f'{os.getppid()} {os.getpid()}'); p.rename(sys.argv[1]); time.sleep(600)"
)


@pytest.fixture
def machines(tmp_path: Path, github: FakeGitHub, repo: Repository) -> Machines:
    return Machines(tmp_path, github, repo)


def test_a_dead_runner_holds_its_lane_no_longer_than_its_attempt(machines: Machines) -> None:
    run = machines.repo.run("agent.yml")
    run.start()
    machines.die_holding(machines.machine("runner", run))
    assert machines.take(machines.machine("early")) == HELD
    run.finish("failure")
    assert machines.take(machines.machine("blind", token=False)) == HELD
    with machines.github.faults.outages():
        assert machines.take(machines.machine("cut-off")) == HELD
    assert machines.take(machines.machine("heir")) == 0


def test_an_earlier_attempt_has_ended_also_while_a_later_one_runs(machines: Machines) -> None:
    run = machines.repo.run("agent.yml")
    run.start()
    machines.die_holding(machines.machine("first", run))
    run.finish("failure")
    run.rerun(by="alice")
    run.start()
    second = machines.machine("second", run)
    assert machines.take(second) == 0
    machines.die_holding(second)
    assert machines.take(machines.machine("early")) == HELD


class Watch:
    """Endings with a clock of the test's, and how often GitHub was asked."""

    def __init__(self, github: FakeGitHub, repo: Repository) -> None:
        self.github = github
        self.run = repo.run("agent.yml")
        self.attempt = ActionsRun(APP, self.run.id, 1)
        token = PlainToken(github.actions_token(repo, {"actions": "read"}), kind="actions")
        self.now_s = 0.0
        self.clients: list[GitHub] = []

        def open_client() -> GitHub:
            self.clients.append(GitHub(token, api_url=github.api_url, patience_s=0.0))
            return self.clients[-1]

        self.endings = AttemptEnds(open_client, clock=lambda: self.now_s)

    def asks(self, attempt: ActionsRun | None = None) -> tuple[bool, int]:
        """The answer, and how many requests it took."""
        self.clients.clear()
        ended = self.endings.has_ended(attempt or self.attempt)
        return ended, sum(sum(client.counted.values()) for client in self.clients)


@pytest.fixture
def watch(github: FakeGitHub, repo: Repository) -> Watch:
    return Watch(github, repo)


def test_who_asks_every_second_asks_github_every_fifteen(watch: Watch) -> None:
    assert watch.asks() == (False, 1)
    watch.now_s = 14.9
    assert watch.asks() == (False, 0)
    watch.run.finish("success")
    watch.now_s = 15.0
    assert watch.asks() == (True, 1)
    watch.now_s = 1000.0
    assert watch.asks() == (True, 0), "what has ended stays so"


def test_after_a_failure_nothing_is_asked_for_two_minutes(watch: Watch, repo: Repository) -> None:
    other = ActionsRun(APP, repo.run("agent.yml").id, 1)
    with watch.github.faults.outages():
        assert watch.asks() == (False, 1), "and no second try"
        watch.now_s = 119.0
        assert watch.asks(other) == (False, 0)
    watch.run.finish("success")
    assert watch.asks() == (False, 0)
    watch.now_s = 120.0
    assert watch.asks() == (True, 1)


def test_what_github_does_not_know_has_not_ended(watch: Watch) -> None:
    for unknown in (ActionsRun(APP, 1, 1), ActionsRun("acme/gone", watch.run.id, 1)):
        assert watch.asks(unknown) == (False, 1)
        watch.now_s += 60.0
        assert watch.asks(unknown) == (False, 0)
    assert watch.asks(ActionsRun(APP, watch.run.id, 2))[0] is False


def test_without_a_valid_token_the_lease_decides(github: FakeGitHub, repo: Repository) -> None:
    def refuse() -> GitHub:
        raise GitHubRefused("no", status=401)

    assert AttemptEnds(refuse).has_ended(ActionsRun(APP, 1, 1)) is False
