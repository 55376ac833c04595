"""A database's data for clients of a server: tokens, and answers to requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from interlock.core.row import NamedTuple
from interlock.core.timing import maybe_us, to_us
from interlock.store.tables import Ask, Tables

if TYPE_CHECKING:
    from typing import Literal

    #: A session of a person at the dashboard, or a one-time link that begins one.
    SessionKind = Literal["session", "link"]

#: The most sessions of a token, and the most unused links. The oldest ones make room.
SESSIONS_PER_TOKEN_MAX = 20
#: How long the answer to a request is kept for a repeated request.
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


class RepeatableRequest(NamedTuple):
    """A request that may be repeated: its key, and a hash of its content."""

    key: str
    asked: str


#: Makes the answers that are stored in the transaction of their requests.
Note = Callable[[Any], Sequence[tuple[RepeatableRequest, str]]]


class AccessStore:
    """Tokens and answers in one database. Each call is one transaction."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    # -- tokens
    def add_token(self, token: str, name: str, scope: str, digest: str, expires_s: float | None) -> Token:
        kept_us = maybe_us(expires_s)
        row = self._tables.write(
            "access/add_token", id=token, name=name, scope=scope, hash=digest, kept_us=kept_us
        )[0]
        return Token(*row)

    def token(self, token: str) -> Token | None:
        """A token; None if it is revoked or expired."""
        return next((Token(*row) for row in self._tables.read("access/token", id=token)), None)

    def live_tokens(self, tokens: Collection[str]) -> set[str]:
        """The tokens among these that are neither revoked nor expired."""
        return {row[0] for row in self._tables.read("access/live_tokens", ids=list(tokens))}

    def tokens(self, limit: int) -> list[Token]:
        return [Token(*row) for row in self._tables.read("access/tokens", limit=limit)]

    def has_tokens(self) -> bool:
        return bool(self._tables.read("access/has_tokens")[0][0])

    def revoke_token(self, token: str) -> Token | None:
        return next((Token(*row) for row in self._tables.write("access/revoke_token", id=token)), None)

    def use_token(self, token: str) -> None:
        self._tables.write("access/use_token", id=token)

    # -- sessions
    def add_session(self, session: str, kind: SessionKind, token: str, digest: str, kept_s: float) -> bool:
        """Store a new session or link, and drop the token's oldest ones above the limit. False if the token
        is not valid."""

        def work(ask: Ask) -> bool:
            return _add_session(ask, session, kind, token, digest, kept_s)

        return self._tables.writing(work)

    def session(self, session: str, kind: SessionKind) -> tuple[str, Token] | None:
        """The hash of an unexpired session or link, and its valid token."""
        rows = self._tables.read("access/session", id=session, kind=kind)
        return next(((row[0], Token(*row[1:])) for row in rows), None)

    def use_link(self, link: str, session: str, token: str, digest: str, kept_s: float) -> bool:
        """Turn a link into a session. False if the link was used before."""

        def work(ask: Ask) -> bool:
            if not ask("access/remove_session", id=link, kind="link"):
                return False
            return _add_session(ask, session, "session", token, digest, kept_s)

        return self._tables.writing(work)

    def remove_session(self, session: str) -> bool:
        return bool(self._tables.write("access/remove_session", id=session, kind="session"))

    def forget_sessions(self, limit: int) -> int:
        return len(self._tables.write("access/forget_sessions", limit=limit))

    # -- requests
    def answered(self, request: RepeatableRequest) -> tuple[str, str] | None:
        """The stored request under this key, as a hash, and its answer."""
        return next((tuple(row) for row in self._tables.read("access/request", key=request.key)), None)

    def kept_keys(self, keys: Collection[str]) -> set[str]:
        """The keys among these under which an answer is stored."""
        return {row[0] for row in self._tables.read("access/kept_keys", keys=list(keys))}

    def forget_requests(self, limit: int) -> int:
        return len(self._tables.write("access/forget_requests", kept_us=to_us(ANSWERS_KEPT_S), limit=limit))


def _add_session(ask: Ask, session: str, kind: SessionKind, token: str, digest: str, kept_s: float) -> bool:
    kept_us = to_us(kept_s)
    added = ask("access/add_session", id=session, kind=kind, token=token, hash=digest, kept_us=kept_us)
    ask("access/trim_sessions", token=token, kind=kind, most=SESSIONS_PER_TOKEN_MAX)
    return bool(added)
