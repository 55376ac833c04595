"""Trace spans between GitHub and the store: deliveries, decisions, effects and merges."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from interlock.core import tracing
from interlock.core.errors import InterlockError
from interlock.core.model import ItemId
from interlock.core.tracing import TraceContext
from interlock.github.effects import ProgressComment, read_effect
from interlock.github.orders import PARENT
from interlock.service.relay import EffectFailed
from interlock.service.spans import About, Span, Spans
from interlock.service.trace_export import context_of
from interlock.store.links import LinkedRun
from interlock.store.outbox import LeasedEffect
from interlock.store.port import Store


def now_us() -> int:
    return time.time_ns() // 1000


class Traces:
    """Records spans for one store. A failure to record stops no work."""

    def __init__(self, store: Store, spans: Spans, environ: Mapping[str, str]) -> None:
        self._store, self._spans, self._environ = store, spans, environ

    def parent(self, delivery: str) -> str:
        """The parent span of a delivery's items: the decision on it."""
        return self._decision(delivery).text

    def _decision(self, delivery: str) -> TraceContext:
        return tracing.of_delivery(delivery, self._environ).child("decide")

    def received(self, delivery: str, event: str, start_us: int, *, new: bool) -> None:
        """Record a received webhook."""
        if new:
            root = tracing.of_delivery(delivery, self._environ).child("webhook")
            about = {"delivery": delivery, "event": event}
            self._spans.record(Span("webhook", root, "", start_us, now_us(), about, "server"))

    def decided(self, delivery: str, event: str, start_us: int, status: str, outcome: str) -> None:
        """Record a decided or postponed delivery."""
        if status != "decided":
            return
        here = self._decision(delivery)
        root = here.child("webhook")
        about = {"delivery": delivery, "event": event, "outcome": outcome}
        self._spans.record(Span("decide", here, root.span, start_us, now_us(), about))

    def sent(self, taken: LeasedEffect, start_us: int, outcome: str) -> None:
        """Record an effect that was carried out, or found unneeded."""
        with suppress(InterlockError, EffectFailed, LookupError):
            effect = read_effect(taken.kind, taken.data)
            item = effect.item if isinstance(effect, ProgressComment) else None
            if item is None and taken.run is not None:
                item = self._store.github.links.runs([taken.run])[taken.run].item
            if item is None:
                return
            context = self._of_item(item)
            parent = (
                tracing.item_span(context, item)
                if taken.run is None
                else tracing.run_span(context, taken.run)
            )
            here = context.child(f"effect {taken.repository} {taken.number} {taken.name}")
            about: About = {
                "item": item,
                "effect": taken.kind,
                "repository": taken.repo,
                "number": taken.number,
                "outcome": outcome,
            }
            self._spans.record(Span("effect", here, parent.span, start_us, now_us(), about, "client"))

    def merged(self, followed: Sequence[LinkedRun]) -> None:
        """Record the merge of runs' pull request."""
        because = tracing.read(PARENT.get())
        with suppress(InterlockError, LookupError):
            for each in {each.item: each for each in followed}.values():
                context = self._of_item(each.item)
                here = context.child(f"merge {each.repository} {each.number}")
                about: About = {"item": each.item, "run": each.run, "url": each.url, "number": each.number}
                links = () if because is None else (because,)
                parent, at_us = tracing.item_span(context, each.item).span, now_us()
                self._spans.record(Span("merge", here, parent, at_us, at_us, about, "internal", "", links))

    def _of_item(self, item: int) -> TraceContext:
        found = self._store.item(ItemId(item))
        if found is None:
            raise LookupError(item)
        return context_of(found, self._store.payloads([found.id]).get(found.id), self._environ)
