"""Turns comments and reviews into messages: each reaches its agents once.

GitHub's number of a remark ensures that it is passed on once. Its text is read again first, so agents get the
newest text whether `created` or `edited` arrives first. They also hear of a later edit or deletion.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from interlock.core.model import AN_OUTSIDER, SenderKind
from interlock.core.names import RUN_AT_MAX_US
from interlock.core.record import replace
from interlock.core.timing import to_us
from interlock.github.delivery import Delivery
from interlock.github.facts import NumberFacts, plain
from interlock.github.lookup import Reader
from interlock.github.orders import (
    AddItems,
    ItemLocation,
    NotifyAgents,
    Order,
    OrderMessage,
    RunCommand,
    read_order,
    work_item,
)
from interlock.github.remarks import ACTIONS_BOT, Remark, from_answer
from interlock.github.rules import Rules
from interlock.github.wake_rules import COMMENTED, RemarkOutcome, remark_outcome
from interlock.service.contract import ItemFilter, Service
from interlock.store.github import GitHubStore, NewOrder

#: Where a payload keeps the remark.
PARTS = {
    "issue_comment": "comment",
    "pull_request_review": "review",
    "pull_request_review_comment": "comment",
}
#: The most recent orders that are searched for an earlier message about the same remark.
TOLD_MAX = 200
_REVIEWS = {
    "approved": "The pull request was approved.",
    "changes_requested": "Changes were requested.",
    "commented": "The pull request was reviewed.",
}
#: GitHub's time of a remark is in whole seconds, and its clock may differ a little from the store's.
SKEW_US = 2_000_000
_ACTIONS = ("created", "submitted", "edited", "deleted", "dismissed")


class RemarkIntake:
    """Processes remarks for one store."""

    def __init__(self, service: Service, github: GitHubStore, reader: Reader | None) -> None:
        self._service, self._github, self._reader = service, github, reader

    def take_in(self, delivery: Delivery, facts: NumberFacts, rules: Rules, place: ItemLocation) -> str:
        """Write the orders for the remark in a delivery; gives the decision in words."""
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
                return "remark deleted"
            return self._tell(facts, place, told, "deleted", f"The remark of {told.author} was deleted.")
        remark = from_answer(delivery.event, facts.number, answer)
        found = remark_outcome(
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

    def _own(
        self, remark: Remark, answer: Mapping[str, Any], rules: Rules, place: ItemLocation
    ) -> frozenset[str]:
        """The logins that Interlock and agents write as, if they matter to this remark."""
        own = self._reader.own(remark, answer) if self._reader else frozenset()
        if remark.bot or remark.author in own or remark.author in rules.agents:
            return own
        at_us = _time_us(remark.at)
        acts = self._github.is_agent_account(place.lane, remark.author, at_us - SKEW_US, at_us + SKEW_US)
        return own | {remark.author} if acts else own

    def _asking(self, place: ItemLocation) -> list[str]:
        """The agents with open questions to people: a remark that names no agent answers them."""
        wanted = ItemFilter(asking=True, lane=place.lane, project=place.project)
        return [item.agent or "" for item in self._service.items(wanted)]

    def _in_a_row(self, facts: NumberFacts, author: str) -> int:
        """How many items an author's last remarks started, without another person's remark in between."""
        items = set()
        for each in self._github.orders(facts.repository, facts.number, TOLD_MAX):
            order = read_order(each.data)
            if not isinstance(order, AddItems) or each.name.split(":")[0] not in PARTS:
                continue
            if order.items[0].message.author == author:
                items.add(each.item)
            elif order.items[0].message.sender.kind is SenderKind.PERSON:
                break
        return len(items - {None})

    def _answer(
        self, facts: NumberFacts, told: Remark, said: Mapping[str, Any], action: str
    ) -> Mapping[str, Any] | None:
        """The current remark. Reviews are not read again, as a submitted one cannot be deleted."""
        if self._reader is None or told.kind == "pull_request_review":
            return None if action == "deleted" else said
        return self._reader.remark(told.kind, facts.name, told.id)

    def _may_write(self, facts: NumberFacts, remark: Remark, rules: Rules) -> bool:
        if self._reader is None or remark.author in rules.agents or remark.author == ACTIONS_BOT:
            return False
        return self._reader.may_write(facts.name, remark.author)

    def _write(
        self,
        facts: NumberFacts,
        place: ItemLocation,
        remark: Remark,
        answer: Mapping[str, Any],
        found: RemarkOutcome,
    ) -> str:
        text, name = _text(remark, answer), _name(remark)
        digest = hashlib.sha256(remark.text.encode(errors="replace")).hexdigest()[:16]
        rows: list[NewOrder] = []
        if found.wakes or found.told:
            rows.append(_order(facts, place, remark, text, digest, found).row(name))
        for n, command in enumerate(found.commands, 1):
            order = RunCommand(place=place, command=command.name, argument=command.argument, by=remark.author)
            rows.append(order.row(f"{name}:{n}:{command.name}"))
        before = self._woke(facts, remark)
        if rows:
            self._github.add(facts.repository, facts.number, rows)
        if before and before != digest and found.told:
            edited = f"The remark of {remark.author} was edited:\n\n{text}"
            self._tell(facts, place, remark, digest, edited)
        woken = ", ".join(wake.agent or "anyone" for wake in found.wakes)
        if self._reader is None and found.sender.kind is SenderKind.OUTSIDER:
            return f"write access of {remark.author} unknown: no token"
        return f"remark of {remark.author} wakes {woken}" if found.wakes else found.why.rstrip(".")

    def _tell(self, facts: NumberFacts, place: ItemLocation, remark: Remark, what: str, text: str) -> str:
        """Tell the agents on the lane that a remark was edited or deleted."""
        order = NotifyAgents(place=place, message=_message(remark, text))
        self._github.add(facts.repository, facts.number, [order.row(f"{_name(remark)}:{what}")])
        return text.partition("\n")[0].rstrip(".:")

    def _woke(self, facts: NumberFacts, remark: Remark) -> str:
        """The digest of a remark that woke an agent. It is empty for others, as some bots edit theirs all
        day."""
        last = self._github.orders(facts.repository, facts.number, TOLD_MAX)
        found = (read_order(each.data) for each in last if each.name == _name(remark))
        return next((order.digest for order in found if isinstance(order, AddItems)), "")


def _time_us(at: str) -> int:
    """GitHub's time in the store's form. A missing time becomes one at which no ended run was live."""
    try:
        return to_us(datetime.fromisoformat(at).timestamp())
    except (ValueError, OverflowError, OSError):
        return RUN_AT_MAX_US


def _name(remark: Remark) -> str:
    return f"{remark.kind}:{remark.id}"


def _order(
    facts: NumberFacts, place: ItemLocation, remark: Remark, text: str, digest: str, found: RemarkOutcome
) -> Order:
    rule, message = found.rule, replace(_message(remark, text), said=remark.said)
    if not found.wakes or rule is None:
        return NotifyAgents(place=place, message=message, digest=digest)
    items = tuple(
        work_item(
            facts,
            place,
            rule=rule,
            agent=wake.agent,
            priority=found.priority,
            event=f"{remark.kind}.{'submitted' if remark.kind == 'pull_request_review' else 'created'}",
            message=replace(message, reason=wake.reason, sender=found.sender),
            payload={"comment_id": remark.id},
        )
        for wake in found.wakes
    )
    return AddItems(place=place, items=items, digest=digest)


def _message(remark: Remark, text: str) -> OrderMessage:
    """A message about a remark, which starts no work."""
    return OrderMessage(text=text, reason=COMMENTED, url=remark.url, author=remark.author, sender=AN_OUTSIDER)


def _text(remark: Remark, answer: Mapping[str, Any]) -> str:
    """The text of a remark, with its place if it is on a line."""
    text = plain(remark.text).strip() or _REVIEWS.get(remark.state, "(nothing)")
    path, line = answer.get("path"), answer.get("line") or answer.get("original_line")
    where = f"On {path}, line {line}:\n\n" if path and line else f"On {path}:\n\n" if path else ""
    return where + text
