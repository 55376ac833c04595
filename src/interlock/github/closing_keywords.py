"""Finds the issues that a pull request closes, by `closes`, `fixes` or `resolves` in its title or text."""

from __future__ import annotations

import re

from interlock.github.remark_text import own_words

_CLOSES = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+"
    r"(?:https?://[\w.:-]+/(?P<in_url>[\w.-]+/[\w.-]+)/issues/|(?P<elsewhere>[\w.-]+/[\w.-]+)?#)(?P<number>\d{1,9})\b",
    re.IGNORECASE | re.ASCII,
)


def closes(text: str, repository: str) -> frozenset[int]:
    """The issues of a repository that its pull request closes. Quotes and code are ignored."""
    return frozenset(
        int(found["number"])
        for found in _CLOSES.finditer(own_words(text))
        if (found["in_url"] or found["elsewhere"] or repository).lower() == repository.lower()
    )
