"""Converts the service's answers to answers of tools: shorter, and with cures as tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.cures import Cure, hint
from interlock.core.errors import InterlockError
from interlock.mcp import tool_types

#: The size limits of an answer: one payload, one text or result, and all texts or results of a list.
PAYLOAD_MAX_CHARS, TEXT_MAX_CHARS, TEXTS_MAX_CHARS = 50_000, 20_000, 100_000
_TEXT_MIN_CHARS = 200
RUNS_MAX = 20
REASONS_MAX = 100

#: The tool of each operation, and the operation's arguments that it takes, by its own names.
_TOOLS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "add": ("add_item", {"title": "title", "lane": "lane"}),
    "ask": ("ask", {"run": "run", "question": "question"}),
    "cost": (
        "report_cost",
        {"run": "run", "usd": "usd", "input_tokens": "input_tokens", "output_tokens": "output_tokens"},
    ),
    "done": ("complete", {"reports": "run"}),
    "edit_plan": (
        "edit_plan",
        {"plan": "plan", "base": "base_revision", "operations": "operations", "run": "run"},
    ),
    "fail": ("fail", {"reports": "run"}),
    "inbox": ("read_messages", {"run": "run"}),
    "lanes": ("who_has", {"prefix": "lane"}),
    "msg": ("send_message", {"item": "item", "text": "text"}),
    "next": ("claim_next", {"agent": "agent", "item": "item"}),
    "plan": ("plan_status", {"plan": "plan"}),
    "plan_batch": ("plan_status", {"run": "run"}),
    "release": ("release", {"reports": "run"}),
    "renew": ("renew", {"reports": "run"}),
    "show": ("get_item", {"item": "item"}),
    "why": ("why", {"item": "item"}),
}


def tool_call(cure: Cure) -> str | None:
    """The call of a tool that performs a cure; null if no tool does."""
    tool, names = _TOOLS.get(cure.operation, ("", {}))
    if not tool or not cure.arguments.keys() <= names.keys():
        return None
    given = {names[name]: value for name, value in cure.arguments.items()}
    texts = {name: "…" if value is None else json.dumps(value) for name, value in given.items()}
    return f"{tool}({', '.join(f'{name}={text}' for name, text in texts.items())})"


def text_of(error: InterlockError) -> str:
    """An error as one text, with every reason."""
    reasons = (f"- {reason}\n" for reason in error.reasons[:REASONS_MAX] if reason != error.sentence)
    told = "".join(("\n", *reasons)) if len(error.reasons) > 1 else " "
    return f"{error.sentence}{told}{hint(error.hint, error.cures, tool_call)}".strip()


def refused(error: InterlockError) -> tool_types.RefusalAnswer:
    """An error as a refusal."""
    found: tool_types.RefusalAnswer = {
        "code": error.code,
        "message": error.sentence,
        "hint": hint(error.hint, error.cures, tool_call),
    }
    if len(error.reasons) > 1:
        found["reasons"] = list(error.reasons[:REASONS_MAX])
    return found


def refusal(found: Mapping[str, Any]) -> tool_types.RefusalAnswer:
    """A refusal of the service."""
    return {"code": found["code"], "message": found["message"], "hint": hint_of(found)}


def hint_of(found: Mapping[str, Any]) -> str:
    """The hint in an answer of the service, with tool calls."""
    return hint(found["hint"], [Cure(**each) for each in found["cures"]], tool_call)


def picked(kind: Any, found: Mapping[str, Any]) -> Any:
    """The fields of an answer that a type has."""
    return {name: found[name] for name in kind.__annotations__}


def item(found: Mapping[str, Any]) -> tool_types.ItemAnswer:
    """An item; a payload that is too long is omitted."""
    payload = found["payload"]
    cut = payload is not None and len(json.dumps(payload)) > PAYLOAD_MAX_CHARS
    known = {**found, "payload": None if cut else payload, "payload_is_cut": cut}
    return picked(tool_types.ItemAnswer, known)  # type: ignore[no-any-return]


def messages(found: Sequence[Mapping[str, Any]]) -> list[tool_types.MessageAnswer]:
    """Messages, with their texts within the size limits of an answer."""
    room, shown = TEXTS_MAX_CHARS, []
    for message in found:
        most = max(_TEXT_MIN_CHARS, min(TEXT_MAX_CHARS, room))
        text, payload = message["text"], message["payload"]
        cut = len(text) > most or (payload is not None and len(json.dumps(payload)) > most)
        short = {"text": text[:most], "is_cut": cut, "payload": None if cut else payload}
        shown.append(picked(tool_types.MessageAnswer, {**message, **short}))
        room -= min(len(text), most)
    return shown


def runs(kind: Any, found: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Ends of runs in the fields of a type, with their results within the size limits of an answer."""
    room, shown = TEXTS_MAX_CHARS, []
    for run in found:
        most = max(_TEXT_MIN_CHARS, min(TEXT_MAX_CHARS, room))
        result, error = run["result"], run["error"] or ""
        long = result is not None and len(json.dumps(result)) > most
        short = {"result": None if long else result, "error": error[:most] or None}
        shown.append(picked(kind, {**run, **short, "is_cut": long or len(error) > most}))
        room -= len(json.dumps(short))
    return shown


def lease(
    found: Mapping[str, Any], of: Mapping[str, Any], written: Sequence[Mapping[str, Any]]
) -> tool_types.LeaseAnswer:
    """A lease on an item with these messages."""
    return {
        "run": found["run"],
        "fence": found["fence"],
        "expires_at": found["expires_at"],
        "renew_within_s": found["renew_within_s"],
        "item": item(of),
        "messages": messages(written),
    }


def holder(found: Mapping[str, Any] | None) -> tool_types.HolderAnswer | None:
    """The holder of a lane, if it has one."""
    return None if found is None else picked(tool_types.HolderAnswer, found)
