"""Tokens as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.page import Text
from interlock.cli.views import words
from interlock.service.contract import TokenView

if TYPE_CHECKING:
    from interlock.cli.page import Console


def tokens(console: Console, found: Sequence[TokenView]) -> None:
    """One line for each token, the oldest first."""
    if not found:
        console.print("No tokens. Create one: interlock token create NAME --scope agent:NAME.")
        return
    made = words.table("ID", "NAME", "SCOPE", "STATE", "MADE", "USED", "ENDS", wrapped=("NAME", "SCOPE"))
    for token in found:
        over = token.expires_at is not None and token.expires_at <= words.now()
        state = "revoked" if token.revoked_at else "over" if over else "valid"
        made.add_row(
            token.id,
            words.harmless(token.name),
            words.harmless(token.scope),
            Text(state, style="green" if state == "valid" else "red"),
            words.relative(token.created_at),
            words.relative(token.last_used_at) if token.last_used_at else "never",
            words.at(token.expires_at) if token.expires_at else "never",
        )
    console.print(made)
