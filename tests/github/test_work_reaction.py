"""👀 on the message that a job works on: there while it works, gone however it ends.

The jobs are real processes, which hold lanes of a real repository; GitHub is the fake.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from interlock import app, settings
from interlock.github.effects import ReactionTarget
from interlock.github.remarks import has_mark
from interlock.github.work_reaction import SUPERSEDED, message_of
from tests.acceptance.command import Command
from tests.faults.processes import wait_until
from tests.github.actions import WorkflowRun
from tests.github.fake import ACTIONS_BOT, FakeGitHub, Repository
from tests.github.issues import Comment, Issue
from tests.integration.test_action import NODE, Job
from tests.patience import PATIENCE_S

APP = "acme/app"
LEASE_LOST = 5
#: Tells its supervisor's process and its own, and stays; what a signal does to it is an argument.
_STAY = (
    "import os, signal, sys, time, pathlib\n"
    "if sys.argv[2] == 'deaf': signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "p = pathlib.Path(sys.argv[1] + '.part'); p.write_text(f'{os.getppid()} {os.getpid()}')\n"
    "p.rename(sys.argv[1]); time.sleep(600)"
)


class Jobs:
    """Jobs of a workflow that answers the comments of one issue, each on a machine of its own."""

    def __init__(self, root: Path, github: FakeGitHub, repo: Repository) -> None:
        self.root, self.github, self.repo = root, github, repo
        self.issue: Issue = repo.issue("It is broken", by="alice")
        self.lane = f"issue:{APP}#{self.issue.number}"
        self.url = f"git+{repo.bare.as_uri()}"
        self.started: list[subprocess.Popen[bytes]] = []

    def said(self, text: str = "please look") -> tuple[Comment, dict[str, Any]]:
        """A comment, and the event that starts a job for it."""
        comment = self.issue.comment(text, by="alice")
        return comment, self.github.deliveries[-1].payload

    def job(
        self, name: str, event: dict[str, Any], *, run: WorkflowRun | None = None, token: str | None = None
    ) -> Command:
        directory = self.root / name
        directory.mkdir()
        (directory / "event.json").write_text(json.dumps(event))
        if run is None:
            run = self.repo.run("agent.yml")
            run.start()
        env = {
            "GITHUB_API_URL": self.github.api_url,
            "GITHUB_REPOSITORY": APP,
            "GITHUB_RUN_ID": str(run.id),
            "GITHUB_RUN_ATTEMPT": str(len(run.attempts)),
            "GITHUB_EVENT_PATH": str(directory / "event.json"),
            "GITHUB_TOKEN": "",
            "GH_TOKEN": self.github.actions_token(self.repo) if token is None else token,
        }
        return Command(directory, url=self.url, env=env)

    def stays(self, job: Command, *options: str, deaf: bool = False) -> subprocess.Popen[bytes]:
        """Hold the lane until a signal comes."""
        at_work = job.directory / "at-work"
        how = "deaf" if deaf else "hears"
        command = [sys.executable, "-c", _STAY, str(at_work), how]
        process = job.start("hold", self.lane, *options, "--", *command)
        self.started.append(process)
        wait_until(at_work.exists, "the command runs")
        return process

    def waits(self, job: Command) -> subprocess.Popen[bytes]:
        process = job.start("hold", self.lane, "--", "true")
        self.started.append(process)
        lanes = app.open_lanes(settings.load(url=self.url, environ={}, directory=job.directory))
        wait_until(lambda: any(view.waiting for view in lanes.lanes()), "it waits")
        return process

    def killed(self, job: Command) -> None:
        """Hold the lane, and die with everything that was started."""
        process = self.stays(job)
        process.kill()
        for pid in (job.directory / "at-work").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        process.communicate()

    def notices(self) -> list[str]:
        return [c.body for c in self.issue.comments if c.user == ACTIONS_BOT]


@pytest.fixture
def jobs(tmp_path: Path, github: FakeGitHub, repo: Repository) -> Iterator[Jobs]:
    made = Jobs(tmp_path, github, repo)
    yield made
    for process in made.started:
        if process.poll() is None:  # only where a test failed
            process.kill()


def eyes(comment: Comment) -> list[str]:
    return [r.user for r in comment.reactions if r.content == "eyes"]


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, err.decode()


# -- the reaction -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 3])
def test_eyes_are_there_while_the_command_runs_and_gone_after_it(jobs: Jobs, code: int) -> None:
    comment, event = jobs.said()
    job = jobs.job("job", event)
    met: list[list[str]] = []
    jobs.github.faults.before(lambda: met.append(eyes(comment)), on="DELETE")
    answer = job("hold", jobs.lane, "--", "sh", "-c", f"exit {code}")
    assert (answer.code, answer.err) == (code, "")
    assert met == [[ACTIONS_BOT]]
    assert eyes(comment) == []
    assert jobs.notices() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_takes_them_away(jobs: Jobs, number: int) -> None:
    comment, event = jobs.said()
    process = jobs.stays(jobs.job("job", event))
    assert eyes(comment) == [ACTIONS_BOT]
    process.send_signal(number)
    assert ended(process)[0] != 0
    assert eyes(comment) == []


def test_the_first_signal_takes_them_away_even_if_the_command_does_not_hear_it(jobs: Jobs) -> None:
    """GitHub kills ten seconds after the first signal; whoever waits for the command may be too late."""
    comment, event = jobs.said()
    process = jobs.stays(jobs.job("job", event), deaf=True)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: eyes(comment) == [], "they are gone")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] != 0


def test_who_is_interrupted_while_it_waits_takes_only_its_own_away(jobs: Jobs) -> None:
    first, event = jobs.said()
    holder = jobs.stays(jobs.job("holder", event))
    second, event = jobs.said("and the docs")
    waiter = jobs.waits(jobs.job("waiter", event))
    assert (eyes(first), eyes(second)) == ([ACTIONS_BOT], [ACTIONS_BOT])
    waiter.send_signal(signal.SIGTERM)
    assert ended(waiter)[0] == 128 + signal.SIGTERM
    assert (eyes(first), eyes(second)) == ([ACTIONS_BOT], [])
    holder.send_signal(signal.SIGINT)
    ended(holder)


def test_who_is_skipped_takes_its_own_away_and_posts_nothing(jobs: Jobs) -> None:
    first, event = jobs.said()
    holder = jobs.stays(jobs.job("holder", event))
    second, event = jobs.said("and the docs")
    skipped = jobs.job("loser", event)("hold", jobs.lane, "--if-held", "skip", "--", "false")
    assert (skipped.code, eyes(first), eyes(second)) == (0, [ACTIONS_BOT], [])
    assert jobs.notices() == []
    holder.send_signal(signal.SIGINT)
    ended(holder)


def test_who_loses_the_lane_takes_them_away(jobs: Jobs) -> None:
    comment, event = jobs.said()
    job = jobs.job("job", event)
    job.env["INTERLOCK_GIT_LEASE_MIN_S"] = "15"  # a busy machine needs some seconds to start the command
    process = jobs.stays(job, "--lease", "15s")
    lanes = app.open_lanes(settings.load(url=jobs.url, environ={}, directory=job.directory))
    (view,) = lanes.lanes()
    assert view.holder is not None
    lanes.cancel(view.holder.item, why="by hand", force=True)
    code, err = ended(process)
    assert code == LEASE_LOST, err
    assert eyes(comment) == []


def test_a_command_within_a_run_shows_nothing_of_its_own(jobs: Jobs) -> None:
    """Taken out: the look at INTERLOCK_RUN; the inner hold then takes away what is the outer one's."""
    comment, event = jobs.said()
    job = jobs.job("job", event)
    inner = [sys.executable, "-m", "interlock", "hold", "another", "--", "true"]
    met: list[list[str]] = []
    jobs.github.faults.before(lambda: met.append(eyes(comment)), times=5, on="reactions")
    assert job("hold", jobs.lane, "--", *inner).code == 0
    assert met == [[], [ACTIONS_BOT]]


