"""Carries out the orders of a number, in the order in which they were written, through the service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from interlock.core.errors import EditRefused, InterlockError, InvalidInput, ItemEnded, NotFound
from interlock.core.model import NewItem, Reason
from interlock.core.names import NAME_MAX_CHARS
from interlock.core.record import Record
from interlock.core.states import TERMINAL
from interlock.core.timing import doubled_s
from interlock.github import facts as facts_of
from interlock.github.desired_work import Wanted, wanted_from_json
from interlock.github.effects import IssueRef
from interlock.github.facts import NumberFacts
from interlock.github.orders import (
    ITEMS_MAX,
    NONE_OPEN,
    AddItems,
    ItemLocation,
    Order,
    OrderResult,
    WorkItem,
    WorkKey,
    is_about_check,
    key_of,
    read_order,
)
from interlock.service.contract import AddView, ItemFilter, Service
from interlock.service.item_view import ItemView
from interlock.settings import TypeDefaults
from interlock.store.port import Store

#: The most orders of one number that are carried out in one go.
ORDERS_MAX = 100
TRIES_MAX = 12
_WAIT_FIRST_S, _WAIT_MAX_S = 5.0, 3_600.0
#: The most arrivals of several orders that share a transaction.
TOGETHER_MAX = 100
#: The actor in the history.
BY = "github"


class OrderOutcome(Record):
    """The result of an order that was carried out or postponed."""

    name: str
    #: The kind of order, such as `add`: see `orders`.
    do: str
    item: int | None
    outcome: str
    #: Whether it could not be carried out, and is retried later or waits for a person.
    put_off: bool = False


_DueOrder: TypeAlias = "tuple[Order, Execution]"


class OrderExecutor:
    """Carries out orders on one store."""

    def __init__(self, service: Service, store: Store, types: Mapping[str, TypeDefaults]) -> None:
        self._service, self._store, self._types = service, store, types

    def carry_out(self, repository: int, number: int) -> list[OrderOutcome]:
        """Carry out a number's due orders. A postponed order holds up later ones."""
        return self.carry_out_all([(repository, number)])

    def carry_out_all(self, numbers: Iterable[tuple[int, int]]) -> list[OrderOutcome]:
        """Carry out the due orders of numbers. The arrivals of all that begin with some share a
        transaction."""
        now_us = self._store.now_us()
        due = [orders for number in numbers if (orders := self._due(IssueRef(*number), now_us))]
        self._add_together([orders[0] for orders in due])
        done = self._done_together([orders[0] for orders in due if orders[0][1].added is not None])
        for orders in due:
            of_number = done.setdefault(orders[0][1].number, [])
            for order, execution in orders[len(of_number) :]:
                if of_number and of_number[-1].put_off:
                    break
                of_number.append(self._done(order, execution))
        return [each for of_number in done.values() for each in of_number]

    def _due(self, number: IssueRef, now_us: int) -> list[_DueOrder]:
        """The due orders of a number, up to one that was postponed."""
        due: list[_DueOrder] = []
        for each in self._store.github.pending_orders(*number, ORDERS_MAX):
            if each.due_us > now_us:
                break
            execution = Execution(self._service, self._store, self._types, number, each.name)
            due.append((read_order(each.data), execution))
        return due

    def _add_together(self, orders: Sequence[_DueOrder]) -> None:
        """Add the arrivals of several orders in one transaction. Each order then finds its own; if they
        cannot be added together, each adds them itself."""
        adding = [(order, execution) for order, execution in orders if isinstance(order, AddItems)]
        if not 1 < sum(len(order.items) for order, _ in adding) <= TOGETHER_MAX:
            return
        try:
            new = [execution.arrivals(order.items, order.keys) for order, execution in adding]
            views = iter(self._service.add([item for each in new for item in each]))
        except (InterlockError, LookupError, TypeError):  # the order itself says what is wrong with it
            return
        for (_, execution), each in zip(adding, new, strict=True):
            execution.added = list(islice(views, len(each)))

    def _done_together(self, orders: Sequence[_DueOrder]) -> dict[IssueRef, list[OrderOutcome]]:
        """Carry out orders whose arrivals were added, and record that in one transaction."""
        done = [(execution.number, *self._carried_out(order, execution)) for order, execution in orders]
        for recorded in self._store.together([record for *_, record in done]):
            if recorded.error is not None:
                raise recorded.error
        return {number: [outcome] for number, outcome, _ in done}

    def _done(self, order: Order, execution: Execution) -> OrderOutcome:
        outcome, record = self._carried_out(order, execution)
        record()
        return outcome

    def _carried_out(self, order: Order, execution: Execution) -> tuple[OrderOutcome, Callable[[], object]]:
        """Carry out an order; gives its outcome, which is still to be recorded."""
        github, name = self._store.github, execution.name
        try:
            outcome, item = order.carry_out(execution)
        except (InvalidInput, NotFound, LookupError, TypeError) as error:  # a retry would fail the same way
            why = error.sentence if isinstance(error, InterlockError) else f"{type(error).__name__}: {error}"
            put_off = OrderOutcome(name=name, do=order.do, item=None, outcome=why, put_off=True)
            return put_off, partial(github.put_off, *execution.number, name, None, why)
        effects = order.effects(execution, outcome)
        done = OrderOutcome(name=name, do=order.do, item=item, outcome=outcome)
        return done, partial(
            github.carry_out, *execution.number, name, item=item, outcome=outcome, effects=effects
        )


