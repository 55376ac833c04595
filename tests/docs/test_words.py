"""What must not stand in anything people read, and what the README must tell a newcomer."""

import re
import tempfile
from pathlib import Path

import pytest

from docs.generate import ROOT
from tests.docs.pages import WRITTEN, name_of

TEXTS = sorted({*WRITTEN, *(ROOT / "docs").rglob("*.py"), *(ROOT / "docs").rglob("*.toml")})
#: Places of one machine, unfinished business, and talk about how a text came about.
FORBIDDEN = (
    r"/(?:root|work|tmp|Users|private|mnt)/",
    r"/home/(?!sam\b)",
    r"\b(?:TODO|FIXME|TBD|XXX)\b",
    r"\bassistants?\b",
    r"\blanguage models?\b",
    r"\b(?:this|last|next) session\b",
)


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_nothing_of_the_machine_or_the_making_is_told(page: Path):
    text = page.read_text("utf-8")
    for place in {str(ROOT), str(Path.home()), tempfile.gettempdir()} - {"/"}:
        assert f"{place}/" not in text, f"{name_of(page)} names {place}"
    for pattern in FORBIDDEN:
        found = re.search(pattern, text, re.IGNORECASE)
        assert not found, f"{name_of(page)} says {found[0]!r}"


def test_the_readme_opens_with_one_sentence_and_the_two_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    opening = text.split("\n\n")[1]
    assert opening.count(".") == 1
    first_block = text.split("```sh\n")[1].partition("```")[0]
    assert [line.partition("#")[0].strip() for line in first_block.splitlines()] == ["make up", "make test"]


def test_the_changelog_has_what_is_not_released_yet_on_top():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
