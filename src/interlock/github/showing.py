"""What GitHub shows of work: a comment on each item, who holds a pull request's lane, and no 👀 of the dead.

The history says which items have changed. What shows them is owed then, and its words are made when it is
sent, from what is true at that moment: an effect that still waits covers every later change. Whoever follows
the history moves a mark behind the effects, so a change may be owed twice, never not at all; and what GitHub
shows already is not sent again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from interlock.core.model import EventKind, ItemId
from interlock.core.record import Record
from interlock.github import facts as facts_of
from interlock.github import owing
from interlock.github.about import about
from interlock.github.effects import DESCRIPTION_MAX, Subject
from interlock.github.facts import Facts
from interlock.github.orders import place_of
from interlock.github.owing import Place
from interlock.service.contract import Service, ShowView
from interlock.service.history import follow
from interlock.service.itemview import ItemView
from interlock.store.github_port import Choices, Repository
from interlock.store.outbox_port import Effect
from interlock.store.port import ItemQuery, Store, StoredEvent

#: How far the history was followed, as the store knows it.
MARK = "github"
#: How many items of a lane that was blocked or let go are shown anew.
BLOCKED_MAX = 50
#: A worker takes its own 👀 away when its run has ended. After so long it will not any more.
SIGN_LEFT_S, SIGNS_MAX = 60.0, 100
#: How many pull requests for the same issues are looked at.
RIVALS_MAX = 20
ERROR_MAX_CHARS = 200
_ANSWER = "Answer with a comment here; it goes on then."

_RUNS = frozenset(kind for kind in EventKind if kind.startswith("run.") and kind != EventKind.RUN_REFUSED)
_ITEMS = frozenset(
    {
        EventKind.ITEM_ADDED,
        EventKind.ITEM_SUPERSEDED,
        EventKind.ITEM_PARKED,
        EventKind.ITEM_REENTERED,
        EventKind.ITEM_CANCELLED,
        EventKind.ITEM_RETRIED,
        EventKind.CANCEL_REQUESTED,
        EventKind.QUESTION_ASKED,
        EventKind.QUESTION_ANSWERED,
        EventKind.QUESTION_TIMED_OUT,
        EventKind.LANE_OVERTAKEN,
        EventKind.LANE_PROMOTED,
    }
)
_BLOCKS = frozenset({EventKind.BLOCK_SET, EventKind.BLOCK_REMOVED})


class Progress(Record):
    """What the comment on an item says."""

    #: All that changes, in one line.
    line: str
    #: What somebody may do now.
    hint: str

    @property
    def text(self) -> str:
        return f"{self.line}\n\n{self.hint}" if self.hint else self.line


class LaneStatus(Record):
    """What a commit of a pull request shows of its lane."""

    sha: str
    state: str
    description: str
    url: str = ""

    @property
    def line(self) -> str:
        return f"{self.state} on {self.sha[:12]}: {self.description}"


class Showing:
    """Owes what shows the work in one store, and makes its words."""

    def __init__(self, service: Service, store: Store) -> None:
        self._service, self._store = service, store

    # What is owed

    def owe(self) -> int:
        """Owe what shows the changes since the last time; gives how many effects are new. Bounded."""
        owe = self._store.github.outbox.owe
        return self._take_signs_away() + follow(
            self._store, MARK, lambda found, _: owe(list(self._effects(found))), whole=True
        )

    def _effects(self, found: list[StoredEvent]) -> Iterator[Effect]:
        changed, ran = dict[ItemId, int](), set[ItemId]()
        for each in found:
            for item in self._items(each):
                changed[item] = each.seq
                if each.event.kind in _RUNS:
                    ran.add(item)
        payloads = self._store.payloads(list(changed))
        seen = dict[str, tuple[Repository, Choices] | None]()
        for item, payload in payloads.items():
            of = about(json.loads(payload))
            if of is None:
                continue
            if of.repository not in seen:
                known = self._store.github.repository_named(of.repository)
                seen[of.repository] = known and (known, self._store.github.choices(known.id))
            if (there := seen[of.repository]) is None:
                continue
            place, choices, seq = Place(there[0].id, of.number), there[1], changed[item]
            if choices.comments:
                yield owing.progress(place, f"item-{item}@{seq}", item, self._topic(item))
            if choices.lane_status and item in ran and self._open_pull(place) is not None:
                yield owing.lane(place, f"lane@{seq}")

    def _items(self, each: StoredEvent) -> list[ItemId]:
        event = each.event
        if event.item is not None and event.kind in _RUNS | _ITEMS | _BLOCKS:
            return [event.item]
        if event.kind in _BLOCKS and event.lane:
            return [item.id for item in self._store.items(ItemQuery(lane=event.lane, limit=BLOCKED_MAX))]
        return []

    def _topic(self, item: int) -> str:
        """Two stores may work on one repository."""
        return f"item-{item}.{self._store.lineage().store}"

    def _take_signs_away(self) -> int:
        """Owe that 👀 goes which dead runs left, unless a later run shows the same one."""
        left = self._store.github.left_signs(SIGN_LEFT_S, SIGNS_MAX)
        for sign, shared in left:
            place, subject = Place(sign.repository, sign.number), Subject(sign.kind, sign.subject)
            gone = owing.unreact(place, f"unreact:run-{sign.run}", subject, reaction=sign.reaction)
            self._store.github.drop_sign(sign.run, () if shared else (gone,))
        return sum(not shared for _, shared in left)

    # Its words

    def progress(self, place: Place, item: int, *, there: bool) -> Progress | None:
        """What the comment on an item says now; None if it should not be there, or is not worth making."""
        if (
            not self._store.github.choices(place.repository).comments
            or self._store.item(ItemId(item)) is None
        ):
            return None
        show = self._service.show(item)
        never_ran = show.item.ended_at is not None and not show.runs
        if show.item.status == "coalesced" or (never_ran and not there):
            return None
        return _progress(show)

    def lane(self, place: Place) -> LaneStatus | None:
        """What the newest commit of a pull request shows now; None if nothing should."""
        facts = self._open_pull(place)
        if facts is None or not self._store.github.choices(place.repository).lane_status:
            return None
        rivals = self.rivals(place, facts)
        if rivals:
            (issue, pull), more = rivals[0], len({pull for _, pull in rivals}) - 1
            others = f"#{pull}" if not more else f"#{pull} and {more} more"
            said = f"{others} would close #{issue} too: only one of them should be merged"
            url = f"{facts.url.rsplit('/', 1)[0]}/{pull}"
            return LaneStatus(sha=facts.head, state="failure", description=said, url=url)
        repository = self._store.github.repository(place.repository, facts.name)
        owner = self._store.owner(place_of(repository, place.number).lane)
        if owner is None or owner.state.run is None:
            return LaneStatus(sha=facts.head, state="success", description="Nobody works on it now")
        held = ItemView(owner)
        said = f"{held.run_agent} works on it since {_at(held.started_at)} (run {held.run})"
        return LaneStatus(sha=facts.head, state="pending", description=said[:DESCRIPTION_MAX])

    def rivals(self, place: Place, facts: Facts) -> list[tuple[int, int]]:
        """Other open pull requests that close an issue which this one closes, each with that issue."""
        if not facts.closes:
            return []
        found = self._store.github.closing(place.repository, facts.closes, RIVALS_MAX)
        return [(issue, pull) for issue, pull in found if pull != place.number]

    def _open_pull(self, place: Place) -> Facts | None:
        known = self._store.github.known(*place)
        facts = facts_of.from_json(json.loads(known.facts)) if known else None
        return facts if facts is not None and facts.pull and facts.open and facts.head else None


def _progress(show: ShowView) -> Progress:
    item = show.item
    said, hint = _said(show)
    for_whom = f" for {item.agent}" if item.agent else ""
    line = f"**{said[0]}** · {item.type}{for_whom} (item {item.id}){f': {said[1]}' if said[1] else ''}"
    return Progress(line=line, hint=hint)


def _said(show: ShowView) -> tuple[tuple[str, str], str]:
    """A headline, what more there is to say, and what somebody may do."""
    item = show.item
    stop = "`/interlock cancel` ends it, `/interlock why` says more."
    again = "`/interlock retry` tries it again."
    error = _last_line(show.runs[-1].error) if show.runs else ""
    failed = f" The last try failed: {error}" if error else ""
    match item.status:
        case "in_progress":
            asked = " It was asked to stop." if item.cancel_requested else ""
            who = f"{item.run_agent} works on it since {_at(item.started_at)} (run {item.run})."
            return ("Running", who + asked), stop
        case "completed":
            return ("Done", f"at {_at(item.ended_at)}."), ""
        case "failed":
            tries = f"{item.attempt} attempt{'s' if item.attempt != 1 else ''}"
            return ("Failed", f"after {tries}.{f' {error}' if error else ''}"), again
        case "cancelled":
            return ("Cancelled", _code(item.cancel_reason or item.reason)), again
        case "superseded":
            return ("Superseded", f"item {item.absorbed_by} has taken its place."), ""
        case _:
            return _waiting(item, failed), stop if item.question is None else _ANSWER


def _waiting(item: ItemView, failed: str) -> tuple[str, str]:
    if item.question is not None:
        return "Asks a question", _code(item.question)
    if item.blocked_by:
        return "Blocked", f"waits for {', '.join(item.blocked_by)}.{failed}"
    if item.run_at is not None:
        return "Waiting", f"until {_at(item.run_at)}.{failed}"
    behind = "behind other work here, " if item.status == "deferred" else ""
    return "Queued", f"{behind}since {_at(item.created_at)}.{failed}"


def _last_line(text: str | None) -> str:
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return _code(lines[-1]) if lines else ""


def _code(text: str) -> str:
    """A text of somebody else on one line, in which nothing is a mention, a link or a command."""
    flat = " ".join(text.replace("`", "'").split())
    return f"`{flat[:ERROR_MAX_CHARS]}{'…' if len(flat) > ERROR_MAX_CHARS else ''}`" if flat else ""


def _at(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M} UTC"
