"""The OpenAPI document, made from the table of operations and the types of the contract."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from interlock import __version__
from interlock.core.cures import Cure
from interlock.core.model import Sender
from interlock.core.names import BATCH_MAX
from interlock.core.scopes import Needs
from interlock.http.problems import MEDIA_TYPE, STATUSES
from interlock.http.queries import fields_of
from interlock.http.streams import EVERY_MAX_MS, EVERY_MIN_MS
from interlock.service import wire
from interlock.service.item_view import ItemView
from interlock.service.local import function_of
from interlock.service.manual import ITEM, STREAM
from interlock.service.operations import OPERATIONS, ROOT, Operation

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
#: Plan documents are described in the documentation of plans.
_DOCUMENT = {"type": "object", "description": "As in a plan file: see Plans in the documentation."}
_WHOLE = {"minimum": -(2**63), "maximum": 2**63 - 1}
_SCOPES = {
    Needs.READ: "Any token.",
    Needs.AGENT: "A token with the scope `admin`, or `agent:NAME` for that agent and its own runs.",
    Needs.ADMIN: "A token with the scope `admin`.",
}
_TEXTS = (
    *("project", "type", "agent", "lane", "policy", "message", "author", "dedupe_key", "reason", "url"),
    "said",
    *("run_at", "retry_lane", "from_agent"),
)
#: The fields of a new item, as `interlock add` and `interlock.connect().add` take them.
_ITEM: dict[str, Any] = {
    "title": {"type": "string", "maxLength": 500},
    **dict.fromkeys(_TEXTS, _TEXT_OR_NULL),
    **{name: {"type": ["integer", "null"], **_WHOLE} for name in ("priority", "position", "max_attempts")},
    **{
        name: {"type": ["number", "null"]}
        for name in ("run_after_s", "lease_s", "timeout_s", "claim_within_s")
    },
    **{
        name: {"type": ["boolean", "null"]}
        for name in ("no_lane", "from_person", "from_bot", "from_system", "from_outsider")
    },
    "payload": {"type": ["object", "string", "null"]},
    "labels": {"type": ["array", "null"], "items": {"type": "string"}},
}
_CHANGES = ("title", "type", "agent", "labels", "priority", "position", "run_at", "run_after_s")


class Schemas:
    """Schemas by name, collected while operations are described."""

    def __init__(self) -> None:
        self.named: dict[str, dict[str, Any]] = {
            "NewItem": {
                "type": "object",
                "properties": {name: {**schema, "description": ITEM[name]} for name, schema in _ITEM.items()},
                "required": ["title"],
                "description": "An item as it arrives.",
            },
        }
        self.named["NewItem"]["properties"]["sender"] = {
            "anyOf": [self.of(Sender), {"type": "null"}],
            "description": ITEM["sender"],
        }
        self.named["Problem"] = _problem(self.of(Cure))

    def of(self, kind: Any, *, request: bool = False) -> dict[str, Any]:
        """The schema of a type."""
        origin, args = get_origin(kind), get_args(kind)
        if kind is Any or kind is object:
            return {}
        if kind in _PLAIN:
            return {"type": _PLAIN[kind], **(_WHOLE if kind is int else {})}
        if kind is type(None):
            return {"type": "null"}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(each, request=request) for each in args]}
        if origin in (tuple, list, Sequence, typing.Sequence):
            most = {"maxItems": BATCH_MAX} if request else {}
            return {"type": "array", "items": self.of(args[0], request=request), **most}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self.of(args[1], request=request)}
        if hasattr(kind, "__supertype__"):
            return self.of(kind.__supertype__)
        if kind is datetime:
            return {"type": "string", "format": "date-time"}
        if issubclass(kind, Enum):
            return {"type": "string", "enum": [each.value for each in kind]}
        return self._parts(kind, request=request)

    def _parts(self, kind: Any, *, request: bool) -> dict[str, Any]:
        name = kind.__name__
        if name not in self.named:
            self.named[name] = {}  # it may refer to itself
            if issubclass(kind, ItemView):
                hints = get_type_hints(kind)
                parts = {part: hints[part] for part in ItemView.FIELDS}
                needed = list(parts)
            else:
                parts = dict(wire.parts_of(kind))
                if "cures" in parts:
                    parts["advice"] = str
                needed = [part for part in parts if not request or wire.is_needed(kind, part)]
            self.named[name] = {
                "type": "object",
                "description": (kind.__doc__ or "").partition("\n")[0],
                "properties": {part: self.of(each, request=request) for part, each in parts.items()},
                "required": needed,
                **({"additionalProperties": False} if request else {}),
            }
            if name == "Report":
                self.named[name]["properties"]["result"] = {"description": "Any JSON."}
        return {"$ref": f"#/components/schemas/{name}"}


def _problem(cure: dict[str, Any]) -> dict[str, Any]:
    texts = {name: {"type": "string"} for name in ("type", "title", "detail", "code", "hint", "advice")}
    return {
        "type": "object",
        "description": "What went wrong: `code` is stable, `detail` and `hint` are for people.",
        "properties": {**texts, "status": {"type": "integer"}, "cures": {"type": "array", "items": cure}},
        "required": [*texts, "status", "cures"],
    }


def body_schema(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    """The schema of a request's body."""
    rest = [p for p in operation.parameters if p.name not in operation.in_path]
    properties = {
        p.name: {**schemas.of(p.kind, request=True), "description": operation.sentence(p.name)} for p in rest
    }
    needed = [p.name for p in rest if p.needed and not (operation.speaks and p.name == "agent")]
    if operation.speaks:
        properties["agent"]["description"] += " May be missing if the token is for one agent."
    match operation.body:
        case "items":
            new = {"$ref": "#/components/schemas/NewItem"}
            properties["items"] |= {"type": "array", "items": new, "maxItems": BATCH_MAX}
        case "changes":
            del properties["changes"]
            properties |= {name: {**_ITEM[name], "description": ITEM[name]} for name in _CHANGES}
            needed = []
        case "plan" | "edit":
            properties.pop("graph", None)
            properties.pop("operations", None)
            needed = [name for name in needed if name in properties]
            return {**_DOCUMENT, "properties": properties, "required": needed}
        case "reports" | "parameters":
            if "result" in properties:
                properties["result"] = {"description": f"{operation.sentence('result')} Any JSON."}
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def answer_schema(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    """The schema of a successful answer."""
    inner = schemas.of(operation.answer)
    if operation.more is not None:
        parts = {name: schemas.of(kind) for name, kind in wire.parts_of(operation.more).items()}
        return {"type": "object", "properties": parts, "required": [operation.field]}
    if not operation.field:
        return inner
    return {"type": "object", "properties": {operation.field: inner}, "required": [operation.field]}


#: Words in docstrings that differ for HTTP.
_WORDS = {
    "an `ItemEnded`": "409 (`item_ended`)",
    "Returns False": "The answer is `false`",
    "None ": "`null` ",
    "False ": "`false` ",
}


def about(operation: Operation) -> str:
    """The description of an address."""
    text = operation.manual.about or " ".join((function_of(operation.name).__doc__ or "").split())
    for word, said in _WORDS.items():
        text = text.replace(word, said)
    return text


def _operation(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    text = about(operation)
    summary = text.partition(". ")[0].rstrip(".")
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer", **_WHOLE}}
        for name in operation.in_path
    ]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": summary,
        "description": f"{text} {_SCOPES[operation.needs]}".strip(),
        "tags": [operation.tag],
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": answer_schema(operation, schemas)}},
                **({"headers": {"ETag": {"schema": {"type": "string"}}}} if operation.etag else {}),
            },
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if operation.writes:
        content = {"schema": body_schema(operation, schemas), "example": operation.manual.example}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
        parameters.append({"$ref": "#/components/parameters/IdempotencyKey"})
        if operation.if_match:
            parameters.append({"$ref": "#/components/parameters/IfMatch"})
    else:
        parameters += [
            {
                "name": field.name,
                "in": "query",
                "required": field.needed,
                "description": field.about,
                "schema": {**_query(schemas.of(field.kind)), **field.bounds},
            }
            for field in fields_of(operation)
        ]
    return {**described, "parameters": parameters}


