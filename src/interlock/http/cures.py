"""Cures as requests: `POST /v1/items/7/retry`.

An answer has a rendered `hint`, and `advice`, which is the hint without its cures. From `advice` and `cures`
a client renders the hint in its own syntax.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from interlock.core.cures import Cure, hint
from interlock.service.contract import CheckView, RunView, ShowView, WhyView, to_json
from interlock.service.operations import BY_NAME, ROOT, Operation

#: The placeholder of a blank argument.
_BLANK = "…"
#: The answers, or parts of them, that have cures.
_CURABLE = (WhyView, ShowView, RunView, CheckView)


def request_line(cure: Cure) -> str | None:
    """The request that performs a cure: method, address and, if it has one, body."""
    if (operation := BY_NAME.get(cure.operation)) is None:
        return None
    given: dict[str, Any] = {
        name: _BLANK if value is None else value for name, value in cure.arguments.items()
    }
    path = operation.path.format(**{name: quote(str(given.pop(name))) for name in operation.in_path})
    given = {**given.pop("wanted", {}), **given.pop("changes", {}), **given}
    line = f"{operation.method} {ROOT}{path}"
    if not given:
        return line
    if operation.writes:
        return f"{line} {json.dumps(given, ensure_ascii=False)}"
    texts = {name: json.dumps(value) if isinstance(value, bool) else value for name, value in given.items()}
    return f"{line}?{urlencode(texts, doseq=True, safe=_BLANK)}"


def told(advice: str, cures: Sequence[Cure], name: str = "hint") -> dict[str, Any]:
    """The hint rendered as requests, with its parts."""
    return {name: hint(advice, cures, request_line), "advice": advice, "cures": to_json(cures)}


def with_hints(operation: Operation, answer: Any) -> Any:
    """An answer of an operation as JSON, with its cures as requests."""
    if operation.answered not in _CURABLE:
        return answer
    return list(map(_with_hint, answer)) if isinstance(answer, list) else _with_hint(answer)


def _with_hint(found: Mapping[str, Any]) -> Mapping[str, Any]:
    if "refusal" in found:
        return {**found, "refusal": _with_hint(found["refusal"])} if found["refusal"] else found
    name = "mend" if "mend" in found else "hint"
    # An answer stored by an earlier version has no cures.
    return {**found, **told(found[name], [Cure(**each) for each in found.get("cures", ())], name)}
