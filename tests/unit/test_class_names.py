"""A class name means one class: `Answer` or `Place` in two modules would leave a reader to guess which."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import interlock

PACKAGE = Path(interlock.__file__).parent


def test_a_class_name_is_used_once_in_the_package() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
