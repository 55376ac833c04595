"""The orders for a number: one class per kind, stored as JSON until an executor carries them out.

Several processes may carry out the orders of a number at once, and each may die between two steps. So every
order is idempotent. An arrival has a dedupe key made of the order's name. An order ends only items that
existed before a later order was carried out. A priority is set to the newest one wanted.

An order that this version cannot read is kept and waits for a person.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from interlock.core.errors import InvalidInput, ItemEnded
from interlock.core.model import A_PERSON, ABSORBING, OUR_BOT, NewItem, Policy, Reason, Sender, SenderKind
from interlock.core.names import check_name, safe_name
from interlock.core.record import Record, as_dict, replace
from interlock.core.row import NamedTuple
from interlock.core.tracing import with_parent
from interlock.github.effects import Comment, IssueRef, LaneStatus
from interlock.github.facts import NumberFacts
from interlock.github.remarks import COMMANDS
from interlock.github.rules import CHECKS, FAILED, Rule, lane_of
from interlock.service.contract import ItemFilter
from interlock.service.item_fields import stated_sender, type_defaults, whole
from interlock.service.item_view import ItemView
from interlock.settings import TypeDefaults
from interlock.store.github import GitHubStore, KnownRepository, NewOrder
from interlock.store.outbox import Effect

if TYPE_CHECKING:
    from interlock.github.order_executor import Execution

#: The most items of a lane that are read, and that the answer to a command lists.
ITEMS_MAX, SHOWN_MAX = 1_000, 20
#: The most orders of a number that are searched for its failed checks.
REMEMBERED_MAX = 200
#: The most other pull requests for the same issues whose lane status is refreshed.
RIVALS_MAX = 100
#: The `traceparent` of the current decision; empty if it is not traced.
PARENT: ContextVar[str] = ContextVar("parent", default="")
_SENDERS = {
    SenderKind.PERSON: "from_person",
    SenderKind.BOT: "from_bot",
    SenderKind.SYSTEM: "from_system",
    SenderKind.OUTSIDER: "from_outsider",
}
#: The reasons of cancelled items that were never work.
_NO_WORK = (Reason.OWN_MESSAGE, Reason.OUTSIDER)
NONE_OPEN = "no open items"


class ItemLocation(NamedTuple):
    """The project of a number's items, and their lane unless a rule sets another."""

    project: str
    lane: str


class WorkKey(NamedTuple):
    """The key that distinguishes the items of one number."""

    type: str
    #: The key of an agent; empty for anyone.
    agent: str


class FailedCheck(NamedTuple):
    """A failure of a check, by its growing number at GitHub."""

    check: str
    id: int
    sha: str


def item_location(repository: KnownRepository, number: int) -> ItemLocation:
    """The location under the repository's first known name, so that a rename opens no second lane."""
    project = lane_repository(repository)
    return ItemLocation(project, f"issue:{project}#{number}")


def lane_repository(repository: KnownRepository) -> str:
    """The name of a repository's lanes, changed where it would not be a valid lane name."""
    try:
        return check_name("project", repository.lane_name)
    except InvalidInput:
        owner, _, name = repository.lane_name.partition("/")
        return f"{safe_name(owner)}/{safe_name(name)}.{repository.id}"


class OrderMessage(Record):
    """An order's message to an agent, its reason and its sender."""

    text: str
    reason: str
    url: str
    author: str = ""
    #: See `NewItem.said`.
    said: str = ""
    sender: Sender = OUR_BOT

    def fields(self) -> dict[str, Any]:
        """Its fields under the names that an item uses."""
        parts = as_dict(self)
        return {"message": parts.pop("text"), **parts}

    def data(self) -> dict[str, Any]:
        data = self.fields()
        return data | _sender_data(data.pop("sender"))

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        given = {name: data[name] for name in cls.PARTS if name in data}
        return cls(**{**given, "text": data["message"], "sender": _sender(data)})


