"""Cures as their readers perform them: blanks filled in, read as the body or query of a request."""

from __future__ import annotations

import json
from typing import Any

from interlock.core.cures import Cure
from interlock.core.names import USUAL_FIELDS
from interlock.core.record import replace
from interlock.http.arguments import RequestReader
from interlock.service.contract import Service
from interlock.service.operations import BY_NAME

#: What a reader writes where a cure is left blank.
BLANKS: dict[str, Any] = {
    "agent": "coder",
    "base": 1,
    "item": 7,
    "max_concurrency": 5,
    "name": "trainer",
    "operations": [{"op": "add_task", "key": "B", "title": "B"}],
    "run": "1.1.0000000000000000",
    "text": "yes",
    "usd": 20.0,
    "why": "it is needed",
}
_READING = RequestReader({}, USUAL_FIELDS)


def filled(cure: Cure, **blanks: Any) -> Cure:
    """A cure without blanks."""
    words = BLANKS | blanks
    given = {name: words[name] if value is None else value for name, value in cure.arguments.items()}
    return replace(cure, arguments=given)


def arguments(cure: Cure) -> dict[str, Any]:
    """The arguments of a cure without blanks, as a server reads them from a request."""
    operation, given = BY_NAME[cure.operation], dict(cure.arguments)
    path = {name: str(given.pop(name)) for name in operation.in_path}
    flat = {**given.pop("wanted", {}), **given.pop("changes", {}), **given}
    if operation.writes:
        return _READING.arguments(operation, path, [], flat)
    query = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in flat.items()]
    return _READING.arguments(operation, path, query, None)


def performed(service: Service, cure: Cure, **blanks: Any) -> Any:
    """The answer to the operation of a cure."""
    return getattr(service, cure.operation)(**arguments(filled(cure, **blanks)))
