"""The tools and resources in the terms of the protocol: schemas, arguments, results.

This module validates arguments against the schema. It refuses unknown ones, so that a model learns of a
misspelling. A mistake is a result with a sentence, never a protocol error, because models do not see those.
"""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Callable
from functools import cache
from typing import Any, get_type_hints

from mcp import MCPError
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import Server
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from interlock import __version__
from interlock.core.errors import InterlockError, InvalidInput
from interlock.core.handles import read_handle
from interlock.core.jsontext import parse
from interlock.mcp.answer_conversion import refused, text_of
from interlock.mcp.tools import NAMES, READING, REFUSALS, Tools, plan_of

INSTRUCTIONS = (
    "Interlock decides who works on what. Claim an item before you work on it (claim_next), renew while you"
    " work (renew), read what people write meanwhile (read_messages), and end your run (complete, fail,"
    " release or ask). An answer whose `refusal` is not null did nothing: read its message and hint. If its"
    " code is lease_lost, the work is no longer yours: stop, and publish nothing."
)
_IN_A_RUN = (
    " You were started for a run: the tools know it, so leave out `run`. claim_next and get_item show your"
    " item. The program that started you renews the lease."
)
_MIME = "application/json"
#: Answers that are the same for every client until the server is upgraded, and how long clients may cache
#: them.
_LASTING: tuple[CacheableMethod, ...] = ("tools/list", "resources/templates/list")
LASTS_MS = 300_000
#: How many mistakes, and how many characters of each, are reported to the model.
_MISTAKES, _SHOWN_CHARS = 5, 200

Defect = Callable[[Exception], None]
#: The tools for the current request's caller.
ToolsNow = Callable[[], Tools]


def server(tools: ToolsNow, defect: Defect, *, in_a_run: bool = False) -> Server[Any]:
    """A server for any number of clients. `defect` gets errors that are defects of ours."""

    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tool(name) for name in NAMES])

    async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
        return await _called(tools(), params.name, params.arguments or {}, defect)

    async def list_resources(_: Any, __: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(resources=await _of_the_run(tools()))

    async def list_templates(_: Any, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))

    async def read_resource(_: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await _read(tools(), str(params.uri), defect)

    return Server(
        "interlock",
        version=__version__,
        title="Interlock",
        instructions=INSTRUCTIONS + (_IN_A_RUN if in_a_run else ""),
        cache_hints=dict.fromkeys(_LASTING, CacheHint(ttl_ms=LASTS_MS, scope="public")),
        get_tool_input_schema=lambda name: tool(name).input_schema if name in NAMES else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


class _DefectHandler(logging.Handler):
    """Reports errors in the SDK's log as defects. Other log records concern clients and are dropped."""

    def __init__(self, defect: Defect) -> None:
        super().__init__(logging.ERROR)
        self._defect = defect

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._defect(error if isinstance(error, Exception) else RuntimeError(record.getMessage()))


def report_defects(defect: Defect) -> None:
    """Report errors inside the SDK to `defect`, in the whole process."""
    log = logging.getLogger("mcp")
    log.handlers, log.propagate = [_DefectHandler(defect)], False


# -- tools --------------------------------------------------------------------------------------------


@cache
def tool(name: str) -> Tool:
    """A tool in the form for clients."""
    function = getattr(Tools, name)
    answer = TypeAdapter(get_type_hints(function)["return"])
    return Tool(
        name=name,
        description=_description(function),
        input_schema=_untitled(_arguments(name).model_json_schema(schema_generator=_Plain)),
        output_schema=_untitled(answer.json_schema(schema_generator=_Plain)),
        annotations=ToolAnnotations(
            read_only_hint=name in READING,
            destructive_hint=False,
            idempotent_hint=name in READING or name in ("renew", "read_messages"),
            open_world_hint=False,
        ),
    )


class _Plain(GenerateJsonSchema):
    """Schemas without a title for each field. A title only repeats the name, and models read all of it."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    for each in (schema, *schema.get("$defs", {}).values()):
        each.pop("title", None)
    return schema


def _description(function: Any) -> str:
    """The docstring, with each paragraph on one line."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


@cache
def _arguments(name: str) -> type[BaseModel]:
    function = getattr(Tools, name)
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is each.empty else each.default)
        for each in inspect.signature(function).parameters.values()
        if each.name != "self"
    }
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


