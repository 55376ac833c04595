"""`interlock mcp`: the tools on standard input and output, for one client that started this process."""

from __future__ import annotations

import sys
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.stdio import stdio_server

from interlock.mcp.protocol import report_defects, server
from interlock.mcp.tools import Defaults, ToolCaller, Tools
from interlock.process.briefing import mark_ended
from interlock.service.contract import Service, to_json
from interlock.service.operations import BY_NAME

if TYPE_CHECKING:
    from interlock.mcp.tools import Call

#: How long a claim waits at once. After that, a disconnected client is noticed.
WAIT_STEP_S = 1.0


def serve(service: Service, caller: ToolCaller, defaults: Defaults) -> None:
    """Serve until the client closes standard input."""
    report_defects(_tell_defect)
    tools = Tools(direct(service), caller, defaults, ended=mark_ended)
    anyio.run(_serve, tools, caller.run is not None)


async def _serve(tools: Tools, in_a_run: bool) -> None:
    ours = server(lambda: tools, _tell_defect, in_a_run=in_a_run)
    async with stdio_server() as (incoming, outgoing):
        await ours.run(incoming, outgoing, ours.create_initialization_options())


def direct(service: Service) -> Call:
    """Calls a service in threads of this process."""

    async def call(name: str, given: dict[str, Any]) -> Any:
        if BY_NAME[name].waits:
            return await _claimed(service, name, given)
        return await _in_thread(service, name, given)

    return call


async def _claimed(service: Service, name: str, given: dict[str, Any]) -> Any:
    deadline_s = time.monotonic() + given["wait_s"]
    while True:
        left_s = max(0.0, deadline_s - time.monotonic())
        found = await _in_thread(service, name, {**given, "wait_s": min(left_s, WAIT_STEP_S)})
        if found or left_s <= WAIT_STEP_S:
            return found


async def _in_thread(service: Service, name: str, given: dict[str, Any]) -> Any:
    return await anyio.to_thread.run_sync(partial(_answer, service, name, given))


def _answer(service: Service, name: str, given: dict[str, Any]) -> Any:
    return to_json(getattr(service, name)(**given))


def _tell_defect(error: Exception) -> None:
    """Report a defect on standard error, which clients keep as the server's log."""
    sys.stderr.write("".join(traceback.format_exception(error)))
    sys.stderr.flush()
