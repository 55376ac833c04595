"""Real git for tests: bare repositories, clones, and a server that speaks git's smart HTTP protocol.

`git` runs one command and answers what it printed. Commits of a test are signed by a fixed identity, and
nothing of the machine's own git configuration is read.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE_S

BRANCH = "main"
_WINDOW_S = 30
IDENTITY = {
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@example.org",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(directory: Path, *args: str, check: bool = True) -> str:
    """What a git command printed on standard output."""
    done = subprocess.run(
        ["git", *args],
        cwd=directory,
        env=os.environ | IDENTITY,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert not check or done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def git_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git that runs in the code under test has the same identity and no configuration of the machine."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


def make_bare(directory: Path) -> Path:
    """An empty bare repository that can be pushed to over HTTP as well."""
    directory.mkdir(parents=True)
    git(directory, "init", "--quiet", "--bare", f"--initial-branch={BRANCH}")
    git(directory, "config", "http.receivepack", "true")
    return directory


def seed(bare: Path, workplace: Path, files: dict[str, str]) -> None:
    """One first commit with these files on the branch of a bare repository."""
    first = clone(str(bare), workplace)
    git(first, "switch", "--quiet", "-c", BRANCH)
    commit(first, files, "first")
    git(first, "push", "--quiet", "origin", BRANCH)


def clone(url: str, directory: Path, *options: str) -> Path:
    """A clone of `url` at `directory`."""
    git(directory.parent, "clone", "--quiet", *options, url, str(directory))
    return directory


def commit(directory: Path, files: dict[str, str], message: str) -> str:
    """A commit that writes these files; its id."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        git(directory, "add", "--", name)
    git(directory, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(directory, "rev-parse", "HEAD")


def write_hook(repository: Path, name: str, script: str) -> Path:
    """An executable hook of a bare repository."""
    path = repository / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def log(bare: Path, ref: str = BRANCH) -> list[str]:
    """The subjects of a ref's history, newest first."""
    return git(bare, "log", "--format=%s", ref).splitlines()


class Window:
    """Holds one push on the server between advertisement and update: refs were read, none is locked."""

    def __init__(self, bare: Path) -> None:
        self._entered, self._leave = bare / "entered", bare / "leave"
        for path in (self._entered, self._leave):
            os.mkfifo(path)
        write_hook(
            bare,
            "pre-receive",
            f"#!/bin/sh\nif mkdir '{bare}/held' 2>/dev/null; then\n"
            f"    echo here > '{self._entered}'\n    read line < '{self._leave}'\nfi\n",
        )

    @contextmanager
    def open(self) -> Iterator[None]:
        """While the first push that came is held."""
        descriptor = os.open(self._entered, os.O_RDONLY | os.O_NONBLOCK)
        try:
            assert select.select([descriptor], [], [], _WINDOW_S)[0], "no push came to the server"
        finally:
            os.close(descriptor)
        try:
            yield
        finally:
            self._leave.write_text("go\n")


class LostAnswers:
    """Loses the answer to each nth push that the server accepted: refs moved, and the client does not know.

    `how` it goes: `closed` closes the connection; curl had used it before, so it sends the request again and
    the server refuses that. `answered` has a proxy in between that answers 502.
    """

    def __init__(self, each: int = 0, how: str = "closed") -> None:
        self.each, self.how = each, how
        #: While true, the server is away: it answers 503 to everything.
        self.away = False
        #: Whether it goes away with the first answer that it loses.
        self.leaves = False
        #: What happens instead of each answer that is lost.
        self.instead: Callable[[], object] = lambda: None
        #: Pushes that the server accepted so far.
        self.accepted = 0
        self._counting = threading.Lock()

    def loses(self, answer: bytes) -> bool:
        """Whether this answer to a push gets lost. `ok REF` in it says that the server moved a ref."""
        if b"ok refs/" not in answer:
            return False
        with self._counting:
            self.accepted += 1
            lost = self.each > 0 and self.accepted % self.each == 0
            self.away = self.away or (lost and self.leaves)
            return lost


class GitOverHttp(BaseHTTPRequestHandler):
    """One request, handed to `git http-backend` as CGI."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    root: Path
    lost: LostAnswers

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_args: object) -> None:
        """Tests have no use for a request log."""

    def _serve(self) -> None:
        address, away = urlsplit(self.path), self.lost.away
        environ = os.environ | {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": address.path,
            "QUERY_STRING": address.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": self.headers.get("Content-Length", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": self.client_address[0],
        }
        answer = subprocess.run(
            ["git", "http-backend"], input=self._body(), env=environ, stdout=subprocess.PIPE, check=False
        ).stdout
        self.git_ended()
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        if away:
            headers, content = {"Status": "503 Service Unavailable"}, b""
        elif address.path.endswith("/git-receive-pack") and self.lost.loses(content):
            self.close_connection = True
            self.lost.instead()
            if self.lost.how == "closed":
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            headers, content = {"Status": "502 Bad Gateway"}, b""
        self.send_response(int(headers.pop("Status", "200 OK").split()[0]))
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def git_ended(self) -> None:
        """Git has done its work, and the client does not know yet."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)


class Server(ThreadingHTTPServer):
    """Closing it waits for its threads: a `git http-backend` left behind would be blamed on a later test."""

    daemon_threads = False
    request_queue_size = 128  # a hundred processes may come at once

    def __init__(self, handler: type[GitOverHttp]) -> None:
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for connection in tuple(self._connections):
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RD)  # its thread waits for one more request
        super().server_close()


@contextmanager
def serve_over_http(root: Path, lost: LostAnswers | None = None) -> Iterator[str]:
    """The address below which every bare repository in `root` can be cloned, fetched and pushed to."""
    handler = type("Handler", (GitOverHttp,), {"root": root, "lost": lost or LostAnswers()})
    server = Server(handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def bare_repository(tmp_path: Path) -> Path:
    """A bare repository whose branch has one commit with a README."""
    bare = make_bare(tmp_path / "srv" / "app.git")
    seed(bare, tmp_path / "first", {"README": "hello\n"})
    return bare


@pytest.fixture
def http_remote(bare_repository: Path) -> Iterator[str]:
    """The same repository's address over HTTP."""
    with serve_over_http(bare_repository.parent) as address:
        yield f"{address}/{bare_repository.name}"


@pytest.fixture(params=["file", "http"])
def remote_url(request: pytest.FixtureRequest, bare_repository: Path) -> str:
    """The same repository's address, once as `file://` and once over HTTP."""
    if request.param == "http":
        return str(request.getfixturevalue("http_remote"))
    return bare_repository.as_uri()
