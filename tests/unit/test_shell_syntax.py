"""Core and service speak no shell's language: no command, no option, no address; what to do is a cure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock

ROOT = Path(interlock.__file__).parent
MODULES = sorted(path for package in ("core", "service") for path in (ROOT / package).rglob("*.py"))
SHELL = re.compile(r"interlock |(?<![\w-])--[a-z]|/v1")
#: A prefix of hashed text, and where the addresses are defined.
ALLOWED = {("core/tracing.py", "interlock "), ("service/operations.py", "/v1")}


def texts(tree: ast.Module) -> Iterator[str]:
    """The strings of a module, without its docstrings."""
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_string_has_the_syntax_of_a_shell(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    found = [text for text in texts(ast.parse(path.read_text())) if SHELL.search(text)]
    assert [text for text in found if (name, text) not in ALLOWED] == []
