"""`interlock up` as a process among others: its log, its signals, the user's files, and its successor."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from interlock.core.errors import InterlockError
from interlock.core.model import NewItem
from interlock.http import log_writer
from interlock.http.log_writer import LogWriter
from interlock.service.contract import LeaseView
from interlock.service.operations import OPERATIONS, ROOT
from tests.acceptance.command import Command
from tests.http.requests import ask, eventually
from tests.http.up import Up
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("gone", ["a full disk", "a reader that has gone"])
def test_a_log_that_cannot_be_written_fails_no_request(tmp_path: Path, gone: str) -> None:
    """Taken out: the `OSError` in `LogWriter`; its thread ends, and so does the log."""
    if gone == "a full disk":
        log = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, log = os.pipe()
        os.close(reading)

    class Unlogged(Up):
        stderr = log

    up = Unlogged(tmp_path)
    os.close(log)
    client = up.client()
    assert client.add([NewItem(title="x")])[0].decision == "admitted"
    assert ask(up.url, "GET", "/readyz").status == 200
    client.close()
    assert up.end() == 0


def test_a_log_that_nobody_reads_stops_nobody(tmp_path: Path) -> None:
    """Taken out: the thread of `LogWriter`; the first request after the pipe is full waits for ever, and so
    does the signal."""
    reading, log = os.pipe()

    class Unread(Up):
        stderr = log

    up = Unread(tmp_path)
    os.close(log)
    sender = http.client.HTTPConnection("127.0.0.1", int(up.port), timeout=PATIENCE_S)
    for _ in range(400):  # more than a pipe takes
        sender.request("GET", "/" + "x" * 190)
        sender.getresponse().read()
    sender.close()
    assert ask(up.url, "GET", "/readyz").status == 200
    begun_s = time.monotonic()
    assert up.end() == 0
    assert time.monotonic() - begun_s < 10
    os.close(reading)


def test_lines_that_wait_for_long_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "LINES_MAX", 5)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4_096)
    os.set_blocking(writing, True)
    log = LogWriter(writing)
    log.write("0\n")
    eventually(log._lines.empty)  # its thread is stuck with it
    for n in range(1, 9):
        log.write(f"{n}\n")
    assert log.dropped == 3
    found = b""
    while not found.endswith(b"5\n"):
        found += os.read(reading, 65_536)
    assert found.lstrip(b"x") == b"0\n1\n2\n3\n4\n5\n"
    log.close()
    os.close(reading)
    os.close(writing)


def test_every_line_of_a_log_is_json(up: Up) -> None:
    """Taken out: `_Libraries`; what uvicorn says of a broken request is a bare line."""
    ask(up.url, "GET", "/healthz")
    with socket.create_connection(("127.0.0.1", int(up.port))) as sock:
        sock.sendall(b"\x16\x03\x01 no request at all\r\n\r\n")
        sock.recv(1_000)
    assert up.end() == 0
    lines = (up.directory / "log").read_text().splitlines()
    assert {"request", "uvicorn.error"} <= {json.loads(line)["event"] for line in lines}


def test_a_server_without_a_free_descriptor_refuses_and_has_no_defect(up: Up) -> None:
    """Taken out: `preload`; statements and modules are opened at first use. Or `Refusals`; asyncio fills the
    log."""
    sender = http.client.HTTPConnection("127.0.0.1", int(up.port), timeout=PATIENCE_S)
    head = {"Authorization": f"Bearer {up.token}", "Content-Type": "application/json"}
    sender.request("GET", f"{ROOT}/stats", headers=head)
    sender.getresponse().read()
    soft, hard = resource.prlimit(up.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(up.process.pid, resource.RLIMIT_NOFILE, (1, hard))
    with socket.create_connection(("127.0.0.1", int(up.port))):  # nobody accepts it
        found = {}
        for operation in OPERATIONS:
            path = (
                operation.path.replace("{item}", "1")
                .replace("{plan}", "1")
                .replace("{revision}", "1")
                .replace("{run}", "1")
            )
            body = json.dumps(operation.manual.example) if operation.writes else None
            sender.request(operation.method, ROOT + path, body, head)
            answer = sender.getresponse()
            answer.read()
            found[operation.name] = answer.status
        assert not [name for name, status in found.items() if status == 500]
        resource.prlimit(up.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    eventually(lambda: ask(up.url, "GET", "/readyz").status == 200)
    sender.close()
    assert up.end() == 0
    lines = [json.loads(line)["event"] for line in (up.directory / "log").read_text().splitlines()]
    assert lines.count("not_accepted") == 1
    assert "defect" not in lines
    assert "asyncio" not in lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_however_many_signals_end_it_it_ends_well(up: Up, number: signal.Signals) -> None:
    """Taken out: the handlers that stay, or the end of the application after a second signal. The process
    dies of the signal, or prints a traceback."""
    client = up.client(patience_s=0)

    def wait() -> None:
        with contextlib.suppress(InterlockError):  # refused, cut off or answered without work, by the moment
            client.next("coder", wait_s=5)

    claim = threading.Thread(target=wait)
    claim.start()
    while up.process.poll() is None:
        up.process.send_signal(number)
        time.sleep(0.01)
    assert up.process.returncode == 0
    assert "Traceback" not in (up.directory / "log").read_text()
    assert up.process.stdout is not None
    assert up.process.stdout.read().endswith("Stopped.\n")
    claim.join()


@pytest.mark.parametrize(
    ("trouble", "options"),
    [("others can read it", ["--once"]), ("it is a directory", []), ("it is no JSON", []), ("no home", [])],
)
def test_a_file_of_tokens_that_cannot_be_used_is_named_in_one_sentence(
    tmp_path: Path, trouble: str, options: list[str]
) -> None:
    """Taken out: `trouble` in `serve`; uvicorn prints two tracebacks before it."""
    folder = tmp_path / "config" / "interlock"
    folder.mkdir(parents=True)
    config, file = folder.parent, folder / "tokens.json"
    match trouble:
        case "others can read it":
            file.write_text("{}")
            file.chmod(0o644)
        case "it is a directory":
            file.mkdir()
        case "it is no JSON":
            file.touch(0o600)
            file.write_text("{")
        case _:
            config = Path("/proc/nobody")
    il = Command(tmp_path, env={"XDG_CONFIG_HOME": str(config)})
    answer = il("up", "--port", "0", *options)
    assert answer.code == 2, answer
    assert "tokens.json" in answer.err
    assert len(answer.err.splitlines()) == 2, answer.err
    left = il.ok("token", "ls")["tokens"]
    assert all(token["revoked_at"] for token in left), "no token that nobody has"


def test_a_claim_waits_on_at_the_next_server(up: Up) -> None:
    """Taken out: the loop in `remote.service`; a server that stops lets its claims go without work."""
    client, found = up.client(), list[LeaseView]()
    claim = threading.Thread(target=lambda: found.extend(client.next("coder", wait_s=50)), daemon=True)
    claim.start()
    eventually(lambda: _waiting(up) == 1)
    assert up.end() == 0
    up.start()
    up.client().add([NewItem(title="x", agent="coder")])
    claim.join(PATIENCE_S)
    assert [lease.item.title for lease in found] == ["x"]


def _waiting(up: Up) -> int:
    """How many claims wait."""
    text = ask(up.url, "GET", "/metrics", token=up.token).text.decode()
    (line,) = [line for line in text.splitlines() if line.startswith("interlock_http_claims_waiting ")]
    return int(float(line.split()[1]))
