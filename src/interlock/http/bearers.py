"""Authenticates tokens and limits what each may do.

Every request to the API needs a token, also on the loopback address: other users of the machine and pages in
a browser can reach it. A bearer is cached for a few seconds, so a revoked token stops working within seconds.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock.core.errors import NoToken, TooManyRequests
from interlock.core.model import ItemId
from interlock.core.names import check_name
from interlock.core.row import NamedTuple
from interlock.core.scopes import Needs, Owners, Scope, confine
from interlock.core.validation import check_count, checked_arrivals
from interlock.service.access import no_token
from interlock.service.local import LocalService
from interlock.service.operations import Operation

if TYPE_CHECKING:
    from interlock.core.scopes import Confines

REMEMBERED_S = 5.0
_REMEMBERED_MAX = 10_000
#: The requests a second of one bearer, and the most at once.
RATE_PER_S, BURST = 1_000.0, 2_000.0
#: The same for invalid tokens from one address.
WRONG_PER_S, WRONG_BURST = 2.0, 20.0


class Bearer(NamedTuple):
    """The holder of a token."""

    token: str
    name: str
    scope: Scope


class UnknownToken(NamedTuple):
    """A token that has to be looked up. A new one was never valid here before."""

    text: str
    is_new: bool
    #: Whether it is the secret of a session, as a cookie has it.
    session: bool = False


class Rates:
    """Token buckets by name. The least recently used are evicted."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s, self._burst = per_s, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def remaining(self, name: str) -> float:
        """The remaining allowance of a name."""
        rest, at_s = self._buckets.get(name, (self._burst, 0.0))
        return min(self._burst, rest + (time.monotonic() - at_s) * self._per_s)

    def take(self, name: str) -> bool:
        """Take one from the allowance, if any is left."""
        rest = self.remaining(name)
        self._buckets[name] = (max(0.0, rest - 1.0), time.monotonic())
        self._buckets.move_to_end(name)
        if len(self._buckets) > _REMEMBERED_MAX:
            self._buckets.popitem(last=False)
        return rest >= 1.0


