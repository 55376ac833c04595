"""Carries out what is owed for a number, in order, through the service; each thing once.

Several processes may do so at the same time, and any of them may die between two steps. So an arrival has a
dedupe key made of the order's name, and whatever else is done may be done twice: it ends only items that
were there before anything later was carried out, and sets a priority to the newest that is wanted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from interlock.core.errors import EditRefused, InterlockError, InvalidInput, ItemEnded, NotFound
from interlock.core.model import ABSORBING, NewItem, Policy, Reason
from interlock.core.names import NAME_MAX_CHARS
from interlock.core.record import Record, replace
from interlock.core.states import TERMINAL
from interlock.github import check_events, owing
from interlock.github import facts as facts_of
from interlock.github.facts import Facts
from interlock.github.orders import Order, wanted_from_json
from interlock.github.remarks import COMMANDS
from interlock.github.wanted import Key
from interlock.service.contract import AddView, ItemFilter, Service
from interlock.service.intake import new_item, whole
from interlock.service.itemview import ItemView
from interlock.settings import TypeDefaults
from interlock.store.github_port import GitHubStore, Owed
from interlock.store.outbox_port import Effect
from interlock.store.port import Store

#: How many orders of one number are carried out in one go, and how many items of a lane are looked at.
ORDERS_MAX, ITEMS_MAX = 100, 1_000
#: Among how many orders of a number its failed checks are looked for.
REMEMBERED_MAX = 200
#: How many items an answer to a command lists.
SHOWN_MAX = 20
TRIES_MAX = 12
_WAIT_FIRST_S, _WAIT_MAX_S = 5.0, 3_600.0
#: Who did it, in the history.
BY = "github"
#: Why what was never work is kept as a cancelled item.
_NO_WORK = (Reason.OWN_MESSAGE, Reason.OUTSIDER)
_NOTHING = "Nothing is open here."


class Done(Record):
    """An order that was carried out, or waits."""

    name: str
    #: What it is: `add`, `tell`, `withdraw`, `recover`, `adjust`, `command`, `show`, `block` or `unblock`.
    do: str
    item: int | None
    outcome: str
    #: It could not be carried out, and is tried again later or waits for a person.
    put_off: bool = False


class Carrier:
    """Carries out orders on one store."""

    def __init__(self, service: Service, store: Store, types: Mapping[str, TypeDefaults]) -> None:
        self._service, self._store, self._types = service, store, types

    def carry_out(self, repository: int, number: int) -> list[Done]:
        """Carry out what is due for a number. What is put off holds up what comes after it."""
        github, done = self._store.github, []
        for owed in github.owed(repository, number, ORDERS_MAX):
            if owed.due_us > self._store.now_us():
                break
            each = self._done(_Task(repository, number, owed))
            done.append(each)
            if each.put_off:
                break
        return done

    def _done(self, task: _Task) -> Done:
        github, (repository, number) = self._store.github, task.where
        try:
            item, outcome = self._obey(task)
        except (InvalidInput, NotFound, LookupError, TypeError) as error:  # as it will be next time
            github.put_off(repository, number, task.name, None, _said(error))
            return Done(
                name=task.name, do=str(task.order.get("do")), item=None, outcome=_said(error), put_off=True
            )
        github.carry_out(
            repository, number, task.name, item=item, outcome=outcome, effects=self._effects(task, outcome)
        )
        return Done(name=task.name, do=task.order["do"], item=item, outcome=outcome)

    def _obey(self, task: _Task) -> tuple[int | None, str]:
        order = task.order
        match order["do"]:
            case "add":
                return self._add(task)
            case "tell":
                return self._tell(task)
            case "withdraw":
                return None, self._withdraw(task)
            case "recover":
                return None, self._recover(task)
            case "adjust":
                return None, self._adjust(task)
            case "command":
                return self._command(task)
            case "block":
                return None, self._block(task)
            case "show":
                return None, "who holds its lane is shown"
            case other:
                raise InvalidInput(f"There is no order {other!r}.", "A newer version of Interlock left it.")

    def _effects(self, task: _Task, outcome: str) -> list[Effect]:
        """What is owed to GitHub together with what was done."""
        if task.order["do"] != "show":
            return _replies(task, outcome)
        repository, number = task.where
        found = self._store.github.closing(repository, task.order["issues"], ORDERS_MAX)
        pulls = dict.fromkeys((number, *(pull for _, pull in found)))
        return [owing.lane(owing.Place(repository, each), f"lane@{number}.{task.name}") for each in pulls]

    # Arrivals and messages

    def _add(self, task: _Task) -> tuple[int | None, str]:
        order = task.order
        keys = [task.key(str(n)) for n in range(len(order["items"]))]
        views = self._arrive(order["items"], keys)
        told = [view.item and self._absorber(view.item) for view in views]
        if order.get("key") is not None and told[0] is not None:
            self._set_priority(task, Key(*order["key"]), told[0], order["items"][0]["priority"])
        waits_for = self._facts(task).waits_for if _is_elsewhere(order) else ()
        for item in filter(None, told):
            for blocker in waits_for:
                self._set_block({"item": item.id}, blocker, "", blocked=True)
        words = (_outcome(view, item) for view, item in zip(views, told, strict=True))
        return next((item.id for item in told if item), None), ", ".join(words)

    def _tell(self, task: _Task) -> tuple[int | None, str]:
        """Tell every agent that has something open on the lane."""
        order = task.order
        fields = ("message", "reason", "url", "author", "said")
        said = {name: value for name, value in order.items() if name in fields or name.startswith("from_")}
        there = {(item.agent or "", item.policy): item for item in self._open(order)}
        items, keys = [], []
        for (agent, policy), item in there.items():
            absorbing = policy if policy in ABSORBING else Policy.COALESCE
            place = {"project": order["project"], "lane": order["lane"], "type": item.type}
            items.append({**said, **place, "title": item.title, "agent": agent, "policy": absorbing})
            keys.append(task.key(agent))
        if not items:
            return None, "nobody was there to tell"
        views = self._arrive(items, keys)
        told = [view.item and self._absorber(view.item) for view in views]
        names = dict.fromkeys(f"told item {item.id}" for item in told if item)
        return next((item.id for item in told if item), None), ", ".join(names)

    def _arrive(self, items: list[Order], keys: list[str]) -> list[AddView]:
        return self._service.add(
            [self._new_item({**fields, "dedupe_key": key}) for fields, key in zip(items, keys, strict=True)]
        )

    def _new_item(self, fields: Order) -> NewItem:
        is_open = fields.pop("policy_open", False)
        return replace(new_item(fields, types=self._types), policy_open=is_open)

    def _absorber(self, item: ItemView) -> ItemView:
        """The item that has an arrival's message: the answer to a repeated arrival names the arrival."""
        while item.absorbed_by is not None:
            item = self._service.show(item.absorbed_by).item
        return item

    # What is withdrawn or changed

    def _withdraw(self, task: _Task) -> str:
        order = task.order
        key = None if order["key"] is None else Key(*order["key"])
        everywhere = (*self._open(order), *self._elsewhere(task))
        wanted = {} if self._facts(task).open else self._wanted(task)  # by rules for the end of a number
        there = [
            item for item in everywhere if (_key(item) not in wanted if key is None else _key(item) == key)
        ]
        if not self._is_owed(task):
            return ""  # somebody else was first, and what is there now may have come later
        why = f"{order['reason']}: {order['url']}" if order["url"] else order["reason"]
        words = []
        for item in there:
            other = None if key is None else self._also_wanted(task, item, key)
            if other is not None:
                words.append(f"item {item.id} stays, for {other.type}")
                self._edit(item, {"type": other.type})
            elif item.run is not None and not order["stop"]:
                words.append(f"item {item.id} goes on")
            elif not _ends_anyway(item) and self._end(item, why):
                words.append(f"item {item.id} {'is asked to stop' if item.run else 'cancelled'}")
        return ", ".join(words) or "nothing was open"

    def _recover(self, task: _Task) -> str:
        """Withdraw work for checks none of which fails any more. What runs goes on."""
        order = task.order
        there = [self._service.show(item.id) for item in (*self._open(order), *self._elsewhere(task))]
        failing = check_events.failing(orders_of(self._store.github, *task.where), order["lane"])
        if not self._is_owed(task):
            return ""
        words = []
        for shown in there:
            item, told = shown.item, (shown.item.payload, *(each.payload for each in shown.messages))
            checks = {check_events.failed_check(each) for each in told} - {""}
            if not check_events.failed_check(item.payload) or checks & set(failing):
                continue
            other = self._also_wanted(task, item, _key(item))
            if other is not None:
                words.append(f"item {item.id} stays, for {other.type}")
                self._edit(item, {"type": other.type})
            elif item.run is not None:
                words.append(f"item {item.id} goes on")
            elif self._end(item, f"{order['reason']}: {order['url']}"):
                words.append(f"item {item.id} cancelled")
        return ", ".join(words) or "nothing was open"

    def _also_wanted(self, task: _Task, item: ItemView, gone: Key) -> Key | None:
        """What else an item has taken on, as messages, that is still wanted, was said by somebody or follows
        from a check."""
        wanted = self._wanted(task)
        for message in self._service.show(item.id).messages:
            if message.origin is not None and message.origin != item.id:
                key = _key(self._service.show(message.origin).item)
                checked = check_events.is_about_check(message.payload)
                if key != gone and (key in wanted or message.author or checked):
                    return key
        return None

    def _adjust(self, task: _Task) -> str:
        key = Key(*task.order["key"])
        everywhere = (*self._open(task.order), *self._elsewhere(task))
        there = [item for item in everywhere if _key(item) == key]
        for item in there:
            self._set_priority(task, key, item, task.order["priority"])
        return ", ".join(f"item {item.id}" for item in there) or "nothing was open"

    def _set_priority(self, task: _Task, key: Key, item: ItemView, priority: int) -> None:
        """Give an item the priority that is wanted now; one that does other work too, only a higher one."""
        if _key(item) != key:
            if priority > item.priority:
                self._edit(item, {"priority": priority})
            return
        has = item.priority
        while has != priority:
            self._edit(item, {"priority": priority})
            has, newest = priority, self._wanted(task).get(key)
            priority = priority if newest is None else newest.priority

    # What waits for other issues

    def _block(self, task: _Task) -> str:
        """Let the number's work wait for those of the blockers that it waits for now, and for no other."""
        order = task.order
        waits = self._facts(task)
        while True:
            now = [each for each in order["blockers"] if each in waits.waits_for]
            for target in self._targets(task):
                for each in order["blockers"]:
                    self._set_block(target, each, order["url"], blocked=each in now)
            newest = self._facts(task)  # somebody else may have carried out a later order meanwhile
            if newest.waits_for == waits.waits_for:
                break
            waits = newest
        stopped = [item for item in self._running(task) if self._take_back(item)] if waits.blockers else []
        waits_for = f"waits for {', '.join(now)}" if now else "waits for nothing more"
        return ", ".join((waits_for, *(f"item {item.id} is stopped until then" for item in stopped)))

    def _targets(self, task: _Task) -> list[dict[str, Any]]:
        """The number's lane, and its open items on other lanes."""
        return [{"lane": task.order["lane"]}, *({"item": item.id} for item in self._elsewhere(task))]

    def _set_block(self, target: Mapping[str, Any], blocker: str, url: str, *, blocked: bool) -> None:
        with suppress(ItemEnded):
            if blocked:
                self._service.block(**target, blocker=blocker, why="open on GitHub", url=url, by=BY)
            else:
                self._service.unblock(**target, blocker=blocker, by=BY)

    def _running(self, task: _Task) -> list[ItemView]:
        """Runs in flight. One of a hosted agent goes on: nothing here could stop it."""
        everywhere = (*self._open(task.order), *self._elsewhere(task))
        return [item for item in everywhere if item.run is not None and not item.external]

    def _take_back(self, item: ItemView) -> bool:
        try:
            self._service.take_back(item.id, why="Its issue is blocked on GitHub.", by=BY)
        except ItemEnded:
            return False
        return True

    # What people command

    def _command(self, task: _Task) -> tuple[int | None, str]:
        match task.order["command"]:
            case "cancel":
                return None, self._cancel(task)
            case "retry":
                return self._retry(task)
            case "priority":
                return None, self._prioritise(task)
            case "why":
                return None, self._why(task)
            case "status":
                return None, self._status(task)
            case "ask":
                return None, self._questions(task)
            case other:
                return None, f"There is no command {other}. Use {', '.join(COMMANDS)}."

    def _why(self, task: _Task) -> str:
        found = self._open(task.order)[:SHOWN_MAX]
        return "\n".join(f"- {_named(item)}: {self._service.why(item.id).why}" for item in found) or _NOTHING

    def _status(self, task: _Task) -> str:
        lines = []
        for item in self._open(task.order)[:SHOWN_MAX]:
            by = f", run {item.run} of {item.run_agent}" if item.run is not None else ""
            lines.append(f"- {_named(item)}: {item.status} ({item.reason}){by}, priority {item.priority}")
        return "\n".join(lines) or _NOTHING

    def _questions(self, task: _Task) -> str:
        """What agents ask people about this number."""
        order = task.order
        wanted = ItemFilter(asking=True, lane=order["lane"], project=order["project"], limit=SHOWN_MAX)
        found = self._service.items(wanted)
        return (
            "\n".join(f"- {_named(item)} asks: {item.question}" for item in found) or "Nobody asks anything."
        )

    def _cancel(self, task: _Task) -> str:
        order = task.order
        there = self._open(order)
        if not self._is_owed(task):
            return ""
        ended = [item for item in there if self._end(item, "/interlock cancel", by=order["by"])]
        return _listed(ended, "cancelled") or "nothing was open"

    def _retry(self, task: _Task) -> tuple[int | None, str]:
        order = task.order
        wanted = ItemFilter(
            statuses=("failed", "cancelled"), lane=order["lane"], project=order["project"], limit=ITEMS_MAX
        )
        found = [item for item in self._service.items(wanted) if item.reason not in _NO_WORK]
        if not found:
            return None, "nothing has failed or was cancelled"
        try:
            self._service.retry(found[-1].id, why="/interlock retry", by=order["by"])
        except ItemEnded as refused:
            return found[-1].id, refused.sentence
        return found[-1].id, f"item {found[-1].id} is tried again"

    def _prioritise(self, task: _Task) -> str:
        given = task.order["argument"]
        try:
            changes = {"priority": whole("priority", given)}
            there = [item for item in self._open(task.order) if self._edit(item, changes)]
        except InvalidInput as wrong:
            return wrong.sentence
        return _listed(there, f"has priority {changes['priority']}") or "nothing waits"

    # Items

    def _open(self, order: Order) -> list[ItemView]:
        """The open items of a number: those of its project on its lane."""
        wanted = ItemFilter(lane=order["lane"], project=order["project"], limit=ITEMS_MAX)
        return self._service.items(wanted)

    def _elsewhere(self, task: _Task) -> list[ItemView]:
        """Open items that a rule has put on another lane, or on none."""
        made = (
            each.item
            for each in self._store.github.consequences(*task.where, ORDERS_MAX)
            if each.item is not None and _is_elsewhere(json.loads(each.data))
        )
        found = [self._service.show(item).item for item in dict.fromkeys(made)]
        return [item for item in found if item.status not in TERMINAL]

    def _facts(self, task: _Task) -> Facts:
        known = self._store.github.known(*task.where)
        assert known is not None
        return facts_of.from_json(json.loads(known.facts))

    def _wanted(self, task: _Task) -> Mapping[Key, Any]:
        known = self._store.github.known(*task.where)
        return wanted_from_json(known.wanted) if known is not None else {}

    def _is_owed(self, task: _Task) -> bool:
        """Whether nobody has carried it out meanwhile, nor anything after it."""
        return any(owed.name == task.name for owed in self._store.github.owed(*task.where, ORDERS_MAX))

    def _edit(self, item: ItemView, changes: Mapping[str, Any]) -> bool:
        """Change an item that has not started; one that has stays as it is."""
        try:
            self._service.edit(item.id, changes, by=BY)
        except (ItemEnded, EditRefused):
            return False
        return True

    def _end(self, item: ItemView, why: str, by: str = BY) -> bool:
        try:
            self._service.cancel(item.id, why=why, by=by)
        except ItemEnded:
            return False
        return True


