"""Claims: an agent asks for work, waits for it, and checks whether its run is still wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from interlock.core import names
from interlock.core.claims import MESSAGES_AT_ONCE, Agent, Claim, narrowed
from interlock.core.cures import cure
from interlock.core.endings import explain_loss
from interlock.core.errors import InvalidInput, ItemEnded
from interlock.core.handles import Handle, read_handle
from interlock.core.model import ItemId, RunId
from interlock.core.overtaking import OVERTAKE_AFTER_S
from interlock.core.record import replace
from interlock.core.validation import checked_claim
from interlock.service.access import RequestNotes
from interlock.service.contract import LeaseView
from interlock.service.gathering import Gathering, Steps, gathered
from interlock.service.item_view import ItemView, maybe_moment
from interlock.service.reads import ended_run, item_of_run, require_item
from interlock.service.view_builders import message_views
from interlock.store.bulk import in_bulk
from interlock.store.port import ClaimedItem, Store

IN_VAIN_FIRST_S, IN_VAIN_MAX_S = 0.002, 0.25
#: How often a process reports that an agent asks for work: several times before it would count as gone.
SEEN_EVERY_S, SEEN_IN_TIME = 5.0, 4


class PresenceReports:
    """Reports periodically that agents of this process ask for work."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: When this process last reported each agent, and how often it reports.
        self._known: dict[str, tuple[float, float]] = {}

    def see(self, key: str, name: str) -> bool:
        """Record that the agent with this key and name asks for work; gives whether it was time to."""
        now_s = time.monotonic()
        said_s, every_s = self._known.get(key, (0.0, 0.0))
        is_time = now_s - said_s >= every_s
        if is_time:
            after_s = self._store.see_agent(key, name) or OVERTAKE_AFTER_S
            self._known[key] = now_s, min(SEEN_EVERY_S, after_s / SEEN_IN_TIME)
        return is_time


class ClaimOperations:
    """Starts runs for agents that ask for work."""

    def __init__(
        self,
        store: Store,
        gathering: Gathering,
        presence: PresenceReports,
        notes: RequestNotes,
        *,
        poll_s: float,
    ) -> None:
        self._store, self._gathering = store, gathering
        self._presence, self._notes, self._poll_s = presence, notes, poll_s

    @gathered
    def next(
        self,
        agent: str,
        *,
        types: Sequence[str] = (),
        labels: Sequence[str] = (),
        limit: int = 1,
        wait_s: float = 0.0,
        lease_s: float | None = None,
        worker: str | None = None,
        item: int | None = None,
        external: bool = False,
    ) -> Steps[list[LeaseView]]:
        """Claim up to `limit` items, waiting up to `wait_s` for the first.

        With `item`, only that one: nothing while it cannot be claimed, an `ItemEnded` once it has ended.
        `external` is for work done outside: the run has no lease, and ends when its end is reported or
        observed (`end_external`).
        """
        claim = checked_claim(agent, types, labels, limit, lease_s, worker, external=external)
        if item is not None:
            claim = self._only(claim, ItemId(item))
        names.check_number("wait", wait_s, 0, names.WAIT_MAX_S)
        asked_s = time.monotonic()
        deadline_s = asked_s + wait_s
        in_vain_s = 0.0
        while True:
            waited_s = int(1000 * (time.monotonic() - asked_s)) / 1000
            self._presence.see(claim.agent, agent.strip())
            claimed, agent_now = yield from self._claim(claim)
            if claim.item is not None and not claimed:
                self._require_unended(claim.item)
            left_s = deadline_s - time.monotonic()
            if claimed or left_s <= 0:
                return lease_views(self._store, claimed, waited_s)
            allowed = narrowed(claim, agent_now)
            # Ready items that the agent cannot take now, as when it is full, would wake it in vain: poll
            # less.
            time.sleep(min(left_s, self._poll_s if allowed is None else in_vain_s))
            if allowed is not None:
                woken = self._store.wait_for_work(allowed, min(max(0.0, left_s - in_vain_s), self._poll_s))
                in_vain_s = min(max(2 * in_vain_s, IN_VAIN_FIRST_S), IN_VAIN_MAX_S) if woken else 0.0

    def _only(self, claim: Claim, item: ItemId) -> Claim:
        require_item(self._store, item)
        if claim.limit != 1:
            raise InvalidInput(
                "`limit` and `item` cannot be combined.", "Pass one of them.", fields=("limit", "item")
            )
        return replace(claim, item=item)

    def _require_unended(self, item: ItemId) -> None:
        found = require_item(self._store, item)
        if found.terminal:
            raise ItemEnded(
                f"Item {item} has already ended as {found.status} ({found.state.reason}).",
                cures=(cure("show", "shows its history", item=item),),
                reason=found.state.reason,
            )

    def _claim(self, claim: Claim) -> Steps[tuple[list[ClaimedItem], Agent | None]]:
        answer = yield from self._gathering.claim(claim, self._notes.note_claim(), self._notes.request)
        return answer.claimed, answer.agent

    def claimed(self, kept: Sequence[tuple[int, int, int]]) -> list[LeaseView]:
        """The leases of a repeated request that are still held."""
        items = [(self._store.item(ItemId(item)), RunId(run), bits) for item, run, bits in kept]
        held = [item for item, run, bits in items if item is not None and item.is_run_of(run, bits)]
        payloads = self._store.payloads([item.id for item in held])
        return lease_views(self._store, [ClaimedItem(item, payloads.get(item.id)) for item in held], 0.0)


