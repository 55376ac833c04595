"""A proxy that loses answers: the server has done what it was asked, and nobody hears of it."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import socket
import threading
from urllib.parse import urlsplit


class LosingProxy:
    """Passes requests on, and closes the connection in place of every `nth` answer."""

    def __init__(self, url: str, nth: int = 3) -> None:
        self._upstream, self._nth = urlsplit(url), nth
        self._count = itertools.count(1)
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> LosingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        upstream = http.client.HTTPConnection(self._upstream.hostname or "", self._upstream.port, timeout=60)
        # A client whose first answer was lost looks whether TLS is spoken here: that is no request.
        with client, client.makefile("rb") as reader, contextlib.suppress(OSError, ValueError):
            try:
                while line := reader.readline():
                    method, target, _ = line.decode().split()
                    headers = http.client.parse_headers(reader)
                    body = reader.read(int(headers.get("Content-Length", "0")))
                    upstream.request(method, target, body or None, dict(headers.items()))
                    answer = upstream.getresponse()
                    text = answer.read()
                    if next(self._count) % self._nth == 0:
                        self.lost += 1
                        return
                    head = f"HTTP/1.1 {answer.status} x\r\nContent-Type: application/json\r\n"
                    client.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)
            finally:
                upstream.close()
