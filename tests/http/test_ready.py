"""`/readyz` and `/`: quick, true and discreet, whatever has become of the store."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.dashboard.endpoint import ANSWER_S
from tests.dashboard.client import Visitor
from tests.faults.test_full_disk import Disk, make_disk  # noqa: F401  (a fixture)
from tests.http.requests import ask, eventually
from tests.http.up import Up
from tests.postgres_fixtures import StartPostgres

#: How long an answer may take, with some time for a busy machine.
BOUND_S = 4.0
#: The same for a stop, which finishes what it can.
STOP_S = 8.0
#: The same for a page of a visitor who has signed in.
PAGE_S = ANSWER_S + 4.0


@pytest.fixture
def started() -> Iterator[Callable[..., Up]]:
    ups: list[Up] = []

    def start(directory: Path, **environ: str) -> Up:
        ups.append(Up(directory, **environ))
        eventually(lambda: ask(ups[-1].url, "GET", "/readyz").status == 200)
        return ups[-1]

    yield start
    for up in ups:
        if up.process.poll() is None:
            up.end()


def answer_within(up: Up, path: str) -> tuple[int, str]:
    begun_s = time.monotonic()
    answer = ask(up.url, "GET", path)
    assert time.monotonic() - begun_s < BOUND_S, "it waits for the store"
    return answer.status, answer.text.decode()


@pytest.mark.slow
def test_a_database_that_is_unreachable_is_said_at_once_and_without_its_place(
    tmp_path: Path, start_postgres: StartPostgres, started: Callable[..., Up]
) -> None:
    """Taken out: the bound in `_checked_ready`, or its thread; sixteen looks keep all threads for long."""
    server = start_postgres(18)
    up = started(tmp_path, INTERLOCK_URL=server.url())
    visitor = Visitor(up.url)
    visitor.sign_in(up.token)
    server.stop("immediate")
    eventually(lambda: answer_within(up, "/readyz")[0] == 503)
    _, text = answer_within(up, "/readyz")
    assert json.loads(text)["checks"]["store"]["ok"] is False
    _, page = answer_within(up, "/")
    for said in (text, page):
        assert not [each for each in ("/tmp", ".s.PGSQL", "connection", "refused") if each in said]
    begun_s = time.monotonic()
    seen = visitor.get("/")
    assert time.monotonic() - begun_s < PAGE_S, "a page waits for the store"
    assert (seen.status, "The store does not answer." in seen.words) == (503, True), seen.words
    tasks = Path(f"/proc/{up.process.pid}/task")
    threads = len(list(tasks.iterdir()))
    for _ in range(4):
        answer_within(up, "/readyz")
    assert len(list(tasks.iterdir())) <= threads + 1
    eventually(lambda: "not_ready" in (tmp_path / "log").read_text())
    assert ask(up.url, "GET", "/healthz").status == 200
    begun_s = time.monotonic()
    assert up.end() == 0
    assert time.monotonic() - begun_s < STOP_S, "a stop waits for the database"


def test_a_store_whose_files_are_gone_is_not_ready(tmp_path: Path, started: Callable[..., Up]) -> None:
    """Taken out: the write in `_store`; a server reads on from a file that nobody else has."""
    up = started(tmp_path)
    for file in tmp_path.glob("store.db*"):
        file.unlink()
    begun_s = time.monotonic()
    eventually(lambda: ask(up.url, "GET", "/readyz").status == 503)
    assert time.monotonic() - begun_s < BOUND_S
    assert str(tmp_path) not in ask(up.url, "GET", "/readyz").text.decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_store_on_a_full_disk_is_not_ready_until_there_is_space(
    tmp_path: Path,
    make_disk: Callable[..., Disk],  # noqa: F811
    started: Callable[..., Up],
) -> None:
    disk = make_disk("6m")
    up = started(tmp_path, INTERLOCK_URL=f"sqlite:///{disk.path}/store.db")
    disk.fill()
    begun_s = time.monotonic()
    eventually(lambda: ask(up.url, "GET", "/readyz").status == 503)
    assert time.monotonic() - begun_s < BOUND_S
    disk.empty()
    eventually(lambda: ask(up.url, "GET", "/readyz").status == 200)
