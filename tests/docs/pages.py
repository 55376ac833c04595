"""Reading the documentation as a reader would: pages, headings, rows, links."""

import re
from pathlib import Path

from docs.generate import ROOT, pages

REFERENCE = ROOT / "docs" / "reference"
_CODE = re.compile(r"^(```|~~~).*?^\1\s*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

#: Everything people read, the files beside the documentation too.
WRITTEN = [*pages(), ROOT / "AGENTS.md", ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _CODE.sub("", page.read_text("utf-8"))


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """What `#…` may point at, spelled as GitHub spells it."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        repeated = sum(1 for a in found if a == slug or re.fullmatch(re.escape(slug) + r"-\d+", a))
        found.add(f"{slug}-{repeated}" if repeated else slug)
    return found


def section(page: Path, heading: str) -> str:
    """What stands below a heading, up to the next one of its level or above."""
    text = page.read_text("utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found, f"{name_of(page)} has no heading {heading!r}"
    below = text[found.end() :]
    following = re.search(rf"^#{{1,{len(found[1])}}} ", below, re.MULTILINE)
    return below[: following.start()] if following else below


def rows(text: str) -> dict[str, str]:
    """The rows of a page's tables, by what is in backquotes in their first cell."""
    lines = (line for line in text.splitlines() if line.startswith("| `"))
    return {line.split("`")[1]: line for line in lines}
