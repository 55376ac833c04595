"""`actions sweep`: workflow runs that lost their lane or were superseded are cancelled, and no others.

The stores are real ones: lanes in a bare git repository, and SQLite. GitHub is the fake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from interlock import app
from interlock.core.errors import GitHubRefused
from interlock.core.model import NewItem, Policy
from interlock.github import orphaned_runs
from interlock.github.client import GitHub
from interlock.github.tokens import PlainToken
from interlock.gitlanes.first_seen import FirstSeen
from interlock.gitlanes.service import GitLanes
from interlock.process.workplace import IN_ACTIONS, actions_run, attempt_of, workplace
from interlock.service.contract import LaneService, LeaseView, RecentRunView, Report, Service
from tests.acceptance.command import Answer, Command
from tests.clock import Clock
from tests.faults.processes import wait_until
from tests.github.actions import WorkflowRun
from tests.github.fake import FakeGitHub, Repository

APP = "acme/app"
LANE = "issue:acme/app#42"
OTHER = "issue:acme/app#43"


class Yard:
    """A store, and a GitHub whose workflow runs hold lanes in it."""

    def __init__(
        self,
        github: FakeGitHub,
        repo: Repository,
        lanes: LaneService,
        url: str = "",
        run_out: Callable[[], None] = lambda: None,
    ) -> None:
        self.github, self.repo, self.lanes, self.url = github, repo, lanes, url
        #: Lets every lease run out.
        self.run_out = run_out
        self.waits: list[float] = []

    def run(self, *, file: str = "agent.yml", stubborn: bool = False) -> WorkflowRun:
        """A workflow run at work that began a quarter of an hour ago."""
        run = self.repo.run(file)
        run.start()
        run.stubborn = stubborn
        self.github.clock.advance(900)
        return run

    def hold(self, run: WorkflowRun, lane: str = LANE, *, agent: str = "triage") -> LeaseView:
        """A hold in the newest attempt of a workflow run."""
        worker = f"{IN_ACTIONS}{run.id}-{len(run.attempts)}.77"
        new = NewItem(title="hold", lane=lane, agent=agent, max_attempts=1)
        item = self.lanes.add([new])[0].arrival
        assert item is not None
        (lease,) = self.lanes.next(agent, item=item, worker=worker)
        return lease

    def sweep(self, *, dry_run: bool = False) -> list[tuple[int, str]]:
        token = PlainToken(self.github.actions_token(self.repo, {"actions": "write"}), kind="actions")
        with GitHub(token, api_url=self.github.api_url) as client:
            swept = orphaned_runs.sweep(
                client,
                APP,
                ["agent.yml"],
                self.lanes.recent_runs(worker=IN_ACTIONS),
                dry_run=dry_run,
                pause=self.waits.append,
            )
        return [(each.workflow_run, each.did) for each in swept]

    def command(self, directory: Path, *args: str, permission: str = "write") -> Answer:
        il = Command(
            directory,
            url=self.url,
            env={
                "GITHUB_API_URL": self.github.api_url,
                "GITHUB_ACTIONS": "true",
                "GITHUB_TOKEN": self.github.actions_token(self.repo, {"actions": permission}),
                "GITHUB_REPOSITORY": APP,
            },
        )
        return il(*args)


@pytest.fixture(params=["git", "sqlite"])
def yard(
    request: pytest.FixtureRequest, github: FakeGitHub, repo: Repository, tmp_path: Path
) -> Iterator[Yard]:
    repo.workflow("agent.yml")
    if request.param == "git":
        clock = Clock()
        url = repo.bare.as_uri()
        lanes = GitLanes(
            url, tmp_path / "lanes", first_seen=FirstSeen(tmp_path / "sight", now=lambda: clock.now_us)
        )

        def run_out() -> None:
            lanes.lanes()  # seen once
            clock.advance(2 * 900)
            lanes.next("sweeper", types=["none"])

        yield Yard(github, repo, lanes, f"git+{url}", run_out)
        return
    url = f"sqlite:///{tmp_path}/store.db"
    with closing(app.open_service(url)) as service:

        def expire() -> None:
            for run in service.recent_runs():
                if run.status == "running":
                    service.cancel(run.item, why="as if its lease had run out", force=True)

        yield Yard(github, repo, service, url, expire)


def test_a_run_that_lost_its_lane_is_cancelled(yard: Yard) -> None:
    lost, holding = yard.run(), yard.run()
    yard.hold(lost)
    yard.run_out()
    yard.hold(holding)
    assert yard.sweep(dry_run=True) == [(lost.id, "would_cancel")]
    assert lost.status == "in_progress"
    assert yard.sweep() == [(lost.id, "cancelled")]
    assert (lost.conclusion, holding.status) == ("cancelled", "in_progress")
    assert yard.sweep() == []


def test_a_run_that_ended_by_its_own_word_is_left_alone(yard: Yard) -> None:
    for end in (yard.lanes.done, yard.lanes.fail, yard.lanes.release):
        run = yard.run()
        end([Report(run=yard.hold(run, agent=f"agent-{run.id}").run, retry=False)])
    asked = len(yard.github.requests)
    assert yard.sweep() == []
    assert len(yard.github.requests) == asked, "without a stray GitHub is not asked"


def test_a_later_attempt_and_a_run_with_another_lane_are_left_alone(yard: Yard) -> None:
    """A cancel ends whatever attempt there is, so the attempt must be the one that lost its lane."""
    again, both = yard.run(), yard.run()
    yard.hold(again)
    yard.run_out()
    again.finish("failure")
    again.rerun(by="alice")
    again.start()
    yard.github.clock.advance(900)
    yard.hold(both, agent="b")
    yard.run_out()
    yard.hold(both, OTHER, agent="b")
    assert yard.sweep() == []
    assert again.status == both.status == "in_progress"


def test_a_young_run_and_another_workflow_are_left_alone(yard: Yard) -> None:
    elsewhere = yard.run(file="deploy.yml")
    yard.hold(elsewhere)
    yard.run_out()
    young = yard.run()
    young.attempts[-1].started_at = yard.github.now() - 60
    yard.hold(young, agent="b")
    yard.run_out()
    assert yard.sweep() == []
    assert elsewhere.status == young.status == "in_progress"


def test_a_run_that_does_not_end_is_forced_after_the_documented_delay(yard: Yard) -> None:
    stubborn, meek = yard.run(stubborn=True), yard.run()
    yard.hold(stubborn)
    yard.run_out()
    yard.hold(meek, agent="b")
    yard.run_out()
    assert sorted(yard.sweep()) == [(stubborn.id, "forced"), (meek.id, "cancelled")]
    assert sum(yard.waits) == orphaned_runs.FORCE_AFTER_S
    assert stubborn.cancel_requested
    assert stubborn.status == meek.status == "completed"


def test_a_run_that_ends_or_begins_anew_meanwhile_is_not_cancelled(yard: Yard) -> None:
    run = yard.run()
    yard.hold(run)
    yard.run_out()

    def begin_anew() -> None:
        run.finish("failure")
        run.rerun(by="alice")
        run.start()

    # Right before the look that precedes the cancel.
    yard.github.faults.before(begin_anew, on=f"GET /repos/acme/app/actions/runs/{run.id}")
    assert yard.sweep() == [(run.id, "ended")]
    assert (run.status, run.cancel_requested) == ("in_progress", False)


def test_a_superseded_run_is_cancelled(github: FakeGitHub, repo: Repository, tmp_path: Path) -> None:
    repo.workflow("agent.yml")
    with closing(app.open_service(f"sqlite:///{tmp_path}/store.db")) as service:
        yard = Yard(github, repo, service)
        old = yard.run()
        worker = f"{IN_ACTIONS}{old.id}-1-77-abcd"
        supersede = NewItem(title="answer", lane=LANE, agent="triage", policy=Policy.SUPERSEDE)
        service.add([supersede])
        (lease,) = service.next("triage", worker=worker)
        service.add([supersede])
        assert yard.sweep() == [], "it is being asked to stop"
        service.release([Report(run=lease.run)])
        assert yard.sweep() == [(old.id, "cancelled")]


def test_a_lease_that_ran_out_in_a_database_counts(
    github: FakeGitHub, repo: Repository, tmp_path: Path
) -> None:
    repo.workflow("agent.yml")
    with closing(app.open_service(f"sqlite:///{tmp_path}/store.db")) as service:
        yard = Yard(github, repo, service)
        run = yard.run()
        service.add([NewItem(title="work", lane=LANE, max_attempts=1)])
        assert service.next("triage", lease_s=1.0, worker=f"{IN_ACTIONS}{run.id}-1-7-ab")
        wait_until(lambda: _swept(service), "the lease is over")
        assert yard.sweep() == [(run.id, "cancelled")]


def _swept(service: Service) -> bool:
    service.sweep()
    return all(run.status == "lost" for run in service.recent_runs())


def test_the_command_says_what_it_did_and_why(yard: Yard, tmp_path: Path) -> None:
    run = yard.run()
    yard.hold(run)
    yard.run_out()
    here = tmp_path / "here"
    here.mkdir()
    answer = yard.command(here, "actions", "sweep", "--dry-run")
    assert answer.out.startswith(f"Would cancel run {run.id} of agent.yml, attempt 1: "), answer
    assert LANE in answer.out
    refused = yard.command(here, "actions", "sweep", permission="read")
    assert (refused.code, refused.err.splitlines()[0]) == (
        1,
        "Permission denied: the token needs actions: write to see and cancel workflow runs.",
    )
    assert run.status == "in_progress"
    swept = yard.command(here, "--json", "actions", "sweep").json["swept"]
    assert [(each["workflow_run"], each["did"], each["lane"]) for each in swept] == [
        (run.id, "cancelled", LANE)
    ]
    assert yard.command(here, "actions", "sweep").out == ("No orphaned workflow runs.\n")


def test_without_a_repository_or_a_token_the_command_says_what_is_missing(tmp_path: Path) -> None:
    il = Command(tmp_path, env={"GITHUB_REPOSITORY": "", "GITHUB_TOKEN": "", "GH_TOKEN": ""})
    for args, missing in (((), "No repository was given"), (("--repo", APP), "No GitHub token")):
        answer = il("--json", "actions", "sweep", *args)
        assert missing in answer.error["message"]


def test_an_unknown_workflow_is_named(yard: Yard) -> None:
    yard.hold(yard.run())
    yard.run_out()
    yard.repo.workflows.clear()
    with pytest.raises(GitHubRefused, match=r"no agent\.yml here"):
        yard.sweep()


def test_a_worker_in_actions_is_named_by_its_run_and_attempt() -> None:
    environ = {"GITHUB_REPOSITORY": APP, "GITHUB_RUN_ID": "4711", "GITHUB_RUN_ATTEMPT": "2"}
    assert actions_run(environ) == (APP, 4711, 2)
    for rest in (".77", "-77-0a1b2c3d"):
        assert attempt_of(workplace(environ) + rest) == (4711, 2)
        assert attempt_of(workplace({}) + rest) is None
    for name in (None, "", "actions-0-1.7", "actions-7.7", "actions-x-1.7", "actions-7-1"):
        assert attempt_of(name) is None


def view(worker: str, status: str, *, run: int = 1, reason: str = "") -> RecentRunView:
    at = Clock().now
    return RecentRunView(
        run=run,
        item=1,
        lane=None,
        agent="a",
        worker=worker,
        status=status,
        reason=reason,
        started_at=at,
        ended_at=at,
        item_status=None,
    )


def test_the_newest_run_of_an_attempt_counts() -> None:
    lost, done = view("actions-7-1.1", "lost"), view("actions-7-1.1", "succeeded", run=2)
    assert orphaned_runs.orphaned_runs([lost]) == {(7, 1): lost}
    assert orphaned_runs.orphaned_runs([done, lost]) == {}
    assert orphaned_runs.orphaned_runs([lost, done]) == {(7, 1): lost}
    assert orphaned_runs.orphaned_runs([view("host.1", "lost")]) == {}
    assert "item 1" in str(orphaned_runs.why_orphaned(lost))
