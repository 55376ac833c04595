"""Words for names. Every name in the code must have one here, and every one here a name in the code."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "meanings.toml"


class Unexplained(Exception):
    """Code and `docs/meanings.toml` do not name the same things."""


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text("utf-8"))


def names_in(section: str) -> list[str]:
    """The names that a section explains, where the code has no list of them."""
    return list(_document()[section])


def meanings(section: str, names: Iterable[str]) -> dict[str, Any]:
    """The section's words for exactly these names."""
    found: dict[str, Any] = _document()
    for part in section.split("."):
        found = found.get(part, {})
    wanted = list(names)
    missing, left_over = set(wanted) - set(found), set(found) - set(wanted)
    if missing:
        raise Unexplained(f"docs/meanings.toml, [{section}] does not explain {', '.join(sorted(missing))}.")
    if left_over:
        raise Unexplained(
            f"docs/meanings.toml, [{section}] explains {', '.join(sorted(left_over))}, which is no more."
        )
    return {name: found[name] for name in wanted}
