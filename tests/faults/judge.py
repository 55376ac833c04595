"""A second judge of a store after faults: raw tables, read with SQL of its own.

It shares nothing with Interlock, nor with the history checker, which replays the log in Python. Each file of
`sql/judge` asks one question, and every row of its answer is a broken promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "sql" / "judge"
QUESTIONS = {file.stem: file.read_text("utf-8") for file in sorted(_FOLDER.glob("*.sql"))}


def verdicts(ask: Callable[[str], list[tuple[Any, ...]]], done: Iterable[tuple[int, int]] = ()) -> list[str]:
    """What the tables of a PostgreSQL store say against it. `done`: runs, and their items, acknowledged."""
    found = [f"{name}: {row}" for name, text in QUESTIONS.items() for row in ask(text)]
    recorded = set(ask("SELECT run, item FROM runs WHERE status = 'succeeded'"))
    return found + [f"acknowledged_is_kept: {told}" for told in set(done) - recorded]