class _Task:
    """One order on its way."""

    def __init__(self, repository: int, number: int, owed: Owed) -> None:
        self.where, self.name = (repository, number), owed.name
        self.order: Order = json.loads(owed.data)

    def key(self, part: str) -> str:
        """The dedupe key of one arrival, which is the same however often it is tried."""
        repository, number = self.where
        key = f"github:{repository}:{number}:{self.name}:{part or '-'}"
        if len(key) <= NAME_MAX_CHARS:
            return key
        return f"{key[:100]}:{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def orders_of(github: GitHubStore, repository: int, number: int) -> list[Order]:
    """The last orders of a number, oldest first, whether carried out or not."""
    found = github.consequences(repository, number, REMEMBERED_MAX)
    return [json.loads(each.data) for each in reversed(found)]


def _replies(task: _Task, outcome: str) -> list[Effect]:
    """A comment that answers a command, owed together with what was done."""
    order = task.order
    if order["do"] != "command":
        return []
    said = f"> /interlock {order['command']} {order['argument']}".rstrip()
    text = f"{said}\n\n{outcome[:1].upper()}{outcome[1:]}"
    return [owing.comment(owing.Place(*task.where), f"reply:{task.name}", text)]


def backoff_s(tries: int) -> float:
    """The wait before the next try: it doubles with each failure, up to a limit."""
    return float(min(_WAIT_FIRST_S * 2 ** min(tries, 20), _WAIT_MAX_S))


def _key(item: ItemView) -> Key:
    return Key(item.type, item.agent or "")


def _ends_anyway(item: ItemView) -> bool:
    """Whether its run was asked to stop, and it ends with that run."""
    return item.cancel_requested and item.cancel_reason != Reason.SERIES_QUEUED


def _is_elsewhere(order: Order) -> bool:
    return bool(order["do"] == "add" and order["items"][0].get("lane") != order["lane"])


def _listed(items: list[ItemView], what: str) -> str:
    return ", ".join(f"item {item.id} {what}" for item in items)


def _named(item: ItemView) -> str:
    return f"item {item.id} ({item.type}{f' for {item.agent}' if item.agent else ''})"


def _outcome(view: AddView, item: ItemView | None) -> str:
    return f"{view.decision}: {view.reason}" if item is None else f"item {item.id} {view.decision}"


def _said(error: Exception) -> str:
    return error.sentence if isinstance(error, InterlockError) else f"{type(error).__name__}: {error}"
