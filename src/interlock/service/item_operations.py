"""Changes of one item by operators, messages and outside systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core import names
from interlock.core.commands import (
    Cancel,
    Command,
    CommandAnswer,
    Edit,
    EndExternal,
    Retry,
    SendMessage,
    TakeBack,
)
from interlock.core.cures import cure
from interlock.core.errors import EditRefused, InterlockError, ItemEnded, LeaseLost, StaleRevision
from interlock.core.ledger import LedgerChanges
from interlock.core.model import A_PERSON, ItemId, Sender
from interlock.core.record import replace
from interlock.core.validation import (
    checked_edit,
    checked_end,
    checked_reason,
    checked_sender,
    checked_take_back,
    given_reason,
    signed,
)
from interlock.service import sweeper
from interlock.service.access import RequestNotes
from interlock.service.contract import ChangeView
from interlock.service.gathering import Gathering, Steps, Write, gathered, text_parts
from interlock.service.item_view import ItemView
from interlock.service.reads import require_item
from interlock.store.port import Load, Store

#: Exceptions for refusals other than the usual one of a command.
_REFUSALS: dict[str, type[InterlockError]] = {kind.code: kind for kind in (EditRefused, StaleRevision)}


class ItemOperations:
    """Changes one item, its run or its messages."""

    def __init__(self, store: Store, gathering: Gathering, notes: RequestNotes) -> None:
        self._store, self._gathering, self._notes = store, gathering, notes

    def take_back(self, item: int, *, why: str, by: str = "", run: int | None = None) -> ChangeView:
        """Take an item from its run as an operator, and offer it again.

        If `run` is given and no longer the item's current run, nothing is changed, and `StaleRevision` is
        raised.
        """
        return self._operate(checked_take_back(ItemId(item), why, by, run))

    def cancel(self, item: int, *, why: str, by: str = "", force: bool = False) -> ChangeView:
        """End an item as an operator; a running one gets its grace unless `force`."""
        names.check_flag("force", force)
        return self._operate(Cancel(item=ItemId(item), why=given_reason(why), by=signed(by), force=force))

    def retry(self, item: int, *, why: str = "", by: str = "", sender: Sender = A_PERSON) -> ChangeView:
        """Bring back a failed or cancelled item as an operator, or end its back-off."""
        who = checked_sender(sender)
        return self._operate(Retry(item=ItemId(item), why=checked_reason(why), by=signed(by), sender=who))

    def edit(
        self,
        item: int,
        changes: Mapping[str, Any],
        *,
        by: str = "",
        sender: Sender = A_PERSON,
        expected: str | None = None,
    ) -> ChangeView:
        """Change fields of an item that has not started.

        The fields are title, type, agent, labels, priority, position, and `run_at_us` or `run_after_s`. If
        the item no longer has the version `expected`, `StaleRevision` is raised.
        """
        return self._operate(checked_edit(ItemId(item), changes, by, sender, expected))

    @gathered
    def msg(
        self,
        item: int,
        text: str,
        *,
        author: str = "",
        sender: Sender = A_PERSON,
        reason: str = "",
        url: str = "",
    ) -> Steps[ChangeView]:
        """Send a message to an item; if the item was absorbed, its absorber gets the message."""
        names.check_message(text)
        names.check_cause(reason, url)
        names.check_text("author", author, names.NAME_MAX_CHARS)
        who = checked_sender(sender)
        tell = SendMessage(
            item=ItemId(item), ticket=0, text=text, author=author, sender=who, reason=reason, url=url
        )
        return self._moved(tell, ItemEnded)

    def end_external(
        self, item: int, run: int, outcome: str, *, why: str, by: str = "", result: str | None = None
    ) -> ChangeView:
        """Record the observed end of an external run: `done`, `fail`, `release`, `cancel` or `yield`.

        If the item's current run is another one, or is not external, nothing is changed, and `LeaseLost` is
        raised.
        """
        end = checked_end(item, run, outcome, why=why, by=by, result=result)
        return self._operate(end, refused=LeaseLost)

    def _operate(
        self,
        command: Cancel | TakeBack | EndExternal | Retry | Edit | SendMessage,
        refused: type[InterlockError] = ItemEnded,
    ) -> ChangeView:
        return self._gathering.carry_out(self._moved(command, refused))

    def _moved(
        self,
        command: Cancel | TakeBack | EndExternal | Retry | Edit | SendMessage,
        refused: type[InterlockError],
    ) -> Steps[ChangeView]:
        while True:
            require_item(self._store, command.item)
            try:
                decision = yield from self._decide(command)
            except KeyError:
                require_item(self._store, command.item)  # pruned meanwhile
                raise
            sweeper.move_due_tasks(self._store, decision)
            moved: CommandAnswer = decision.answers[0]
            if moved.forward_to is None:
                break
            command = replace(command, item=moved.forward_to)
        if not moved.changed:
            refused = _REFUSALS.get(moved.code, refused)
            more = () if moved.hint else (cure("show", "shows its history", item=command.item),)
            raise refused(moved.refusal, moved.hint, moved.cures or more)
        return _changed(command.item, decision)

    def _decide(
        self, command: Cancel | TakeBack | EndExternal | Retry | Edit | SendMessage
    ) -> Steps[LedgerChanges]:
        load = Load(items=(command.item,), rearm=isinstance(command, Retry))

        def answer(decision: LedgerChanges) -> ChangeView | None:
            return _changed(command.item, decision) if decision.answers[0].changed else None

        note = self._notes.note(answer)
        if not isinstance(command, SendMessage):
            return self._store.transact(load, lambda _: [command], note)

        def build(_: Sequence[ItemId], tickets: Sequence[int]) -> list[Command]:
            return [replace(command, ticket=tickets[0])]

        write = Write(load, build, note, tickets=1)
        text = command.text
        return (
            yield from self._gathering.transact(
                "msg", write, lambda: 1 + text_parts(text), self._notes.request
            )
        )


def _changed(item: ItemId, decision: LedgerChanges) -> ChangeView:
    moved: CommandAnswer = decision.answers[0]
    return ChangeView(item=ItemView(decision.after[item]), promoted=moved.promoted, n=moved.n or None)
