"""The workers in `examples/` against a real server that dies, and that takes work away."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from queue import Empty, Queue

import pytest

from interlock.core.model import NewItem
from interlock.service.contract import ItemFilter
from tests.faults.stores import assert_kept
from tests.github.packages import node
from tests.http.proxies import LosingProxy
from tests.http.serving import local_service
from tests.http.up import Up
from tests.patience import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "examples"


def _ruby() -> str:
    found = shutil.which("ruby")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("There is no ruby on this machine.")
    return found


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "typescript": lambda: [str(node()), str(EXAMPLES / "typescript" / "worker.ts")],
    "ruby": lambda: [_ruby(), "-w", str(EXAMPLES / "ruby" / "worker.rb")],
}


class Worker:
    """An example, as its README says to start it; what it prints, line by line."""

    def __init__(self, command: list[str], url: str, token: str, *, lease_s: float) -> None:
        environ = {**os.environ, "INTERLOCK_URL": url, "INTERLOCK_TOKEN": token, "LEASE_S": str(lease_s)}
        self.process = subprocess.Popen(
            [*command, "coder"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []
        self._queue: Queue[str] = Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._queue.put(line)
        self._queue.put("it ended")

    def until(self, words: str) -> None:
        """Wait for a line with these words."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not self.lines or words not in self.lines[-1]:
            with suppress(Empty):
                self.lines.append(self._queue.get(timeout=max(0.0, deadline_s - time.monotonic())))
                if self.lines[-1] != "it ended":
                    continue
            raise AssertionError(f"no {words!r} in {self.lines}")

    def end_by_itself(self) -> int:
        """Wait for its end, and read all that it printed."""
        code = self.process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)
        while (line := self._queue.get(timeout=PATIENCE_S)) != "it ended":
            self.lines.append(line)
        return code

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)
        return code


Start = Callable[..., Worker]


@pytest.fixture(params=COMMANDS)
def start(request: pytest.FixtureRequest, up: Up) -> Iterator[Start]:
    command = COMMANDS[request.param]()
    made = up.client().create_token("worker", scope="agent:coder").token
    assert made is not None
    started: list[Worker] = []

    def begin(url: str = up.url, *, lease_s: float = 60.0, token: str = made) -> Worker:
        started.append(Worker(command, url, token, lease_s=lease_s))
        return started[-1]

    yield begin
    for worker in started:
        if worker.process.poll() is None:
            worker.end(signal.SIGKILL)


def item(title: str, **payload: float) -> NewItem:
    return NewItem(title=title, agent="coder", lane=f"test:{title}", payload=json.dumps(payload))


def test_a_worker_goes_on_when_its_server_was_killed_while_it_waited_and_while_it_worked(
    up: Up, start: Start
) -> None:
    worker = start()
    up.kill()
    up.start()
    client = up.client()
    client.add([item("long", steps=5, step_s=0.2)])
    worker.until("step 2 of 5")
    up.kill()
    with closing(local_service(up.directory / "store.db")) as beside:
        beside.msg(1, "sent while it was away", author="ada")
    up.start()
    worker.until('told "sent while it was away"')
    worker.until("item 1: done")
    found = client.show(1)
    assert (found.item.status, found.item.attempt) == ("completed", 1)
    assert [(run.status, run.result) for run in found.runs] == [("succeeded", {"steps": 5, "messages": 1})]
    assert worker.end() == 0
    assert_kept(f"sqlite://{up.directory / 'store.db'}")


def test_a_worker_stops_at_once_when_its_lease_is_taken_and_works_on(up: Up, start: Start) -> None:
    client = up.client()
    client.add([item("forever", steps=1, step_s=3_600)])
    worker = start(lease_s=6.0)  # renewed every two seconds, and kept by a server that is slow for four
    worker.until("step 1 of 1")
    client.take_back(1, why="somebody else does it")
    worker.until("item 1: lease lost, stopped. Run 1 of coder")
    worker.until("item 1: claimed as run 2")
    worker.until("step 1 of 1")
    client.cancel(1, why="not wanted")
    worker.until("item 1: given back")
    assert client.show(1).item.status == "cancelled"
    client.add([item("next", steps=2), item("last", steps=1, step_s=3_600)])
    worker.until("item 2: done")
    worker.until("item 3: step 1 of 1")
    up.kill()  # and stays away for longer than the lease
    worker.until("item 3: lease lost, stopped. No renewal came through")
    up.start()
    worker.until("item 3: claimed as run 5")
    worker.until("step 1 of 1")
    assert worker.end() == 0
    assert {(i.id, i.status) for i in client.items(ItemFilter(all=True))} == {
        (1, "cancelled"),
        (2, "completed"),
        (3, "pending"),
    }
    assert_kept(f"sqlite://{up.directory / 'store.db'}")


def test_a_worker_whose_every_second_answer_is_lost_does_everything_once(up: Up, start: Start) -> None:
    """Taken out: the Idempotency-Key; claims are lost then, and a repeated end is refused."""
    client = up.client()
    client.add([item(f"{n}", steps=1, step_s=0) for n in range(6)])
    with LosingProxy(up.url, nth=2) as proxy:
        worker = start(proxy.url)
        for n in range(1, 7):
            worker.until(f"item {n}: done")
        worker.end(signal.SIGKILL)
    assert proxy.lost >= 6
    runs = [run for n in range(1, 7) for run in client.show(n).runs]
    assert [run.status for run in runs] == ["succeeded"] * 6


def test_a_worker_whose_token_may_not_work_says_why_and_ends(up: Up, start: Start) -> None:
    scoped = {
        scope: up.client().create_token(scope, scope=scope).token or "" for scope in ("read", "agent:other")
    }
    for token, said in (
        ("il_wrong", "Invalid token: mistyped, revoked or expired. Use another token."),
        (scoped["read"], "scope"),
        (scoped["agent:other"], "agent"),
        ("", "usage:"),
    ):
        stranger = start(token=token)
        stranger.until(said)
        assert stranger.end_by_itself() in ((1,) if token else (1, 2))
        assert len(stranger.lines) == 1, "a sentence and its hint, no trace of calls"
