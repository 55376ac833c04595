"""Every row of the page on the five mechanisms names things that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from interlock.cli.command import ENTRIES, Group
from interlock.core.model import EventKind, Reason
from interlock.core.states import ItemStatus
from interlock.service.contract import StatsView
from interlock.service.plan_view import PlanStatsView
from interlock.settings import SETTINGS, TYPE_SETTINGS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "five-mechanisms.md"
#: Words that mean the same everywhere: settings, events, reasons, states, figures.
WORDS = (
    {setting.name for setting in (*SETTINGS, *TYPE_SETTINGS)}
    | {str(kind) for kind in EventKind}
    | {str(reason) for reason in Reason}
    | {str(status) for status in ItemStatus}
    | set(StatsView.PARTS)
    | set(PlanStatsView.PARTS)
)


def rows() -> list[tuple[str, str]]:
    """Each row's first cell, and what it names."""
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 3 and not cells[0].startswith(("there", "---")):
            found.append((cells[0], cells[1]))
    return found


def missing(name: str) -> str:
    """What is wrong with a name; empty if it exists."""
    if name.startswith("interlock "):
        words = name.split()[1:]
        entry = ENTRIES.get(words[0])
        if entry is None:
            return "no such command"
        loaded = entry.load()
        if len(words) > 1 and not (isinstance(loaded, Group) and words[1] in loaded.commands):
            return "no such command below it"
        return ""
    if name.startswith("tests/"):
        path, _, test = name.partition("::")
        if not (ROOT / path).exists():
            return "no such file"
        return "" if not test or f"def {test}(" in (ROOT / path).read_text() else "no such test"
    if name in WORDS:
        return ""
    module, _, parts = name.partition(":")
    try:
        found = import_module(f"interlock.{module}")
        for part in filter(None, parts.split(".")):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("there", "here"), rows())
def test_each_row_names_what_exists(there: str, here: str) -> None:
    named = re.findall(r"`([^`]+)`", here)
    assert named, there
    assert {name: missing(name) for name in named if missing(name)} == {}


def test_all_five_are_there_and_a_name_that_is_none_is_noticed() -> None:
    assert len(rows()) >= 45
    assert len(re.findall(r"^## ", PAGE.read_text(), re.M)) == 5
    for name in ("interlock fly", "interlock plan fly", "core.lanes:fly", "flying", "tests/fly.py"):
        assert missing(name)