class RunStarts:
    """What a run checks and reports before its command starts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: Says why a run must not start. On servers it asks GitHub.
        self.last_look: Callable[[LeaseView], str | None] | None = None

    def unwanted(self, run: str) -> str | None:
        """Why a run must not start, by a last check of its item's source. None if it may.

        Otherwise its item is cancelled or waits, and the caller should release the run. A run whose source
        cannot be checked may start. A run that has ended is refused.
        """
        handle = read_handle(run)
        item = item_of_run(self._store, handle)
        if not item.is_run_of(handle.run, handle.bits):
            raise explain_loss(handle.run, ended_run(self._store, handle), item).error()
        if self.last_look is None:
            return None
        payload = self._store.payloads([item.id]).get(item.id)
        return self.last_look(lease_view(self._store, ClaimedItem(item, payload), 0.0))

    def act_as(self, run: str, account: str) -> None:
        """Name the GitHub account of a run: its comments on the run's lane count as the agent's own.

        A run that has ended is refused.
        """
        login, handle = names.check_name("account", account).lower(), read_handle(run)
        item = item_of_run(self._store, handle)
        if not item.is_run_of(handle.run, handle.bits):
            raise explain_loss(handle.run, ended_run(self._store, handle), item).error()
        self._store.github.keep_account(handle.run, item.id, login)


@in_bulk
def lease_views(store: Store, claimed: Sequence[ClaimedItem], waited_s: float) -> list[LeaseView]:
    """The answer to a claim: the started items with their payloads and messages."""
    return [lease_view(store, c, waited_s) for c in claimed]


def lease_view(store: Store, claimed: ClaimedItem, waited_s: float) -> LeaseView:
    """The same for one item."""
    item, payload = claimed
    spec, state = item
    assert state.run is not None and state.run_bits is not None
    lease_s = state.run_lease_s
    messages = store.messages(spec.id, 0, MESSAGES_AT_ONCE) if state.message_count else ()
    return LeaseView(
        str(Handle(state.run, spec.id, state.run_bits)),
        state.run,
        maybe_moment(state.due_us),
        lease_s,
        None if lease_s is None else round(lease_s / 3, 3),
        ItemView(item, payload),
        tuple(message_views(messages)) if messages else (),
        waited_s,
    )
