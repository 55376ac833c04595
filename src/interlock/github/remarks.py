"""Comments and reviews on GitHub: their writers, the agents they mention, and their commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from interlock.core.model import OUR_BOT, Sender, SenderKind
from interlock.core.names import agent_key
from interlock.core.record import Record
from interlock.github.facts import login
from interlock.github.remark_text import own_words

#: Every agent in Actions writes as this account.
ACTIONS_BOT = "github-actions[bot]"
COMMANDS = ("cancel", "retry", "priority", "ask", "why", "status")
_COMMAND = re.compile(r"^/interlock[ \t]+([a-z]+)(?:[ \t]+(.*))?$", re.MULTILINE)
#: GitHub refuses longer comments.
COMMENT_MAX = 65_536
_CUT = "\n\n… (cut)"
_MENTION = re.compile(r"(?<![\w/.@-])@([A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?(?:\[bot\])?)")
_MARK = re.compile(r"<!-- interlock((?: [a-z]+=[A-Za-z0-9_@#+=:./\[\]-]+)+) -->")


class Remark(Record):
    """A comment, a review, or a comment on a line of a pull request."""

    #: `issue_comment`, `pull_request_review` or `pull_request_review_comment`.
    kind: str
    id: int
    number: int
    author: str
    #: Whether the account belongs to an app.
    bot: bool
    text: str
    url: str
    #: For a review: `approved`, `changes_requested`, `commented`, `dismissed`.
    state: str = ""
    #: The time of writing, in GitHub's format.
    at: str = ""

    @property
    def said(self) -> str:
        """A key that sorts the remarks of a number in GitHub's order; empty without a time."""
        return f"{self.at} {self.kind} {self.id:020d}" if self.at else ""


class Command(Record):
    """One line `/interlock …`."""

    name: str
    argument: str


def from_answer(kind: str, number: int, answer: Mapping[str, Any]) -> Remark:
    """The remark in an answer of GitHub or in a payload."""
    user = answer.get("user") or {}
    return Remark(
        kind=kind,
        id=answer["id"],
        number=number,
        author=login(user or None),
        bot=user.get("type") == "Bot",
        text=answer.get("body") or "",
        url=answer.get("html_url") or "",
        at=str(answer.get("created_at") or answer.get("submitted_at") or ""),
        state=str(answer.get("state") or "").lower(),
    )


def mark(**parts: str | int) -> str:
    """A hidden comment that identifies our own comments."""
    return f"<!-- interlock{''.join(f' {name}={value}' for name, value in parts.items())} -->"


def marks(text: str) -> dict[str, str]:
    """The parts of the last mark in a text; empty without one."""
    found = _MARK.findall(text)
    return dict(part.split("=", 1) for part in found[-1].split()) if found else {}


def marked(text: str, **parts: str | int) -> str:
    """A comment's text with its hidden mark, cut to GitHub's limit."""
    hidden = mark(**parts)
    room = COMMENT_MAX - len(hidden) - 2
    shown = text if len(text) <= room else text[: room - len(_CUT)] + _CUT
    return f"{shown}\n\n{hidden}"


def has_mark(text: str, **parts: str | int) -> bool:
    """Whether a text has a mark with these parts. The mark may have more parts."""
    found = marks(text)
    return all(found.get(name) == str(value) for name, value in parts.items())


def mentioned(text: str, agents: Mapping[str, str]) -> tuple[str, ...]:
    """The agents that a text names, each once, in order. `agents` maps logins and names to agents."""
    logins = (found.lower() for found in _MENTION.findall(own_words(text)))
    return tuple(dict.fromkeys(agent_key(agents[each]) for each in logins if each in agents))


def commands(text: str) -> tuple[Command, ...]:
    """The commands in a text. Unknown words are kept, so that they can be answered."""
    return tuple(
        Command(name=name, argument=(argument or "").strip())
        for name, argument in _COMMAND.findall(own_words(text))
    )


def writer(remark: Remark, agents: Mapping[str, str], own: frozenset[str]) -> Sender:
    """Who wrote a remark: an agent, our own bot, another system, or a person.

    A mark counts only if one of our own accounts wrote the remark, as anyone can copy a mark. `own` has the
    logins that Interlock writes as.
    """
    ours = remark.author in own or remark.author == ACTIONS_BOT
    named = marks(remark.text).get("agent", "") if ours or remark.author in agents else ""
    agent = named or agents.get(remark.author, "")
    if agent:
        return Sender(SenderKind.AGENT, agent_key(agent))
    if ours:
        return OUR_BOT
    return Sender(SenderKind.SYSTEM if remark.bot else SenderKind.PERSON)
