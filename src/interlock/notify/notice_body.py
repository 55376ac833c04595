"""What a receiver is told: a JSON object whose `text` is for people, in Slack's notation.

Texts of agents and people are escaped and cut: a title cannot mention a channel, and no notice is long.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from interlock.core.model import Item, RunRecord
from interlock.core.record import Record
from interlock.service.item_view import moment
from interlock.store.port import StoredEvent

#: Characters of a title, a name and a message before they are cut. A body has at most about 20 kB.
TITLE_MAX, NAME_MAX, MESSAGE_MAX = 200, 120, 2_000


class NoticeBody(Record):
    """One notice, as it is stored and sent."""

    data: Mapping[str, Any]

    @classmethod
    def of(
        cls, store: str, subject: str, stored: StoredEvent, item: Item | None, run: RunRecord | None
    ) -> NoticeBody:
        """The notice of an event, by what is known now. `run` is the ended run of the event."""
        event = stored.event
        data: dict[str, Any] = {
            "id": f"{store}-{stored.seq}",
            "type": subject,
            "at": moment(event.at_us).isoformat(),
            "store": store,
            "seq": stored.seq,
            "run": event.run,
            "agent": _cut(event.agent, NAME_MAX),
            "item": None
            if item is None
            else {
                "id": item.spec.id,
                "title": _cut(item.spec.title, TITLE_MAX),
                "project": _cut(item.spec.project, NAME_MAX),
                "type": _cut(item.spec.type, NAME_MAX),
                "lane": _cut(item.spec.lane, NAME_MAX),
            },
        }
        match subject:
            case "question":
                data["question"] = _cut(str(event.data.get("question", "")), MESSAGE_MAX)
            case "dead_letter":
                data["error"] = _cut((run and run.error) or event.reason or "", MESSAGE_MAX)
                data["attempts"] = event.data.get("attempt")
            case "quota_limit":
                until_us = event.data.get("until_us")
                data["until"] = moment(until_us).isoformat() if isinstance(until_us, int) else None
                data["error"] = _cut(str(event.data.get("why") or ""), MESSAGE_MAX)
            case _:
                raise AssertionError(subject)
        return cls(data={**data, "text": _text(data)})

    @property
    def delivery(self) -> str:
        """Its id: the same in every repetition."""
        return str(self.data["id"])

    def body(self, link: Callable[[int | None], str | None]) -> bytes:
        """What is sent. The link is made now: the server's address may have changed."""
        item = self.data.get("item")
        url = link(item["id"] if item else None)
        text = self.data["text"] + (f"\n{url}" if url else "")
        return json.dumps({**self.data, "text": text, "url": url}, ensure_ascii=False).encode()


def escaped(text: str | None, most: int) -> str:
    """A text in Slack's notation, in which `<!channel>` would call everybody."""
    cut = _cut(text, most) or ""
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _text(data: Mapping[str, Any]) -> str:
    item, agent = data["item"], escaped(data["agent"], NAME_MAX)
    about = ""
    if item is not None:
        where = " on ".join(filter(None, (item["project"], item["lane"])))
        about = f"item {item['id']}, {escaped(item['title'], TITLE_MAX)} ({escaped(where, 2 * NAME_MAX)})"
    match data["type"]:
        case "question":
            return (
                f"*Question* of {agent or 'an agent'} on {about}:\n{escaped(data['question'], MESSAGE_MAX)}"
            )
        case "dead_letter":
            tries = data["attempts"]
            after = "" if not tries else f" after {tries} attempt{'s' if tries != 1 else ''}"
            why = f":\n{escaped(data['error'], MESSAGE_MAX)}" if data["error"] else "."
            return f"*Dead letter*: {about} failed{after}{why}"
        case _:
            why = f":\n{escaped(data['error'], MESSAGE_MAX)}" if data["error"] else "."
            return f"*Quota limit*: {agent} starts nothing until {data['until']}{why}"


def _cut(text: str | None, most: int) -> str | None:
    """One text, cut, without characters that a receiver could not read."""
    if text is None:
        return None
    safe = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text[:most])
    return safe if len(text) <= most else f"{safe[: most - 1]}…"
