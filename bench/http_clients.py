"""Thousands of agents of one server in one process: their requests share some connections."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

#: How many connections there are at once.
CONNECTIONS = 100
#: How long a request waits before it is tried again, while nobody answers, and how often it is tried.
AGAIN_S, TRIES_MAX = 0.5, 120

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpClients:
    """Requests to one server. What is not answered is asked again, as commands of agents do."""

    def __init__(self, address: str, token: str) -> None:
        parts = urlsplit(address)
        self._host, self._port, self._token = parts.hostname or "", parts.port or 80, token
        #: The one that rested longest is used next, so that none rests until the server closes it.
        self._free: deque[_Connection] = deque()
        self._room = asyncio.Semaphore(CONNECTIONS)

    async def post(self, path: str, body: Any) -> Any:
        """The JSON of the answer."""
        sent = json.dumps(body).encode()
        head = (
            f"POST /v1/{path} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
        )
        for _ in range(TRIES_MAX):
            try:
                async with self._connection() as (reader, writer):
                    writer.write(head.encode() + sent)
                    lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
                    length = next(line for line in lines if line.startswith(b"content-length:"))
                    answer = await reader.readexactly(int(length.partition(b":")[2]))
                if b" 503 " not in lines[0] and b" 429 " not in lines[0]:
                    return json.loads(answer)
            except (OSError, asyncio.IncompleteReadError):
                pass
            await asyncio.sleep(AGAIN_S)
        raise TimeoutError(f"{path} was not answered")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[_Connection]:
        async with self._room:
            connection = (
                self._free.popleft() if self._free else await asyncio.open_connection(self._host, self._port)
            )
            try:
                yield connection
            except BaseException:
                connection[1].close()
                raise
            self._free.append(connection)

    def close(self) -> None:
        for _, writer in self._free:
            writer.close()
