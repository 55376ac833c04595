"""The series and the number in it that the title of an issue names.

RFC-93-2: Parse       series RFC-093, micro number 2
Game-RFC-093-02 …     series Game-RFC-093, or RFC-093 where prefixes count together
RFC-093: Overview     no series: it has no micro number
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from interlock.core.errors import InvalidInput
from interlock.core.row import NamedTuple

PATTERN = "{prefix}RFC-{series}-{micro}"
#: No title is longer on GitHub.
TITLE_MAX_CHARS = 1_000
_DIGITS = 3
_PREFIX = r"(?P<prefix>(?:[A-Za-z][A-Za-z0-9]{0,39}-)?)"
_NUMBER = r"0*(?P<%s>[0-9]{1,6})"
_PARTS = re.compile(r"(\{[a-z]*\})")
_NAME = re.compile(r"[A-Za-z0-9_.@#+=-]{1,60}", re.ASCII)
_HINT = "Use the form {prefix}RFC-{series}-{micro}: letters, digits, dashes, and each part at most once."


class Prefixes(StrEnum):
    """Whether a prefix makes another series."""

    APART = "apart"
    TOGETHER = "together"


class SeriesPlace(NamedTuple):
    """An issue's series and its number there."""

    series: str
    micro: int


class Titles(NamedTuple):
    """How titles are read."""

    pattern: str = PATTERN
    prefixes: Prefixes = Prefixes.APART

    def place(self, title: str) -> SeriesPlace | None:
        """The place that a title gives an issue; None if it is in no series."""
        found = _compiled(check_pattern(self.pattern)).match(title[:TITLE_MAX_CHARS].strip())
        if found is None:
            return None
        return SeriesPlace(self._name(found.groupdict()), int(found["micro"]))

    def series_name(self, text: str) -> str:
        """A series as people write it, such as rfc-93, by its name."""
        found = _compiled(self.pattern.partition("{series}")[0] + "{series}").fullmatch(text.strip()[:100])
        if found is None:
            example = f"{_word(self.pattern)}093"
            raise InvalidInput(f"Invalid series name: {text[:60]!r}.", f"Use the form {example}.")
        return self._name(found.groupdict())

    def _name(self, parts: Mapping[str, str]) -> str:
        prefix = (parts.get("prefix") or "").capitalize() if self.prefixes is Prefixes.APART else ""
        return f"{prefix}{_word(self.pattern)}{int(parts['series']):0{_DIGITS}}"


def _word(pattern: str) -> str:
    """The word before a series' number."""
    return pattern.partition("{series}")[0].rpartition("}")[2]


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression. Repositories choose patterns, which are not expressions: none is
    slow."""
    parts = [part for part in _PARTS.split(pattern) if part]
    forms = {"{prefix}": _PREFIX, "{series}": _NUMBER % "series", "{micro}": _NUMBER % "micro"}
    text = "".join(forms.get(part, re.escape(part)) for part in parts)
    return re.compile(text + r"(?![A-Za-z0-9])", re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=16)
def check_pattern(pattern: str) -> str:
    """Return a valid title pattern."""
    parts = [part for part in _PARTS.split(pattern) if part]
    fields = [part for part in parts if part.startswith("{")]
    literals = [part for part in parts if not part.startswith("{")]
    lawful = ["{series}", "{micro}"], ["{prefix}", "{series}", "{micro}"]
    if fields not in lawful or not all(map(_NAME.fullmatch, literals)) or not _word(pattern):
        raise InvalidInput(f"Invalid title pattern: {pattern[:100]!r}.", _HINT)
    if "{series}{micro}" in pattern:
        raise InvalidInput(f"Title pattern {pattern[:100]!r} has nothing between its numbers.", _HINT)
    return pattern
