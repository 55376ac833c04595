"""Modes of lanes in git: stored in a separate ref, which every arrival reads with its lane.

If the document is unreadable, every lane is enforced: rather block too much than too little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.errors import InterlockError, InvalidInput, UnreadableState
from interlock.core.model import Mode, ModeRule
from interlock.core.validation import checked_mode

MODES = "refs/interlock/modes"
FORMAT = 1
#: How many modes a remote keeps.
MODES_MAX = 1_000
_BROKEN = (InterlockError, KeyError, TypeError, ValueError, AttributeError)


def modes_document(rules: Sequence[ModeRule], lines: tuple[str, ...]) -> dict[str, Any]:
    """The modes as JSON."""
    modes = [{"scope": rule.scope, "value": rule.value, "mode": rule.mode.value} for rule in rules]
    return {"format": FORMAT, "modes": modes, "happened": [*lines]}


def read_modes(document: Mapping[str, Any] | None) -> tuple[ModeRule, ...]:
    """The modes in a document; raises `UnreadableState`."""
    try:
        if document is None or document["format"] != FORMAT:
            raise ValueError("another format")
        rules = tuple(checked_mode(**entry) for entry in document["modes"])
    except _BROKEN:
        raise UnreadableState(
            f"The modes in {MODES} cannot be read. Every lane is enforced.",
            "See its history with git log; if you delete the ref, you can set the modes again.",
        ) from None
    return rules


def with_rule(rules: Sequence[ModeRule], rule: ModeRule) -> tuple[ModeRule, ...]:
    """The rules with a new one, which replaces an older one for the same scope and value."""
    if rule.mode is Mode.OFF:
        raise InvalidInput(
            "The git store enforces lanes or observes them; `off` needs a database.",
            "Use sqlite:///path/to/file.db or postgresql://user@host/database.",
        )
    others = [old for old in rules if (old.scope, old.value) != (rule.scope, rule.value)]
    after = tuple(sorted([*others, rule], key=lambda r: (r.scope, r.value)))
    if len(after) > MODES_MAX:
        raise InvalidInput(f"A store in git keeps {MODES_MAX:,} modes at most.", "Use shorter prefixes.")
    return after
