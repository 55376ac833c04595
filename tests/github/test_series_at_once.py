"""No two issues of a series are assigned at once, however many want one at the same time.

Attempts are made by threads, by processes, and by processes that stand for workflow runs: these assign by
themselves what `acquire` gives them. `INTERLOCK_SERIES_ATTEMPTS=3000` makes as many of each. The check has
power: the seed's own algorithm, which reads the state and then writes it, is caught.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.github.client import GitHub
from interlock.github.series.cycle import NOBODY
from interlock.github.tokens import PlainToken
from tests.github.fake import FakeGitHub, Repository
from tests.github.issues import Issue
from tests.github.series_desk import SeriesDesk
from tests.patience import PATIENCE_S

ATTEMPTS = int(os.environ.get("INTERLOCK_SERIES_ATTEMPTS", "100"))
AT_ONCE = 8
ISSUES = 5


@pytest.fixture(params=["sqlite", "postgres18"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    found: str = request.getfixturevalue("pg_database18")
    return found


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


@pytest.mark.slow
def test_threads(desk: SeriesDesk) -> None:
    """Each wants some issue and assigns it once it is told to; every now and then the active one ends."""
    issues = [desk.repo.numbers[n] for n in range(1, ISSUES + 1)]
    statuses: Counter[str] = Counter()
    lock = threading.Lock()

    def attempt(n: int) -> None:
        issue = issues[n % ISSUES]
        if issue.state != "open":
            return
        try:
            found = desk.keeper().acquire(issue.number, login=NOBODY)
        except Exception as error:
            if "is closed" in str(error):
                return
            raise
        with lock:
            statuses[found.status] += 1
        if found.assign:
            issue.assign("coder-bot", by="boss")
        active = desk.repo.numbers[found.active_issue] if found.active_issue else None
        if n % (ATTEMPTS // ISSUES + 1) == ATTEMPTS // ISSUES and active is not None:
            active.close(by="alice")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(attempt, range(ATTEMPTS)))
    assert most_at_once(desk.repo) == 1
    ended = sum(issue.state == "closed" for issue in issues)
    assert 1 <= statuses["acquired"] <= ended + 1
    assert ended >= 2
    assert statuses["queued"]


_PROCESS = """
import sys
from interlock.cli.main import main
number, count = int(sys.argv[1]), int(sys.argv[2])
for n in range(count):
    code = main(["--json", "series", "acquire", str((number + n) % 5 + 1), *sys.argv[3:]])
    if code not in (0, 4):
        sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("assigns", ["by us", "by itself"])
def test_processes(desk: SeriesDesk, url: str, tmp_path: Path, assigns: str) -> None:
    """By itself: as a workflow does whose next step assigns if the outputs say so."""
    processes = 4
    each = max(5, ATTEMPTS // processes // 8)
    by_itself = assigns == "by itself"
    started = []
    for number in range(processes):
        environ = {
            **os.environ,
            "INTERLOCK_URL": url,
            "GH_TOKEN": desk.github.token("boss"),
            "GITHUB_API_URL": desk.github.api_url,
            "GITHUB_REPOSITORY": "acme/app",
            "GITHUB_OUTPUT": str(tmp_path / f"output-{number}"),
            "INTERLOCK_SERIES_ASSIGNEE": "coder-bot",
        }
        more = ["--no-assign"] if by_itself else []
        command = [sys.executable, "-c", _PROCESS, str(number), str(each), *more]
        started.append(
            subprocess.Popen(
                command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        )
    answers = []
    for process in started:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode in (0, 4), err.decode()
        answers += [json.loads(line) for line in out.decode().splitlines()]
    assert len(answers) == processes * each
    assert Counter(answer["status"] for answer in answers)["acquired"] == 1
    if by_itself:
        told = [answer["issue"] for answer in answers if answer["assign"]]
        assert told == [1]
    else:
        assert desk.assigned() == {1: ["coder-bot"]}
        assert most_at_once(desk.repo) == 1


def test_the_check_has_power(github: FakeGitHub, repo: Repository) -> None:
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
