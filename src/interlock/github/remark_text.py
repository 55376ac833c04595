"""The text of a remark without quotes, code and hidden comments."""

from __future__ import annotations

import re

#: Quotes and code mention no agent and give no command.
_SILENT = re.compile(
    r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[^\S\n]*$|\Z)|^ {0,3}>.*?$|`[^`\n]+`|<!--.*?-->",
    re.MULTILINE | re.DOTALL,
)


def own_words(text: str) -> str:
    """The text without quotes, code and marks."""
    return _SILENT.sub(" ", text)
