"""Where core and service make cures: each call of `cure`, found in the sources, and seen while tests run."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import interlock
from interlock.core import cures
from interlock.core.cures import Cure

SOURCE = Path(interlock.__file__).parent


class Site(NamedTuple):
    """A place in the sources where a cure is made, and one effect that it states there."""

    module: str
    function: str
    operation: str
    #: What is computed is `{}`.
    effect: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function}: {self.operation} {self.effect}"

    def states(self, cure: Cure) -> bool:
        """Whether this site's operation and effect are those of a cure."""
        pattern = ".+".join(map(re.escape, self.effect.split("{}")))
        return cure.operation == self.operation and re.fullmatch(pattern, cure.effect) is not None


def sites(*packages: str) -> Iterator[Site]:
    """Every cure that is made in some packages, once for each effect that it may state."""
    for package in packages:
        for path in sorted((SOURCE / package).rglob("*.py")):
            module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            if module != "core.cures":
                tree = ast.parse(path.read_text("utf-8"))
                yield from dict.fromkeys(_of_module(module, tree))


def _of_module(module: str, tree: ast.Module) -> Iterator[Site]:
    within: dict[ast.AST, ast.FunctionDef] = {}
    for function in ast.walk(tree):  # from the outside to the inside, so that the innermost is kept
        if isinstance(function, ast.FunctionDef):
            within.update(dict.fromkeys(ast.walk(function), function))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        assert node.func.id != "Cure", f"{module}:{node.lineno}: make it with `cure`"
        if node.func.id == "cure":
            function = within[node]
            (operation,) = _texts(node.args[0], function, tree)
            for effect in _texts(node.args[1], function, tree):
                yield Site(module, function.name, operation, effect)


def _texts(value: ast.expr, function: ast.FunctionDef, tree: ast.Module) -> list[str]:
    """Every text that an expression may be: a literal, or a name that literals are assigned to."""
    match value:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(p.value if isinstance(p, ast.Constant) else "{}" for p in parts)]  # type: ignore[misc]
        case ast.IfExp(body=body, orelse=orelse):
            return [*_texts(body, function, tree), *_texts(orelse, function, tree)]
        case ast.Name(id=name):
            for scope in (function, tree):
                found = [
                    text
                    for node in ast.walk(scope)
                    if isinstance(node, ast.Assign)
                    and any(isinstance(each, ast.Name) and each.id == name for each in node.targets)
                    for text in _texts(node.value, function, tree)
                ]
                if found:
                    return found
        case _:
            pass
    raise AssertionError(f"line {value.lineno}: write the words of a cure where it is made")


class CuresMade:
    """Which cures were made where, from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, found: list[Site]) -> None:
        self._made: list[tuple[str, str, Cure]] = []
        for module in {site.module for site in found}:
            monkeypatch.setattr(importlib.import_module(f"interlock.{module}"), "cure", self._cure)

    def _cure(self, operation: str, effect: str, /, **arguments: Any) -> Cure:
        made = cures.cure(operation, effect, **arguments)
        frame = sys._getframe(1)
        while (code := frame.f_code).co_name.startswith("<"):  # a comprehension, before Python 3.12
            assert frame.f_back is not None
            frame = frame.f_back
        module = str(frame.f_globals["__name__"]).removeprefix("interlock.")
        self._made.append((module, code.co_name, made))
        return made

    def at(self, site: Site, offered: tuple[Cure, ...]) -> Cure:
        """The first of the offered cures that was made at a site."""
        here = [cure for module, function, cure in self._made if (module, function) == site[:2]]
        found = [cure for cure in offered if site.states(cure) and cure in here]
        assert found, f"none of {list(offered)} was made there"
        return found[0]
