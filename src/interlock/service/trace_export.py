"""Turns the history into spans: one trace per item, from its arrival to its end.

A mark records how far the history was sent. It moves once the spans have arrived. If a process dies before,
the next one sends them again with the same ids. While the collector is unreachable, the history waits. Spans
that it keeps refusing are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from interlock.core import tracing
from interlock.core.counters import ENDED, FAILED_RUNS, RUNS
from interlock.core.model import Event, EventKind, Item, ItemId
from interlock.core.states import ItemStatus
from interlock.core.tracing import TraceContext
from interlock.service.event_cursor import follow
from interlock.service.spans import Span, Spans
from interlock.store.port import Store, StoredEvent

MARK = "traces"
#: How often a reachable collector may refuse spans before they are dropped: for five minutes.
TRIES_MAX = 20
_ARRIVALS = frozenset({EventKind.ITEM_ADDED, EventKind.ITEM_OBSERVED, EventKind.ITEM_COALESCED})
_TOLD = frozenset({EventKind.RUN_STARTED, *_ARRIVALS, *RUNS, *ENDED})


class TraceExporter:
    """Sends the history of one store as spans."""

    def __init__(
        self,
        store: Store,
        spans: Spans,
        environ: Mapping[str, str],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`tell` is called when spans were dropped."""
        self._store, self._spans, self._environ, self._tell = store, spans, environ, tell

    def follow(self) -> None:
        """Send new events. Bounded."""
        self._spans.flush()
        follow(self._store, MARK, self._take)

    def _take(self, found: list[StoredEvent], tries: int) -> int | None:
        if self._spans.send(self.spans_of(found)):
            return len(found)
        if tries < TRIES_MAX or not self._spans.reach():
            return None
        where = f"{found[0].seq} to {found[-1].seq}"
        self._tell(f"The collector refused the spans of events {where} {tries} times; they were dropped.")
        return len(found)

    def spans_of(self, found: list[StoredEvent]) -> list[Span]:
        told = [stored.event for stored in found if stored.event.kind in _TOLD]
        ids = sorted({id_ for event in told for id_ in (event.item, _absorber(event)) if id_ is not None})
        items = self._store.named_items(ids) if ids else {}
        payloads = self._store.payloads(ids) if ids else {}
        contexts = {id_: context_of(item, payloads.get(id_), self._environ) for id_, item in items.items()}
        spans: list[Span] = []
        for event in told:
            if event.item is not None and event.item in items:
                spans += _told(event, items[event.item], contexts)
        return spans


def _told(event: Event, item: Item, contexts: Mapping[ItemId, TraceContext]) -> Iterator[Span]:
    context = contexts[item.id]
    own = tracing.item_span(context, item.id)
    kind, about = event.kind, _about(item)
    if kind in _ARRIVALS:
        verdict = {"decision": event.data.get("verdict"), "reason": event.reason}
        here = context.child(f"arrival {item.id}")
        yield Span("add", here, own.span, event.at_us, event.at_us, about | verdict, "producer")
    if kind is EventKind.RUN_STARTED:
        start_us = event.at_us - (event.span_us or 0)
        here = context.child(f"claim {event.run}")
        more = {"run": event.run, "agent": event.agent}
        yield Span("claim", here, own.span, start_us, event.at_us, about | more, "consumer")
    if kind in RUNS:
        here = tracing.run_span(context, event.run or 0)
        more = {"run": event.run, "agent": event.agent, "outcome": RUNS[kind], "reason": event.reason}
        wrong = RUNS[kind] if kind in FAILED_RUNS else ""
        start_us = event.at_us - (event.span_us or 0)
        yield Span("run", here, own.span, start_us, event.at_us, about | more, "internal", wrong)
    ended = _end(event)
    if ended:
        more = {"status": ended, "reason": event.reason}
        wrong = ended if ended == ItemStatus.FAILED else ""
        times = item.spec.created_us, event.at_us
        into = _absorber(event)
        links = (tracing.item_span(contexts[into], into),) if into is not None and into in contexts else ()
        yield Span("item", own, context.span, *times, about | more, "internal", wrong, links)


def _absorber(event: Event) -> ItemId | None:
    """The item that absorbed or replaced this one."""
    other = event.data.get("into_item") or event.data.get("by_item")
    return ItemId(other) if isinstance(other, int) else None


def context_of(item: Item, payload: str | None, environ: Mapping[str, str]) -> TraceContext:
    """Where an item belongs."""
    known = json.loads(payload) if payload else None
    return tracing.of_item(item.id, item.spec.created_us, known, environ)


def _end(event: Event) -> str:
    """How the item ended with an event; empty if it did not."""
    if event.kind is EventKind.RUN_SUCCEEDED:
        return ItemStatus.COMPLETED
    if event.kind in RUNS:
        return ItemStatus.FAILED if event.data.get("item_status") == ItemStatus.FAILED else ""
    return ENDED.get(event.kind, "")


def _about(item: Item) -> dict[str, str | int | float | bool | None]:
    spec = item.spec
    return {
        "item": spec.id,
        "project": spec.project,
        "type": spec.type,
        "title": spec.title,
        "priority": spec.priority,
        "lane": spec.lock_lane,
        "attempt": item.state.attempt,
    }
