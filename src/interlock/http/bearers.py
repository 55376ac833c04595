"""Who asks, and what that one may do.

Every request to the API needs a token, on the loopback address too: other users of a machine and pages in a
browser can reach it there. A bearer is remembered for a few seconds, so a revoked token works no longer than
that.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

from interlock.core.checking import check_count
from interlock.core.errors import NotAllowed, NoToken, TooManyRequests
from interlock.core.model import HOLD, REPLACEABLE, ItemId, NewItem, Policy, Sender, SenderKind
from interlock.core.names import agent_key, check_name
from interlock.core.record import replace
from interlock.core.row import NamedTuple
from interlock.core.scopes import Needs, Scope
from interlock.service.local import LocalService
from interlock.service.usecases import UseCase

REMEMBERED_S = 5.0
_REMEMBERED_MAX = 10_000
#: Requests a second that one bearer may make, and how many at once.
RATE_PER_S, BURST = 1_000.0, 2_000.0
#: The same for wrong tokens from one address.
WRONG_PER_S, WRONG_BURST = 2.0, 20.0
#: What workers say about themselves.
PRESENCE = ("see_worker", "leave_worker")


class Bearer(NamedTuple):
    """Who has a token."""

    token: str
    name: str
    scope: Scope


class Unknown(NamedTuple):
    """A token that has to be looked up; a new one was never right before."""

    text: str
    is_new: bool


class Rates:
    """Token buckets by name, the ones used longest ago forgotten."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s, self._burst = per_s, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def left(self, name: str) -> float:
        """How much is left for somebody now."""
        left, at_s = self._buckets.get(name, (self._burst, 0.0))
        return min(self._burst, left + (time.monotonic() - at_s) * self._per_s)

    def take(self, name: str) -> bool:
        """Take one, if one is left."""
        left = self.left(name)
        self._buckets[name] = (max(0.0, left - 1.0), time.monotonic())
        self._buckets.move_to_end(name)
        if len(self._buckets) > _REMEMBERED_MAX:
            self._buckets.popitem(last=False)
        return left >= 1.0


