"""What somebody says in a text, without what is quoted, shown as code, or hidden."""

from __future__ import annotations

import re

#: What is quoted or shown as code names nobody and commands nothing.
_SILENT = re.compile(
    r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[^\S\n]*$|\Z)|^ {0,3}>.*?$|`[^`\n]+`|<!--.*?-->",
    re.MULTILINE | re.DOTALL,
)


def spoken(text: str) -> str:
    """The text without quotes, code and marks."""
    return _SILENT.sub(" ", text)
