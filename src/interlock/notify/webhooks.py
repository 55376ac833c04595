"""Sends notices to receivers: from the history into the outbox, and from there with the relay.

Each receiver has a mark in the store, as users' commands do, and a queue in the outbox. The mark moves in the
transaction that enqueues its notices, so each event is enqueued once for each receiver. It is sent at least
once: a sender that dies after the request leaves it to the next one, with the same id.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from interlock.core.errors import InterlockError, InvalidInput
from interlock.core.names import BATCH_MAX
from interlock.core.notices import SUBJECTS, subject_of
from interlock.notify.notice_body import NAME_MAX, NoticeBody, escaped
from interlock.notify.receiver import Receiver, ReceiverAnswer, keys_of, post, receivers_of
from interlock.service.notices import POLL_EVENTS
from interlock.service.relay import EffectFailed, EffectOutcome, Relay, SendPass
from interlock.settings import Settings, listed
from interlock.store.outbox import Effect, LeasedEffect
from interlock.store.port import EventQuery, Store, StoredEvent

KIND = "notice"
#: The lease of a queue: longer than a request may take, and than most look-ups of a name.
LEASE_S = 60.0
EVERY_S = 5.0
#: One pass over a receiver: the batches of events, the notices, and when no other one is begun.
BATCHES, NOTICES_AT_ONCE, PASS_S = 20, 100, 10.0


class Webhooks:
    """Enqueues and sends the notices of one store for the receivers of the settings."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        environ: Mapping[str, str] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Raises `InvalidInput` if the settings name an address that nothing may be sent to."""
        self.receivers = receivers_of(settings)
        self._store, self._tell, self._keys = store, tell, keys_of(os.environ if environ is None else environ)
        self._subjects = subjects_of(settings)
        self._link = partial(item_link, settings.public_url)
        self._name = ""

    def run(self, *, again: bool = False) -> SendPass:
        """Enqueue new notices and send due ones, to all receivers at the same time.

        With `again`, dead effects are queued again first."""
        if again:
            self._store.github.outbox.retry(BATCH_MAX)
        if len(self.receivers) <= 1:
            passes = [self._run(each) for each in self.receivers]
        else:
            with ThreadPoolExecutor(len(self.receivers), "interlock-webhook") as threads:
                passes = list(threads.map(self._run, self.receivers))
        total = SendPass()
        for each in passes:
            total.sent += each.sent
            total.dropped += each.dropped
            total.put_off += each.put_off
            total.dead += each.dead
            total.stopped = total.stopped or each.stopped
            total.next_s = min((s for s in (total.next_s, each.next_s) if s is not None), default=None)
        return total

    def start(self) -> None:
        """Run every few seconds in the background, until this process ends."""
        if self.receivers:
            threading.Thread(target=self._loop, name="interlock-webhooks", daemon=True).start()

    def _loop(self) -> None:
        while True:
            with suppress(InterlockError):  # the store may be unreachable; the next pass retries
                self.run()
            time.sleep(EVERY_S)

    def _run(self, receiver: Receiver) -> SendPass:
        self.enqueue(receiver)
        relay = Relay(
            self._store.github.outbox,
            partial(self._send, receiver),
            lease_s=LEASE_S,
            receiver=receiver.repository,
        )
        passed = relay.send(NOTICES_AT_ONCE, within_s=PASS_S)
        if passed.dead:
            what = "1 notice" if passed.dead == 1 else f"{passed.dead} notices"
            self._tell(f"{what} to {receiver.host} failed and used up the retries; see interlock doctor.")
        return passed

    # -- from the history into the outbox -------------------------------------------------------------

    def enqueue(self, receiver: Receiver) -> int:
        """Enqueue the notices of new events; gives their number. The first call begins at the present."""
        new, name = 0, f"receiver:{receiver.number}"
        for _ in range(BATCHES):
            mark = self._store.mark(name)
            if mark is None:
                newest = self._store.events(EventQuery(limit=1, newest=True))
                self._store.begin_mark(name, newest[-1].seq if newest else 0)
                break
            found = self._store.events(EventQuery(after=mark.seq, limit=POLL_EVENTS))
            wanted = [each for each in found if subject_of(each.event, self._subjects) is not None]
            if not wanted and len(found) < POLL_EVENTS:
                break
            effects = [self._effect(receiver, each) for each in wanted]
            token = int.from_bytes(os.urandom(8)) >> 1
            if not self._store.lease_mark(mark, token, 0.0):
                break  # another sender is moving it
            if effects:
                self._store.github.repository(receiver.repository, receiver.host)
            if not self._store.move_mark(name, token, seq=found[-1].seq, effects=effects):
                break
            new += len(effects)
            if len(found) < POLL_EVENTS:
                break
        return new

    def _effect(self, receiver: Receiver, stored: StoredEvent) -> Effect:
        subject = subject_of(stored.event, self._subjects)
        assert subject is not None
        item = None if stored.event.item is None else self._store.item(stored.event.item)
        runs = [] if item is None or stored.event.run is None else self._store.runs(item.spec.id)
        run = next((run for run in runs if run.run == stored.event.run), None)
        self._name = self._name or self._store.lineage().store
        notice = NoticeBody.of(self._name, subject, stored, item, run)
        return Effect(receiver.repository, 0, f"{subject}:{stored.seq}", KIND, json.dumps(notice.data))

    # -- from the outbox to the receiver --------------------------------------------------------------

    def _send(self, receiver: Receiver, taken: LeasedEffect) -> EffectOutcome:
        try:
            notice = NoticeBody(data=json.loads(taken.data))
            answer = post(receiver, notice.delivery, notice.body(self._link), self._keys)
        except (LookupError, TypeError, ValueError) as error:
            raise EffectFailed(f"This version of Interlock cannot send the notice: {error!r}.") from error
        return EffectOutcome(outcome=f"accepted ({answer.status})")


def subjects_of(settings: Settings) -> tuple[str, ...]:
    """What is sent, by the setting `notify_events`."""
    chosen = listed(settings.notify_events) or ("question", "dead_letter")
    for each in chosen:
        if each not in SUBJECTS:
            raise InvalidInput(
                f"notify_events has the unknown word {each[:40]!r}.", f"Use {', '.join(SUBJECTS)}."
            )
    return chosen


def item_link(public_url: str, item: int | None) -> str | None:
    """The address of an item's page; of the overview without an item; None if the server's address is
    unknown."""
    if not public_url:
        return None
    return public_url.rstrip("/") + ("/" if item is None else f"/items/{item}")


def send_test(
    receiver: Receiver, settings: Settings, environ: Mapping[str, str], *, delivery: str
) -> ReceiverAnswer:
    """Send a test notice, at once and without a store."""
    data: dict[str, Any] = {
        "id": delivery,
        "type": "test",
        "text": f"*Test* of Interlock by {escaped(settings.actor, NAME_MAX)}. Notices arrive here.",
    }
    body = NoticeBody(data=data).body(partial(item_link, settings.public_url))
    return post(receiver, delivery, body, keys_of(environ))