class WorkItem(Record):
    """An item that a number should have, with a message that says why; from a rule's decision to its
    arrival."""

    title: str
    project: str
    type: str
    #: The key of an agent; empty for anyone.
    agent: str
    #: None for no lane.
    lane: str | None
    policy: str
    #: Whether no rule names a policy, so that the settings of the service may choose one.
    policy_open: bool = False
    priority: int | None = None
    timeout_s: float | None = None
    payload: Mapping[str, Any] | None = None
    message: OrderMessage

    def arrival(self, dedupe_key: str, types: Mapping[str, TypeDefaults]) -> NewItem:
        """The arrival of this item. The settings of its type fill in missing fields."""
        given = {name: value for name, value in as_dict(self).items() if value is not None}
        given |= {
            **self.message.fields(),
            "policy": Policy(self.policy),
            "no_lane": self.lane is None,
            "payload": None if self.payload is None else json.dumps(self.payload, ensure_ascii=False),
            "dedupe_key": dedupe_key,
        }
        return NewItem(**{**type_defaults(types, self.type), **given})

    def data(self) -> dict[str, Any]:
        """Its fields, as `interlock add` reads them from a line, without the empty ones."""
        data = as_dict(self) | {"no_lane": self.lane is None, **self.message.data()}
        return {name: value for name, value in data.items() if value is not None and value is not False}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        given = {name: data[name] for name in cls.PARTS if name in data}
        return cls(**{**given, "lane": data.get("lane"), "message": OrderMessage.from_data(data)})


def work_item(
    facts: NumberFacts,
    place: ItemLocation,
    *,
    rule: Rule,
    agent: str,
    priority: int,
    event: str,
    message: OrderMessage,
    title: str = "",
    payload: Mapping[str, Any] | None = None,
) -> WorkItem:
    """The item that a rule creates for a number; a branch has no number."""
    number = {"pr_number" if facts.pull else "issue_number": facts.number} if facts.number else {}
    described = {
        "event_type": event,
        "repository": facts.name,
        **number,
        "title": facts.title,
        "author": facts.author,
        "url": facts.url,
        "labels": facts.labels,
        **(payload or {}),
    }
    return WorkItem(
        title=(title or f"#{facts.number} {facts.title}".strip())[:500],
        project=place.project,
        type=rule.type,
        agent=agent,
        lane=lane_of(rule, place.project, facts.number, own=place.lane),
        policy=rule.policy,
        policy_open=not rule.policy_named,
        priority=priority,
        timeout_s=rule.timeout_s,
        payload=described,
        message=message if message.url else replace(message, url=facts.url),
    )


#: The kinds of orders, by their name in JSON.
ORDERS: dict[str, type[Order]] = {}


class Order(Record, ABC):
    """An order to carry out for a number."""

    #: Its name in JSON.
    do = ""
    place: ItemLocation

    def __init_subclass__(cls, *, do: str = "") -> None:
        super().__init_subclass__()
        if do:
            cls.do, ORDERS[do] = do, cls

    def row(self, name: str) -> NewOrder:
        """The row that is stored until the order is carried out. A number has each name once."""
        return NewOrder(name, json.dumps(self.data()))

    def data(self) -> dict[str, Any]:
        parts = as_dict(self)
        return {"do": self.do, **parts.pop("place")._asdict(), **parts}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        given = {part: data[part] for part in cls.PARTS if part in data}
        if given.get("key") is not None:
            given["key"] = WorkKey(*given["key"])
        return cls(**{**given, "place": ItemLocation(data["project"], data["lane"])})

    @abstractmethod
    def carry_out(self, execution: Execution) -> OrderResult:
        """Do what the order says."""

    def effects(self, execution: Execution, outcome: str) -> list[Effect]:  # noqa: ARG002  (few have any)
        """The effects that are enqueued for GitHub when the order ends."""
        return []


def numbered(revision: int, orders: Iterable[Order]) -> list[NewOrder]:
    """The rows of a revision's orders, each with a name that is unique in the revision."""
    return [order.row(f"{revision}.{n}:{order.do}") for n, order in enumerate(orders, 1)]


class OrderResult(NamedTuple):
    """The outcome of an order, and the item that it created or that got its message."""

    outcome: str
    item: int | None = None


class UnreadableOrder(Order):
    """An order of a newer version, or an invalid one."""

    do: str
    why: str

    def carry_out(self, execution: Execution) -> OrderResult:  # noqa: ARG002
        raise InvalidInput(f"This version of Interlock cannot carry out an order '{self.do}': {self.why}.")


