"""Answers as servers and proxies send them, whole and broken."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from interlock.core.errors import InvalidInput, StoreUnavailable
from interlock.remote.http_connection import BrokenAnswer, HttpConnection
from interlock.remote.service import connect
from tests.patience import PATIENCE_S

MOST = 1_000


@contextmanager
def answering(
    *answers: bytes, after: Callable[[socket.socket], None] | None = None
) -> Iterator[HttpConnection]:
    """A http with somebody who answers so, then hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):  # nobody may have come, or nobody listens any more
            sock, _ = listener.accept()
            with sock:
                for answer in answers:
                    if after is None:
                        sock.recv(65_536)
                    sock.sendall(answer)
                if after is not None:
                    after(sock)

    threading.Thread(target=serve, daemon=True).start()
    http = HttpConnection("127.0.0.1", listener.getsockname()[1], PATIENCE_S, None)
    try:
        yield http
    finally:
        http.close()
        listener.close()


def got(answer: bytes) -> bytes:
    with answering(answer) as http:
        http.send("GET", "/", {"Host": "x"}, None)
        return http.body(http.head(), MOST)


def test_whole_answers() -> None:
    assert got(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") == b"{}"
    assert got(b"HTTP/1.1 204\r\ncontent-length:0\r\n\r\n") == b""
    assert got(b"HTTP/1.0 200 OK\r\n\r\nto the end") == b"to the end"
    parts = b"2;x=y\r\n{}\r\n3\r\nabc\r\n0\r\nX-Last: 1\r\n\r\n"
    assert got(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts) == b"{}abc"
    assert got(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx") == b"x"


def test_answers_follow_each_other_on_one_connection() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
    with answering(chunked, b"HTTP/1.1 404 No\r\nContent-Length: 1\r\nConnection: Close\r\n\r\nb") as http:
        http.send("GET", "/", {"Host": "x"}, None)
        assert http.body(http.head(), MOST) == b"a"
        http.send("POST", "/", {"Host": "x"}, b"{}")
        head = http.head()
        assert (head.status, head.closes, http.body(head, MOST)) == (404, True, b"b")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"64\r\n%s\r\n" % (b"a" * 100) * 11,
    ],
)
def test_broken_answers_are_no_answers(answer: bytes) -> None:
    with pytest.raises((BrokenAnswer, ConnectionError)):
        got(answer)


def test_lines_of_a_stream_come_whole_however_they_are_cut() -> None:
    parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (b"id: 1\nda", b"ta: x\n\n", b"id: 2\n"))
    with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n") as http:
        http.send("GET", "/", {"Host": "x"}, None)
        head = http.head()
        found = [http.line_of(head) for _ in range(5)]
    assert found == [b"id: 1\n", b"data: x\n", b"\n", b"id: 2\n", b""]


def test_a_server_that_refuses_a_body_before_its_end_is_heard() -> None:
    refused = b"HTTP/1.1 413 Too much\r\nContent-Length: 2\r\n\r\n{}"

    def hang_up(sock: socket.socket) -> None:
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65_536):
            pass

    with answering(refused, after=hang_up) as http:
        http.send("POST", "/", {"Host": "x"}, b"x" * 5_000_000)
        assert http.head().status == 413


def test_a_token_with_a_line_in_it_is_refused_and_not_sent() -> None:
    for token in ("il_x\r\nX-Admin: 1", "il_\u00fc"):
        with answering(b"") as http, pytest.raises(InvalidInput, match="not plain text"):
            http.send("GET", "/", {"Authorization": f"Bearer {token}"}, None)


def test_a_name_that_leads_nowhere_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"nowhere\.invalid"):
        connect("http://nowhere.invalid:1", "x", patience_s=0.01).stats()
