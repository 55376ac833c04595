"""The page about performance shows only what a command makes, and names the command."""

from __future__ import annotations

import re
from pathlib import Path

from bench import report
from bench.__main__ import FIGURES
from bench.figure import Figure, Row, Sample

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "performance.md"
#: Sections whose table is a list of questions, not of figures.
NO_FIGURES = ("What is measured",)


def test_every_table_of_the_page_is_made_by_a_command_that_is_named_above_it() -> None:
    for section in re.split(r"^##+ ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        above, bar, _ = section.partition("\n|")
        if bar and not section.startswith(NO_FIGURES):
            commands = re.findall(r"`python -m bench[ .](\w+)`", above)
            assert set(commands) & {*FIGURES, "churn"}, section[:200]


def test_a_run_of_some_figures_replaces_these_and_keeps_the_others(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n\n{report.BEGIN}\n\n{report.END}\n\nAfter.\n")

    def publish(command: str, title: str, value: float) -> None:
        row = Row(subject="Interlock", samples=[Sample(value=value)])
        figure = Figure(name="any", title=title, unit="ms", rows=[row], command=command)
        made = report.Made(on="Monday with Interlock 1.0", trust=", at a load of 0.1")
        report.write_markdown(page, {"Python": "3.11"}, made, [figure])

    publish("locks", "H. Locks", 7)
    publish("plain", "A. Plain drain, 60,000 items", 1)
    publish("plain", "A. Plain drain, 2,000 items", 2)
    text = page.read_text()
    assert re.findall("^### (.*)$", text, re.MULTILINE) == ["A. Plain drain, 2,000 items", "H. Locks"]
    assert "`python -m bench plain`. Measured on Monday with Interlock 1.0, at a load of 0.1." in text
    assert "| Interlock | 2 |" in text
    assert "| Interlock | 7 |" in text
    assert text.startswith("Before.")
    assert text.endswith("After.\n")
    assert text.count("- Python: 3.11") == 1