async def _called(tools: Tools, name: str, given: dict[str, Any], defect: Defect) -> CallToolResult:
    if name not in NAMES:
        return _mistake(f"There is no tool {name[:80]!r}.", f"There are {', '.join(NAMES)}.")
    try:
        answer = await getattr(tools, name)(**_checked(name, given))
    except REFUSALS as error:
        answer = {"refusal": refused(error)}
    except InterlockError as error:
        return _mistake(text_of(error))
    except Exception as error:
        defect(error)
        return _mistake("Internal error in Interlock.", "It is in the log of the server; tell a person.")
    text = json.dumps(answer, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


def _checked(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments; raises with a sentence about each mistake."""
    model = _arguments(name)
    try:
        read = model.model_validate(_unwrapped(model, given))
    except ValidationError as error:
        told = [_told(dict(each)) for each in error.errors(include_url=False)[:_MISTAKES]]
        raise InvalidInput(
            f"These arguments do not fit {name}. {' '.join(told)}",
            f"It takes {', '.join(model.model_fields)}.",
        ) from None
    return {field: getattr(read, field) for field in model.model_fields}


def _told(mistake: dict[str, Any]) -> str:
    place = ".".join(map(str, mistake["loc"]))[:_SHOWN_CHARS]
    if mistake["type"] == "missing":
        return f"`{place}` is missing."
    if mistake["type"] == "extra_forbidden":
        return f"There is no `{place}`."
    return f"`{place}`: {mistake['msg'][:_SHOWN_CHARS]}."


def _unwrapped(model: type[BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    """Decode lists and objects that some clients send as JSON text."""
    known = dict(given)
    for name, value in given.items():
        field = model.model_fields.get(name)
        if field is None or not isinstance(value, str) or value[:1] not in ("[", "{"):
            continue
        if not any(kind in str(field.annotation) for kind in ("list[", "dict[")):
            continue
        try:
            known[name] = parse(value)
        except ValueError:
            continue
    return known


def _mistake(sentence: str, hint: str = "") -> CallToolResult:
    text = f"{sentence} {hint}".strip()
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


# -- resources ----------------------------------------------------------------------------------------

_ITEM = re.compile(r"interlock://items/([1-9][0-9]{0,17})")
_MESSAGES = re.compile(r"interlock://items/([1-9][0-9]{0,17})/messages")
_PLAN = re.compile(r"interlock://plans/([1-9][0-9]{0,17})")

TEMPLATES = (
    ResourceTemplate(
        name="item",
        title="An item",
        uri_template="interlock://items/{item}",
        description="An item with its whole payload, its runs, and why it is where it is.",
        mime_type=_MIME,
    ),
    ResourceTemplate(
        name="messages",
        title="The messages of an item",
        uri_template="interlock://items/{item}/messages",
        description="Everything that was written to an item, uncut. Reading it marks nothing as read.",
        mime_type=_MIME,
    ),
    ResourceTemplate(
        name="plan",
        title="A plan",
        uri_template="interlock://plans/{plan}",
        description="A plan with all of its tasks and edges.",
        mime_type=_MIME,
    ),
)


async def _of_the_run(tools: Tools) -> list[Resource]:
    """The resources of the caller's own run."""
    run = tools.caller.run
    if run is None:
        return []
    try:
        item = (await tools.call("show", {"item": read_handle(run).item}))["item"]
    except InterlockError:  # then there is nothing to list
        return []
    about = {"item": item["id"], "plan": plan_of(item)}
    return [
        Resource(
            name=each.name,
            title=each.title,
            uri=each.uri_template.format(**about),
            description=each.description,
            mime_type=_MIME,
        )
        for each in TEMPLATES
        if "{plan}" not in each.uri_template or about["plan"] is not None
    ]


async def _read(tools: Tools, uri: str, defect: Defect) -> ReadResourceResult:
    try:
        found = await _found(tools, uri)
    except InterlockError as error:
        raise MCPError(INVALID_PARAMS, text_of(error), data={"uri": uri[:_SHOWN_CHARS]}) from None
    except MCPError:
        raise
    except Exception as error:
        defect(error)
        raise
    text = json.dumps(found, ensure_ascii=False)
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_MIME, text=text)])


async def _found(tools: Tools, uri: str) -> Any:
    if match := _ITEM.fullmatch(uri):
        shown = await tools.call("show", {"item": int(match[1])})
        return {name: shown[name] for name in ("item", "runs", "why", "links")}
    if match := _MESSAGES.fullmatch(uri):
        return {"messages": (await tools.call("show", {"item": int(match[1])}))["messages"]}
    if match := _PLAN.fullmatch(uri):
        return await tools.call("plan", {"plan": int(match[1])})
    raise InvalidInput(f"There is no resource {uri[:_SHOWN_CHARS]!r}.", "See the templates.")
