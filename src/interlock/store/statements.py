"""SQL by file name: one statement a file, whose first line says what it promises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

_ROOT = Path(__file__).parent


class Statements:
    """The statements of one backend, read when first used."""

    def __init__(self, backend: str) -> None:
        self._folder = _ROOT / backend / "sql"
        self._texts: dict[str, str] = {}
        self._variants: dict[tuple[str, frozenset[str], int], str] = {}

    def __getitem__(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = (self._folder / f"{name}.sql").read_text("utf-8")
        return text

    def variant(self, name: str, features: frozenset[str], *, limit: int = 0) -> str:
        """A statement with a literal limit, and of its optional lines only those asked for: one line marked
        `--? feature`, or those from `--[ feature` to `--]`.

        Plans are made once and kept, and a plan made for an unknown limit or for a condition that may be
        absent is a bad one. The few combinations in use are planned one by one. Comments and indentation are
        left out: the driver prepares a text of more than 4 KiB anew for every call.
        """
        key = (name, features, limit)
        text = self._variants.get(key)
        if text is None:
            kept = "\n".join(_asked_for(self[name].splitlines(), features))
            text = self._variants[key] = kept.replace("%(limit)s", str(int(limit)))
        return text

    @cached_property
    def checks(self) -> dict[str, str]:
        """The doctor's questions by name: each gives the rows that break one invariant."""
        files = sorted((self._folder / "doctor").glob("*.sql"))
        return {f.stem: f.read_text("utf-8") for f in files}


def _asked_for(lines: Iterable[str], features: frozenset[str]) -> Iterator[str]:
    block = ""
    for line in lines:
        if line.startswith("--[ "):
            block = line.removeprefix("--[ ")
        elif line == "--]":
            block = ""
        elif line.lstrip().startswith("-- "):
            continue
        elif not block or block in features:
            text, _, feature = line.partition(" --? ")
            if not feature or feature in features:
                yield text.strip()


def promise(text: str) -> str:
    """The first comment line of a statement."""
    return text.partition("\n")[0].removeprefix("--").strip()


def mending(text: str) -> str:
    """The line of a check that says how to mend what it finds."""
    lines = (line.removeprefix("-- mend:") for line in text.splitlines() if line.startswith("-- mend:"))
    return next(lines, "").strip()
