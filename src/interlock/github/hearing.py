"""Remarks become messages: what a comment or a review says reaches whom it is for, once.

GitHub's number of a remark makes sure that it is passed on once. Its text is read again first: whether
`created` or `edited` comes first, agents get the newest text. They also hear of a later edit or deletion.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from interlock.core.model import AN_OUTSIDER, SenderKind
from interlock.core.names import RUN_AT_MAX_US
from interlock.core.timing import to_us
from interlock.github.delivery import Delivery
from interlock.github.facts import Facts, plain
from interlock.github.heard import COMMENTED, Heard, heard
from interlock.github.orders import Order, Place, arrival, kept, telling
from interlock.github.reading import Reader
from interlock.github.remarks import ACTIONS_BOT, Command, Remark, from_answer
from interlock.github.rules import Rules
from interlock.service.contract import ItemFilter, Service
from interlock.store.github_port import Follows, GitHubStore

#: Where a payload keeps the remark.
PARTS = {
    "issue_comment": "comment",
    "pull_request_review": "review",
    "pull_request_review_comment": "comment",
}
#: How many of the newest consequences are searched for an earlier message about the same remark.
TOLD_MAX = 200
_REVIEWS = {
    "approved": "The pull request was approved.",
    "changes_requested": "Changes were requested.",
    "commented": "The pull request was reviewed.",
}
#: GitHub says when a remark was written to the second, and its clock may differ a little from the store's.
SKEW_US = 2_000_000
#: The fields of an arrival that no person sends.
_NO_PERSON = ("from_agent", "from_bot", "from_system", "from_outsider")
_ACTIONS = ("created", "submitted", "edited", "deleted", "dismissed")


class Hearing:
    """Hears remarks for one store."""

    def __init__(self, service: Service, github: GitHubStore, reader: Reader | None) -> None:
        self._service, self._github, self._reader = service, github, reader

    def hear(self, delivery: Delivery, facts: Facts, rules: Rules, place: Place) -> str:
        """Write what follows from the remark in a delivery; in words, what that is."""
        said = delivery.payload.get(PARTS[delivery.event])
        if delivery.action not in _ACTIONS or not isinstance(said, dict) or "id" not in said:
            return ""
        told = from_answer(delivery.event, facts.number, said)
        if delivery.action == "dismissed":
            text = f"The review of {told.author} was dismissed."
            return self._tell(facts, place, told, "dismissed", text)
        answer = self._answer(facts, told, said, delivery.action)
        if answer is None:
            if not self._woke(facts, told):
                return "the remark was deleted"
            return self._tell(facts, place, told, "deleted", f"The remark of {told.author} was deleted.")
        remark = from_answer(delivery.event, facts.number, answer)
        found = heard(
            remark,
            facts,
            rules,
            may_write=self._may_write(facts, remark, rules),
            known=[agent.key for agent in self._service.agents()],
            own=self._own(remark, answer, rules, place),
            paths=self._reader.wanted_paths(facts, rules) if self._reader else (),
            asking=self._asking(place),
            in_a_row=self._in_a_row(facts, remark.author),
        )
        return self._write(facts, place, remark, answer, found)

    def _own(self, remark: Remark, answer: Mapping[str, Any], rules: Rules, place: Place) -> frozenset[str]:
        """The logins that Interlock and agents write as, as far as this remark goes."""
        own = self._reader.own(remark, answer) if self._reader else frozenset()
        if remark.bot or remark.author in own or remark.author in rules.agents:
            return own
        at_us = _time_us(remark.at)
        acts = self._github.acts(place.lane, remark.author, at_us - SKEW_US, at_us + SKEW_US)
        return own | {remark.author} if acts else own

    def _asking(self, place: Place) -> list[str]:
        """The agents that ask people something: what nobody is named in answers them."""
        wanted = ItemFilter(asking=True, lane=place.lane, project=place.project)
        return [item.agent or "" for item in self._service.items(wanted)]

    def _in_a_row(self, facts: Facts, author: str) -> int:
        """How many items the remarks of an author started last, with no other person's remark in between."""
        items = set()
        for each in self._github.consequences(facts.repository, facts.number, TOLD_MAX):
            order = json.loads(each.data)
            wakes = order["do"] == "add" and each.name.split(":")[0] in PARTS
            if not wakes or not order["items"]:
                continue
            first = order["items"][0]
            if first["author"] == author:
                items.add(each.item)
            elif not any(first.get(name) for name in _NO_PERSON):
                break
        return len(items - {None})

    def _answer(
        self, facts: Facts, told: Remark, said: Mapping[str, Any], action: str
    ) -> Mapping[str, Any] | None:
        """The remark as it is now. Reviews are not read again: nobody can delete a submitted one."""
        if self._reader is None or told.kind == "pull_request_review":
            return None if action == "deleted" else said
        return self._reader.remark(told.kind, facts.name, told.id)

    def _may_write(self, facts: Facts, remark: Remark, rules: Rules) -> bool:
        if self._reader is None or remark.author in rules.agents or remark.author == ACTIONS_BOT:
            return False
        return self._reader.may_write(facts.name, remark.author)

    def _write(
        self, facts: Facts, place: Place, remark: Remark, answer: Mapping[str, Any], found: Heard
    ) -> str:
        text, name = _text(remark, answer), _name(remark)
        digest = hashlib.sha256(remark.text.encode(errors="replace")).hexdigest()[:16]
        follows: list[Follows] = []
        if found.wakes or found.told:
            order = _order(facts, place, remark, text, found)
            follows.append(kept(name, {**order, "digest": digest}))
        follows += [
            kept(f"{name}:{n}:{command.name}", _commanded(place, remark, command))
            for n, command in enumerate(found.commands, 1)
        ]
        before = self._woke(facts, remark)
        if follows:
            self._github.add(facts.repository, facts.number, follows)
        if before and before != digest and found.told:
            edited = f"The remark of {remark.author} was edited:\n\n{text}"
            self._tell(facts, place, remark, digest, edited)
        woken = ", ".join(wake.agent or "anyone" for wake in found.wakes)
        if self._reader is None and found.sender.kind is SenderKind.OUTSIDER:
            return f"without a token nobody knows whether {remark.author} may write"
        return f"{remark.author}'s remark is for {woken}" if found.wakes else found.why.rstrip(".")

    def _tell(self, facts: Facts, place: Place, remark: Remark, what: str, text: str) -> str:
        """Tell whoever is there what became of a remark."""
        order = telling(
            place, text, reason=COMMENTED, url=remark.url, author=remark.author, sender=AN_OUTSIDER
        )
        self._github.add(facts.repository, facts.number, [kept(f"{_name(remark)}:{what}", order)])
        return text.partition("\n")[0].rstrip(".:")

    def _woke(self, facts: Facts, remark: Remark) -> str:
        """The digest of a remark that woke somebody; empty of others: some bots edit theirs all day."""
        last = self._github.consequences(facts.repository, facts.number, TOLD_MAX)
        found = (json.loads(each.data) for each in last if each.name == _name(remark))
        return next((str(order["digest"]) for order in found if order["do"] == "add"), "")


