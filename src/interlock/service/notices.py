"""Notices: the next event that starts a user's command, under a lease.

A mark in the store records the progress of the notices of one name. A process leases the mark, runs the
command outside any transaction, and then moves the mark. If the process dies, the mark stays: the command
runs again for that event once the lease has expired.
"""

from __future__ import annotations

import os
import reprlib

from interlock.core import names, notices
from interlock.core.errors import InvalidInput
from interlock.core.model import Event, EventKind, ItemId
from interlock.service.contract import NoticeView
from interlock.service.item_view import ItemView
from interlock.service.view_builders import event_view
from interlock.store.port import EventQuery, Store

#: The number of events that one poll reads. The mark then moves past them, even if none gives a notice.
POLL_EVENTS = 500
ERROR_MAX_CHARS = 1_000


class Notices:
    """The operations of processes that run users' commands."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def next_notice(self, name: str) -> NoticeView | None:
        """Lease the next notice of a name, if one is due and not leased.

        The first call for a name begins at the present: earlier events give no notices.
        """
        wanted = next((fits for known, fits in notices.NOTICES.items() if known == name), None)
        if wanted is None:
            shown = reprlib.repr(name)
            raise InvalidInput(f"Unknown notice {shown}.", f"Use one of {', '.join(notices.NOTICES)}.")
        mark = self._store.mark(name)
        if mark is None:
            newest = self._store.events(EventQuery(limit=1, newest=True))
            self._store.begin_mark(name, newest[-1].seq if newest else 0)
            return None
        if mark.until_us > self._store.now_us():
            return None
        found = self._store.events(EventQuery(after=mark.seq, limit=POLL_EVENTS))
        owed = next((stored for stored in found if wanted(stored.event)), None)
        token = int.from_bytes(os.urandom(8)) >> 1
        if owed is None:
            if len(found) == POLL_EVENTS and self._store.lease_mark(mark, token, 0.0):
                self._store.move_mark(name, token, seq=found[-1].seq)
            return None
        if not self._store.lease_mark(mark, token, notices.LEASE_S):
            return None
        item = None if owed.event.item is None else self._store.item(owed.event.item)
        return NoticeView(
            name=name,
            event=event_view(owed),
            item=None if item is None else ItemView(item),
            attempt=mark.tries + 1,
            after=mark.seq,
            token=token,
        )

    def end_notice(self, notice: NoticeView, *, error: str | None = None) -> bool:
        """Report that the command was run; with an error it is retried a few times.

        Returns False if the lease had expired and another process has the notice now.
        """
        if not isinstance(notice, NoticeView):
            raise InvalidInput(f"{reprlib.repr(notice)} is not a notice.", "Pass the answer of next_notice.")
        seq = notice.event.seq
        if error is None:
            return self._store.move_mark(notice.name, notice.token, seq=seq)
        said = names.check_text("error", error)[:ERROR_MAX_CHARS]
        wait_s = notices.wait_s(notice.attempt)
        if wait_s is not None:
            return self._store.move_mark(
                notice.name, notice.token, seq=notice.after, tries=notice.attempt, wait_s=wait_s
            )
        data = {"notice": notice.name, "of_seq": seq, "error": said}
        item = None if notice.event.item is None else ItemId(notice.event.item)
        event = Event(self._store.now_us(), EventKind.NOTICE_FAILED, item=item, data=data)
        return self._store.move_mark(notice.name, notice.token, seq=seq, event=event)
