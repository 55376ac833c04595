"""The plain pages: what runs here, and what its API can do. They load nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from interlock import __version__
from interlock.http.queries import STREAM, fields_of
from interlock.http.schemas import about
from interlock.service.usecases import ROOT, USE_CASES, UseCase

#: No script, nothing from elsewhere, in no frame.
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


def front(ready: Mapping[str, Any]) -> str:
    """What runs here, and how it is."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{'well' if check['ok'] else 'not well'}</td>"
        f"<td>{escape(str(check['detail']))}</td></tr>"
        for name, check in ready["checks"].items()
    )
    state = "It is ready." if ready["ready"] else "It is not ready."
    return _html(
        "Interlock",
        f"<p>This is an Interlock server, version {escape(__version__)}. {state}</p><table>{rows}</table>"
        '<p>What it can do: <a href="/docs">the API</a>, as '
        '<a href="/openapi.json">an OpenAPI document</a> too. Tools for models are at <code>/mcp</code>.'
        "</p><p>This page, <code>/docs</code>, <code>/openapi.json</code>, <code>/healthz</code> and"
        " <code>/readyz</code> are open; all else needs a token. Where the server runs,"
        " <code>interlock token create NAME --scope read</code> makes one that may look;"
        " <code>agent:AGENT</code> as its scope lets it work for that agent, <code>admin</code> do"
        " everything.</p>",
    )


def _text(words: str) -> str:
    """Words with `code` in them."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(words))


def _query(about: Mapping[str, str]) -> str:
    """The fields of a query."""
    fields = "".join(f"<li><code>{name}</code>: {_text(words)}</li>" for name, words in about.items())
    return f"<ul>{fields}</ul>" if fields else ""


def _row(case: UseCase) -> str:
    query = _query({field.name: field.about for field in fields_of(case)})
    return (
        f"<tr><td><code>{case.method}</code></td><td><code>{escape(ROOT + case.path)}</code></td>"
        f"<td>{escape(case.needs.value)}</td><td>{_text(about(case))}{query}</td></tr>"
    )


def api() -> str:
    """Every address of the API."""
    rows = "".join(map(_row, USE_CASES))
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
