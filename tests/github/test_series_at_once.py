"""No two issues of a series are assigned at once, however many want one at the same time.

Attempts are made by threads, by processes, and by processes that stand for workflow runs: these assign by
themselves what `acquire` gives them. Each runner on git has a clone of its own, and reaches the repository
over HTTP. `INTERLOCK_SERIES_ATTEMPTS=3000` makes as many of each.

The check has power: it catches the seed's own algorithm, which reads the state and then writes it, and it
catches ours once pushes are not pinned to what was read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interlock.git.plumbing import GitRepository
from interlock.github.client import GitHub
from interlock.github.series.controller import SeriesController
from interlock.github.tokens import PlainToken
from interlock.service.series import CALLER_ASSIGNS
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.github.series_desk import SeriesDesk
from tests.github.series_racer import unpinned
from tests.patience import PATIENCE_S

CHOSEN = os.environ.get("INTERLOCK_SERIES_ATTEMPTS")
AT_ONCE, GIT_AT_ONCE = 8, 4
ISSUES = 5


def attempts(desk: SeriesDesk) -> int:
    """On git fewer by default: each attempt fetches and pushes."""
    return int(CHOSEN or (12 if desk.in_git else 100))


@pytest.fixture(params=["sqlite", "postgres18", "git"])
def url(request: pytest.FixtureRequest, github: FakeGitHub, repo: Repository, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    if request.param == "git":
        return git_url(github, repo)
    found: str = request.getfixturevalue("pg_database18")
    return found


def git_url(github: FakeGitHub, repo: Repository) -> str:
    """The repository itself as a store, over HTTP."""
    repo.commit({"README.md": "hello"})
    login = f"x-access-token:{github.token('boss')}@"
    return f"git+{repo.clone_url.replace('http://', 'http://' + login)}"


@pytest.fixture
def desk(github: FakeGitHub, repo: Repository, url: str, tmp_path: Path) -> Iterator[SeriesDesk]:
    limits = github.faults.limits
    limits.hourly = dict.fromkeys(limits.hourly, 10**9)
    limits.creations_per_minute = limits.creations_per_hour = 10**9
    desk = SeriesDesk(github, repo, url, directory=tmp_path)
    for n in range(1, ISSUES + 1):
        desk.issue(n)
    yield desk
    desk.close()


def most_at_once(repo: Repository) -> int:
    """How many open issues of the series were assigned at the same time, at most, by their own timelines.

    Whoever was told to assign an issue may do so late, when it is closed already: nobody works on that.
    """
    entries = sorted(
        (entry["id"], issue.number, entry["event"])
        for issue in repo.numbers.values()
        if "RFC-093-" in issue.title
        for entry in issue.timeline
        if entry["event"] in ("assigned", "unassigned", "closed")
    )
    there: Counter[int] = Counter()
    closed: set[int] = set()
    most = 0
    for _, number, event in entries:
        if event == "closed":
            closed.add(number)
        there[number] += {"assigned": 1, "unassigned": -1}.get(event, 0)
        if number in closed:
            del there[number]
        most = max(most, sum(count > 0 for count in there.values()))
    return most


def race(
    desk: SeriesDesk, count: int, wanted: Callable[[int], int] = lambda n: n % ISSUES
) -> tuple[Counter[str], int]:
    """Each attempt wants some issue and assigns it once it is told to; now and then the active one ends.

    What the attempts were answered, and how many had the series at once beyond those that may.
    """
    issues = [desk.repo.numbers[n] for n in range(1, ISSUES + 1)]
    statuses: Counter[str] = Counter()
    lock = threading.Lock()
    every = count // ISSUES + 1

    def attempt(n: int) -> None:
        issue = issues[wanted(n)]
        if issue.state != "open":
            return
        try:
            found = keepers[n % at_once]().acquire(issue.number, login=CALLER_ASSIGNS)
        except Exception as error:
            if "is closed" in str(error):
                return
            raise
        with lock:
            statuses[found.status] += 1
        if found.assign:
            issue.assign("coder-bot", by="boss")
        active = desk.repo.numbers[found.active_issue] if found.active_issue else None
        if n % every == every - 1 and active is not None:
            active.close(by="alice")

    at_once = GIT_AT_ONCE if desk.in_git and count < 100 else AT_ONCE
    keepers = [runner(desk, n) for n in range(at_once)]
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(attempt, range(count)))
    ended = sum(issue.state == "closed" for issue in issues)
    assert statuses["acquired"] >= 1
    assert ended >= (2 if count >= 100 else 1)
    return statuses, max(0, statuses["acquired"] - ended - 1, most_at_once(desk.repo) - 1)


def runner(desk: SeriesDesk, number: int) -> Callable[[], SeriesController]:
    """One of several machines; on git each has a clone of its own."""
    lanes = desk.git_lanes(f"runner-{number}") if desk.in_git else None
    return lambda: desk.keeper(lanes=lanes)


@pytest.mark.slow
def test_threads(desk: SeriesDesk) -> None:
    statuses, doubles = race(desk, attempts(desk))
    assert doubles == 0
    assert statuses["queued"]


@pytest.mark.slow
@pytest.mark.parametrize("assigns", ["by us", "by itself"])
def test_processes(desk: SeriesDesk, url: str, tmp_path: Path, assigns: str) -> None:
    """By itself: as a workflow does whose next step assigns if the outputs say so."""
    by_itself = assigns == "by itself"
    answers = processes(desk, url, tmp_path, each=each_of(desk), more=["--no-assign"] if by_itself else [])
    assert Counter(answer["status"] for answer in answers)["acquired"] == 1
    if by_itself:
        assert [answer["issue"] for answer in answers if answer["assign"]] == [1]
    assert desk.assigned() == {1: ["coder-bot"]}
    assert most_at_once(desk.repo) == 1


PROCESSES = 4


def each_of(desk: SeriesDesk) -> int:
    """How often each process tries."""
    return max(2 if desk.in_git else 5, attempts(desk) // PROCESSES // (1 if CHOSEN else 8))


def processes(
    desk: SeriesDesk, url: str, directory: Path, *, each: int, more: list[str], pinned: bool = True
) -> list[dict[str, Any]]:
    """What processes were answered that try at once, each in a directory of its own."""
    started = []
    for number in range(PROCESSES):
        place = directory / f"machine-{number}"
        place.mkdir()
        environ = {
            **os.environ,
            "INTERLOCK_URL": url,
            "GH_TOKEN": desk.github.token("boss"),
            "GITHUB_API_URL": desk.github.api_url,
            "GITHUB_REPOSITORY": "acme/app",
            "GITHUB_OUTPUT": str(place / "output"),
            "INTERLOCK_SERIES_ASSIGNEE": "coder-bot",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "RACERS": str(PROCESSES),
            "READY": str(directory),
            **({} if pinned else {"UNPINNED": "1"}),
        }
        first = number if pinned else 0  # without pins all want the same one
        command = [sys.executable, "-m", "tests.github.series_racer", str(first), str(each), *more]
        started.append(
            subprocess.Popen(command, env=environ, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
    answers = []
    for process in started:
        out, err = process.communicate(timeout=PATIENCE_S * max(1, each / 10))
        assert process.returncode in (0, 4), err.decode()
        answers += [json.loads(line) for line in out.decode().splitlines()]
    assert len(answers) == PROCESSES * each
    return answers


class TestTheCheckHasPower:
    """On git, once a push is not pinned to what was read."""

    @pytest.fixture
    def url(self, github: FakeGitHub, repo: Repository) -> str:
        return git_url(github, repo)

    def test_threads(self, desk: SeriesDesk, monkeypatch: pytest.MonkeyPatch) -> None:
        together = threading.Barrier(GIT_AT_ONCE)
        push = unpinned(lambda: together.wait(PATIENCE_S))
        monkeypatch.setattr(GitRepository, "push", push)
        _, doubles = race(desk, GIT_AT_ONCE, wanted=lambda _: 0)
        assert doubles > 0

    def test_processes(self, desk: SeriesDesk, url: str, tmp_path: Path) -> None:
        answers = processes(desk, url, tmp_path, each=1, more=["--no-assign"], pinned=False)
        assert Counter(answer["status"] for answer in answers)["acquired"] > 1


def test_the_seeds_algorithm_is_caught(github: FakeGitHub, repo: Repository) -> None:
    """Read, then write, without a conditional update, which GitHub refuses."""
    limits = github.faults.limits
    limits.hourly = dict.fromkeys(limits.hourly, 10**9)
    limits.creations_per_minute = limits.creations_per_hour = 10**9
    repo.collaborator("coder-bot")
    issues: list[Issue] = [repo.issue(f"RFC-093-{n:02}: Part {n}", by="alice") for n in range(1, ISSUES + 1)]
    empty: dict[str, object] = {"series": "RFC-093", "active_issue": None, "queue": [], "version": 1}
    state = repo.issue("RFC-093 Series State", json.dumps(empty), by="alice")
    path = "/repos/acme/app/issues/{number}"
    all_have_read = threading.Barrier(AT_ONCE)

    def attempt(n: int) -> None:
        issue = issues[n % ISSUES]
        with GitHub(PlainToken(github.token("boss")), api_url=github.api_url) as client:
            found = json.loads(client.get(path, number=state.number).body["body"])
            if n < AT_ONCE:
                all_have_read.wait(PATIENCE_S)
            if found["active_issue"] is not None:
                return
            found["active_issue"] = issue.number
            client.send("PATCH", path, {"body": json.dumps(found)}, number=state.number)
            client.send("POST", path + "/assignees", {"assignees": ["coder-bot"]}, number=issue.number)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(attempt, range(40)))
    assert most_at_once(repo) > 1