def test_on_a_database_they_come_and_go_as_well(jobs: Jobs) -> None:
    comment, event = jobs.said()
    job = jobs.job("job", event)
    job.url = None
    process = jobs.stays(job)
    assert eyes(comment) == [ACTIONS_BOT]
    process.send_signal(signal.SIGTERM)
    ended(process)
    assert eyes(comment) == []


def test_an_answer_that_was_lost_leaves_no_eyes_behind(jobs: Jobs) -> None:
    comment, event = jobs.said()
    jobs.github.faults.lose_answers(on="POST")
    answer = jobs.job("job", event)("hold", jobs.lane, "--", "true")
    assert (answer.code, eyes(comment)) == (0, [])


def _outage(jobs: Jobs) -> str | None:
    jobs.github.faults.outage = True
    return None


def _no_token(_: Jobs) -> str:
    return ""


def _no_right(jobs: Jobs) -> str:
    return jobs.github.actions_token(jobs.repo, {"contents": "write"})


@pytest.mark.parametrize(
    ("spoil", "word"), [(_outage, "server error"), (_no_token, "GITHUB_TOKEN"), (_no_right, "403")]
)
def test_where_github_cannot_be_told_the_command_runs_and_one_line_says_why(
    jobs: Jobs, spoil: Any, word: str
) -> None:
    comment, event = jobs.said()
    answer = jobs.job("job", event, token=spoil(jobs))("hold", jobs.lane, "--", "echo", "worked")
    assert (answer.code, answer.out) == (0, "worked\n")
    assert answer.err.startswith("Could not add 👀 to the message: ")
    assert answer.err.count("\n") == 1
    assert word in answer.err
    assert eyes(comment) == []


