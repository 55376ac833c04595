"""What a database keeps for programs that come through a server: tokens, and requests that were answered."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from interlock.core.row import NamedTuple
from interlock.core.timing import to_us

#: How long the answer to a request is kept for whoever repeats it.
ANSWERS_KEPT_S = 24 * 3600.0


class Token(NamedTuple):
    """A token. `hash` is empty in lists."""

    id: str
    name: str
    scope: str
    hash: str
    created_us: int
    expires_us: int | None
    used_us: int | None
    revoked_us: int | None


class Request(NamedTuple):
    """A request that may be repeated: its key, and what it asks, as a hash."""

    key: str
    asked: str


class Ask(Protocol):
    """A statement that is a transaction by itself, at the store's time."""

    def __call__(self, name: str, /, **params: Any) -> list[Any]: ...


#: Writes the answer to a request in the transaction that carries it out; nothing if there is none to keep.
Note = Callable[[Any], tuple[Request, str] | None]


class Access:
    """Tokens and answers in one database. Each call is a transaction of its own."""

    def __init__(self, read: Ask, write: Ask) -> None:
        self._read, self._write = read, write

    # -- tokens
    def add_token(self, token: str, name: str, scope: str, digest: str, expires_s: float | None) -> Token:
        kept_us = None if expires_s is None else to_us(expires_s)
        row = self._write("add_token", id=token, name=name, scope=scope, hash=digest, kept_us=kept_us)[0]
        return Token(*row)

    def token(self, token: str) -> Token | None:
        """None if it is revoked or over."""
        return next((Token(*row) for row in self._read("token", id=token)), None)

    def live_tokens(self, tokens: Collection[str]) -> set[str]:
        """Those of them that are neither revoked nor expired."""
        return {row[0] for row in self._read("live_tokens", ids=list(tokens))}

    def tokens(self, limit: int) -> list[Token]:
        return [Token(*row) for row in self._read("tokens", limit=limit)]

    def has_tokens(self) -> bool:
        return bool(self._read("has_tokens")[0][0])

    def revoke_token(self, token: str) -> Token | None:
        return next((Token(*row) for row in self._write("revoke_token", id=token)), None)

    def use_token(self, token: str) -> None:
        self._write("use_token", id=token)

    # -- requests
    def answered(self, request: Request) -> tuple[str, str] | None:
        """What was asked under its key, and the answer."""
        return next((tuple(row) for row in self._read("request", key=request.key)), None)

    def forget_requests(self, limit: int) -> int:
        return len(self._write("forget_requests", kept_us=to_us(ANSWERS_KEPT_S), limit=limit))
