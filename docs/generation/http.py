"""The addresses and problems of the HTTP API."""

from __future__ import annotations

import json

from docs.generation.markdown import code, table
from interlock.http.problems import STATUSES
from interlock.http.queries import fields_of
from interlock.service.manual import STREAM
from interlock.service.operations import OPERATIONS, ROOT


def addresses() -> str:
    rows = (
        (
            code(f"{operation.method} {ROOT}{operation.path}"),
            code(operation.name),
            operation.needs.value,
            code(operation.field) if operation.field else "",
            "" if not operation.writes else "yes" if operation.kept else "repeat",
        )
        for operation in OPERATIONS
    )
    return table(("address", "function of the service", "scope", "answer in", "kept"), rows)


def bodies() -> str:
    rows = (
        (code(f"{operation.method} {ROOT}{operation.path}"), code(json.dumps(operation.manual.example)))
        for operation in OPERATIONS
        if operation.writes
    )
    return table(("address", "body"), rows)


def queries() -> str:
    rows = [
        (code(f"GET {ROOT}{operation.path}"), code(field.name), field.about)
        for operation in OPERATIONS
        for field in fields_of(operation)
    ]
    rows += [(code(f"GET {ROOT}/events/stream"), code(name), about) for name, about in STREAM.items()]
    return table(("address", "field", "meaning"), rows)


def problems() -> str:
    codes: dict[int, list[str]] = {}
    for name, status in STATUSES.items():
        codes.setdefault(status, []).append(code(name))
    rows = ((str(status), ", ".join(codes[status])) for status in sorted(codes))
    return table(("status", "codes"), rows)
