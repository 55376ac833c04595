"""The page of the API. It loads nothing from other hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from interlock.http.queries import fields_of
from interlock.http.schemas import about
from interlock.service.manual import STREAM
from interlock.service.operations import OPERATIONS, ROOT, Operation

#: No scripts, no content from other hosts, no frames.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}"
    "ul{margin:0;padding-left:1.2rem}code{font-size:.9em}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}"
)


def _html(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def _text(words: str) -> str:
    """Words with `code` as HTML."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(words))


def _query(about: Mapping[str, str]) -> str:
    """The fields of a query."""
    fields = "".join(f"<li><code>{name}</code>: {_text(words)}</li>" for name, words in about.items())
    return f"<ul>{fields}</ul>" if fields else ""


def _row(operation: Operation) -> str:
    query = _query({field.name: field.about for field in fields_of(operation)})
    return (
        f"<tr><td><code>{operation.method}</code></td><td><code>{escape(ROOT + operation.path)}</code></td>"
        f"<td>{escape(operation.needs.value)}</td><td>{_text(about(operation))}{query}</td></tr>"
    )


def api() -> str:
    """The page with every address of the API."""
    rows = "".join(map(_row, OPERATIONS))
    more = (
        f"<tr><td><code>GET</code></td><td><code>{ROOT}/events/stream</code></td><td>read</td>"
        "<td>History as it happens, as server-sent events; <code>Last-Event-ID</code> goes on."
        f"{_query(STREAM)}</td></tr>"
        "<tr><td><code>GET</code></td><td><code>/metrics</code></td><td>read</td>"
        "<td>Numbers for Prometheus, of the store and of this server.</td></tr>"
    )
    return _html(
        "Interlock: the API",
        '<p>Types, fields of bodies and examples are in <a href="/openapi.json">the OpenAPI document</a>. A'
        " list below what an address does has the fields of its query, as in"
        f" <code>{ROOT}/items?statuses=pending&amp;limit=10</code>.</p>"
        f"<table><tr><th></th><th>address</th><th>scope</th><th>what it does</th></tr>{rows}{more}</table>",
    )
