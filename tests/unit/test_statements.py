"""Statements are read from files, whose first line says what they promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.store import statements
from interlock.store.postgres.statement import Statement
from interlock.store.statements import Statements

FOLDERS = [Path(statements.__file__).parent / backend / "sql" for backend in ("postgres", "sqlite")]
FILES = [file for folder in FOLDERS for file in sorted(folder.glob("*.sql")) if file.stem != "schema"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.parent.name}-{file.stem}")
def test_a_statement_begins_with_what_it_promises(file: Path) -> None:
    assert file.read_text().startswith("-- ")
    text = Statements(file.parent.parent.name)[file.stem]
    assert "--" not in text
    assert ";" not in text.rstrip().removesuffix(";"), "one statement a file"


def test_equal_names_are_one_parameter_and_places_without_a_name_are_each_their_own() -> None:
    named = Statement.numbered("SELECT %(a)s, %(b)s, %(a)s")
    assert (named, named.names) == ("SELECT $1, $2, $1", ("a", "b"))
    assert Statement.numbered("SELECT %s, %s") == "SELECT $1, $2"
