"""A store that is away for a while: whoever watches goes on after it, whoever waits says so, once."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import apsw
import pytest

from tests.acceptance.command import PROGRAM, Command
from tests.patience import PATIENCE_S
from tests.postgres_fixtures import StartPostgres
from tests.postgres_server import PostgresServer

AWAY, BACK = "Cannot reach the store (postgresql://", "The store answers again."
PLAN = json.dumps({"name": "build", "tasks": [{"key": "compile", "title": "Compile"}]})


class Told:
    """What a process writes to one stream, as it comes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.text = ""
        self._ended = False
        self._came = threading.Condition()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: IO[bytes]) -> None:
        try:
            while data := os.read(stream.fileno(), 65536):
                with self._came:
                    self.text += data.decode(errors="replace")
                    self._came.notify_all()
        except OSError:
            pass  # a terminal ends with an error
        with self._came:
            self._ended = True
            self._came.notify_all()

    def until(self, enough: str | Callable[[str], bool], *, after: int = 0) -> int:
        """Wait until it is there, behind a place; gives the place that the text has reached."""

        def there() -> bool:
            text = self.text[after:]
            return enough in text if isinstance(enough, str) else enough(text)

        with self._came:
            self._came.wait_for(lambda: there() or self._ended, PATIENCE_S)
            assert there(), (enough, self.text[after:])
            return len(self.text)


class Started:
    """A command at work."""

    def __init__(self, process: subprocess.Popen[bytes], out: Told, err: Told) -> None:
        self.process, self.out, self.err = process, out, err


