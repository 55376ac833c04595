"""Access through a server: tokens, and answers that are kept for whoever repeats a request."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from interlock.core import names
from interlock.core.errors import InterlockError, InvalidInput, NotFound, NoToken
from interlock.core.scopes import Scope, read_scope
from interlock.service.contract import TokenView, to_json
from interlock.service.itemview import maybe_moment, moment
from interlock.store.access_port import Note, Request, Token
from interlock.store.port import ClaimedItem, Outcome, Store

if TYPE_CHECKING:
    from interlock.core.ledger import Decision

T = TypeVar("T")

_PREFIX = "il"
TOKENS_MAX = 1_000
EXPIRES_MIN_S, EXPIRES_MAX_S = 60.0, 10 * 366 * 24 * 3600.0
#: How exactly it is known when a token was used last.
USED_EVERY_US = 60_000_000
_FORGET = 1_000


class Access:
    """Tokens, and requests that may be repeated."""

    store: Store
    #: The request that is carried out; None where nobody repeats it.
    _request: Request | None = None

    # -- tokens -----------------------------------------------------------------------------------

    def create_token(self, name: str, *, scope: str, expires_s: float | None = None) -> TokenView:
        """Make a token. Its text is in this answer alone: the store has a hash of it."""
        import secrets  # noqa: PLC0415  (for this alone)

        names.check_name("name of the token", name)
        names.check_text("scope", scope, names.NAME_MAX_CHARS)
        what = read_scope(scope)
        if expires_s is not None:
            names.check_number("time to expiry", expires_s, EXPIRES_MIN_S, EXPIRES_MAX_S)
        ident, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        made = self.store.access.add_token(ident, name.strip(), str(what), _digest(secret), expires_s)
        return _view(made, f"{_PREFIX}_{ident}_{secret}")

    def tokens(self) -> list[TokenView]:
        """All tokens, the oldest first, revoked ones too."""
        return [_view(token) for token in self.store.access.tokens(TOKENS_MAX)]

    def revoke_token(self, token: str) -> TokenView:
        """Revoke a token, by its id or its name; a server notices within seconds."""
        names.check_text("token", token, names.NAME_MAX_CHARS)
        gone = self.store.access.revoke_token(token)
        if gone is None:
            gone = self.store.access.revoke_token(self._token_called(token.strip()))
        if gone is None:
            raise NotFound(f"There is no token {token[:80]!r}.", "See `interlock token ls`.")
        return _view(gone)

    def _token_called(self, name: str) -> str:
        """The id of the token with a name: the valid one, if others were revoked or have expired."""
        called = [token for token in self.store.access.tokens(TOKENS_MAX) if token.name == name]
        now_us = self.store.now_us()
        valid = [
            token
            for token in called
            if token.revoked_us is None and (token.expires_us is None or token.expires_us > now_us)
        ]
        if len(valid) > 1:
            raise InvalidInput(
                f"{len(valid)} tokens are called {name[:80]!r}.",
                f"Revoke each by its id: {', '.join(token.id for token in valid)}.",
            )
        return (valid or called)[-1].id if called else ""

    def bearer(self, text: str) -> tuple[TokenView, Scope]:
        """Who has this token, and what it allows; `NoToken` if it lets nobody in."""
        import hmac  # noqa: PLC0415  (servers alone)

        prefix, _, rest = text.partition("_")
        ident, _, secret = rest.partition("_")
        found = self.store.access.token(ident) if prefix == _PREFIX and len(ident) == 12 else None
        # Compared in any case, so that time does not tell whether there is such a token.
        same = hmac.compare_digest(_digest(secret), found.hash if found is not None else "0" * 64)
        if found is None or not same:
            raise NoToken("This token lets nobody in.", "It may be mistyped, revoked or over: make another.")
        if found.used_us is None or found.used_us <= self.store.now_us() - USED_EVERY_US:
            self.store.access.use_token(found.id)  # it takes the write lock
        return _view(found), read_scope(found.scope)

    def live_tokens(self, tokens: Collection[str]) -> set[str]:
        """Those of these tokens, by their ids, that still let somebody in."""
        return self.store.access.live_tokens(tokens)

    def has_tokens(self) -> bool:
        """Whether there is a token that lets somebody in."""
        return self.store.access.has_tokens()

    # -- requests ---------------------------------------------------------------------------------

    @property
    def shares_commits(self) -> bool:
        """Whether requests gain from one commit for several."""
        return self.store.shares_commits

    def together(self, works: Sequence[Callable[[], Any]]) -> list[Outcome]:
        """Carry out small requests one by one, each whole or not at all, in one commit."""
        return self.store.together(works)

    def answering(self, request: Request) -> Self:
        """The same service, which carries out one request and keeps the answer in the same transaction."""
        import copy  # noqa: PLC0415  (servers alone)

        one = copy.copy(self)
        one._request = request
        return one

    def answered(self, request: Request) -> Any:
        """What is kept of a request that was carried out; None if it was not."""
        found = self.store.access.answered(request)
        if found is None:
            return None
        asked, answer = found
        if asked != request.asked:
            raise InvalidInput(
                "This Idempotency-Key belongs to another request.", "Use a new key for each request."
            )
        return json.loads(answer)

    def forget_requests(self) -> int:
        """Let some answers go that are too old; returns how many."""
        return self.store.access.forget_requests(_FORGET)

    def _note(self, answer: Callable[[Any], Any]) -> Note | None:
        """What keeps the answer that is made from a decision; a refusal is not kept."""
        request = self._request
        if request is None:
            return None

        def note(done: Any) -> tuple[Request, str] | None:
            try:
                made = answer(done)
            except InterlockError:
                return None
            return None if made is None else (request, json.dumps(to_json(made)))

        return note

    def _note_plan(self) -> Note | None:
        """The same for what answers with a plan, which is read again."""

        def answer(decision: Decision) -> Any:
            return {"plan": decision.plans[0].plan.id} if decision.plans else None

        return self._note(answer)

    def _note_claim(self) -> Note | None:
        """The same for claims: the items and runs, which are read again."""

        def answer(claimed: Sequence[ClaimedItem]) -> Any:
            return {"claimed": [[c.item.id, c.item.state.run, c.item.state.run_bits] for c in claimed]}

        return self._note(answer)


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