# -- the next run -------------------------------------------------------------------------------------


def test_the_successor_says_that_an_earlier_run_gave_way_to_a_newer_message(jobs: Jobs) -> None:
    first, event = jobs.said()
    older = jobs.stays(jobs.job("older", event))
    second, event = jobs.said("no, the other one")
    older.send_signal(signal.SIGINT)  # as `cancel-in-progress` does
    ended(older)
    assert jobs.notices() == []
    newer = jobs.stays(jobs.job("newer", event))
    (notice,) = jobs.notices()
    assert notice.startswith(SUPERSEDED)
    assert has_mark(notice, superseded="run-1")
    assert (eyes(first), eyes(second)) == ([], [ACTIONS_BOT])
    newer.send_signal(signal.SIGINT)
    ended(newer)
    assert (eyes(second), len(jobs.notices())) == ([], 1)


def test_an_interruption_before_the_newer_message_is_no_giving_way(jobs: Jobs) -> None:
    """Somebody cancelled the run by hand, and wrote again later."""
    _, event = jobs.said()
    older = jobs.stays(jobs.job("older", event))
    older.send_signal(signal.SIGINT)
    ended(older)
    _, event = jobs.said("try again")
    event["comment"]["updated_at"] = "2099-01-01T00:00:00Z"
    assert jobs.job("newer", event)("hold", jobs.lane, "--", "true").code == 0
    assert jobs.notices() == []


def test_a_run_that_failed_by_itself_gave_way_to_nobody(jobs: Jobs) -> None:
    _, event = jobs.said()
    _, later = jobs.said("and the docs")
    assert jobs.job("older", event)("hold", jobs.lane, "--", "false").code == 1
    assert jobs.job("newer", later)("hold", jobs.lane, "--", "true").code == 0
    assert jobs.notices() == []


def test_a_second_attempt_for_the_same_message_supersedes_nothing(jobs: Jobs) -> None:
    comment, event = jobs.said()
    older = jobs.stays(jobs.job("older", event))
    older.send_signal(signal.SIGTERM)
    ended(older)
    assert jobs.job("again", event)("hold", jobs.lane, "--", "true").code == 0
    assert (jobs.notices(), eyes(comment)) == ([], [])