class AddItems(Order, do="add"):
    """Add arrivals in one transaction."""

    #: The key of the only item; None if a remark or a check wants it.
    key: WorkKey | None = None
    items: Sequence[WorkItem]
    failed: FailedCheck | None = None
    #: The digest of the remark that wakes agents.
    digest: str = ""

    @property
    def elsewhere(self) -> bool:
        """Whether a rule has put an item on another lane than the number's, or on none."""
        return self.items[0].lane != self.place.lane

    @property
    def keys(self) -> list[str]:
        """The names of its items, so that each is added once."""
        return [str(n) for n in range(len(self.items))]

    def row(self, name: str) -> NewOrder:
        if not (parent := PARENT.get()):
            return super().row(name)
        items = [replace(each, payload=with_parent(each.payload, parent)) for each in self.items]
        return super(AddItems, replace(self, items=items)).row(name)

    def data(self) -> dict[str, Any]:
        data = super().data() | {"items": [each.data() for each in self.items]}
        data["failed"] = None if self.failed is None else self.failed._asdict()
        return {name: value for name, value in data.items() if value or name == "key"}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        failed = data.get("failed")
        given = {
            "items": tuple(map(WorkItem.from_data, data["items"])),
            "failed": None if failed is None else FailedCheck(failed["check"], failed["id"], failed["sha"]),
        }
        return super().from_data({**data, **given})

    def carry_out(self, execution: Execution) -> OrderResult:
        views = execution.add(self.items, self.keys)
        told = [view.item and execution.absorber(view.item) for view in views]
        if self.key is not None and told[0] is not None:
            execution.set_priority(self.key, told[0], self.items[0].priority or 0)
        waits_for = execution.facts().waits_for if self.elsewhere else ()
        for item in filter(None, told):
            for blocker in waits_for:
                execution.set_block({"item": item.id}, blocker, "", blocked=True)
        words = (
            f"{view.decision}: {view.reason}" if item is None else f"item {item.id} {view.decision}"
            for view, item in zip(views, told, strict=True)
        )
        return OrderResult(", ".join(words), next((item.id for item in told if item), None))


class NotifyAgents(Order, do="tell"):
    """Send a message to every agent with an open item on the lane. It starts no work."""

    message: OrderMessage
    #: The digest of the remark that is passed on.
    digest: str = ""

    def data(self) -> dict[str, Any]:
        data = super().data() | self.message.data()
        if not self.digest:
            del data["digest"]
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        return super().from_data({**data, "message": OrderMessage.from_data(data)})

    def carry_out(self, execution: Execution) -> OrderResult:
        open_items = {(item.agent or "", item.policy): item for item in execution.open_items(self.place)}
        if not open_items:
            return OrderResult(NONE_OPEN)
        items = [
            WorkItem(
                title=item.title,
                project=self.place.project,
                type=item.type,
                agent=agent,
                lane=self.place.lane,
                policy=policy if policy in ABSORBING else Policy.COALESCE,
                message=self.message,
            )
            for (agent, policy), item in open_items.items()
        ]
        views = execution.add(items, [agent for agent, _ in open_items])
        told = [execution.absorber(view.item).id for view in views if view.item]
        words = dict.fromkeys(f"item {item} notified" for item in told)
        return OrderResult(", ".join(words), next(iter(told), None))


class WithdrawWork(Order, do="withdraw"):
    """End the open items of a key, or all items of the number. Items that have not started are cancelled."""

    #: None means all.
    key: WorkKey | None
    reason: str
    #: Whether a running run is asked to stop. Otherwise it continues, and is not retried.
    stop: bool
    url: str

    def carry_out(self, execution: Execution) -> OrderResult:
        everywhere = execution.open_everywhere(self.place)
        wanted = {} if execution.facts().open else execution.wanted()  # by rules for the end of a number
        there = [
            item
            for item in everywhere
            if (key_of(item) not in wanted if self.key is None else key_of(item) == self.key)
        ]
        if not execution.is_pending():
            return OrderResult("")  # another process was first, and the current items may be newer
        why = f"{self.reason}: {self.url}" if self.url else self.reason
        return execution.withdraw(((item, self.key) for item in there), why, stop=self.stop)


