"""The order in which a run reads messages: as they came, but those of one source as they were written there.

Deliveries may come in another order than the comments that they tell of. A message says when it was written
by a text that sorts, such as GitHub's time and number. Messages that say nothing keep their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Spoken(Protocol):
    @property
    def said(self) -> str: ...


Message = TypeVar("Message", bound=Spoken)


def in_spoken_order(messages: Sequence[Message]) -> list[Message]:
    """The messages, those that say when they were written in that order among themselves."""
    written = iter(sorted((each for each in messages if each.said), key=lambda each: each.said))
    return [next(written) if each.said else each for each in messages]