def test_what_a_killed_run_left_is_taken_away_by_the_next_one_on_its_lane(jobs: Jobs) -> None:
    """Nobody can act after SIGKILL; the number of the reaction is with the lane."""
    run = jobs.repo.run("agent.yml")
    run.start()
    first, event = jobs.said()
    job = jobs.job("killed", event, run=run)
    jobs.killed(job)
    assert eyes(first) == [ACTIONS_BOT]
    run.finish("failure")
    second, event = jobs.said("is anybody there?")
    assert jobs.job("next", event)("hold", jobs.lane, "--", "true").code == 0
    assert (eyes(first), eyes(second), jobs.notices()) == ([], [], [])


def test_a_sweep_takes_away_what_a_killed_run_left_if_nobody_comes_next(jobs: Jobs) -> None:
    run = jobs.repo.run("agent.yml")
    run.start()
    comment, event = jobs.said()
    job = jobs.job("killed", event, run=run)
    jobs.killed(job)
    sweeper = jobs.job("sweeper", {})
    assert (sweeper.ok("actions", "sweep")["reactions"], eyes(comment)) == ([], [ACTIONS_BOT])
    run.finish("failure")
    assert "Would take 👀 away from comment" in sweeper("actions", "sweep", "--dry-run").out
    assert eyes(comment) == [ACTIONS_BOT]
    blind = jobs.job("blind", {}, token=jobs.github.actions_token(jobs.repo, {"actions": "write"}))
    refused = blind("actions", "sweep")
    assert (refused.code, refused.err.count("Could not remove 👀")) == (0, 1)
    assert "Took 👀 away from comment" in sweeper("actions", "sweep").out
    assert eyes(comment) == []
    assert sweeper.ok("actions", "sweep")["reactions"] == []


# -- workers on a database ----------------------------------------------------------------------------


def payload(jobs: Jobs, comment: Comment) -> str:
    """As the intake makes it of a comment."""
    said = {"event_type": "issue_comment.created", "repository": APP, "issue_number": jobs.issue.number}
    return json.dumps({**said, "comment_id": comment.id})


def worker(jobs: Jobs, name: str = "worker", **env: str) -> Command:
    directory = jobs.root / name
    directory.mkdir()
    token = jobs.github.actions_token(jobs.repo)
    return Command(
        directory, env={"GITHUB_API_URL": jobs.github.api_url, "GITHUB_TOKEN": "", "GH_TOKEN": token} | env
    )


@pytest.mark.parametrize("code", [0, 3, 75])
def test_a_worker_shows_eyes_while_it_works_on_a_comment(jobs: Jobs, code: int) -> None:
    comment, _ = jobs.said()
    il = worker(jobs)
    il.ok("add", "Answer", "--lane", jobs.lane, "--agent", "coder", "--payload", payload(jobs, comment))
    met: list[list[str]] = []
    jobs.github.faults.before(lambda: met.append(eyes(comment)), on="DELETE")
    il("work", "--agent", "coder", "--limit", "1", "--", "sh", "-c", f"exit {code}")
    assert (met, eyes(comment), jobs.notices()) == ([[ACTIONS_BOT]], [], [])


def test_a_worker_says_that_an_earlier_run_gave_way_to_a_newer_message(jobs: Jobs) -> None:
    """Told once, also if the run that says it is given back and begins again."""
    first, _ = jobs.said()
    il = worker(jobs)
    add = ("add", "Answer", "--lane", jobs.lane, "--agent", "coder", "--policy", "supersede")
    il.ok(*add, "--payload", payload(jobs, first))
    at_work = il.directory / "at-work"
    script = (
        f"cd {il.directory}; test -e again && exit 0;"
        " test -e newer && { touch again; exit 75; }; touch at-work; sleep 600"
    )
    process = il.start("work", "--agent", "coder", "--limit", "3", "--", "sh", "-c", script)
    jobs.started.append(process)
    wait_until(at_work.exists, "the first run works")
    assert eyes(first) == [ACTIONS_BOT]
    second, _ = jobs.said("no, the other one")
    (il.directory / "newer").write_text("")
    item = il.ok(*add, "--payload", payload(jobs, second))["item"]["id"]
    wait_until(lambda: il.ok("show", item)["item"]["status"] == "completed", "the second has run twice")
    assert (il.directory / "again").exists()
    (notice,) = jobs.notices()
    assert notice.startswith(SUPERSEDED)
    assert has_mark(notice, superseded=f"item-{item - 1}")
    process.send_signal(signal.SIGINT)
    ended(process)
    assert (eyes(first), eyes(second)) == ([], [])


