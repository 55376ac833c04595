"""What the dashboard needs of the surrounding server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from starlette.requests import Request

from interlock.core.errors import InterlockError
from interlock.core.scopes import Scope


class Visitor(Protocol):
    """The holder of a session: the owner of its token."""

    @property
    def token(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def scope(self) -> Scope: ...


B = TypeVar("B", bound=Visitor)


class Health(Protocol):
    """Whether what a page says can be trusted."""

    @property
    def troubles(self) -> Sequence[str]:
        """Why the server is not ready, a sentence each; empty if it is."""

    @property
    def findings(self) -> Sequence[Mapping[str, Any]]:
        """The invariants that the doctor found broken."""

    @property
    def checked_at(self) -> str | None:
        """When the doctor last checked the store; None if it has not."""


class DashboardHost(Protocol[B]):
    """The surrounding server."""

    async def identify(self, request: Request, authorization: str | None) -> B:
        """The token's bearer; raises `NoToken` if the token is missing or invalid."""

    async def session_bearer(self, request: Request, session: str) -> B:
        """The bearer of a session; raises `NoToken` if it has ended."""

    async def use_link(self, request: Request, link: str) -> str:
        """Begin a session with a one-time link; gives its secret. Raises `NoToken` if the link is invalid."""

    async def begin_session(self, bearer: B) -> str:
        """Begin a session of a bearer; gives its secret."""

    async def end_session(self, session: str) -> None:
        """End a session."""

    @property
    def session_cookie(self) -> str:
        """The name of the cookie of sessions, one for each store."""

    def status_of(self, error: InterlockError) -> int:
        """The status of HTTP of an error."""

    async def demo(self) -> Mapping[str, Any] | None:
        """The demo fleet of the store; None if it is unknown."""

    async def health(self) -> Health:
        """The state of the server."""

    async def now(self) -> datetime:
        """The store's time."""

    async def form(self, request: Request) -> dict[str, list[str]]:
        """The fields of a form, within limits."""

    async def call(self, bearer: B, name: str, given: dict[str, Any]) -> Any:
        """Carry out an operation, if the bearer's scope allows it."""

    async def act(
        self, bearer: B, name: str, values: Mapping[str, Any], texts: Mapping[str, str], key: str
    ) -> Any:
        """Carry out an operation with the arguments of a form, once for each key."""
