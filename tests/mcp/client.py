"""A model that uses the tools through the official client, one call after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp_types import CallToolResult

from interlock.core.names import USUAL_FIELDS
from interlock.mcp.protocol import server
from interlock.mcp.stdio import direct
from interlock.mcp.tools import Defaults, ToolCaller, Tools
from interlock.service.contract import Service
from tests.patience import PATIENCE_S

#: The revision without a handshake, found by asking or known; and the ones with a handshake.
MODES = ("auto", "2026-07-28", "legacy")


class Model:
    """Calls tools; `model.claim_next(agent="coder")` is the answer's content."""

    def __init__(self, client: Client, ask: Callable[..., Any]) -> None:
        self.client, self._ask = client, ask

    def call(self, name: str, given: dict[str, Any]) -> CallToolResult:
        """The whole result; the client has held it to the schema of its tool."""
        found = self._ask(self.client.call_tool, name, given)
        assert isinstance(found, CallToolResult)
        return found

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def use(**given: Any) -> Any:
            found = self.call(name, given)
            assert not found.is_error, found.content
            assert json.loads(text_of(found)) == found.structured_content
            return found.structured_content

        return use

    def mistake(self, name: str, **given: Any) -> str:
        """What a tool says to arguments that it does not take."""
        found = self.call(name, given)
        assert found.is_error, found
        said = text_of(found)
        assert not {word for word in ("Traceback", "pydantic") if word in said}
        return said

    def refusal(self, name: str, **given: Any) -> dict[str, Any]:
        """Why a tool did nothing."""
        found = getattr(self, name)(**given)["refusal"]
        assert found is not None
        assert found["message"].endswith(".")
        assert found["hint"]
        assert "interlock " not in found["message"] + found["hint"], "a model has no commands"
        return dict(found)

    def client_says(self, what: str, *args: Any, **more: Any) -> Any:
        """Any other function of the client."""
        return self._ask(getattr(self.client, what), *args, **more)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


@contextmanager
def model(target: Any, mode: str = "auto") -> Iterator[Model]:
    """A client of a server, a command or an address."""
    with start_blocking_portal() as portal:

        def ask(function: Any, *args: Any, **more: Any) -> Any:
            async def within() -> Any:
                return await function(*args, **more)

            return portal.start_task_soon(within).result(PATIENCE_S)

        client = Client(target, mode=mode)
        opened = portal.wrap_async_context_manager(client)
        opened.__enter__()
        try:
            yield Model(client, ask)
        finally:
            opened.__exit__(None, None, None)  # a test's own failure is shown as it is


@contextmanager
def here(service: Service, mode: str = "auto", **caller: Any) -> Iterator[Model]:
    """A model whose server is in this process."""
    defects: list[Exception] = []
    tools = Tools(direct(service), ToolCaller(**caller), Defaults({}, USUAL_FIELDS))
    ours = server(lambda: tools, defects.append, in_a_run=caller.get("run") is not None)
    with model(ours, mode) as talking:
        yield talking
    assert not defects
