"""The operations on effects: changes on GitHub and notices that wait, have failed, or were sent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core import names
from interlock.core.errors import InvalidInput
from interlock.core.validation import given_reason
from interlock.service.contract import EffectStatus, OutboxEffectView
from interlock.service.item_view import maybe_moment, moment
from interlock.store.outbox import EffectPlace, EffectRecord
from interlock.store.port import Store

_ID = re.compile(r"(-?[0-9]{1,18}):([0-9]{1,18}):([0-9]{1,18})", re.ASCII)
_START = EffectPlace(-(10**18), 0, 0)
#: The parts of effects that say what they change; the first one that an effect has counts.
_DETAILS = ("labels", "label", "logins", "workflow", "state", "content", "topic", "text")
_DETAIL_MAX = 120


class EffectOperations:
    """Lists effects, and decides on those that have failed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def effects(
        self, *, status: str = EffectStatus.WAITING, after: str | None = None, limit: int = 100
    ) -> list[OutboxEffectView]:
        """Effects of one status: waiting ones by number, dead ones oldest first, sent ones newest first.

        `after` is for waiting ones."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        chosen = names.one_of("status", status, EffectStatus)
        if after is not None and chosen is not EffectStatus.WAITING:
            raise InvalidInput("Only waiting effects have pages.", "Leave `after` out.", fields=("after",))
        outbox = self._store.github.outbox
        match chosen:
            case EffectStatus.WAITING:
                found = outbox.waiting(limit, after=_START if after is None else _place(after))
            case EffectStatus.DEAD:
                found = outbox.failed(limit)
            case EffectStatus.SENT:
                found = outbox.settled(limit)
        return [_view(each, chosen) for each in found]

    def retry_effects(self, effects: Sequence[str] = ()) -> int:
        """Queue dead effects again: those with these ids, or without ids up to 1,000, the oldest first. Gives
        their number."""
        places = _places(effects)
        outbox = self._store.github.outbox
        return outbox.retry_each(places) if places else outbox.retry(names.BATCH_MAX)

    def drop_effects(self, effects: Sequence[str], *, why: str, by: str = "") -> int:
        """Give up dead effects: they are not sent. Gives their number."""
        places = _places(effects)
        if not places:
            raise InvalidInput("No effect is named.", "Name at least one.")
        names.check_text("operator", by, names.NAME_MAX_CHARS)
        who = f" by {by.strip()}" if by.strip() else ""
        return self._store.github.outbox.drop_each(places, f"dropped{who}: {given_reason(why)}")


def _places(effects: Sequence[str]) -> list[EffectPlace]:
    named = names.check_list("effects", effects)
    if len(named) > names.BATCH_MAX:
        raise InvalidInput(f"{len(named):,} effects: at most {names.BATCH_MAX:,}.", "Name fewer.")
    return [_place(each) for each in named]


def _place(text: str) -> EffectPlace:
    found = _ID.fullmatch(names.check_text("effect", text))
    if found is None:
        raise InvalidInput(f"{text[:80]!r} is not the id of an effect.", "List the effects.")
    return EffectPlace(*map(int, found.groups()))


def _view(effect: EffectRecord, status: EffectStatus) -> OutboxEffectView:
    return OutboxEffectView(
        id=f"{effect.repository}:{effect.number}:{effect.place}",
        status=status.value,
        repository=effect.repo,
        number=effect.number,
        name=effect.name,
        kind=effect.kind,
        detail=_detail(effect.data),
        run=effect.run,
        enqueued_at=moment(effect.enqueued_us),
        failures=effect.tries,
        sent_at=maybe_moment(effect.sent_us),
        due_at=maybe_moment(effect.due_us),
        ended_at=maybe_moment(effect.done_us if effect.dead_us is None else effect.dead_us),
        outcome=effect.outcome,
    )


def _detail(data: str) -> str:
    """What an effect changes, in a few words; empty if it is rendered when it is sent."""
    try:
        parts: Any = json.loads(data)
    except ValueError:
        return ""
    if not isinstance(parts, Mapping):
        return ""
    value = next((parts[name] for name in _DETAILS if parts.get(name)), "")
    text = " ".join((", ".join(map(str, value)) if isinstance(value, list) else str(value)).split())
    return text if len(text) <= _DETAIL_MAX else f"{text[: _DETAIL_MAX - 1]}…"
