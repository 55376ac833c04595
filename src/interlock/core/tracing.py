"""Traces: which trace an item belongs to, and the ids of its spans.

    trace of an item    the one that its payload's `traceparent` names, else derived from its number and time
    span of a run       derived from the trace and the run's number

Ids are derived from values that every process knows, so they need not be passed on: a worker can name the
span of its run before it is recorded, and a span that is recorded twice has the same id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from interlock.core.row import NamedTuple

#: The field of a payload, as the header and the variable of W3C Trace Context are called.
FIELD = "traceparent"
#: Each of these asks for traces.
_WANTED = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_FORM = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII
)


class TraceContext(NamedTuple):
    """A place in a trace: the parent of the next span; empty at the root."""

    trace: str
    span: str
    sampled: bool = True

    @property
    def text(self) -> str:
        return f"00-{self.trace}-{self.span}-{'01' if self.sampled else '00'}"

    def child(self, what: str) -> TraceContext:
        """The span of something within the trace, by a name that it has once."""
        return self._replace(span=_digest(f"{self.trace} {what}")[:16])


def read(text: object) -> TraceContext | None:
    """The context that a `traceparent` names; None if it names none."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else TraceContext(found[1], found[2], bool(int(found[3], 16) & 1))


def of_item(item: int, created_us: int, payload: object, environ: Mapping[str, str]) -> TraceContext:
    """Where an item belongs: the span that caused it, or the root of a trace of its own."""
    given = read(payload.get(FIELD)) if isinstance(payload, Mapping) else None
    return given or _root(f"item {item} {created_us}", environ)


def of_delivery(delivery: str, environ: Mapping[str, str]) -> TraceContext:
    """The root of the trace that a delivery of GitHub begins."""
    return _root(f"delivery {delivery}", environ)


def item_span(context: TraceContext, item: int) -> TraceContext:
    return context.child(f"item {item}")


def run_span(context: TraceContext, run: int) -> TraceContext:
    return context.child(f"run {run}")


def of_run(
    item: int, created_us: int, payload: object, run: int, environ: Mapping[str, str]
) -> TraceContext | None:
    """The context in which a run's command works; None without tracing."""
    if not wanted(environ) and not (isinstance(payload, Mapping) and read(payload.get(FIELD))):
        return None
    return run_span(of_item(item, created_us, payload, environ), run)


def with_parent(payload: Mapping[str, Any] | None, text: str | None) -> Mapping[str, Any] | None:
    """A payload that continues a trace, unless it has one already or the text names none."""
    if read(text) is None or (payload is not None and FIELD in payload):
        return payload
    return {**(payload or {}), FIELD: text}


def wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces."""
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not disabled and exporter != "none" and any(environ.get(name) for name in _WANTED)


def _root(what: str, environ: Mapping[str, str]) -> TraceContext:
    trace = _digest(what)[:32]
    return TraceContext(trace, "", _is_sampled(trace, environ))


def _is_sampled(trace: str, environ: Mapping[str, str]) -> bool:
    """As the samplers of OpenTelemetry decide, by the trace's id alone: every process decides the same."""
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower().removeprefix("parentbased_")
    if sampler == "traceidratio":
        try:
            ratio = float(environ.get("OTEL_TRACES_SAMPLER_ARG", "") or 1.0)
        except ValueError:
            ratio = 1.0
        return not 0.0 <= ratio <= 1.0 or int(trace[16:], 16) < round(ratio * 2**64)
    return sampler != "always_off"


def _digest(text: str) -> str:
    return hashlib.sha256(f"interlock {text}".encode()).hexdigest()
