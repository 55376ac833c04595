"""The output of a command as plain text: what a terminal would show in the end, without its escape sequences.

The text has no control characters but line ends and tabs, so it is safe to print and to show on a page.
"""

from __future__ import annotations

import re

#: CSI sequences (colours, cursor), OSC and other strings (titles, links), and short ones.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
)
#: A sequence that is not complete, or the first half of a line end.
_BEGUN = re.compile(r"(?:\r|\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c]*\x1b?|[ -/]*)?|\x9b[0-?]*[ -/]*)\Z")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: An unfinished sequence that is longer is text.
_BEGUN_MAX = 200


def plain(text: str) -> str:
    """Output without escape sequences, overwritten lines and control characters."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" in text:  # a progress bar overwrites its line
        text = "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROL.sub("", text)


def split_begun(text: str) -> tuple[str, str]:
    """Output up to a sequence that is not complete yet, and its beginning."""
    begun = _BEGUN.search(text, max(0, len(text) - _BEGUN_MAX))
    return (text[: begun.start()], begun[0]) if begun else (text, "")


def last_line(text: str, max_chars: int) -> str:
    """The last line of a plain text that is not blank; empty if there is none."""
    lines = text[-4 * max_chars :].rstrip().rpartition("\n")
    return lines[2].strip()[:max_chars]