class Bearers:
    """The bearers of one server."""

    def __init__(self, service: LocalService) -> None:
        self._service = service
        self._known: OrderedDict[bytes, tuple[float, Bearer]] = OrderedDict()
        self._owners: OrderedDict[str, str] = OrderedDict()
        self._rates = Rates(RATE_PER_S, BURST)
        self._wrong = Rates(WRONG_PER_S, WRONG_BURST)

    def remembered(self, header: str | None, peer: str) -> Bearer | Unknown:
        """The bearer, or the token that has to be looked up. No store is asked."""
        kind, _, text = (header or "").partition(" ")
        text = text.strip()
        if kind.lower() != "bearer" or not text:
            raise NoToken(
                "The request has no token.", "Send Authorization: Bearer TOKEN; see interlock token."
            )
        until_s, bearer = self._known.get(_mark(text), (0.0, None))
        if bearer is not None and until_s >= time.monotonic():
            return self._within_rate(bearer)
        # Wrong tokens from an address keep out other new ones from there, never one that was right before.
        if bearer is None and self._wrong.left(peer) < 1.0:
            raise TooManyRequests(
                "Too many requests with wrong tokens came from this address.", "Wait a second."
            )
        return Unknown(text, is_new=bearer is None)

    def look_up(self, text: str) -> Bearer | None:
        """The bearer of a token, as the store knows it. Threads may call it."""
        try:
            token, scope = self._service.bearer(text)
        except NoToken:
            return None
        return Bearer(token.id, token.name, scope)

    def looked_up(self, text: str, bearer: Bearer | None, peer: str) -> Bearer:
        """Remember what a look at the store has shown."""
        mark = _mark(text)
        if bearer is None:
            self._known.pop(mark, None)
            self._wrong.take(peer)
            raise no_token()
        self._known[mark] = (time.monotonic() + REMEMBERED_S, bearer)
        self._known.move_to_end(mark)
        if len(self._known) > _REMEMBERED_MAX:
            self._known.popitem(last=False)
        return self._within_rate(bearer)

    def live(self, tokens: Collection[str]) -> set[str]:
        """Those of these tokens that still let somebody in. Threads may call it."""
        return self._service.live_tokens(tokens)

    def check_live(self, bearer: Bearer) -> None:
        """`NoToken` if a token was revoked or has expired since it was looked up. Threads may call it."""
        if bearer.token not in self.live([bearer.token]):
            raise no_token()

    def _within_rate(self, bearer: Bearer) -> Bearer:
        if not self._rates.take(bearer.token):
            raise TooManyRequests(
                "This token is used too often.", f"Ask at most {RATE_PER_S:g} times a second."
            )
        return bearer

    # -- what a bearer may do -------------------------------------------------------------------------

    def confined(self, case: UseCase, given: dict[str, Any], scope: Scope) -> dict[str, Any]:
        """The arguments of a use case as far as the scope allows them, else `NotAllowed`."""
        check_scope(case, scope)
        if scope.needs is not Needs.AGENT or case.needs is not Needs.AGENT:
            return given
        own = scope.agent
        if "agent" in given and agent_key(given["agent"]) != own:
            raise _not_own(own, "speaks for another agent")
        if not self._owners_of(_handles(given)) <= {"", own}:
            raise _not_own(own, "names a run of another agent")
        if case.name == "cancel" and not self._is_own(given["item"], own):
            raise _not_own(own, "cancels an item that is not its own")
        if case.name in PRESENCE and not self._is_own_worker(given["name"], own):
            raise _not_own(own, "is about a worker of another agent")
        if case.name == "edit_plan" and given.get("run") is None:
            raise _not_own(own, "edits a plan without the run that was asked to")
        takes = {parameter.name for parameter in case.parameters}
        if "by" in takes:
            given["by"] = own
        if "sender" in takes:
            given["sender"] = _sender(given.get("sender"), own)
        if "author" in takes:
            given["author"] = own
        if case.name == "add":
            self._check_added(given["items"], own)
            given["items"] = [_signed(item, own) for item in given["items"]]
        return given

    def _check_added(self, items: Sequence[NewItem], own: str) -> None:
        """`NotAllowed` if an item takes a lane, a run or waiting items from another agent.

        The policy counts that the item gets here, also if it is a default one.
        """
        for item in items:
            if item.type == HOLD and agent_key(item.agent or own) != own:
                raise NotAllowed(  # it could neither be claimed nor be taken back, and would block the lane
                    f"This token acts for the agent {own}, and the lane would be held by another agent.",
                    f"Hold it with --agent {own}.",
                )
            if agent_key(item.agent) != own and (policy := self._service.policy_of(item)) in REPLACEABLE:
                does = "stop a run" if policy is Policy.SUPERSEDE else "replace items"
                raise NotAllowed(
                    f"This token acts for the agent {own}, and {policy} would {does} of another agent.",
                    f"Name another policy, such as queue, or add the item for {own}.",
                )

    def _owners_of(self, handles: Sequence[str]) -> set[str]:
        """The agents of these runs, which never change; the service says which runs there are not."""
        check_count("handles", handles)
        found = {handle: self._owners.get(handle) for handle in handles}
        if unknown := [handle for handle, owner in found.items() if owner is None]:
            for handle, owner in self._service.run_agents(unknown).items():
                found[handle] = owner
                self.remember_owner(handle, owner)
        return {owner or "" for owner in found.values()}

    def owner(self, handle: str) -> str:
        """The agent of a run that this server gave out not long ago, else empty."""
        return self._owners.get(handle, "")

    def remember_owner(self, handle: str, agent: str) -> None:
        """Whose run has a handle, so that nobody needs to look."""
        self._owners[handle] = agent
        if len(self._owners) > _REMEMBERED_MAX:
            self._owners.popitem(last=False)

    def _is_own(self, item: int, own: str) -> bool:
        found = self._service.store.item(ItemId(item)) if 0 < item < 1 << 63 else None
        return found is None or own in (found.spec.agent_key, found.worked_by)

    def _is_own_worker(self, name: str, own: str) -> bool:
        found = self._service.store.worker(check_name("worker", name))
        return found is None or found.agent == own


def no_token() -> NoToken:
    """The refusal of a token that lets nobody in."""
    return NoToken("This token lets nobody in.", "It may be mistyped, revoked or over: make another.")


def check_scope(case: UseCase, scope: Scope) -> None:
    """`NotAllowed` if a use case needs more than a scope has, whoever it is about."""
    if not scope.covers(case.needs):
        raise NotAllowed(
            f"A token with the scope {scope} does not allow this.",
            "It needs the scope admin."
            if case.needs is Needs.ADMIN
            else "It needs the scope admin or agent:NAME.",
        )


def with_agent(case: UseCase, body: Any, scope: Scope) -> Any:
    """The body of a request, which need not name the agent that its token acts for."""
    return {"agent": scope.agent, **body} if scope.agent and case.speaks and isinstance(body, dict) else body


def with_name(case: UseCase, given: dict[str, Any], bearer: Bearer) -> dict[str, Any]:
    """The arguments of a use case: an operator who gives no name is known by that of the token."""
    signs = case.writes and any(parameter.name == "by" for parameter in case.parameters)
    if not signs or given.get("by") or given.get("run") is not None:  # what a run owes, its agent does
        return given
    return {**given, "by": bearer.name}


def _mark(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _handles(given: dict[str, Any]) -> list[str]:
    run = given.get("run", given.get("handle"))
    return [*([run] if isinstance(run, str) else []), *(report.run for report in given.get("reports", ()))]


def _not_own(own: str, what: str) -> NotAllowed:
    return NotAllowed(
        f"This token acts for the agent {own} and its own runs only, and the request {what}.",
        "Use that agent's token, or one with the scope admin.",
    )


def _sender(stated: Sender | None, own: str) -> Sender:
    """An agent writes as itself, whatever it says."""
    if stated is not None and stated.kind is SenderKind.AGENT and stated.agent == own:
        return stated
    return Sender(SenderKind.AGENT, own)


def _signed(item: NewItem, own: str) -> NewItem:
    return replace(item, sender=_sender(item.sender, own), author=own)
