"""The page about the architecture names what is there: its packages, its layers, its functions."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

from docs.generate import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
AGENTS = ROOT / "AGENTS.md"
PACKAGE = ROOT / "src" / "interlock"
#: `module.path:Class.function`, relative to the package.
NAMED = sorted(set(re.findall(r"`([a-z_.]+:[A-Za-z_.]+)`", PAGE.read_text("utf-8"))))
WALKS = ("`add`", "`next`", "`done`", "Sweep", "Plan edit", "`push`", "`work`")


def packages() -> set[str]:
    """Packages and modules of the package's top, but for the two that Python itself asks for."""
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return (folders | {path.stem for path in PACKAGE.glob("*.py")}) - {"__init__", "__main__"}


def layers(page: Path) -> list[str]:
    """The drawing behind the mark, one line a layer, top first."""
    drawing = page.read_text("utf-8").split("<!-- layers -->\n```text\n")[1].partition("```")[0]
    return [re.sub(r"\s{2,}.*", "", line) for line in drawing.splitlines()]


@pytest.mark.parametrize("name", NAMED)
def test_a_named_function_exists(name: str):
    module, _, path = name.partition(":")
    found = importlib.import_module(f"interlock.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    assert callable(found)


@pytest.mark.parametrize("title", WALKS)
def test_every_walk_is_a_numbered_list_of_functions(title: str):
    walk = PAGE.read_text("utf-8").split(f"\n## {title}\n")[1].partition("\n## ")[0]
    steps = re.findall(r"^(\d+)\. ", walk, re.MULTILINE)
    assert [int(step) for step in steps] == list(range(1, len(steps) + 1))
    assert len([name for name in NAMED if f"`{name}`" in walk]) >= 5


def test_every_package_is_listed_with_its_one_line():
    table = PAGE.read_text("utf-8").split("\n## The packages\n")[1].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \| \S", table, re.MULTILINE)) == packages()


@pytest.mark.parametrize("page", [PAGE, AGENTS], ids=lambda page: page.name)
def test_the_drawing_is_what_import_linter_enforces(page: Path):
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    enforced = next(contract for contract in contracts if contract["id"] == "layers")
    assert layers(page) == enforced["layers"]
    drawn = {name for layer in layers(page) for name in layer.split(" | ") if not name.startswith("(")}
    assert drawn == packages() - set(enforced["exhaustive_ignores"])
