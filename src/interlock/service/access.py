"""Access through a server: tokens, and stored answers to requests that a client may repeat."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.core import names
from interlock.core.cures import cure
from interlock.core.errors import InterlockError, InvalidInput, NotFound, NoToken
from interlock.core.scopes import Scope, read_scope
from interlock.service.contract import LinkToSignIn, TokenView, to_json
from interlock.service.item_view import maybe_moment, moment
from interlock.store.access import Note, RepeatableRequest, Token
from interlock.store.port import ClaimedItem, EndsAndClaim, Store

if TYPE_CHECKING:
    from interlock.core.ledger import LedgerChanges
    from interlock.store.access import SessionKind

T = TypeVar("T")

_PREFIX = "il"
TOKENS_MAX = 1_000
EXPIRES_MIN_S, EXPIRES_MAX_S = 60.0, 10 * 366 * 24 * 3600.0
#: The precision of a token's time of last use.
USED_EVERY_US = 60_000_000
_FORGET = 1_000
#: How long a one-time link and a session last.
LINK_S, SESSION_S = 600.0, 7 * 24 * 3600.0
#: The address at which a link is used.
SIGN_IN_PATH = "/sign-in"


class RequestNotes:
    """Makes the answer that a transaction stores for a repeatable request."""

    def __init__(self, request: RepeatableRequest | None = None) -> None:
        """Without a request nothing is stored."""
        self.request = request

    def note(self, answer: Callable[[Any], Any]) -> Note | None:
        """Stores the answer to a decision; a refusal is not stored."""
        request = self.request
        if request is None:
            return None

        def note(done: Any) -> list[tuple[RepeatableRequest, str]]:
            try:
                made = answer(done)
            except InterlockError:
                return []
            return [] if made is None else [(request, json.dumps(to_json(made)))]

        return note

    def note_plan(self) -> Note | None:
        """The same for answers with a plan, which is read again."""

        def answer(decision: LedgerChanges) -> Any:
            return {"plan": decision.plans[0].plan.id} if decision.plans else None

        return self.note(answer)

    def note_claim(self) -> Note | None:
        """The same for claims: the items and runs, which are read again."""

        def answer(claimed: Sequence[ClaimedItem]) -> Any:
            return {"claimed": [[c.item.id, c.item.state.run, c.item.state.run_bits] for c in claimed]}

        return self.note(answer)

    def note_done(self, runs: Callable[[LedgerChanges], Any]) -> Note | None:
        """The same for ends with a claim: the ends as they were, and the claim as above."""

        def answer(done: EndsAndClaim) -> Any:
            claimed = [[c.item.id, c.item.state.run, c.item.state.run_bits] for c in done.claimed]
            return {"runs": runs(done.decision), "claimed": claimed}

        return self.note(answer)


class Access:
    """Tokens, and requests that may be repeated."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- tokens -----------------------------------------------------------------------------------

    def create_token(self, name: str, *, scope: str, expires_s: float | None = None) -> TokenView:
        """Create a token. Only this answer contains its text: the store keeps a hash."""
        import secrets  # noqa: PLC0415  (for this alone)

        names.check_name("name of the token", name)
        names.check_text("scope", scope, names.NAME_MAX_CHARS)
        what = read_scope(scope)
        if expires_s is not None:
            names.check_number("time to expiry", expires_s, EXPIRES_MIN_S, EXPIRES_MAX_S)
        ident, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        made = self._store.access.add_token(ident, name.strip(), str(what), _digest(secret), expires_s)
        return _view(made, f"{_PREFIX}_{ident}_{secret}")

    def tokens(self) -> list[TokenView]:
        """All tokens, the oldest first, revoked ones too."""
        return [_view(token) for token in self._store.access.tokens(TOKENS_MAX)]

    def revoke_token(self, token: str) -> TokenView:
        """Revoke a token, by its id or its name; a server notices within seconds."""
        names.check_text("token", token, names.NAME_MAX_CHARS)
        gone = self._store.access.revoke_token(token)
        if gone is None:
            gone = self._store.access.revoke_token(self._token_called(token.strip()))
        if gone is None:
            raise NotFound(
                f"There is no token {token[:80]!r} in this store.",
                cures=(cure("tokens", "lists all tokens"),),
            )
        return _view(gone)

    def _token_called(self, name: str) -> str:
        """The id of the token with this name; the valid one if others were revoked or have expired."""
        called = [token for token in self._store.access.tokens(TOKENS_MAX) if token.name == name]
        now_us = self._store.now_us()
        valid = [
            token
            for token in called
            if token.revoked_us is None and (token.expires_us is None or token.expires_us > now_us)
        ]
        if len(valid) > 1:
            raise InvalidInput(
                f"{len(valid)} tokens are called {name[:80]!r}.",
                "Revoke each by its id.",
                tuple(cure("revoke_token", "revokes one of them", token=token.id) for token in valid),
            )
        return (valid or called)[-1].id if called else ""

    def bearer(self, text: str) -> tuple[TokenView, Scope]:
        """The token and its scope; `NoToken` if it is invalid."""
        import hmac  # noqa: PLC0415  (servers alone)

        prefix, _, rest = text.partition("_")
        ident, _, secret = rest.partition("_")
        found = self._store.access.token(ident) if prefix == _PREFIX and len(ident) == 12 else None
        # Compared even without a token, so that timing does not reveal whether it exists.
        same = hmac.compare_digest(_digest(secret), found.hash if found is not None else "0" * 64)
        if found is None or not same:
            raise no_token()
        if found.used_us is None or found.used_us <= self._store.now_us() - USED_EVERY_US:
            self._store.access.use_token(found.id)  # it takes the write lock
        return _view(found), read_scope(found.scope)

    # -- sessions ---------------------------------------------------------------------------------

    def sign_in_link(self, *, caller: str = "") -> LinkToSignIn:
        """Create a one-time link to the dashboard, with the scope of the caller's token."""
        import secrets  # noqa: PLC0415

        names.check_text("caller", caller, names.NAME_MAX_CHARS)
        ident, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        if not self._store.access.add_session(ident, "link", caller, _digest(secret), LINK_S):
            raise no_token()
        return LinkToSignIn(path=f"{SIGN_IN_PATH}?link={ident}_{secret}", expires_s=LINK_S)

    def begin_session(self, token: str) -> str:
        """Begin a session of a token, by its id; gives the session's secret."""
        import secrets  # noqa: PLC0415

        ident, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        if not self._store.access.add_session(ident, "session", token, _digest(secret), SESSION_S):
            raise no_token()
        return f"{ident}_{secret}"

    def use_link(self, text: str) -> tuple[str, TokenView, Scope]:
        """Begin a session with a one-time link: its secret, token and scope. `NoToken` if the link was used
        or has expired."""
        import secrets  # noqa: PLC0415

        token = self._kept_session(text, "link")
        ident, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        link = text.partition("_")[0]
        if token is None or not self._store.access.use_link(
            link, ident, token.id, _digest(secret), SESSION_S
        ):
            raise NoToken(
                "This link was used or has expired.",
                "",
                (cure("sign_in_link", "makes another link"),),
            )
        return f"{ident}_{secret}", _view(token), read_scope(token.scope)

    def session_bearer(self, text: str) -> tuple[TokenView, Scope]:
        """The token of a session and its scope; `NoToken` if the session has ended."""
        token = self._kept_session(text, "session")
        if token is None:
            raise NoToken("Your session has ended.", "Sign in again.")
        return _view(token), read_scope(token.scope)

    def end_session(self, text: str) -> bool:
        """End a session, by its secret."""
        if self._kept_session(text, "session") is None:
            return False
        return self._store.access.remove_session(text.partition("_")[0])

    def forget_sessions(self) -> int:
        """Delete some expired sessions and links; returns how many."""
        return self._store.access.forget_sessions(_FORGET)

    def _kept_session(self, text: str, kind: SessionKind) -> Token | None:
        """The token of an unexpired session or link."""
        import hmac  # noqa: PLC0415

        ident, _, secret = text.partition("_")
        found = self._store.access.session(ident, kind) if len(ident) == 12 and ident.isalnum() else None
        hashed, token = found if found is not None else ("0" * 64, None)
        # Compared even without a session, so that timing does not reveal whether it exists.
        same = hmac.compare_digest(_digest(secret), hashed)
        return token if same else None

    def live_tokens(self, tokens: Collection[str]) -> set[str]:
        """The ids of these tokens that are still valid."""
        return self._store.access.live_tokens(tokens)

    def has_tokens(self) -> bool:
        """Whether there is a valid token."""
        return self._store.access.has_tokens()

    # -- requests ---------------------------------------------------------------------------------

    def answered(self, request: RepeatableRequest) -> Any:
        """The stored answer to a request; None if the request was not carried out."""
        found = self._store.access.answered(request)
        if found is None:
            return None
        asked, answer = found
        if asked != request.asked:
            raise InvalidInput(
                "This Idempotency-Key was used for another request.", "Use a new key for each request."
            )
        return json.loads(answer)

    def forget_requests(self) -> int:
        """Delete some expired answers; returns how many."""
        return self._store.access.forget_requests(_FORGET)


def no_token() -> NoToken:
    """The refusal of an invalid token."""
    return NoToken("Invalid token: mistyped, revoked or expired.", "Use another token.")


def _digest(secret: str) -> str:
    import hashlib  # noqa: PLC0415

    return hashlib.sha256(secret.encode()).hexdigest()


def _view(token: Token, text: str | None = None) -> TokenView:
    return TokenView(
        id=token.id,
        name=token.name,
        scope=token.scope,
        created_at=moment(token.created_us),
        expires_at=maybe_moment(token.expires_us),
        last_used_at=maybe_moment(token.used_us),
        revoked_at=maybe_moment(token.revoked_us),
        token=text,
    )