class Bearers:
    """The bearers of one server."""

    def __init__(self, service: LocalService) -> None:
        self._service = service
        self._known: OrderedDict[bytes, tuple[float, Bearer]] = OrderedDict()
        self._owners: OrderedDict[str, str] = OrderedDict()
        self._rates = Rates(RATE_PER_S, BURST)
        self._wrong = Rates(WRONG_PER_S, WRONG_BURST)

    def remembered(self, header: str | None, peer: str) -> Bearer | UnknownToken:
        """The cached bearer, or the token that has to be looked up. The store is not read."""
        kind, _, text = (header or "").partition(" ")
        text = text.strip()
        if kind.lower() != "bearer" or not text:
            raise NoToken(
                "The request has no token.", "Send Authorization: Bearer TOKEN; see interlock token."
            )
        return self._remembered(UnknownToken(text, is_new=False), peer)

    def remembered_session(self, text: str, peer: str) -> Bearer | UnknownToken:
        """The same for the secret of a session."""
        return self._remembered(UnknownToken(text, is_new=False, session=True), peer)

    def _remembered(self, given: UnknownToken, peer: str) -> Bearer | UnknownToken:
        until_s, bearer = self._known.get(_token_digest(given), (0.0, None))
        if bearer is not None and until_s >= time.monotonic():
            return self._within_rate(bearer)
        # Invalid tokens from an address block new tokens from there, never one that was valid before.
        if bearer is None and self._wrong.remaining(peer) < 1.0:
            raise _too_many_wrong()
        return given._replace(is_new=bearer is None)

    def look_up(self, given: UnknownToken) -> Bearer | None:
        """The bearer of a token, as the store knows it. Threads may call it."""
        find = self._service.session_bearer if given.session else self._service.bearer
        try:
            token, scope = find(given.text)
        except NoToken:
            return None
        return Bearer(token.id, token.name, scope)

    def looked_up(self, given: UnknownToken, bearer: Bearer | None, peer: str) -> Bearer:
        """Cache the store's answer."""
        digest = _token_digest(given)
        if bearer is None:
            self._known.pop(digest, None)
            self._wrong.take(peer)
            raise no_token()
        self._known[digest] = (time.monotonic() + REMEMBERED_S, bearer)
        self._known.move_to_end(digest)
        if len(self._known) > _REMEMBERED_MAX:
            self._known.popitem(last=False)
        return self._within_rate(bearer)

    def forget_session(self, text: str) -> None:
        """A session has ended: its next request must look it up."""
        self._known.pop(_token_digest(UnknownToken(text, is_new=False, session=True)), None)

    def forget_tokens(self, tokens: Collection[str]) -> None:
        """Tokens are no longer valid: their next requests must look them up."""
        for digest in [digest for digest, (_, known) in self._known.items() if known.token in tokens]:
            del self._known[digest]

    def within_wrong_rate(self, peer: str, *, take: bool = False) -> None:
        """Raise `TooManyRequests` if an address sent too many wrong tokens or links. `take` counts one."""
        if take:
            self._wrong.take(peer)
        elif self._wrong.remaining(peer) < 1.0:
            raise _too_many_wrong()

    def live(self, tokens: Collection[str]) -> set[str]:
        """The currently valid ones of these tokens. Threads may call it."""
        return self._service.live_tokens(tokens)

    def check_live(self, bearer: Bearer) -> None:
        """`NoToken` if a token was revoked or has expired since it was looked up. Threads may call it."""
        if bearer.token not in self.live([bearer.token]):
            raise no_token()

    def _within_rate(self, bearer: Bearer) -> Bearer:
        if not self._rates.take(bearer.token):
            raise TooManyRequests(
                "Too many requests with this token.", f"Send at most {RATE_PER_S:g} requests a second."
            )
        return bearer

    # -- permissions of a bearer ----------------------------------------------------------------------

    def confined(self, operation: Operation, given: dict[str, Any], scope: Scope) -> dict[str, Any]:
        """The arguments of an operation, confined to a scope. Raises `NotAllowed` if the scope forbids them.

        The caller has checked that the scope allows the operation itself. Threads may call it.
        """
        if scope.needs is not Needs.AGENT or operation.needs is not Needs.AGENT:
            return given
        if operation.confines == "arrivals":
            given = {**given, "items": checked_arrivals(given["items"])}
        takes = [parameter.name for parameter in operation.parameters]
        if (wish := given.get("next")) is not None:  # an agent claims for itself there as well
            given = {**given, "next": wish if wish.agent is not None else wish._replace(agent=scope.agent)}
        owners = self._owners_in(operation.confines, given, scope.agent)
        return confine(scope.agent, operation.confines, takes, given, owners)

    def _owners_in(self, confines: Confines, given: Mapping[str, Any], own: str) -> Owners:
        """The agents that own the things named in these arguments."""
        runs = self._owners_of(_handles(given))
        match confines:
            case "item":
                return Owners(runs, item=self._agents_of(given["item"]))
            case "worker":
                worker = self._service.store.worker(check_name("worker", given["name"]))
                return Owners(runs, worker=None if worker is None else worker.agent)
            case "arrivals":
                policies = [
                    None if item.agent == own else self._service.policy_of(item) for item in given["items"]
                ]
                return Owners(runs, policies=policies)
            case "runs" | "editor":
                return Owners(runs)

    def _owners_of(self, handles: Sequence[str]) -> set[str]:
        """The agents of these runs, which never change. The service reports unknown runs."""
        check_count("handles", handles)
        found = {handle: self._owners.get(handle) for handle in handles}
        if unknown := [handle for handle, owner in found.items() if owner is None]:
            for handle, owner in self._service.run_agents(unknown).items():
                found[handle] = owner
                self.remember_owner(handle, owner)
        return {owner or "" for owner in found.values()}

    def owner(self, handle: str) -> str:
        """The agent of a run that this server recently started, else empty."""
        return self._owners.get(handle, "")

    def remember_owner(self, handle: str, agent: str) -> None:
        """The agent of a handle, without a query of the store."""
        self._owners[handle] = agent
        if len(self._owners) > _REMEMBERED_MAX:
            self._owners.popitem(last=False)

    def _agents_of(self, item: int) -> set[str] | None:
        found = self._service.store.item(ItemId(item)) if 0 < item < 1 << 63 else None
        return None if found is None else {found.spec.agent_key, found.worked_by}


def with_agent(operation: Operation, body: Any, scope: Scope) -> Any:
    """The body of a request with the agent of its token, if it names none."""
    return (
        {"agent": scope.agent, **body}
        if scope.agent and operation.speaks and isinstance(body, dict)
        else body
    )


def with_name(operation: Operation, given: dict[str, Any], bearer: Bearer) -> dict[str, Any]:
    """The arguments of an operation. An operator without a name gets that of the token."""
    if operation.takes("caller"):
        return {**given, "caller": bearer.token}
    signs = operation.writes and operation.takes("by")
    of_run = isinstance(given.get("run"), str)  # an edit requested from a run is made by its agent
    if not signs or given.get("by") or of_run:
        return given
    return {**given, "by": bearer.name}


def _too_many_wrong() -> TooManyRequests:
    return TooManyRequests("Too many requests with wrong tokens came from this address.", "Wait a second.")


def _token_digest(given: UnknownToken) -> bytes:
    return hashlib.sha256(f"{'session' if given.session else 'token'} {given.text}".encode()).digest()


def _handles(given: Mapping[str, Any]) -> list[str]:
    run = given.get("run", given.get("handle"))
    return [*([run] if isinstance(run, str) else []), *(report.run for report in given.get("reports", ()))]
