"""Shows work on GitHub: comments on items and lane statuses of pull requests; removes 👀 of dead runs.

Changed items are found in the history, and their effects are enqueued. The text is rendered when it is sent,
so a pending effect covers every later change. The mark in the history moves after the effects are enqueued,
so a change is enqueued at least once. An unchanged text is not sent again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from interlock.core.model import EventKind, ItemId
from interlock.core.record import Record
from interlock.github import facts as facts_of
from interlock.github.effects import (
    DESCRIPTION_MAX,
    CommitStatus,
    IssueRef,
    LaneStatus,
    ProgressComment,
    ReactionRemoval,
)
from interlock.github.facts import NumberFacts
from interlock.github.orders import item_location
from interlock.github.subject import subject_of
from interlock.service.contract import Service, ShowView
from interlock.service.event_cursor import follow
from interlock.service.item_view import ItemView
from interlock.store.github import DisplayOptions, KnownRepository
from interlock.store.outbox import Effect
from interlock.store.port import ItemQuery, Store, StoredEvent

#: The name of the mark that stores the position in the history.
MARK = "github"
#: The most items that are refreshed after their lane was blocked or unblocked.
BLOCKED_MAX = 50
#: A worker removes its own 👀 when its run ends. After this time it is orphaned.
ORPHANED_AFTER_S, REACTIONS_MAX = 60.0, 100
#: The most pull requests for the same issues that are read.
RIVALS_MAX = 20
ERROR_MAX_CHARS = 200
_ANSWER = "Answer with a comment here to continue."

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
    """The content of the comment on an item."""

    #: The state, in one line.
    line: str
    #: What a person can do now.
    hint: str

    @property
    def text(self) -> str:
        return f"{self.line}\n\n{self.hint}" if self.hint else self.line


class StatusPublisher:
    """Enqueues effects that show the work in one store, and renders their text."""

    def __init__(self, service: Service, store: Store) -> None:
        self._service, self._store = service, store

    # Enqueueing

    def enqueue(self) -> int:
        """Enqueue effects for the changes since the last time; gives how many are new. Bounded."""
        github = self._store.github
        return self._remove_orphaned_reactions() + follow(
            self._store,
            MARK,
            lambda found, _: github.outbox.enqueue(list(self._effects(found))),
            whole=True,
            needed=github.is_used,
        )

    def _effects(self, found: list[StoredEvent]) -> Iterator[Effect]:
        changed, ran = dict[ItemId, int](), set[ItemId]()
        for each in found:
            for item in self._items(each):
                changed[item] = each.seq
                if each.event.kind in _RUNS:
                    ran.add(item)
        payloads = self._store.payloads(list(changed))
        seen = dict[str, tuple[KnownRepository, DisplayOptions] | None]()
        for item, payload in payloads.items():
            of = subject_of(json.loads(payload))
            if of is None:
                continue
            if of.repository not in seen:
                known = self._store.github.repository_named(of.repository)
                seen[of.repository] = known and (known, self._store.github.choices(known.id))
            if (there := seen[of.repository]) is None:
                continue
            place, choices, seq = IssueRef(there[0].id, of.number), there[1], changed[item]
            if choices.comments:
                comment = ProgressComment(item=item, topic=self._topic(item))
                yield comment.row(place, f"item-{item}@{seq}")
            if choices.lane_status and item in ran and self._open_pull(place) is not None:
                yield LaneStatus().row(place, f"lane@{seq}")

    def _items(self, each: StoredEvent) -> list[ItemId]:
        event = each.event
        if event.item is not None and event.kind in _RUNS | _ITEMS | _BLOCKS:
            return [event.item]
        if event.kind in _BLOCKS and event.lane:
            return [item.id for item in self._store.items(ItemQuery(lane=event.lane, limit=BLOCKED_MAX))]
        return []

    def _topic(self, item: int) -> str:
        """The topic of an item. It includes the store, as two stores may work on one repository."""
        return f"item-{item}.{self._store.lineage().store}"

    def _remove_orphaned_reactions(self) -> int:
        """Enqueue the removal of dead runs' 👀, unless a live run shows the same one."""
        left = self._store.github.orphaned_reactions(ORPHANED_AFTER_S, REACTIONS_MAX)
        for shown, shared in left:
            gone = ReactionRemoval(subject=shown.kind, id=shown.subject, reaction=shown.reaction)
            row = gone.row(IssueRef(shown.repository, shown.number), f"unreact:run-{shown.run}")
            self._store.github.drop_reaction(shown.run, () if shared else (row,))
        return sum(not shared for _, shared in left)

    # Rendering

    def progress(self, place: IssueRef, item: int, *, there: bool) -> Progress | None:
        """The current comment on an item; None if it should not exist, or is not worth creating."""
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

    def lane(self, place: IssueRef) -> CommitStatus | None:
        """The current lane status for the newest commit of a pull request; None if it should have none."""
        facts = self._open_pull(place)
        if facts is None or not self._store.github.choices(place.repository).lane_status:
            return None
        rivals = self.rivals(place, facts)
        if rivals:
            (issue, pull), more = rivals[0], len({pull for _, pull in rivals}) - 1
            others = f"#{pull}" if not more else f"#{pull} and {more} more"
            said = f"{others} would also close #{issue}: merge only one"
            url = f"{facts.url.rsplit('/', 1)[0]}/{pull}"
            return CommitStatus(sha=facts.head, state="failure", description=said, url=url)
        repository = self._store.github.repository(place.repository, facts.name)
        owner = self._store.owner(item_location(repository, place.number).lane)
        if owner is None or owner.state.run is None:
            return CommitStatus(sha=facts.head, state="success", description="No run is working on it")
        held = ItemView(owner)
        said = f"{held.run_agent} has been working on it since {_at(held.started_at)} (run {held.run})"
        return CommitStatus(sha=facts.head, state="pending", description=said[:DESCRIPTION_MAX])

    def rivals(self, place: IssueRef, facts: NumberFacts) -> list[tuple[int, int]]:
        """Other open pull requests that close one of this one's issues, each with that issue."""
        if not facts.closes:
            return []
        found = self._store.github.pulls_closing(place.repository, facts.closes, RIVALS_MAX)
        return [(issue, pull) for issue, pull in found if pull != place.number]

    def _open_pull(self, place: IssueRef) -> NumberFacts | None:
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
    """A headline, details, and what a person can do."""
    item = show.item
    stop = "`/interlock cancel` cancels it, `/interlock why` explains it."
    again = "`/interlock retry` retries it."
    error = _last_line(show.runs[-1].error) if show.runs else ""
    failed = f" The last attempt failed: {error}" if error else ""
    match item.status:
        case "in_progress":
            asked = " It was asked to stop." if item.cancel_requested else ""
            who = f"{item.run_agent} has been working on it since {_at(item.started_at)} (run {item.run})."
            return ("Running", who + asked), stop
        case "completed":
            return ("Done", f"at {_at(item.ended_at)}."), ""
        case "failed":
            tries = f"{item.attempt} attempt{'s' if item.attempt != 1 else ''}"
            return ("Failed", f"after {tries}.{f' {error}' if error else ''}"), again
        case "cancelled":
            return ("Cancelled", _code(item.cancel_reason or item.reason)), again
        case "superseded":
            return ("Superseded", f"by item {item.absorbed_by}."), ""
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
    """A foreign text on one line, without active mentions, links or commands."""
    flat = " ".join(text.replace("`", "'").split())
    return f"`{flat[:ERROR_MAX_CHARS]}{'…' if len(flat) > ERROR_MAX_CHARS else ''}`" if flat else ""


def _at(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M} UTC"
