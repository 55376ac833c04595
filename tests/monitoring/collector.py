"""A collector for spans: takes OTLP over HTTP, as real ones do, and keeps what came."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.faults.processes import wait_until


class Got(NamedTuple):
    """A span as it came."""

    name: str
    trace: str
    span: str
    parent: str
    attributes: dict[str, Any]
    start_ns: int
    end_ns: int
    #: OpenTelemetry's number: 2 is an error.
    status: int
    service: str
    links: tuple[tuple[str, str], ...]


class Collector:
    """Listens at `url` until it is stopped. With `refusing` it answers 400 and keeps nothing; with `disliked`
    only if that is in what it is sent."""

    def __init__(self) -> None:
        self.spans: list[Got] = []
        self.refusing, self.disliked, self.refused = False, b"", 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if outer.refusing or (outer.disliked and outer.disliked in body):
                    outer.refused += 1
                    self.send_response(400)
                    self.end_headers()
                    return
                outer.spans += _read(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def named(self, *names: str) -> list[Got]:
        """The spans of these names, each id once."""
        return list({got.span: got for got in list(self.spans) if got.name in names}.values())

    def wait_for(self, *names: str, count: int = 1) -> list[Got]:
        def there() -> bool:
            return all(len(self.named(name)) >= count for name in names)

        wait_until(there, f"spans {names}; there are {sorted({got.name for got in self.spans})}")
        return self.named(*names)


def _read(body: bytes) -> list[Got]:
    asked = ExportTraceServiceRequest.FromString(body)
    found = []
    for resource in asked.resource_spans:
        about = _values(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                links = tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links)
                ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                times = span.start_time_unix_nano, span.end_time_unix_nano
                values, service = _values(span.attributes), str(about["service.name"])
                found.append(Got(span.name, *ids, values, *times, span.status.code, service, links))
    return found


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}
