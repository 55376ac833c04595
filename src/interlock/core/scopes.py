"""What a token lets its bearer do: everything, read, or act for one agent."""

from __future__ import annotations

from enum import StrEnum

from interlock.core.errors import InvalidInput
from interlock.core.names import needed_agent
from interlock.core.row import NamedTuple

_AGENT = "agent:"


class Needs(StrEnum):
    """What a use case needs of its caller."""

    #: Whoever has a token.
    READ = "read"
    #: An agent, as far as it acts for itself and its own runs.
    AGENT = "agent"
    ADMIN = "admin"


class Scope(NamedTuple):
    """What a bearer may do; `agent` is the key of the agent that it acts for."""

    needs: Needs
    agent: str = ""

    def __str__(self) -> str:
        return f"{_AGENT}{self.agent}" if self.needs is Needs.AGENT else self.needs.value

    def covers(self, needs: Needs) -> bool:
        """Whether it is enough, before it is looked at whose run it is."""
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
