"""The addresses and problems of the HTTP API."""

from __future__ import annotations

import json

from docs.generation.markdown import code, table
from interlock.http.examples import EXAMPLES
from interlock.http.problems import STATUSES
from interlock.http.queries import STREAM, fields_of
from interlock.service.usecases import ROOT, USE_CASES


def addresses() -> str:
    rows = (
        (
            code(f"{case.method} {ROOT}{case.path}"),
            code(case.name),
            case.needs.value,
            code(case.field) if case.field else "",
            "" if not case.writes else "yes" if case.kept else "repeat",
        )
        for case in USE_CASES
    )
    return table(("address", "function of the service", "scope", "answer in", "kept"), rows)


def bodies() -> str:
    rows = (
        (code(f"{case.method} {ROOT}{case.path}"), code(json.dumps(EXAMPLES[case.name])))
        for case in USE_CASES
        if case.name in EXAMPLES
    )
    return table(("address", "body"), rows)


def queries() -> str:
    rows = [
        (code(f"GET {ROOT}{case.path}"), code(field.name), field.about)
        for case in USE_CASES
        for field in fields_of(case)
    ]
    rows += [(code(f"GET {ROOT}/events/stream"), code(name), about) for name, about in STREAM.items()]
    return table(("address", "field", "meaning"), rows)


def problems() -> str:
    codes: dict[int, list[str]] = {}
    for name, status in STATUSES.items():
        codes.setdefault(status, []).append(code(name))
    rows = ((str(status), ", ".join(codes[status])) for status in sorted(codes))
    return table(("status", "codes"), rows)