class WithdrawRecovered(Order, do="recover"):
    """End work for failed checks: one has passed, or the pull request has a new head. Runs continue."""

    reason: str
    url: str
    head: str = ""
    check: str = ""
    id: int = 0

    def data(self) -> dict[str, Any]:
        other = ("check", "id") if self.head else ("head",)
        return {name: value for name, value in super().data().items() if name not in other}

    def is_over(self, failure: FailedCheck) -> bool:
        if self.head:
            return failure.sha != self.head
        return failure.check == self.check and failure.id <= self.id

    def carry_out(self, execution: Execution) -> OrderResult:
        there = [execution.service.show(item.id) for item in execution.open_everywhere(self.place)]
        still_failing = failing(orders_of(execution.github, execution.number), self.place.lane)
        if not execution.is_pending():
            return OrderResult("")
        recovered = []
        for shown in there:
            told = (shown.item.payload, *(each.payload for each in shown.messages))
            checks = {failed_check(each) for each in told}
            if failed_check(shown.item.payload) and not checks & set(still_failing):
                recovered.append((shown.item, key_of(shown.item)))
        return execution.withdraw(recovered, f"{self.reason}: {self.url}", stop=False)


class AdjustPriority(Order, do="adjust"):
    """Change the priority of the items of a key."""

    key: WorkKey
    priority: int

    def carry_out(self, execution: Execution) -> OrderResult:
        there = [item for item in execution.open_everywhere(self.place) if key_of(item) == self.key]
        for item in there:
            execution.set_priority(self.key, item, self.priority)
        return OrderResult(", ".join(f"item {item.id}" for item in there) or NONE_OPEN)


class UpdateBlocks(Order, do="block"):
    """Let work wait for these issues, or no longer, by the number's facts at execution."""

    blockers: Sequence[str]
    url: str

    def carry_out(self, execution: Execution) -> OrderResult:
        waits = execution.facts()
        while True:
            now = [each for each in self.blockers if each in waits.waits_for]
            targets: list[dict[str, Any]] = [{"lane": self.place.lane}]
            targets += [{"item": item.id} for item in execution.elsewhere()]
            for target in targets:
                for each in self.blockers:
                    execution.set_block(target, each, self.url, blocked=each in now)
            newest = execution.facts()  # another process may have carried out a later order meanwhile
            if newest.waits_for == waits.waits_for:
                break
            waits = newest
        stopped = self._stopped(execution) if waits.blockers else []
        waits_for = f"waits for {', '.join(now)}" if now else "no longer blocked"
        return OrderResult(
            ", ".join((waits_for, *(f"item {item.id} stopped until then" for item in stopped)))
        )

    def _stopped(self, execution: Execution) -> list[ItemView]:
        """Take back items from their running runs. A hosted agent's run continues, as Interlock cannot stop
        it."""
        running = (item for item in execution.open_everywhere(self.place) if item.run is not None)
        return [item for item in running if not item.external and execution.take_back(item)]


class ShowLanes(Order, do="show"):
    """Refresh the lane status of the pull request and of others for the same issues."""

    issues: Sequence[int]

    def carry_out(self, execution: Execution) -> OrderResult:  # noqa: ARG002
        return OrderResult("lane statuses enqueued")

    def effects(self, execution: Execution, outcome: str) -> list[Effect]:  # noqa: ARG002
        here = execution.number
        found = execution.github.pulls_closing(here.repository, self.issues, RIVALS_MAX)
        pulls = dict.fromkeys((here.number, *(pull for _, pull in found)))
        name = f"lane@{here.number}.{execution.name}"
        return [LaneStatus().row(here._replace(number=pull), name) for pull in pulls]


