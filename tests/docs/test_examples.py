"""Every example is run, on a store of its own, and prints what the page says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docs.examples import NEEDS_POSTGRES, examples, mismatches, same, steps
from docs.generate import ROOT
from tests.docs.pages import name_of


@pytest.mark.parametrize("page", examples(), ids=name_of)
def test_the_examples_of_a_page_print_what_it_says(
    page: Path, tmp_path: Path, start_postgres: Callable[..., Any]
):
    url = None
    if NEEDS_POSTGRES in page.read_text("utf-8"):
        url = start_postgres(18, fsync=True).url()
    wrong = mismatches(page, tmp_path, url=url)
    shown = "\n".join(map(str, wrong))
    assert not wrong, f"{name_of(page)}: mend it, or run `make docs` and read what changed\n{shown}"


def test_readme_and_tutorials_have_examples():
    told = {name_of(page) for page in examples()}
    tutorials = {name_of(page) for page in (ROOT / "docs" / "tutorial").glob("*.md")}
    assert {"README.md", *tutorials} <= told
    for name in told:
        assert [s for s in steps((ROOT / name).read_text("utf-8")) if s.file is None]


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("handle   1.1.0123456789abcdef\n", "handle   1.1.fedcba9876543210\n"),
        ("until 14:02:11 (in 60 s)\n", "until 09:00:00 (in 59 s)\n"),
        ("came 3 s ago\n", "came just now\n"),
        ('{"at": "2026-01-01T00:00:00.000001Z"}\n', '{"at": "2027-12-31T23:59:59.999999Z"}\n'),
        ("first\n…\nlast\n", "first\nsecond\nthird\nlast\n"),
        ("A  B\n", "A      B   \n"),
        ("", "\n"),
    ],
)
def test_what_differs_from_run_to_run_is_the_same(said: str, printed: str):
    assert same(said, printed)


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("handle   1.1.0123456789abcdef\n", "handle   2.1.0123456789abcdef\n"),
        ("Item 1 is completed\n", "Item 1 is pending\n"),
        ("first\n…\nlast\n", "first\nlast\nand more\n"),
        ("lease until 14:02:11 (in 60 s)\n", "lease until 14:02:11 (in 10 min)\n"),
        ("one line\n", "one line\nand another\n"),
        ("one line\n", ""),
        ("", "an error\n"),
    ],
)
def test_what_the_page_says_wrong_is_noticed(said: str, printed: str):
    assert not same(said, printed)


def test_a_page_is_read_as_commands_and_files():
    text = "\n".join(
        [
            "In `a.py`:",
            "",
            "```python",
            "x = 1",
            "```",
            "",
            "```console",
            "$ one \\",
            "> two",
            "printed",
            "$ three",
            "```",
            "",
            "```sh",
            "make up",
            "```",
        ]
    )
    found = [(s.file, s.text, s.printed) for s in steps(text)]
    assert found == [("a.py", "x = 1\n", ""), (None, "one \\\ntwo", "printed\n"), (None, "three", "")]
