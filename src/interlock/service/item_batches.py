"""Changes of many items by an operator: all dead letters, or all items of a lane.

Each call changes at most 1,000 items, in transactions of at most 100. A repeated call changes what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from interlock.core import names
from interlock.core.commands import Cancel, Command, CommandAnswer, Retry
from interlock.core.ledger import LedgerChanges
from interlock.core.model import A_PERSON, ItemId, Sender
from interlock.core.states import ItemStatus
from interlock.core.validation import checked_reason, checked_sender, given_reason, signed
from interlock.service import sweeper
from interlock.service.contract import BulkView, RefusedItemView
from interlock.service.reads import is_given
from interlock.store.port import ItemQuery, Load, Store

#: The most items of one transaction.
AT_ONCE = 100
_ID_MAX = (1 << 63) - 1


class ItemBatches:
    """Changes many items."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def retry_dead(
        self,
        *,
        types: Sequence[str] = (),
        agent: str | None = None,
        lane: str | None = None,
        project: str | None = None,
        before: int | None = None,
        limit: int = names.BATCH_MAX,
        dry_run: bool = False,
        why: str = "",
        by: str = "",
        sender: Sender = A_PERSON,
    ) -> BulkView:
        """Give the newest dead letters one more attempt each, as an operator; `dry_run` only names them.

        If `more` is true, call it again with the answer's `before`. What fails again meanwhile is then not
        retried twice.
        """
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        only_named = names.check_flag("dry_run", dry_run)
        reason, signature, who = checked_reason(why), signed(by), checked_sender(sender)
        if before is not None:
            names.check_whole("item number", before, 1, _ID_MAX)
        query = ItemQuery(
            statuses=(ItemStatus.FAILED.value,),
            types=tuple(names.check_name("type", each) for each in names.check_list("types", types)),
            agent=names.agent_key(agent) if is_given(agent) else None,
            lane=names.lane_key(lane) if is_given(lane) else None,
            project=names.check_name("project", project) if is_given(project) else None,
            before=_ID_MAX if before is None else before,
            limit=limit,
        )
        found = [item.id for item in self._store.items(query)]
        more = len(found) == limit
        view = BulkView(items=tuple(found), more=more, before=found[-1] if more else None)
        if only_named:
            return view
        changed: list[int] = []
        refused: list[RefusedItemView] = []
        for decision in self._decided(
            found, lambda item: Retry(item=item, why=reason, by=signature, sender=who), rearm=True
        ):
            for item, answer in _answers(decision):
                if answer.changed:
                    changed.append(item)
                else:
                    refused.append(RefusedItemView(item=item, refusal=answer.refusal))
        return BulkView(items=tuple(changed), refused=tuple(refused), more=more, before=view.before)

    def cancel_lane(self, lane: str, *, why: str, by: str = "", force: bool = False) -> BulkView:
        """Cancel all items of a lane as an operator; a running one is asked to stop, unless `force`.

        The owner is cancelled last, so that none of the others starts in its place. Later arrivals stay.
        """
        key, forced = names.lane_key(lane), names.check_flag("force", force)
        reason, signature = given_reason(why), signed(by)
        ended: list[int] = []
        stopping: list[int] = []
        on_lane = self._store.on_lane(key, names.BATCH_MAX)
        behind = sorted((i for i in on_lane if not i.active), key=lambda i: i.line, reverse=True)
        more = len(behind) >= names.BATCH_MAX
        chosen = behind[: names.BATCH_MAX] if more else [*behind, *(i for i in on_lane if i.active)]
        asked = {
            item.id for item in chosen if item.status is ItemStatus.IN_PROGRESS and item.state.cancel_into
        }
        if not forced:
            stopping += asked
        left = [item.id for item in chosen if forced or item.id not in asked]
        for decision in self._decided(
            left, lambda item: Cancel(item=item, why=reason, by=signature, force=forced)
        ):
            for item, answer in _answers(decision):
                if answer.changed:  # otherwise it has ended meanwhile
                    running = decision.after[item].status is ItemStatus.IN_PROGRESS
                    (stopping if running else ended).append(item)
        return BulkView(items=tuple(ended), stopping=tuple(stopping), more=more)

    def _decided(
        self, items: Sequence[ItemId], command: Callable[[ItemId], Command], *, rearm: bool = False
    ) -> Iterator[LedgerChanges]:
        """The decisions on items, a transaction for each `AT_ONCE`."""
        for start in range(0, len(items), AT_ONCE):
            chunk = tuple(items[start : start + AT_ONCE])
            decision = None
            while decision is None:
                decision = self._transact(chunk, command, rearm=rearm)
                if decision is None:
                    chunk = tuple(self._store.named_items(chunk))
            sweeper.move_due_tasks(self._store, decision)
            yield decision

    def _transact(
        self, items: tuple[ItemId, ...], command: Callable[[ItemId], Command], *, rearm: bool
    ) -> LedgerChanges | None:
        """One transaction on these items; None if one of them was deleted meanwhile."""
        try:
            return self._store.transact(
                Load(items=items, rearm=rearm), lambda _: [command(item) for item in items]
            )
        except KeyError:
            if len(self._store.named_items(items)) == len(items):
                raise
            return None


def _answers(decision: LedgerChanges) -> Iterator[tuple[ItemId, CommandAnswer]]:
    for answer in decision.answers:
        if answer.item is not None:
            yield answer.item, answer
