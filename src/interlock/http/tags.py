"""Entity tags: with a change, a client may name the version that it expects."""

from __future__ import annotations

import re
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.service.contract import to_json
from interlock.service.item_view import ItemView, version
from interlock.service.operations import Operation

_TAG = re.compile(r'"([!#-~]{1,64})"', re.ASCII)


class _Tagged(dict[str, Any]):
    """An answer with an item, and the item's version as an attribute."""

    tag: str


def tagged(operation: Operation, answer: Any) -> Any:
    """An answer as JSON values."""
    value = to_json(answer)
    if operation.etag and isinstance(item := getattr(answer, operation.etag), ItemView):
        value = _Tagged(value)
        value.tag = f'"{version(item)}"'
    return value


def of_answer(operation: Operation, answer: Any) -> str | None:
    """The tag of an answer. The repeated answer to an edit of an item has none."""
    if not operation.etag:
        return None
    if isinstance(answer, _Tagged):
        return answer.tag
    found = answer[operation.etag]
    return None if isinstance(found, dict) else f'"{found}"'


def with_expected(operation: Operation, body: Any, header: str) -> Any:
    """The body of a request, with the version in its `If-Match`.

    If the target has no version, the request is refused: its sender must not believe that one was compared.
    """
    found = [parameter for parameter in operation.parameters if parameter.name == operation.if_match]
    if not found:
        raise InvalidInput("This endpoint has no versions.", "Omit If-Match.")
    (expected,) = found
    if header.strip() == "*" and not expected.needed:  # any version matches, as without the header
        return body
    match = _TAG.fullmatch(header.strip())
    if match is None:
        raise InvalidInput("If-Match is not one entity tag.", "Send the ETag of the answer to your GET.")
    number = expected.kind is int
    if number and not match[1].isdigit():
        raise InvalidInput("If-Match is not the tag of a plan.", "Send the ETag of the answer to your GET.")
    value = int(match[1]) if number else match[1]
    if not isinstance(body, dict):
        return body
    if body.get(expected.name, value) != value:
        raise InvalidInput(f"If-Match and {expected.name} name two versions.", "Send one of them.")
    return {**body, expected.name: value}