class Execution:
    """The execution of one order: what it can read and change."""

    def __init__(
        self,
        service: Service,
        store: Store,
        types: Mapping[str, TypeDefaults],
        number: IssueRef,
        name: str,
    ) -> None:
        self.service, self.github = service, store.github
        self._types = types
        self.number, self.name = number, name
        #: Its arrivals, if they were added together with those of other orders.
        self.added: list[AddView] | None = None

    # The number

    def facts(self) -> NumberFacts:
        known = self.github.known(*self.number)
        assert known is not None
        return facts_of.from_json(json.loads(known.facts))

    def wanted(self) -> Mapping[WorkKey, Wanted]:
        known = self.github.known(*self.number)
        return wanted_from_json(known.wanted) if known is not None else {}

    def is_pending(self) -> bool:
        """Whether no other process has meanwhile carried out this order or a later one."""
        return any(
            pending.name == self.name for pending in self.github.pending_orders(*self.number, ORDERS_MAX)
        )

    # Its items

    def open_items(self, place: ItemLocation) -> list[ItemView]:
        """The open items of a number: those of its project on its lane."""
        return self.service.items(ItemFilter(**place._asdict(), limit=ITEMS_MAX))

    def elsewhere(self) -> list[ItemView]:
        """Open items that a rule has put on another lane, or on none."""
        last = self.github.orders(*self.number, ORDERS_MAX)
        made = ((each.item, read_order(each.data)) for each in last if each.item is not None)
        items = dict.fromkeys(item for item, order in made if isinstance(order, AddItems) and order.elsewhere)
        found = [self.service.show(item).item for item in items]
        return [item for item in found if item.status not in TERMINAL]

    def open_everywhere(self, place: ItemLocation) -> list[ItemView]:
        return [*self.open_items(place), *self.elsewhere()]

    def add(self, items: Sequence[WorkItem], keys: Sequence[str]) -> list[AddView]:
        """Add arrivals in one transaction, each once by its key."""
        return self.added if self.added is not None else self.service.add(self.arrivals(items, keys))

    def arrivals(self, items: Sequence[WorkItem], keys: Sequence[str]) -> list[NewItem]:
        """Items as arrivals, each with its key."""
        named = zip(items, keys, strict=True)
        return [item.arrival(self._dedupe_key(key), self._types) for item, key in named]

    def _dedupe_key(self, part: str) -> str:
        """The dedupe key, which is the same on each try of the order."""
        repository, number = self.number
        key = f"github:{repository}:{number}:{self.name}:{part or '-'}"
        if len(key) <= NAME_MAX_CHARS:
            return key
        return f"{key[:100]}:{hashlib.sha256(key.encode()).hexdigest()[:32]}"

    def absorber(self, item: ItemView) -> ItemView:
        """The item that got an arrival's message. The answer to a repeated arrival names only the arrival."""
        while item.absorbed_by is not None:
            item = self.service.show(item.absorbed_by).item
        return item

    def _also_wanted(self, item: ItemView, gone: WorkKey) -> WorkKey | None:
        """Other work that an item took on as messages: still wanted, or from a person or a check."""
        wanted = self.wanted()
        for message in self.service.show(item.id).messages:
            if message.origin is not None and message.origin != item.id:
                key = key_of(self.service.show(message.origin).item)
                checked = is_about_check(message.payload)
                if key != gone and (key in wanted or message.author or checked):
                    return key
        return None

    def withdraw(
        self, items: Iterable[tuple[ItemView, WorkKey | None]], why: str, *, stop: bool
    ) -> OrderResult:
        """End items, unless they have taken on other work than `gone`. None means that all work is gone."""
        words = []
        for item, gone in items:
            other = None if gone is None else self._also_wanted(item, gone)
            # Whether its run was asked to stop, so that the item ends with the run.
            ends = item.cancel_requested and item.cancel_reason != Reason.SERIES_QUEUED
            if other is not None:
                self.edit(item, {"type": other.type})
                words.append(f"item {item.id} kept for {other.type}")
            elif item.run is not None and not stop:
                words.append(f"item {item.id} keeps running")
            elif not ends and self.cancel(item, why):
                words.append(f"item {item.id} {'asked to stop' if item.run else 'cancelled'}")
        return OrderResult(", ".join(words) or NONE_OPEN)

    def set_priority(self, key: WorkKey, item: ItemView, priority: int) -> None:
        """Give an item the wanted priority. If it also does other work, its priority only rises."""
        if key_of(item) != key:
            if priority > item.priority:
                self.edit(item, {"priority": priority})
            return
        has = item.priority
        while has != priority:
            self.edit(item, {"priority": priority})
            has, newest = priority, self.wanted().get(key)
            priority = priority if newest is None else newest.priority

    def set_block(self, target: Mapping[str, Any], blocker: str, url: str, *, blocked: bool) -> None:
        with suppress(ItemEnded):
            if blocked:
                self.service.block(**target, blocker=blocker, why="open on GitHub", url=url, by=BY)
            else:
                self.service.unblock(**target, blocker=blocker, by=BY)

    def edit(self, item: ItemView, changes: Mapping[str, Any]) -> bool:
        """Change an item that has not started. A started item is unchanged."""
        try:
            self.service.edit(item.id, changes, by=BY)
        except (ItemEnded, EditRefused):
            return False
        return True

    def cancel(self, item: ItemView, why: str, by: str = BY) -> bool:
        try:
            self.service.cancel(item.id, why=why, by=by)
        except ItemEnded:
            return False
        return True

    def take_back(self, item: ItemView) -> bool:
        try:
            self.service.take_back(item.id, why="Its issue is blocked on GitHub.", by=BY)
        except ItemEnded:
            return False
        return True


def back_off_s(tries: int) -> float:
    """The wait before the next try. It doubles with each failure, up to a limit."""
    return doubled_s(_WAIT_FIRST_S, tries, _WAIT_MAX_S)
