"""The picture of the demo in the README is what the demo shows, but for numbers and who did what."""

import re
import subprocess
import sys

import pytest

from docs.generate import ROOT


def plain(line: str) -> str:
    line = re.sub(r"\b(ada|bert|cleo|dora|emil)\b", "NAME", line)
    line = re.sub(r"refused: .*", "refused: …", line)  # how often it was tried again is chance
    line = re.sub(r"\d+(\.\d+)?", "N", line).replace("promotions", "promotion")
    return " ".join(line.split())


@pytest.mark.slow
def test_the_demo_shows_what_the_readme_says():
    picture = (ROOT / "README.md").read_text("utf-8").split("```text\n")[1].partition("```")[0]
    shown = subprocess.run(
        [sys.executable, "-m", "interlock", "demo", "--seconds", "10"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    lines = {plain(line) for line in shown.splitlines()}
    said = [line for line in picture.splitlines() if line.strip()]
    assert len(said) > 10
    assert [line for line in said if plain(line) not in lines] == []
