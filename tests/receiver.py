"""A receiver of notices: a real HTTP server in a process of its own, which answers as a test tells it.

It writes each request to a file before it answers, so that a test sees what was sent even if no answer came.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from tests.patience import PATIENCE_S

#: An answer is a status, `hang` (none ever), `drip` (a byte now and then), `close` (none), or
#: {"status": …, "headers": {…}, "text": …, "after_s": …}.
Answer = int | str | dict[str, Any]


class Receiver:
    """The process, for tests."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.requests_file, self.answers_file = directory / "requests", directory / "answers"
        self.requests_file.touch()
        self.tell()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.receiver", str(directory)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/hooks/T0/secret-part"

    def tell(self, *answers: Answer, then: Answer = 200) -> None:
        """How the next requests are answered, and all after them."""
        fresh = self.directory / "answers.new"
        fresh.write_text(json.dumps({"answers": answers, "then": then, "from": len(self.requests)}))
        fresh.rename(self.answers_file)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests so far: `path`, `headers` with names in lower case, `body` as text."""
        lines = self.requests_file.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request["body"]) for request in self.requests]

    @property
    def ids(self) -> list[str]:
        return [request["headers"]["webhook-id"] for request in self.requests]

    def wait(self, count: int) -> None:
        """Wait until so many requests have come."""
        until = time.monotonic() + PATIENCE_S
        while len(self.requests) < count:
            assert time.monotonic() < until, self.requests
            time.sleep(0.02)

    def wait_a_moment(self, wait_s: float = 1.0) -> None:
        """Wait for the next request, but not for long."""
        until, had = time.monotonic() + wait_s, len(self.requests)
        while len(self.requests) == had and time.monotonic() < until:
            time.sleep(0.02)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class _Handler(BaseHTTPRequestHandler):
    directory: Path
    lock = Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        request = {
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode(),
        }
        with self.lock, (self.directory / "requests").open("a+") as file:
            file.seek(0)
            number = len(file.readlines())
            file.write(json.dumps(request) + "\n")
            file.flush()
            told = json.loads((self.directory / "answers").read_text())
        place = number - told["from"]
        self._answer(told["answers"][place] if place < len(told["answers"]) else told["then"])

    def _answer(self, answer: Answer) -> None:
        if answer == "hang":
            time.sleep(3600)
        elif answer == "drip":
            for byte in b"HTTP/1.1 200 OK\r\nx-slow: " + b"z" * 3600:
                self.wfile.write(bytes([byte]))
                time.sleep(0.05)
        elif answer == "close":
            self.close_connection = True
        elif isinstance(answer, int):
            self._send(answer, {}, "")
        else:
            assert isinstance(answer, dict)
            time.sleep(answer.get("after_s", 0))
            self._send(answer["status"], answer.get("headers", {}), answer.get("text", ""))

    def _send(self, status: int, headers: dict[str, str], text: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self) -> None:
        """A followed redirect may come as this."""
        with self.lock, (self.directory / "requests").open("a") as file:
            file.write(json.dumps({"path": self.path, "headers": {}, "body": "null"}) + "\n")
        self._send(200, {}, "")

    def log_message(self, *_: object) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the sender was killed, or has hung up
            self.close_connection = True

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()


def main() -> None:
    _Handler.directory = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    parent = os.getppid()
    server.timeout = 1.0
    while os.getppid() == parent:  # a killed test run leaves nothing behind
        server.handle_request()


if __name__ == "__main__":
    main()
