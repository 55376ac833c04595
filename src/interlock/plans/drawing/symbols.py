"""Signs and words of statuses and edges, and text widths, for every drawing. Colour alone is not enough."""

from __future__ import annotations

from unicodedata import category, combining, east_asian_width

from interlock.plans.drawing.picture import WHEN_COMPLETION, WHEN_FAILURE, WHEN_SUCCESS

#: In the order in which a task passes through them.
STATUS_SIGNS = {
    "waiting": "○",
    "deferred": "◌",
    "pending": "◎",
    "held_back": "◫",
    "in_progress": "◐",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "⊘",
}
UNKNOWN_SIGN = "·"
ARROWS = {WHEN_SUCCESS: "▶", WHEN_COMPLETION: "▷", WHEN_FAILURE: "◆"}
EDGE_WORDS = {
    WHEN_SUCCESS: "on success",
    WHEN_COMPLETION: "on any end",
    WHEN_FAILURE: "on failure",
}


#: How a part differs from the revision before.
CHANGE_SIGNS = {"added": "+", "removed": "\N{MINUS SIGN}", "changed": "~"}


def sign(status: str) -> str:
    return STATUS_SIGNS.get(status, UNKNOWN_SIGN)


def words(status: str) -> str:
    """A status for people."""
    return status.replace("_", " ")


def label(key: str, title: str) -> str:
    """A task in one line."""
    return f"{key}  {title}" if title and title != key else key


def harmless(text: str) -> str:
    """The text without characters that control a terminal or change the direction of writing."""
    return "".join("\N{REPLACEMENT CHARACTER}" if category(c) in ("Cc", "Cf", "Cs") else c for c in text)


def columns_of(char: str) -> int:
    """How many columns of a terminal a character takes."""
    return 0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1


def text_width(text: str) -> int:
    return sum(map(columns_of, text))


def shortened(text: str, columns: int) -> str:
    """The text, cut at its end to this many columns."""
    if text_width(text) <= columns:
        return text
    kept, used = "", 0
    for char in text:
        if used + columns_of(char) > columns - 1:
            break
        kept, used = kept + char, used + columns_of(char)
    return kept.rstrip() + "…"
