"""Turns an operation's answer into a response; into a problem if nothing of the request was done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from interlock.core.cures import Cure
from interlock.http import tags
from interlock.http.cures import with_hints
from interlock.http.problems import problem
from interlock.service.contract import AddView, RunView
from interlock.service.operations import Operation


def response(operation: Operation, value: Any) -> Response:
    """The response, from the answer as JSON values."""
    tag = tags.of_answer(operation, value)
    more: Mapping[str, Any] = {}
    if operation.more is not None and isinstance(value, Mapping):
        more, value = value, value[operation.field]
    value = with_hints(operation, value)
    body = {**more, operation.field: value} if operation.field else value if value is not None else {}
    if (refused := _REFUSED.get(operation.answered)) is not None:
        each = value if isinstance(value, list) else [value]
        if each and (found := refused(each)) is not None:
            return problem(*found[:4], more={**more, operation.refused_field: value, **found[4]})
    headers = {"ETag": tag} if tag is not None else None
    return Response(json.dumps(body), media_type="application/json", headers=headers)


Refused = tuple[str, str, str, Sequence[Cure], Mapping[str, Any]]


def _refused_runs(runs: Sequence[Mapping[str, Any]]) -> Refused | None:
    if not all(run["refusal"] for run in runs):
        return None
    refusal = runs[0]["refusal"]
    cures = [Cure(**each) for each in refusal["cures"]]
    return refusal["code"], refusal["message"], refusal["advice"], cures, {}


def _rejected_items(arrivals: Sequence[Mapping[str, Any]]) -> Refused | None:
    if not all(each["decision"] == "rejected" for each in arrivals):
        return None
    held = f"The lane is held already ({arrivals[0]['reason']})."
    return "held", held, "Use another policy to wait.", (), {"holder": arrivals[0]["holder"]}


#: By answer type: the code, sentence, advice, cures and further parts of a problem, if everything was
#: refused.
_REFUSED: Mapping[Any, Callable[[Sequence[Mapping[str, Any]]], Refused | None]] = {
    RunView: _refused_runs,
    AddView: _rejected_items,
}
