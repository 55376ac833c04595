"""Notices that are owed: the next event that a user's command must be told of, under a lease.

A mark in the store says how far the notices of one name have come. Whoever wants to run the command leases
the mark, runs it outside of every transaction, and moves the mark on. A process that dies in between leaves
the mark where it was: the command is run again for that event, once the lease is over.
"""

from __future__ import annotations

import os
import reprlib

from interlock.core import names, notices
from interlock.core.errors import InvalidInput
from interlock.core.model import Event, EventKind, ItemId
from interlock.service.answers import event_view
from interlock.service.contract import NoticeView
from interlock.service.itemview import ItemView
from interlock.store.port import EventQuery, Store

#: How many events one look reads. A mark this far behind moves on, even if none of them is wanted.
LOOK = 500
ERROR_MAX_CHARS = 1_000


class Notices:
    """The use cases of whoever runs the users' commands."""

    store: Store

    def next_notice(self, name: str) -> NoticeView | None:
        """Lease the next notice of a name, if one is owed and nobody else has it.

        The first call for a name in a store begins there: it owes nothing for what happened before.
        """
        wanted = next((fits for known, fits in notices.NOTICES.items() if known == name), None)
        if wanted is None:
            shown = reprlib.repr(name)
            raise InvalidInput(f"There is no notice {shown}.", f"Use one of {', '.join(notices.NOTICES)}.")
        mark = self.store.mark(name)
        if mark is None:
            newest = self.store.events(EventQuery(limit=1, newest=True))
            self.store.begin_mark(name, newest[-1].seq if newest else 0)
            return None
        if mark.until_us > self.store.now_us():
            return None
        found = self.store.events(EventQuery(after=mark.seq, limit=LOOK))
        owed = next((stored for stored in found if wanted(stored.event)), None)
        token = int.from_bytes(os.urandom(8)) >> 1
        if owed is None:
            if len(found) == LOOK and self.store.lease_mark(mark, token, 0.0):
                self.store.move_mark(name, token, seq=found[-1].seq)
            return None
        if not self.store.lease_mark(mark, token, notices.LEASE_S):
            return None
        item = None if owed.event.item is None else self.store.item(owed.event.item)
        return NoticeView(
            name=name,
            event=event_view(owed),
            item=None if item is None else ItemView(item),
            attempt=mark.tries + 1,
            after=mark.seq,
            token=token,
        )

    def end_notice(self, notice: NoticeView, *, error: str | None = None) -> bool:
        """Report that the command was run; with an error it is tried again later, a few times.

        Returns False if the lease was over and somebody else has the notice now.
        """
        if not isinstance(notice, NoticeView):
            raise InvalidInput(f"{reprlib.repr(notice)} is not a notice.", "Pass what next_notice gave.")
        seq = notice.event.seq
        if error is None:
            return self.store.move_mark(notice.name, notice.token, seq=seq)
        said = names.check_text("error", error)[:ERROR_MAX_CHARS]
        wait_s = notices.wait_s(notice.attempt)
        if wait_s is not None:
            return self.store.move_mark(
                notice.name, notice.token, seq=notice.after, tries=notice.attempt, wait_s=wait_s
            )
        data = {"notice": notice.name, "of_seq": seq, "error": said}
        item = None if notice.event.item is None else ItemId(notice.event.item)
        event = Event(self.store.now_us(), EventKind.NOTICE_FAILED, item=item, data=data)
        return self.store.move_mark(notice.name, notice.token, seq=seq, event=event)
