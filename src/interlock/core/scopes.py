"""What a token lets its bearer do: everything, read, or act for one agent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from interlock.core.errors import InvalidInput, NotAllowed
from interlock.core.model import HOLD, REPLACEABLE, NewItem, Policy, Sender, SenderKind
from interlock.core.names import agent_key, needed_agent
from interlock.core.record import replace
from interlock.core.row import NamedTuple

if TYPE_CHECKING:
    #: What an agent's token is confined to, besides its own name and runs: nothing else; its own items; its
    #: own workers; edits requested from its run; arrivals that take nothing from other agents.
    Confines = Literal["runs", "item", "worker", "editor", "arrivals"]

_AGENT = "agent:"


class Needs(StrEnum):
    """What an operation needs of its caller."""

    #: Every bearer of a token.
    READ = "read"
    #: An agent that acts for itself and its own runs.
    AGENT = "agent"
    ADMIN = "admin"


class Scope(NamedTuple):
    """What a bearer may do. `agent` is the key of the agent it acts for."""

    needs: Needs
    agent: str = ""

    def __str__(self) -> str:
        return f"{_AGENT}{self.agent}" if self.needs is Needs.AGENT else self.needs.value

    def covers(self, needs: Needs) -> bool:
        """Whether the scope suffices, before the owner of the run is checked."""
        order = tuple(Needs)
        return order.index(needs) <= order.index(self.needs)


ADMIN = Scope(Needs.ADMIN)


def read_scope(text: str) -> Scope:
    """The scope that a text names: `admin`, `read` or `agent:NAME`."""
    word = text.strip()
    if word.lower().startswith(_AGENT):
        return Scope(Needs.AGENT, needed_agent(word[len(_AGENT) :]))
    if word.lower() in (Needs.ADMIN, Needs.READ):
        return Scope(Needs(word.lower()))
    raise InvalidInput(f"The scope {word[:80]!r} does not exist.", "Use admin, read or agent:NAME.")


def check_scope(needs: Needs, scope: Scope) -> None:
    """Raise `NotAllowed` if an operation needs more than the scope allows, whatever its arguments."""
    if not scope.covers(needs):
        raise NotAllowed(
            f"A token with the scope {scope} does not allow this.",
            "It needs the scope admin."
            if needs is Needs.ADMIN
            else "It needs the scope admin or agent:NAME.",
        )


class Owners(NamedTuple):
    """The agents that own the things named in a request."""

    #: The agents of its runs; empty for a run that does not exist.
    runs: Collection[str] = ()
    #: The agents of its item: its addressee, and the agent that works on it. None: no such item.
    item: Collection[str] | None = None
    #: The agent of its worker. None: no such worker.
    worker: str | None = None
    #: The policy of each new item, including defaults. None where it is not needed.
    policies: Sequence[Policy | None] = ()


def confine(
    own: str, confines: Confines, takes: Collection[str], given: Mapping[str, Any], owners: Owners
) -> dict[str, Any]:
    """The arguments that the token of the agent `own` may pass to an operation; else raise `NotAllowed`.

    An agent acts for itself: arguments that name the actor must name it.
    """
    speaks = [given["agent"]] if "agent" in given else []
    speaks += [given["next"].agent] if given.get("next") is not None else []
    if any(agent_key(agent) != own for agent in speaks):
        raise _not_own(own, "speaks for another agent")
    if not {*owners.runs} <= {"", own}:
        raise _not_own(own, "names a run of another agent")
    if confines == "item" and owners.item is not None and own not in owners.item:
        raise _not_own(own, "names an item of another agent")
    if confines == "worker" and owners.worker not in (None, own):
        raise _not_own(own, "is about a worker of another agent")
    if confines == "editor" and given.get("run") is None:
        raise _not_own(own, "edits a plan without the run that was asked to")
    allowed = {**given, **{name: own for name in ("by", "author") if name in takes}}
    if "sender" in takes:
        allowed["sender"] = _sender(given.get("sender"), own)
    if confines == "arrivals":
        for item, policy in zip(given["items"], owners.policies, strict=True):
            _check_arrival(item, policy, own)
        allowed["items"] = [_signed(item, own) for item in given["items"]]
    return allowed


def _check_arrival(item: NewItem, policy: Policy | None, own: str) -> None:
    """Raise `NotAllowed` if an item takes a lane, a run or waiting items from another agent."""
    if item.type == HOLD and agent_key(item.agent or own) != own:
        raise NotAllowed(  # nobody could claim it or take it back, and it would block the lane
            f"This token acts for the agent {own}, and the lane would be held by another agent.",
            f"Hold it for the agent {own}.",
        )
    if agent_key(item.agent) != own and policy in REPLACEABLE:
        does = "stop a run" if policy is Policy.SUPERSEDE else "replace items"
        raise NotAllowed(
            f"This token acts for the agent {own}, and {policy} would {does} of another agent.",
            f"Name another policy, such as queue, or add the item for {own}.",
        )


def _not_own(own: str, what: str) -> NotAllowed:
    return NotAllowed(
        f"This token acts for the agent {own} and its own runs only, and the request {what}.",
        "Use that agent's token, or one with the scope admin.",
    )


def _sender(stated: Sender | None, own: str) -> Sender:
    """An agent always writes under its own name."""
    if stated is not None and stated.kind is SenderKind.AGENT and stated.agent == own:
        return stated
    return Sender(SenderKind.AGENT, own)


def _signed(item: NewItem, own: str) -> NewItem:
    return replace(item, sender=_sender(item.sender, own), author=own)
