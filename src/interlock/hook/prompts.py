"""What a prompt of an agent's program asks, as a question to a person.

====================  ===================================  =======================================
program               event                                what it asks
====================  ===================================  =======================================
Claude Code           `PermissionRequest`                  may a tool be used
Claude Code           `PreToolUse` of `AskUserQuestion`    the agent's own questions
Claude Code           `Notification`                       the same, an MCP form, or idle for 60 s
Codex                 `PermissionRequest`                  may a command be run
Gemini                `Notification` of `ToolPermission`   may a tool be used
Gemini                `BeforeTool` of `ask_user`           the agent's own questions
====================  ===================================  =======================================
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.hook.hook import HookEvent

#: A longer question is cut. People read it on one screen.
MAX_CHARS = 2_000
#: The notifications that wait for a person. Others tell something, such as a successful sign-in.
_WAITING = frozenset(
    {"permission_prompt", "idle_prompt", "elicitation_dialog", "agent_needs_input", "ToolPermission"}
)
#: How older versions of Claude Code, which name no kind, begin or end their notifications.
_NEEDS_PERMISSION, _IS_WAITING = "needs your permission", "is waiting for your input"
#: What a tool is used on, by the names of arguments, the most telling first.
_OBJECTS = ("command", "file_path", "path", "url", "query", "plan", "prompt")


def question_of(event: HookEvent, said: str) -> str:
    """The question of an event; empty if it asks nothing. `said` is the agent's last message."""
    if event.step == "Notification":
        question = _notified(event, said)
    else:
        question = _own_questions(event.given) or _permission(event.tool, event.given)
    return question if len(question) <= MAX_CHARS else f"{question[: MAX_CHARS - 1]}…"


def _notified(event: HookEvent, said: str) -> str:
    waits = event.kind in _WAITING
    if not event.kind:
        waits = _NEEDS_PERMISSION in event.message or _IS_WAITING in event.message
    if not waits:
        return ""
    more = _gemini_details(event.details)
    if event.kind == "idle_prompt" or _IS_WAITING in event.message:
        more = said
    return ": ".join(filter(None, (event.message or "The agent waits for a person", more.strip())))


def _gemini_details(details: Mapping[str, Any]) -> str:
    names = ("command", "filePath", "fileName", "toolName", "prompt", "title")
    return next((str(details[name]) for name in names if details.get(name)), "")


def _permission(tool: str, given: Mapping[str, Any]) -> str:
    described = given.get("description")
    why = f" ({described})" if isinstance(described, str) and described else ""
    what = next((str(given[name]) for name in _OBJECTS if given.get(name)), "")
    if not what and given:
        what = json.dumps(given, ensure_ascii=False, default=str)
    return f"May the agent use {tool or 'a tool'}?{why}{' ' if what else ''}{what}"


def _own_questions(given: Mapping[str, Any]) -> str:
    """The agent's own questions, each with its options."""
    asked = given.get("questions")
    return "\n".join(_one_by_one(asked)) if isinstance(asked, list) else ""


def _one_by_one(asked: list[Any]) -> Iterator[str]:
    for each in asked:
        if isinstance(each, dict) and each.get("question"):
            options = each.get("options")
            labels = [
                str(option.get("label") if isinstance(option, dict) else option)
                for option in (options if isinstance(options, list) else ())
            ]
            choice = f" ({' / '.join(labels)})" if labels else ""
            yield f"{each['question']}{choice}"
