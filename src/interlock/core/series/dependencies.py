"""The dependencies that an issue's text names, in lines such as `Depends on #12, acme/lib#3 and RFC-092`."""

from __future__ import annotations

import re

from interlock.core.errors import InvalidInput
from interlock.core.row import NamedTuple
from interlock.core.series.titles import Titles

#: An issue may name at most this many.
NEEDS_MAX = 50
_LINE = re.compile(r"^[ \t]*(?:[-*+][ \t]+)?(?:\*\*|__)?depends[ \t]+on\b(?P<rest>.*)$", re.IGNORECASE | re.M)
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.M | re.S)
_NUMBER = re.compile(
    r"(?:https?://[\w.:-]+/(?P<in_url>[\w.-]+/[\w.-]+)/issues/|(?P<elsewhere>[\w.-]+/[\w.-]+)?#)(?P<number>\d{1,9})\b",
    re.ASCII,
)
_WORD = re.compile(r"(?<![\w#/-])[A-Za-z][\w-]*-\d{1,6}(?![\w-])", re.ASCII)


class Dependencies(NamedTuple):
    """Dependencies: issues of the same repository, issues of others, whole series."""

    numbers: frozenset[int] = frozenset()
    elsewhere: frozenset[tuple[str, int]] = frozenset()
    series: frozenset[str] = frozenset()


NO_NEEDS = Dependencies()


def dependencies_of(body: str, repository: str, titles: Titles) -> Dependencies:
    """The dependencies named in an issue's text. Code blocks are ignored."""
    numbers: set[int] = set()
    elsewhere: set[tuple[str, int]] = set()
    series: set[str] = set()
    for line in _LINE.finditer(_FENCE.sub("", body)):
        for found in _NUMBER.finditer(line["rest"]):
            where = (found["in_url"] or found["elsewhere"] or repository).lower()
            if where == repository.lower():
                numbers.add(int(found["number"]))
            else:
                elsewhere.add((where, int(found["number"])))
        series |= _series(line["rest"], titles)
    return Dependencies(
        frozenset(sorted(numbers)[:NEEDS_MAX]),
        frozenset(sorted(elsewhere)[:NEEDS_MAX]),
        frozenset(sorted(series)[:NEEDS_MAX]),
    )


def _series(text: str, titles: Titles) -> set[str]:
    found = set()
    for word in _WORD.findall(text):
        try:
            found.add(titles.series_name(word))
        except InvalidInput:  # an unrelated word with a number
            continue
    return found
