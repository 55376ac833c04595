"""The picture of the demo in the README, to be compared with what the demo shows."""

import re

from docs.generate import ROOT

PICTURE = (ROOT / "README.md").read_text("utf-8").split("```text\n")[1].partition("```")[0]


def not_shown(story: str) -> list[str]:
    """Lines of the picture that a demo did not show, but for numbers and who did what."""
    lines = {_plain(line) for line in story.splitlines()}
    return [line for line in PICTURE.splitlines() if line.strip() and _plain(line) not in lines]


def _plain(line: str) -> str:
    line = re.sub(r"\b(ada|bert|cleo|dora|emil)\b", "NAME", line)
    line = re.sub(r"refused: .*", "refused: …", line)  # how often it was tried again is chance
    line = re.sub(r"\d+(\.\d+)?", "N", line).replace("promotions", "promotion")
    return " ".join(line.split())
