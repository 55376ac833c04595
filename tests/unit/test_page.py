"""What a page prints is what rich would print."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from interlock.cli.page import PagePrinter, Table, Text

STYLES = ("", "bold", "red", "bold bright_black", "green")
WORDS = st.lists(
    st.one_of(
        st.text("abc", min_size=1, max_size=12),
        st.sampled_from(["", " ", "…", "größte", "日本語の文字", "e\u0301", "x" * 40, "·", "\n", "a\tb"]),
    ),
    max_size=12,
).map(" ".join)
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from(STYLES)), min_size=1, max_size=4).map(
    lambda parts: Text.assemble(*parts)
)


def never() -> Console:
    raise AssertionError("rich was asked")


def printed(shown: Text | Table | str, width: int, *, styled: bool, by_rich: bool) -> list[str]:
    out = io.StringIO()
    drawing = Console(
        file=out,
        width=width,
        force_terminal=styled,
        color_system="standard" if styled else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console = drawing if by_rich else PagePrinter(out, width, styled=styled, rich=lambda: drawing)
    console.print(shown)
    return [line.rstrip(" ") for line in out.getvalue().split("\n")]


def the_same(shown: Text | Table, width: int) -> None:
    ours, theirs = (printed(shown, width, styled=False, by_rich=rich) for rich in (False, True))
    assert ours == theirs


@settings(deadline=None, max_examples=50)
@given(TEXTS, st.integers(10, 60))
def test_texts_are_wrapped_as_rich_wraps_them(text: Text, width: int) -> None:
    the_same(text, width)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=6), TEXTS), min_size=1, max_size=4),
    st.integers(20, 60),
)
def test_facts_are_set_as_rich_sets_them(rows: list[tuple[str, Text]], width: int) -> None:
    table = Table()
    for name, value in rows:
        table.add_row(f"  {name}", value)
    the_same(table, width)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers().map(str), TEXTS, TEXTS), min_size=1, max_size=5), st.integers(20, 200)
)
def test_tables_are_set_as_rich_sets_them(rows: list[tuple[str, Text, Text]], width: int) -> None:
    table = Table("ID", "TITLE", "WHEN", right=("ID",))
    for row in rows:
        table.add_row(*row)
    the_same(table, width)


@pytest.mark.parametrize("style", STYLES)
def test_styles_are_those_of_rich(style: str) -> None:
    text = Text.assemble("plain ", ("and more", style), Text(" of it", style="cyan"))
    text.stylize("bold", 2, 9)
    ours, theirs = (printed(text, 80, styled=True, by_rich=rich) for rich in (False, True))
    assert ours == theirs


def test_what_is_plain_needs_no_rich() -> None:
    out = io.StringIO()
    page = PagePrinter(out, 20, styled=False, rich=never)
    facts = Table()
    facts.add_row("  why", "a sentence that does not fit on one line")
    for shown in ("one two three four five six", Text("größte …", style="red"), facts):
        page.print(shown)
    page.print()
    assert out.getvalue().splitlines() == [
        *("one two three four", "five six", "größte …"),
        *("  why  a sentence", "       that does not", "       fit on one", "       line", ""),
    ]