def _time_us(at: str) -> int:
    """GitHub's time in the store's form. Without one, a time at which no run that is over was live."""
    try:
        return to_us(datetime.fromisoformat(at).timestamp())
    except (ValueError, OverflowError, OSError):
        return RUN_AT_MAX_US


def _name(remark: Remark) -> str:
    return f"{remark.kind}:{remark.id}"


def _order(facts: Facts, place: Place, remark: Remark, text: str, found: Heard) -> Order:
    rule = found.rule
    if not found.wakes or rule is None:
        return telling(
            place,
            text,
            reason=COMMENTED,
            url=remark.url,
            author=remark.author,
            said=remark.said,
            sender=AN_OUTSIDER,
        )
    items = [
        arrival(
            facts,
            place,
            rule=rule,
            agent=wake.agent,
            priority=found.priority,
            event=f"{remark.kind}.{'submitted' if remark.kind == 'pull_request_review' else 'created'}",
            sender=found.sender,
            message=text,
            reason=wake.reason,
            author=remark.author,
            url=remark.url,
            said=remark.said,
            payload={"comment_id": remark.id},
        )
        for wake in found.wakes
    ]
    return {"do": "add", **place._asdict(), "key": None, "items": items}


def _commanded(place: Place, remark: Remark, command: Command) -> Order:
    said = {"argument": command.argument, "by": remark.author}
    return {"do": "command", "command": command.name, **place._asdict(), **said}


def _text(remark: Remark, answer: Mapping[str, Any]) -> str:
    """What was said; for a comment on a line, where."""
    text = plain(remark.text).strip() or _REVIEWS.get(remark.state, "(nothing)")
    path, line = answer.get("path"), answer.get("line") or answer.get("original_line")
    where = f"On {path}, line {line}:\n\n" if path and line else f"On {path}:\n\n" if path else ""
    return where + text