@contextmanager
def started(il: Command, *args: str | int, env: dict[str, str] | None = None) -> Iterator[Started]:
    """A command whose output goes into pipes."""
    process = subprocess.Popen(
        [*PROGRAM, *map(str, args)],
        cwd=il.directory,
        env=il.environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        try:
            yield Started(process, Told(process.stdout), Told(process.stderr))
        finally:
            process.kill()


@contextmanager
def on_terminal(
    il: Command, *args: str | int, env: dict[str, str] | None = None
) -> Iterator[tuple[Started, Callable[[str], None]]]:
    """A command on a terminal, and how to type there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *map(str, args)],
        cwd=il.directory,
        env=il.environment({"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **(env or {})}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    with process, open(ours, "rb", buffering=0) as stream:  # noqa: PTH123
        try:
            told = Told(stream)
            yield Started(process, told, told), lambda keys: (os.write(ours, keys.encode()), None)[1]
        finally:
            process.kill()


@pytest.fixture
def server(start_postgres: StartPostgres) -> PostgresServer:
    return start_postgres(18)


@pytest.fixture
def il(server: PostgresServer, il: Command) -> Command:
    """The command on a server that the test may stop, with less patience than it takes to say a word."""
    il.url = server.create_database("store")
    il.env["INTERLOCK_BUSY_TIMEOUT_S"] = "0.5"
    il.ok("migrate")
    return il


def test_whoever_watches_outlives_a_restart_and_says_so(il: Command, server: PostgresServer) -> None:
    """Each with a patience that is over long before the server is back; `q` also ends it while it is away."""
    il.ok("add", "First")
    plan = il.ok("plan", "create", "-", stdin=PLAN)["id"]
    with ExitStack() as stack:
        follower, listing, plan_lines = (
            stack.enter_context(started(il, *args))
            for args in (
                ("--json", "events", "--follow", "--after", 0),
                ("ls", "--watch"),
                ("plan", "watch", plan),
            )
        )
        (top, press_top), (items, press_items), (graph, press_graph) = (
            stack.enter_context(on_terminal(il, *args))
            for args in (("top",), ("ls", "--watch"), ("plan", "watch", plan))
        )
        everybody = (follower, listing, plan_lines, top, items, graph)
        for each in everybody:
            each.out.until(lambda text: "pending" in text or "item.added" in text)

        server.stop("immediate")
        for each in everybody:
            each.err.until("; retrying until it answers.")
        press_graph("q")
        assert graph.process.wait(PATIENCE_S) == 0

        server.start()
        il.ok("add", "Second")
        lease = il.claim("coder")
        for each in (follower, listing, plan_lines):
            each.err.until(BACK)
            assert (each.err.text.count(AWAY), each.err.text.count(BACK)) == (1, 1)
        for each in (listing, top, items):
            each.out.until("Second")
        for each, press in ((top, press_top), (items, press_items)):
            press("q")
            assert each.process.wait(PATIENCE_S) == 0

        il.ok("done", lease["run"])
        events = il.ok("events", "--after", 0)["events"]
        follower.out.until(lambda text: text.count("\n") >= len(events))
        followed = [json.loads(line)["seq"] for line in follower.out.text.splitlines()]
        assert followed == [event["seq"] for event in events]


def test_a_command_that_waits_for_a_restart_says_so(il: Command, server: PostgresServer) -> None:
    il.ok("add", "First")
    patient = {"INTERLOCK_BUSY_TIMEOUT_S": "600"}
    server.stop()
    with (
        started(il, "--json", "ls", env=patient) as piped,
        on_terminal(il, "ls", env=patient) as (typed, _),
    ):
        for each in (piped, typed):
            each.err.until("; retrying for up to 600 s.")
        server.start()
        assert (piped.process.wait(PATIENCE_S), typed.process.wait(PATIENCE_S)) == (0, 0)
        for each in (piped, typed):
            each.err.until(BACK)
            each.out.until("First")
            assert (each.err.text.count(AWAY), each.err.text.count(BACK)) == (1, 1)


def test_an_idle_worker_says_once_that_the_store_is_away_and_once_that_it_is_back(
    il: Command, server: PostgresServer
) -> None:
    """Its claims may fail meanwhile, once the store's own patience is over: that is the same trouble."""
    patient = {"INTERLOCK_BUSY_TIMEOUT_S": "3"}
    with started(il, "work", "--agent", "coder", "--", "true", env=patient) as worker:
        worker.out.until("works for coder")
        server.stop("immediate")
        worker.out.until("Cannot reach the store. Trying again.")
        server.start()
        worker.out.until(BACK)
        il.ok("add", "First")
        worker.out.until("item 1 is completed")
        assert worker.out.text.count("Trying again.") == 1
        assert worker.out.text.count(BACK) == 1
        assert worker.err.text == ""


def test_a_command_that_waits_for_another_writer_of_a_file_says_so(tmp_path: Path) -> None:
    il = Command(tmp_path)
    il.ok("add", "First")
    other = apsw.Connection(str(tmp_path / ".interlock" / "interlock.db"))
    other.execute("BEGIN IMMEDIATE")
    with started(il, "--json", "add", "Second", env={"INTERLOCK_BUSY_TIMEOUT_S": "600"}) as adder:
        adder.err.until("Another process has interlock.db locked; waiting up to 600 s.\n")
        other.execute("ROLLBACK")
        assert adder.process.wait(PATIENCE_S) == 0
        adder.err.until(BACK)
        assert adder.err.text.count("\n") == 2
    other.close()
    assert [item["title"] for item in il.ok("ls")["items"]] == ["First", "Second"]


def test_who_follows_the_history_on_a_terminal_is_told_from_where(tmp_path: Path) -> None:
    """Nothing may happen for a long time."""
    il = Command(tmp_path)
    il.ok("add", "First")
    last = il.ok("events")["events"][-1]["seq"]
    with on_terminal(il, "events", "-f") as (follower, _):
        follower.err.until(f"Following events after {last}; Ctrl-C ends it.")
        il.ok("add", "Second")
        follower.out.until("item 2")
        follower.process.send_signal(signal.SIGINT)
        assert follower.process.wait(PATIENCE_S) == 130
    with started(il, "events", "-f", "--after", last) as piped:
        piped.out.until("item 2")
        assert piped.err.text == ""
