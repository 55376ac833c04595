"""The order in which a run reads messages: by arrival, but within one source by the time of writing.

Deliveries may arrive in another order than their comments. A sortable text, such as GitHub's time and number,
says when a message was written. Messages without it keep their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class DatedMessage(Protocol):
    @property
    def said(self) -> str: ...


Message = TypeVar("Message", bound=DatedMessage)


def in_written_order(messages: Sequence[Message]) -> list[Message]:
    """The messages. Those with a time of writing are sorted by it among themselves."""
    written = iter(sorted((each for each in messages if each.said), key=lambda each: each.said))
    return [next(written) if each.said else each for each in messages]
