"""SQL by file name: one statement a file, whose first line says what it promises."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

_ROOT = Path(__file__).parent / "sql"


class Statements:
    """The statements of one backend, read when first used."""

    def __init__(self, backend: str) -> None:
        self._folder = _ROOT / backend
        self._texts: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = (self._folder / f"{name}.sql").read_text("utf-8")
        return text

    def variant(self, name: str, limit: int, features: frozenset[str]) -> str:
        """A statement with a literal limit, and of its lines marked `--? feature` only those asked for.

        Plans are made once and kept, and a plan made for an unknown limit or for a condition that may be
        absent is a bad one. The few combinations in use are planned one by one.
        """
        key = f"{name} {limit} {sorted(features)}"
        text = self._texts.get(key)
        if text is None:
            lines = (line.partition(" --? ") for line in self[name].splitlines())
            kept = "\n".join(line for line, _, feature in lines if not feature or feature in features)
            text = self._texts[key] = kept.replace("%(limit)s", str(int(limit)))
        return text

    @cached_property
    def checks(self) -> dict[str, str]:
        """The doctor's questions by name: each gives the rows that break one invariant."""
        files = sorted((self._folder / "doctor").glob("*.sql"))
        return {f.stem: f.read_text("utf-8") for f in files}


def promise(text: str) -> str:
    """The first comment line of a statement."""
    return text.partition("\n")[0].removeprefix("--").strip()


def mending(text: str) -> str:
    """The line of a check that says how to mend what it finds."""
    lines = (line.removeprefix("-- mend:") for line in text.splitlines() if line.startswith("-- mend:"))
    return next(lines, "").strip()
