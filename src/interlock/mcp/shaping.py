"""From the service's answers to those of the tools: shorter, and with the names of tools in sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.errors import InterlockError
from interlock.mcp import answers

#: What an answer has room for: one payload, one text or result, and all texts or results of a list.
PAYLOAD_MAX_CHARS, TEXT_MAX_CHARS, TEXTS_MAX_CHARS = 50_000, 20_000, 100_000
_TEXT_MIN_CHARS = 200
RUNS_MAX = 20
REASONS_MAX = 100

#: What the commands are called here that sentences of the service name.
_COMMANDS = {
    "next": "claim_next",
    "done": "complete",
    "fail": "fail",
    "release": "release",
    "ask": "ask",
    "renew": "renew",
    "inbox": "read_messages",
    "add": "add_item",
    "msg": "send_message",
    "show": "get_item",
    "why": "why",
    "lanes": "who_has",
    "plan edit": "edit_plan",
    "plan show": "plan_status",
}
_COMMAND = re.compile(rf"(?:\binterlock |(?<=`))({'|'.join(_COMMANDS)})\b")


#: A sentence about a command that no tool stands for.
_NO_TOOL = re.compile(r"[^.;]*`interlock [^`]*`[^.;]*(?:[.;]|$)")


def in_tools(text: str) -> str:
    """Sentences with the names of tools in place of commands, and without other commands."""
    return _NO_TOOL.sub("", _COMMAND.sub(lambda found: _COMMANDS[found[1]], text)).strip()


def refused(error: InterlockError) -> answers.Refusal:
    """An error as a refusal."""
    reasons = getattr(error, "reasons", ())
    return refusal(
        {"code": error.code, "message": error.sentence, "hint": error.hint},
        reasons if len(reasons) > 1 else (),
    )


def refusal(found: Mapping[str, Any], reasons: Sequence[str] = ()) -> answers.Refusal:
    """A refusal of the service."""
    told: answers.Refusal = {
        "code": found["code"],
        "message": in_tools(found["message"]),
        "hint": in_tools(found["hint"]),
    }
    if reasons:
        told["reasons"] = [in_tools(reason) for reason in reasons[:REASONS_MAX]]
    return told


def picked(kind: Any, found: Mapping[str, Any]) -> Any:
    """The parts of an answer that a type has."""
    return {name: found[name] for name in kind.__annotations__}


def item(found: Mapping[str, Any]) -> answers.Item:
    """An item, without a payload that is too long."""
    payload = found["payload"]
    cut = payload is not None and len(json.dumps(payload)) > PAYLOAD_MAX_CHARS
    known = {**found, "payload": None if cut else payload, "payload_is_cut": cut}
    return picked(answers.Item, known)  # type: ignore[no-any-return]


def messages(found: Sequence[Mapping[str, Any]]) -> list[answers.Message]:
    """Messages, as far as an answer has room for their texts."""
    room, shown = TEXTS_MAX_CHARS, []
    for message in found:
        most = max(_TEXT_MIN_CHARS, min(TEXT_MAX_CHARS, room))
        text, payload = message["text"], message["payload"]
        cut = len(text) > most or (payload is not None and len(json.dumps(payload)) > most)
        short = {"text": text[:most], "is_cut": cut, "payload": None if cut else payload}
        shown.append(picked(answers.Message, {**message, **short}))
        room -= min(len(text), most)
    return shown


def runs(kind: Any, found: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Ends of runs as a type has them, as far as an answer has room for what came out."""
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
) -> answers.Lease:
    """A lease on an item with these messages."""
    return {
        "run": found["run"],
        "fence": found["fence"],
        "expires_at": found["expires_at"],
        "renew_within_s": found["renew_within_s"],
        "item": item(of),
        "messages": messages(written),
    }


def holder(found: Mapping[str, Any] | None) -> answers.Holder | None:
    """Who has a lane, if anybody."""
    return None if found is None else picked(answers.Holder, found)
