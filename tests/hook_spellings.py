"""The spellings in the tables of `docs/reference/hook.md`."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "hook.md"
_SPAN = re.compile(r"(`+)(.+?)\1(?!`)")


def rows(section: str) -> dict[str, list[str]]:
    """The rows of a section's tables: their first cell, and the spellings in the second."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = {}
    for line in text.splitlines():
        if line.startswith("| ") and "`" in line:
            kind, cell = line[2:-2].split(" | ", 1)
            spans = [span[2] for span in _SPAN.finditer(cell)]
            found[kind] = [span.replace("\\|", "|").replace("↵", "\n") for span in spans]
    return found
