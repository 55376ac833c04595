"""Which issues a pull request closes: those behind `closes`, `fixes` or `resolves` in its title or text."""

from __future__ import annotations

import re

from interlock.github.speech import spoken

_CLOSES = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+"
    r"(?:https?://[\w.:-]+/(?P<in_url>[\w.-]+/[\w.-]+)/issues/|(?P<elsewhere>[\w.-]+/[\w.-]+)?#)(?P<number>\d{1,9})\b",
    re.IGNORECASE | re.ASCII,
)


def closes(text: str, repository: str) -> frozenset[int]:
    """The issues of a repository that a pull request of it closes. What is quoted or code closes nothing."""
    return frozenset(
        int(found["number"])
        for found in _CLOSES.finditer(spoken(text))
        if (found["in_url"] or found["elsewhere"] or repository).lower() == repository.lower()
    )
