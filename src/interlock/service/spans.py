"""Spans for OpenTelemetry, recorded when they end. The SDK is imported only if tracing is enabled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any

from interlock.core import tracing
from interlock.core.errors import InvalidInput
from interlock.core.row import NamedTuple
from interlock.core.tracing import TraceContext

#: The most spans that wait to be sent; beyond that the oldest are dropped.
WAITING_MAX = 10_000
#: How many are sent at once.
BATCH = 500
_INSTALL = "Install them: pip install '.[otel]' in a clone of Interlock."


About = Mapping[str, str | int | float | bool | None]


class Span(NamedTuple):
    """A span of time. Times are microseconds since 1970."""

    name: str
    context: TraceContext
    #: The id of the parent span; empty for the root.
    parent: str
    start_us: int
    end_us: int
    attributes: About
    #: `internal`, `server`, `client`, `producer` or `consumer`.
    kind: str = "internal"
    #: The error, if any.
    error: str = ""
    #: Links to related spans.
    links: tuple[TraceContext, ...] = ()


class Spans:
    """The exporter of spans that the environment names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        try:
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  (only where tracing is enabled)

            self._exporter = _exporter(environ)
        except ImportError as missing:
            raise InvalidInput(
                f"Tracing is enabled, but {missing.name} is not installed.", _INSTALL
            ) from None
        named = bool(environ.get("OTEL_SERVICE_NAME"))
        named = named or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        self._resource = Resource.create({} if named else {"service.name": "interlock"})
        self._waiting: deque[Span] = deque(maxlen=WAITING_MAX)

    def record(self, span: Span) -> None:
        """Keep a span until the next `flush`."""
        self._waiting.append(span)

    def flush(self) -> bool:
        """Send the waiting spans; false if that failed, and they keep waiting."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            if not self.send(batch):
                room = WAITING_MAX - len(self._waiting)  # spans added meanwhile are newer
                self._waiting.extendleft(islice(reversed(batch), room))
                return False
        return True

    def send(self, spans: Iterable[Span]) -> bool:
        """Send spans now. Returns whether they arrived."""
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415

        made = [self._made(span) for span in spans if span.context.sampled]
        return not made or self._exporter.export(made) is SpanExportResult.SUCCESS

    def reach(self) -> bool:
        """Whether the collector answers: OTLP requires it to accept a request without spans."""
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415

        return self._exporter.export([]) is SpanExportResult.SUCCESS

    def close(self) -> None:
        self.flush()
        self._exporter.shutdown()

    def _made(self, span: Span) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode  # noqa: PLC0415

        return ReadableSpan(
            name=span.name,
            context=_context(span.context),
            parent=_context(span.context._replace(span=span.parent)) if span.parent else None,
            resource=self._resource,
            attributes={f"interlock.{k}": v for k, v in span.attributes.items() if v is not None},
            links=[Link(_context(link)) for link in span.links],
            kind=SpanKind[span.kind.upper()],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.start_us * 1000,
            end_time=max(span.start_us, span.end_us) * 1000,
            instrumentation_scope=InstrumentationScope("interlock"),
        )


@contextmanager
def open_spans(
    environ: Mapping[str, str], tell: Callable[[str], None] = lambda _: None
) -> Iterator[Spans | None]:
    """The exporter, if tracing is enabled; if it cannot be created, `tell` is called with the reason."""
    if not tracing.wanted(environ):
        yield None
        return
    try:
        spans = Spans(environ)
    except InvalidInput as error:
        tell(str(error))
        yield None
        return
    with closing(spans):
        yield spans


def _context(context: TraceContext) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415

    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(context.trace, 16), int(context.span, 16), is_remote=False, trace_flags=flags)


def _exporter(environ: Mapping[str, str]) -> Any:
    name = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415

        return ConsoleSpanExporter()
    if name != "otlp" or (protocol or "http/protobuf") != "http/protobuf":
        raise InvalidInput(
            f"Unsupported trace exporter: {protocol if name == 'otlp' else name}.",
            "Use OTEL_TRACES_EXPORTER=otlp with OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or console.",
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    return OTLPSpanExporter()
