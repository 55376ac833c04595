"""Entity tags: whoever changes something may say which version of it they have looked at."""

from __future__ import annotations

import re
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.service.contract import ChangeView, ShowView, to_json
from interlock.service.itemview import version
from interlock.service.usecases import UseCase

_TAG = re.compile(r'"([!#-~]{1,64})"', re.ASCII)
#: What has a version, and the field of a request that expects one.
EXPECTED = {"edit": "expected", "edit_plan": "base"}
#: Whose answers have a tag.
TAGGED = ("show", "plan", "edit", "edit_plan")


class _Tagged(dict[str, Any]):
    """The answer to an edit of an item, and the item's version, which is not in it."""

    tag: str


def of_item(shown: ShowView | ChangeView) -> str:
    return f'"{version(shown.item)}"'


def tagged(case: UseCase, answer: Any) -> Any:
    """An answer as JSON values."""
    if case.name != "edit":
        return to_json(answer)
    value = _Tagged(to_json(answer))
    value.tag = of_item(answer)
    return value


def of_answer(case: UseCase, answer: Any) -> str | None:
    """The tag of an answer; the repeated answer to an edit of an item has none."""
    if case.name == "edit":
        return answer.tag if isinstance(answer, _Tagged) else None
    return f'"{answer["revision"]}"' if case.name in TAGGED else None


def with_expected(case: UseCase, body: Any, header: str) -> Any:
    """The body of a request with the version that its `If-Match` names.

    Where nothing has a version, nobody is left in the belief that one was compared.
    """
    if case.name not in EXPECTED:
        raise InvalidInput("This address knows no versions.", "Leave If-Match away.")
    if header.strip() == "*" and case.name == "edit":  # it must be there, which it must be anyway
        return body
    match = _TAG.fullmatch(header.strip())
    if match is None:
        raise InvalidInput("If-Match is not one entity tag.", "Send the ETag of the answer to your GET.")
    field, tag = EXPECTED[case.name], match[1]
    if case.name == "edit_plan" and not tag.isdigit():
        raise InvalidInput("If-Match is not the tag of a plan.", "Send the ETag of the answer to your GET.")
    value = int(tag) if case.name == "edit_plan" else tag
    if not isinstance(body, dict):
        return body
    if body.get(field, value) != value:
        raise InvalidInput(f"If-Match and {field} name two versions.", "Send one of them.")
    return {**body, field: value}