def test_a_worker_without_a_token_and_work_from_elsewhere_show_nothing(jobs: Jobs) -> None:
    comment, _ = jobs.said()
    silent = worker(jobs, "silent", GH_TOKEN="")
    silent.ok("add", "Answer", "--agent", "coder", "--payload", payload(jobs, comment))
    il = worker(jobs)
    own = json.dumps({"repository": APP, "issue_number": jobs.issue.number})
    il.ok("add", "Answer", "--agent", "coder", "--payload", own)
    asked = len(jobs.github.requests)
    for each in (silent, il):
        assert each("work", "--agent", "coder", "--limit", "1", "--", "true").code == 0
    assert {path for _, path, _ in jobs.github.requests[asked:]} <= {"/user"}, "whose token it is, no more"


def test_a_worker_goes_on_where_github_does_not_answer(jobs: Jobs) -> None:
    comment, _ = jobs.said()
    il = worker(jobs)
    item = il.ok("add", "Answer", "--agent", "coder", "--payload", payload(jobs, comment))["item"]["id"]
    with jobs.github.faults.outages():
        answer = il("work", "--agent", "coder", "--limit", "1", "--", "true")
    assert il.ok("show", item)["item"]["status"] == "completed"
    assert (answer.out + answer.err).count("Could not add 👀 to the message") == 1


@pytest.mark.parametrize("answered", [True, False], ids=["with its id", "whose answer was lost"])
def test_eyes_of_a_killed_worker_are_taken_away_once_its_run_is_lost(jobs: Jobs, answered: bool) -> None:
    comment, _ = jobs.said()
    url = f"sqlite:///{jobs.root}/store.db"
    il, service = worker(jobs, INTERLOCK_URL=url), app.open_service(url)
    service.store.github.repository(jobs.repo.id, APP)  # type: ignore[union-attr]
    item = ("--lane", jobs.lane, "--agent", "coder", "--payload", payload(jobs, comment), "--lease", "10s")
    il.ok("add", "Answer", *item)
    if not answered:
        jobs.github.faults.lose_answers(5, on="/reactions")
    at_work = il.directory / "at-work"
    process = il.start("work", "--agent", "coder", "--", "sh", "-c", f"echo $$ > {at_work}; exec sleep 600")
    jobs.started.append(process)
    wait_until(lambda: at_work.exists() and at_work.read_text() != "", "it works")
    process.kill()
    os.kill(int(at_work.read_text()), signal.SIGKILL)
    process.communicate()
    jobs.github.faults.over()
    il.ok("github", "send")
    assert eyes(comment) == [ACTIONS_BOT], "nobody knows yet that it is dead"
    wait_until(lambda: bool(service.sweep().expired), "its lease is over")
    assert il.ok("github", "send")["sent"] == 1
    assert eyes(comment) == []
    assert il.ok("github", "send")["sent"] == 0
    service.close()


def test_a_worker_that_ends_well_leaves_nothing_to_take_away(jobs: Jobs) -> None:
    comment, _ = jobs.said()
    url = f"sqlite:///{jobs.root}/store.db"
    il, service = worker(jobs, INTERLOCK_URL=url), app.open_service(url)
    service.store.github.repository(jobs.repo.id, APP)  # type: ignore[union-attr]
    il.ok("add", "Answer", "--agent", "coder", "--payload", payload(jobs, comment))
    il("work", "--agent", "coder", "--limit", "1", "--", "true")
    assert service.store.github.orphaned_reactions(-3600, 10) == []  # type: ignore[union-attr]
    service.close()


