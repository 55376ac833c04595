"""SQL by file name: one statement in each file. Its first line states its promise."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path

from interlock.store.migrate import known_version

_ROOT = Path(__file__).parent


class Statements:
    """The statements of one backend, read when first used."""

    def __init__(self, backend: str, prepare: Callable[[str], str] = str) -> None:
        """`prepare` converts a text for the driver."""
        self._folder = _ROOT / backend / "sql"
        self._prepare = prepare
        #: The value for `{schema}` in statements of this process.
        self.schema = known_version(backend)
        self._texts: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """A statement without comments and indentation."""
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = _prepared(self._folder / f"{name}.sql", self.schema, self._prepare)
        return text

    def text(self, name: str) -> str:
        """A statement before `prepare`."""
        return _read(self._folder / f"{name}.sql", self.schema)

    def load(self) -> None:
        """Read all statements now, for a long-lived process."""
        for file in self._folder.rglob("*.sql"):
            name = file.relative_to(self._folder).with_suffix("").as_posix()
            if not name.startswith(("migrations/", "doctor/")):
                self[name], self.text(name)
        self.checks  # noqa: B018  (reads them)

    @cached_property
    def checks(self) -> dict[str, str]:
        """The doctor's checks by name. Each returns the rows that violate one invariant."""
        return _checks(self._folder / "doctor")


# A process that opens many databases reads each file once.


@cache
def _prepared(file: Path, schema: int, prepare: Callable[[str], str]) -> str:
    return prepare(_read(file, schema))


@cache
def _read(file: Path, schema: int) -> str:
    lines = file.read_text("utf-8").splitlines()
    text = "\n".join(line.strip() for line in lines if not line.lstrip().startswith("--"))
    return text.replace("{schema}", str(schema))


@cache
def _checks(folder: Path) -> dict[str, str]:
    return {file.stem: file.read_text("utf-8") for file in sorted(folder.glob("*.sql"))}


def promise(text: str) -> str:
    """The first comment line of a statement."""
    return text.partition("\n")[0].removeprefix("--").strip()


def mend_hint(text: str) -> str:
    """The line of a check that says how to repair its findings."""
    lines = (line.removeprefix("-- mend:") for line in text.splitlines() if line.startswith("-- mend:"))
    return next(lines, "").strip()