class RunCommand(Order, do="command"):
    """A person's command `/interlock …`. A comment answers it."""

    command: str
    argument: str
    by: str

    def carry_out(self, execution: Execution) -> OrderResult:
        match self.command:
            case "cancel":
                return self._cancel(execution)
            case "retry":
                return self._retry(execution)
            case "priority":
                return self._prioritise(execution)
            case "why":
                return self._why(execution)
            case "status":
                return self._status(execution)
            case "ask":
                return self._questions(execution)
            case other:
                return OrderResult(f"There is no command {other}. Use {', '.join(COMMANDS)}.")

    def effects(self, execution: Execution, outcome: str) -> list[Effect]:
        said = f"> /interlock {self.command} {self.argument}".rstrip()
        reply = Comment(text=f"{said}\n\n{outcome[:1].upper()}{outcome[1:]}")
        return [reply.row(execution.number, f"reply:{execution.name}")]

    def _why(self, execution: Execution) -> OrderResult:
        found = execution.open_items(self.place)[:SHOWN_MAX]
        lines = (f"- {_named(item)}: {execution.service.why(item.id).why}" for item in found)
        return OrderResult("\n".join(lines) or NONE_OPEN)

    def _status(self, execution: Execution) -> OrderResult:
        lines = []
        for item in execution.open_items(self.place)[:SHOWN_MAX]:
            by = f", run {item.run} of {item.run_agent}" if item.run is not None else ""
            lines.append(f"- {_named(item)}: {item.status} ({item.reason}){by}, priority {item.priority}")
        return OrderResult("\n".join(lines) or NONE_OPEN)

    def _questions(self, execution: Execution) -> OrderResult:
        """The agents' questions to people about this number."""
        wanted = ItemFilter(**self.place._asdict(), asking=True, limit=SHOWN_MAX)
        lines = (f"- {_named(item)} asks: {item.question}" for item in execution.service.items(wanted))
        return OrderResult("\n".join(lines) or "no open questions")

    def _cancel(self, execution: Execution) -> OrderResult:
        there = execution.open_items(self.place)
        if not execution.is_pending():
            return OrderResult("")
        ended = (item.id for item in there if execution.cancel(item, "/interlock cancel", by=self.by))
        return OrderResult(", ".join(f"item {item} cancelled" for item in ended) or NONE_OPEN)

    def _retry(self, execution: Execution) -> OrderResult:
        wanted = ItemFilter(**self.place._asdict(), statuses=("failed", "cancelled"), limit=ITEMS_MAX)
        found = [item for item in execution.service.items(wanted) if item.reason not in _NO_WORK]
        if not found:
            return OrderResult("no failed or cancelled items")
        item = found[-1].id
        try:
            execution.service.retry(item, why="/interlock retry", by=self.by)
        except ItemEnded as refused:
            return OrderResult(refused.sentence, item)
        return OrderResult(f"item {item} retried", item)

    def _prioritise(self, execution: Execution) -> OrderResult:
        try:
            changes = {"priority": whole("priority", self.argument)}
            there = [item for item in execution.open_items(self.place) if execution.edit(item, changes)]
        except InvalidInput as wrong:
            return OrderResult(wrong.sentence)
        words = (f"item {item.id} has priority {changes['priority']}" for item in there)
        return OrderResult(", ".join(words) or "no waiting items")


def read_order(data: str) -> Order:
    """The order in a row; an `UnreadableOrder` if this version cannot read it."""
    found = json.loads(data)
    do = str(found.get("do"))
    try:
        return ORDERS[do].from_data(found)
    except (LookupError, TypeError, ValueError, InvalidInput) as error:
        why = "it is of a newer version" if do not in ORDERS else f"{type(error).__name__}: {error}"
        return UnreadableOrder(place=ItemLocation("", ""), do=do, why=why)


def orders_of(github: GitHubStore, number: IssueRef) -> list[Order]:
    """The last orders of a number, oldest first, whether carried out or not."""
    found = github.orders(*number, REMEMBERED_MAX)
    return [read_order(each.data) for each in reversed(found)]


# Failed checks


def failing(orders: Iterable[Order], lane: str) -> dict[str, FailedCheck]:
    """The checks of a lane that have failed and not recovered, by orders, the oldest first."""
    found: dict[str, FailedCheck] = {}
    for order in orders:
        if order.place.lane != lane:
            continue
        if isinstance(order, AddItems) and order.failed is not None:
            new = order.failed
            found[new.check] = max(new, found.get(new.check, new))
        if isinstance(order, WithdrawRecovered):
            found = {check: known for check, known in found.items() if not order.is_over(known)}
    return found


def failed_check(payload: Mapping[str, Any] | None) -> str:
    """The failed check of an item or a message; empty if there is none."""
    told = payload or {}
    failed = is_about_check(told) and told.get("conclusion", FAILED[0]) in FAILED
    return str(told.get("check") or "") if failed else ""


def is_about_check(payload: Mapping[str, Any] | None) -> bool:
    return (payload or {}).get("event_type") in CHECKS


def key_of(item: ItemView) -> WorkKey:
    return WorkKey(item.type, item.agent or "")


def _named(item: ItemView) -> str:
    return f"item {item.id} ({item.type}{f' for {item.agent}' if item.agent else ''})"


def _sender_data(sender: Sender) -> dict[str, object]:
    """A sender as a field of an item."""
    agent = sender.kind is SenderKind.AGENT
    return {"from_agent": sender.agent} if agent else {_SENDERS[sender.kind]: True}


def _sender(data: Mapping[str, Any]) -> Sender:
    given = {name: data.get(name) for name in (*_SENDERS.values(), "from_agent")}
    return stated_sender(**given) or A_PERSON