# -- which message ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "number", "subject", "at"),
    [
        (
            {"issue": {"number": 7}, "comment": {"id": 5, "updated_at": "2026-11-16T10:00:00Z"}},
            *(7, ReactionTarget("comment", 5), "2026-11-16T10:00:00+00:00"),
        ),
        (
            {"pull_request": {"number": 8}, "comment": {"id": 6, "updated_at": "2026-11-16T10:00:00Z"}},
            *(8, ReactionTarget("review_comment", 6), "2026-11-16T10:00:00+00:00"),
        ),
        (
            {
                "pull_request": {"number": 8, "updated_at": "2026-01-01T00:00:00Z"},
                "review": {"id": 9, "submitted_at": "2026-11-16T10:00:00Z"},
            },
            *(8, ReactionTarget("issue", 8), "2026-11-16T10:00:00+00:00"),
        ),
        (
            {"issue": {"number": 7, "updated_at": "2026-11-16T10:00:00Z"}},
            *(7, ReactionTarget("issue", 7), "2026-11-16T10:00:00+00:00"),
        ),
        ({"inputs": {"number": "7", "prompt": "x"}}, 7, ReactionTarget("issue", 7), None),
    ],
)
def test_the_event_names_the_message(tmp_path: Path, event: Any, number: int, subject: Any, at: Any) -> None:
    (tmp_path / "event.json").write_text(json.dumps(event))
    message = message_of({"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_REPOSITORY": APP})
    assert message is not None
    assert (message.repository, message.number, message.subject) == (APP, number, subject)
    assert message.written_at == (datetime.fromisoformat(at) if at else None)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"inputs": {"number": "#7"}}', '{"comment": {"id": 5}}', '{"issue": 7}', "{"]
)
def test_other_events_are_about_no_message(tmp_path: Path, text: str) -> None:
    (tmp_path / "event.json").write_text(text)
    environ = {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_REPOSITORY": APP}
    assert message_of(environ) is None
    assert message_of(environ | {"GITHUB_EVENT_PATH": str(tmp_path)}) is None
    assert message_of({**environ, "GITHUB_EVENT_PATH": str(tmp_path / "none")}) is None


# -- the action ---------------------------------------------------------------------------------------


def test_the_action_shows_eyes_for_the_length_of_the_job_and_a_cancelled_job_gives_way(jobs: Jobs) -> None:
    if NODE is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "There is no node to run the action's scripts."
        )

    def started(name: str, event: dict[str, Any]) -> Job:
        job = Job(jobs.root / name, jobs.url)
        (job.directory / "event.json").write_text(json.dumps(event))
        job.environ |= {
            "GITHUB_API_URL": jobs.github.api_url,
            "GITHUB_EVENT_PATH": str(job.directory / "event.json"),
            "GITHUB_REPOSITORY": APP,
            "INPUT_TOKEN": jobs.github.actions_token(jobs.repo),
        }
        code, log = job.run("claim.js")
        assert code == 0, log
        return job

    first, event = jobs.said()
    older = started("older", event)
    assert eyes(first) == [ACTIONS_BOT]
    second, event = jobs.said("no, the other one")
    assert older.run("release.js", job_status="cancelled") == (0, f"{jobs.lane} is given back.\n")
    newer = started("newer", event)
    assert (eyes(first), eyes(second), len(jobs.notices())) == ([], [ACTIONS_BOT], 1)
    assert newer.run("release.js", job_status="success")[0] == 0
    assert eyes(second) == []
    # The job that ended well gave way to nobody.
    _, event = jobs.said("thanks")
    assert started("last", event).run("release.js", job_status="failure")[0] == 0
    assert len(jobs.notices()) == 1
