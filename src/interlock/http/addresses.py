"""Finds the application for a request by one look-up of its address and method."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.core.row import NamedTuple

#: A method that stands for every method.
ANY = "*"


class Address(NamedTuple):
    """One address. Its path may have parameters, as in `/v1/items/{item}`."""

    path: str
    #: By method.
    apps: dict[str, ASGIApp]


class Addresses:
    """All addresses of a server. An address without parameters comes before one with parameters."""

    def __init__(self, unknown: ASGIApp) -> None:
        """`unknown` answers requests to all other addresses."""
        self._unknown = unknown
        self._plain: dict[str, Address] = {}
        #: Those with parameters, by their number of parts.
        self._with_parameters: dict[int, dict[tuple[str, ...], Address]] = {}

    def __iter__(self) -> Iterator[Address]:
        yield from self._plain.values()
        for same_length in self._with_parameters.values():
            yield from same_length.values()

    def add(self, path: str, app: ASGIApp, methods: Collection[str]) -> None:
        """Let an application answer at an address. A GET address also answers HEAD."""
        address = Address(path, {})
        if "{" in path:
            parts = tuple(path.split("/"))
            address = self._with_parameters.setdefault(len(parts), {}).setdefault(parts, address)
        else:
            address = self._plain.setdefault(path, address)
        for method in methods:
            address.apps[method] = app
            if method == "GET":
                address.apps["HEAD"] = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._found(scope["path"])
        app = self._unknown
        if found is not None:
            address, scope["path_params"] = found
            scope["route"], scope["methods"] = address.path, address.apps.keys()
            app = address.apps.get(scope["method"]) or address.apps.get(ANY) or app
        await app(scope, receive, send)

    def _found(self, path: str) -> tuple[Address, Mapping[str, str]] | None:
        if (plain := self._plain.get(path)) is not None:
            return plain, {}
        given = path.split("/")
        for parts, address in self._with_parameters.get(len(given), {}).items():
            pairs = list(zip(parts, given, strict=True))
            if all(part == text or (part.startswith("{") and text) for part, text in pairs):
                return address, {part[1:-1]: text for part, text in pairs if part.startswith("{")}
        return None