def _query(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a query field. A query has no null: a missing field is not given."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return kinds[0] if kinds else schema


def document() -> dict[str, Any]:
    """The whole OpenAPI document."""
    schemas = Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(ROOT + operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    paths |= _OTHERS
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Interlock",
            "version": __version__,
            "description": "Decides who works on what, one at a time, and loses nothing.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "See `interlock token create`."}
            },
            "parameters": {
                "IdempotencyKey": {
                    "name": "Idempotency-Key",
                    "in": "header",
                    "required": False,
                    "description": "A request that is repeated under the same key gets the first answer.",
                    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
                },
                "IfMatch": {
                    "name": "If-Match",
                    "in": "header",
                    "required": False,
                    "description": "The `ETag` of what was looked at: if it has changed since, 412.",
                    "schema": {"type": "string", "pattern": '^"[!#-~]{1,64}"$'},
                },
            },
            "responses": {
                "Problem": {
                    "description": ", ".join(
                        f"{status} {code}" for code, status in sorted(STATUSES.items(), key=lambda s: s[1])
                    ),
                    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
            "schemas": dict(sorted(schemas.named.items())),
        },
    }


def _open(summary: str, content: str) -> dict[str, Any]:
    good = {"description": "Well.", "content": {content: {"schema": {}}}}
    bad = {"description": "Not ready.", "content": {content: {"schema": {}}}}
    return {"get": {"summary": summary, "security": [], "responses": {"200": good, "503": bad}}}


_OTHERS: dict[str, dict[str, Any]] = {
    f"{ROOT}/events/stream": {
        "get": {
            "operationId": "follow",
            "summary": "History as it happens, as server-sent events",
            "description": "Each id is an event's number: a client that reconnects sends Last-Event-ID. 410"
            " if the history has no event so new, as after a restore. Any token.",
            "tags": ["events"],
            "parameters": [
                {
                    "name": "after",
                    "in": "query",
                    "required": False,
                    "description": STREAM["after"],
                    "schema": {"type": "integer", **_WHOLE},
                },
                {
                    "name": "every_ms",
                    "in": "query",
                    "required": False,
                    "description": STREAM["every_ms"],
                    "schema": {"type": "integer", "minimum": EVERY_MIN_MS, "maximum": EVERY_MAX_MS},
                },
                {
                    "name": "Last-Event-ID",
                    "in": "header",
                    "required": False,
                    "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
                },
            ],
            "responses": {
                "200": {
                    "description": "An endless stream.",
                    "content": {"text/event-stream": {"schema": {"type": "string"}}},
                },
                "default": {"$ref": "#/components/responses/Problem"},
            },
        }
    },
    "/webhooks/github": {
        "post": {
            "operationId": "webhook",
            "summary": "A delivery of GitHub, signed with the webhook's secret",
            "security": [],
            "tags": ["github"],
            "requestBody": {"required": True, "content": {"application/json": {"schema": {}}}},
            "responses": {
                "202": {
                    "description": "Stored; it is decided on next.",
                    "content": {"application/json": {"schema": {"type": "object"}}},
                },
                "default": {"$ref": "#/components/responses/Problem"},
            },
        }
    },
    "/metrics": {
        "get": {
            "operationId": "scrape",
            "summary": "Numbers for Prometheus, of the store and of this server",
            "description": "In OpenMetrics if that is asked for. Any token.",
            "tags": ["metrics"],
            "responses": {
                "200": {
                    "description": "Every metric.",
                    "content": {
                        "text/plain": {"schema": {"type": "string"}},
                        "application/openmetrics-text": {"schema": {"type": "string"}},
                    },
                },
                "default": {"$ref": "#/components/responses/Problem"},
            },
        }
    },
    "/healthz": _open("Whether the process answers", "application/json"),
    "/readyz": _open("Whether it can serve: store, schema, sweeper", "application/json"),
}
