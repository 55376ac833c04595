"""A visit: who looks at a page, with which parameters, and the operations that answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from interlock.core.errors import InvalidInput, NotFound
from interlock.core.row import NamedTuple
from interlock.core.scopes import Scope
from interlock.dashboard.host import Health
from interlock.service.operations import BY_NAME

#: Carries out an operation by its name, within the visitor's scope.
Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Page(NamedTuple):
    """What to show: a template and its values. `section` is the current entry of the navigation."""

    template: str
    values: Mapping[str, Any]
    title: str
    section: str
    status: int = 200


class Visit:
    """One request for a page, by a signed-in visitor."""

    def __init__(
        self,
        call: Call,
        scope: Scope,
        now: datetime,
        health: Callable[[], Awaitable[Health]],
        *,
        demo: Mapping[str, Any] | None = None,
        path: Mapping[str, str],
        query: Mapping[str, list[str]],
        address: str,
        form: Mapping[str, list[str]] | None = None,
        server_url: str = "",
    ) -> None:
        self._call, self.scope, self.now, self.health = call, scope, now, health
        #: The demo fleet of the store, if it is known.
        self.demo = demo
        #: The parameters of the path.
        self.path = path
        self._query = query
        #: The first value of each parameter of the query.
        self.query = {name: values[0] for name, values in query.items() if values}
        #: The path and query of this page: where an action returns to.
        self.address = address
        #: The first value of each field of a form that was sent to this page.
        self.form = {name: values[0] for name, values in (form or {}).items() if values}
        #: The server's address as the sender of the form knows it; empty without a form, as pages are shared.
        self.server_url = server_url if form is not None else ""

    async def call(self, operation: str, /, **given: Any) -> Any:
        """Carry out an operation; gives its answer as JSON values."""
        return await self._call(operation, given)

    def query_all(self, name: str) -> list[str]:
        """All values of a parameter of the query."""
        return list(self._query.get(name, ()))

    def query_number(self, name: str, default: int | None = None) -> int | None:
        """A parameter of the query that is a whole number."""
        text = self.query.get(name, "").strip()
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise InvalidInput(f"{name} is {text[:80]!r}.", "It must be a whole number.")
        return int(text)

    def path_number(self, name: str) -> int:
        """A parameter of the path that is a whole number."""
        text = self.path[name]
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise NotFound(f"There is no {name} {text[:80]!r}.", "The address needs its number.")
        return int(text)

    def may(self, operation: str) -> bool:
        """Whether the visitor's scope covers an operation."""
        found = BY_NAME.get(operation)
        return found is not None and self.scope.covers(found.needs)


class PageFunction(Protocol):
    """Draws a page for a visit."""

    async def __call__(self, visit: Visit) -> Page: ...


class Notice(NamedTuple):
    """What the last action did, shown once."""

    text: str
    kind: str = "good"
