"""The table of operations: everything about one is in its entry, and no shell knows one by its name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import interlock
from interlock.service.manual import COMMON, ENTRIES
from interlock.service.operations import BY_NAME, OPERATIONS, Operation
from interlock.service.wire import is_record, parts_of

SHELLS = ("http", "remote", "mcp")
#: What tools are called is no name of an operation.
TOOLS = ("mcp/tools.py", "mcp/protocol.py")
SOURCES = [
    path
    for shell in SHELLS
    for path in sorted((Path(interlock.__file__).parent / shell).rglob("*.py"))
    if f"{shell}/{path.name}" not in TOOLS
]
PATHS = [operation.path for operation in OPERATIONS]


def _compared(node: ast.AST) -> list[ast.expr]:
    """What is compared, matched, or looked at by its beginning."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Match):
        literals = [
            each.value for case in node.cases for each in ast.walk(case) if isinstance(each, ast.MatchValue)
        ]
        return [node.subject, *literals]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
        return [node.func.value, *node.args]
    return []


def _is_a_name(value: ast.expr) -> bool:
    if isinstance(value, ast.Attribute):
        return value.attr in ("name", "path")
    return isinstance(value, ast.Name) and value.id in ("name", "path", "operation")


def _is_known(value: ast.expr) -> bool:
    literals = [each.value for each in ast.walk(value) if isinstance(each, ast.Constant)]
    texts = [text for text in literals if isinstance(text, str) and text]
    return any(text in BY_NAME or any(path.startswith(text) for path in PATHS) for text in texts)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_shell_tests_an_operations_name_or_path(source: Path) -> None:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    tests = [(node, _compared(node)) for node in ast.walk(tree)]
    found = [node for node, parts in tests if any(map(_is_a_name, parts)) and any(map(_is_known, parts))]
    of_one = [
        node
        for node, parts in tests
        for part in parts
        if ast.unparse(part) in ("operation.name", "operation.path")
    ]
    assert not [ast.unparse(node) for node in (*found, *of_one)]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_the_manual_has_a_sentence_for_every_parameter_and_for_no_other(operation: Operation) -> None:
    known = {parameter.name for parameter in operation.parameters} - {"limit"}
    parts = [parts_of(each.kind) for each in operation.parameters if is_record(each.kind)]
    if not operation.writes:
        known |= {name for each in parts for name in each} - {"limit"}
    for name in known:
        assert operation.sentence(name).endswith((".", "…"))
    assert ENTRIES[operation.name].parameters.keys() - {"limit"} <= known
    assert not [
        name for name in known if COMMON.get(name) == ENTRIES[operation.name].parameters.get(name, "")
    ]


def test_every_common_sentence_is_used() -> None:
    used = {each.name for operation in OPERATIONS for each in operation.parameters}
    assert COMMON.keys() <= used
    assert ENTRIES.keys() == BY_NAME.keys()


def test_operations_that_only_read_do_not_ask_github() -> None:
    assert all(operation.writes for operation in OPERATIONS if operation.asks_github)
