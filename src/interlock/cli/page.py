"""Styled texts, tables, and a page to print them on: most commands need no more, and no import of rich.

Importing rich takes four times as long as starting Python. It still draws screens, and prints tables that
must be cut, and tabs. A page prints exactly what rich would; a test compares them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

QUIET = "bright_black"
#: Wide enough that nothing is cut when the output is a pipe.
PIPE_WIDTH = 10_000
_GAP = 2
#: Characters that take one cell each on any terminal.
_NARROW = re.compile("[\x20-\x7e\xa0-\xac\xae-\u02ff…✓✗→]*")
_WORD = re.compile(r"\s*\S+\s*")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


class Console(Protocol):
    """Where views print: a `PagePrinter`, or rich's console."""

    @property
    def width(self) -> int: ...

    def print(self, *objects: Any, no_wrap: bool | None = None, soft_wrap: bool | None = None) -> None: ...


def cell_len(text: str) -> int:
    """How many cells of a terminal the text takes."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    from rich import cells

    return cells.cell_len(text)


def chopped(text: str, width: int) -> list[str]:
    """The text in parts, none wider than this number of cells."""
    if text.isascii() or _NARROW.fullmatch(text):
        return [text[n : n + width] for n in range(0, len(text), width)]
    from rich import cells

    return cells.chop_cells(text, width)


class Text:
    """Text with a style, and more styles for parts of it."""

    def __init__(
        self, plain: str = "", style: str = "", *, no_wrap: bool | None = None, overflow: Any = None
    ) -> None:
        self.plain = plain
        self.style = style
        #: How rich cuts it on a screen.
        self.no_wrap, self.overflow = no_wrap, overflow
        self._spans: list[tuple[int, int, str]] = []

    @classmethod
    def assemble(
        cls, *parts: str | Text | tuple[str, str], no_wrap: bool | None = None, overflow: Any = None
    ) -> Self:
        """Parts one after the other; a pair is a text and its style."""
        made = cls(no_wrap=no_wrap, overflow=overflow)
        for part in parts:
            if isinstance(part, Text):
                made.append_text(part)
            else:
                made.append(*((part, "") if isinstance(part, str) else part))
        return made

    def __len__(self) -> int:
        return len(self.plain)

    def __str__(self) -> str:
        return self.plain

    def __add__(self, other: Text) -> Text:
        return self._between(0, len(self)).append_text(other)

    def __getitem__(self, part: slice) -> Text:
        start, end, _ = part.indices(len(self))
        return self._between(start, end)

    @property
    def cell_len(self) -> int:
        return cell_len(self.plain)

    def append(self, text: str, style: str = "") -> Text:
        """Add to the end; gives the text itself."""
        self._spans.append((len(self), len(self) + len(text), style))
        self.plain += text
        return self

    def append_text(self, other: Text) -> Text:
        """The same with a styled text."""
        at = len(self)
        self.append(other.plain, other.style)
        self._spans += [(at + start, at + end, style) for start, end, style in other._spans]
        return self

    def join(self, texts: Iterable[Text]) -> Text:
        """The texts with this one between them."""
        made = Text(no_wrap=self.no_wrap, overflow=self.overflow)
        for n, text in enumerate(texts):
            if n:
                made.append_text(self)
            made.append_text(text)
        return made

    def stylize(self, style: str, start: int = 0, end: int | None = None) -> None:
        """Give a part one more style."""
        self._spans.append((start, len(self) if end is None else end, style))

    def highlight(self, word: str, style: str) -> None:
        """Give each place of a word one more style."""
        for found in re.finditer(re.escape(word), self.plain):
            self.stylize(style, *found.span())

    def rstrip(self) -> None:
        """Take the blanks from its end."""
        self.plain = self.plain.rstrip()

    def wrap(self, width: int) -> list[Text]:
        """Lines of at most that many cells, broken between words; only longer words are broken."""
        lines = []
        start = 0
        for line in self.plain.split("\n"):
            breaks = (0, *_breaks(line, width), len(line))
            lines += [self._between(start + first, start + last) for first, last in pairwise(breaks)]
            start += len(line) + 1
        for made in lines:
            if made.cell_len > width:
                made.rstrip()
        return lines

    def coloured(self) -> str:
        """With the escape sequences of a terminal."""
        edges = sorted({0, len(self), *(min(at, len(self)) for span in self._spans for at in span[:2])})
        said = ""
        for start, end in pairwise(edges):
            styles = [self.style, *(style for first, last, style in self._spans if first <= start < last)]
            codes = _codes(" ".join(styles))
            part = self.plain[start:end]
            said += f"\x1b[{codes}m{part}\x1b[0m" if codes else part
        return said

    def __rich__(self) -> RichText:
        from rich.text import Span
        from rich.text import Text as RichText

        spans = [Span(*span) for span in self._spans]
        return RichText(self.plain, self.style, no_wrap=self.no_wrap, overflow=self.overflow, spans=spans)

    def _between(self, start: int, end: int) -> Text:
        made = Text(self.plain[start:end], self.style, no_wrap=self.no_wrap, overflow=self.overflow)
        made._spans = [
            (max(first, start) - start, min(last, end) - start, style)
            for first, last, style in self._spans
            if first < end and last > start
        ]
        return made


class Table:
    """A table without lines: a header and columns; or, without a header, names and their values."""

    def __init__(self, *header: str, right: Sequence[str] = (), wrapped: Sequence[str] = ()) -> None:
        """`right` names the columns of numbers, `wrapped` the ones that may take several lines."""
        self._header, self._right, self._wrapped = header, right, wrapped
        self._rows: list[tuple[str | Text, ...]] = []

    def add_row(self, *cells: str | Text) -> None:
        self._rows.append(cells)

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def lines(self, width: int) -> list[Text] | None:
        """The rendered table; None if rich must make it fit."""
        rows = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in self._rows]
        if any(not _is_plain(cell.plain) or "\n" in cell.plain for row in rows for cell in row):
            return None
        if self._header:
            rows.insert(0, [Text(name, f"bold {QUIET}") for name in self._header])
        else:
            for name, _ in rows:
                name.stylize(QUIET)
        widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
        if sum(widths) + _GAP * (len(widths) - 1) > width:
            if self._header or (room := width - widths[0] - _GAP) < 1:
                return None
            rows = [
                [Text() if n else name, part]
                for name, value in rows
                for n, part in enumerate(value.wrap(room))
            ]
        right = [name in self._right for name in self._header] or [False, False]
        return [_row(row, widths, right) for row in rows]

    def __rich__(self) -> RichTable:
        from rich.table import Table as RichTable

        if self._header:
            made = RichTable(
                box=None,
                pad_edge=False,
                padding=(0, _GAP, 0, 0),
                header_style=f"bold {QUIET}",
                show_edge=False,
            )
        else:
            made = RichTable.grid(padding=(0, _GAP, 0, 0))
            made.add_column(style=QUIET, no_wrap=True)
            made.add_column(overflow="fold")
        for name in self._header:
            made.add_column(
                name,
                justify="right" if name in self._right else "left",
                no_wrap=name not in self._wrapped,
                overflow="fold" if name in self._wrapped else "ellipsis",
                min_width=len(name),
            )
        for row in self._rows:
            made.add_row(*row)
        return made


class PagePrinter:
    """Prints on one stream as rich would, and leaves complex output to rich."""

    def __init__(self, stream: TextIO, width: int, *, styled: bool, rich: Callable[[], RichConsole]) -> None:
        self.width = width
        self._stream = stream
        self._styled = styled
        self._rich = rich

    def print(self, *objects: Any, no_wrap: bool | None = None, soft_wrap: bool | None = None) -> None:
        shown = objects[0] if objects else ""
        lines = None if soft_wrap else self._lines(shown, no_wrap=no_wrap)
        if lines is None:
            self._rich().print(shown, no_wrap=no_wrap, soft_wrap=soft_wrap)
            return
        said = (line.coloured() if self._styled else line.plain.rstrip(" ") for line in lines)
        self._stream.write("".join(f"{line}\n" for line in said))
        self._stream.flush()

    def _lines(self, shown: Any, *, no_wrap: bool | None) -> list[Text] | None:
        if isinstance(shown, Table):
            return shown.lines(self.width)
        text = Text(shown) if isinstance(shown, str) else shown
        if not isinstance(text, Text) or not _is_plain(text.plain):
            return None
        lines = text.wrap(self.width)
        cut = (no_wrap or text.no_wrap) and len(lines) > text.plain.count("\n") + 1
        return None if cut else lines


def terminal_width(environ_columns: str, *, terminal: bool, dumb: bool) -> int:
    """How many cells a line has, found in the way in which rich finds it."""
    if environ_columns.isdigit():
        return int(environ_columns)
    if not terminal:
        return PIPE_WIDTH
    if not dumb:
        for stream in range(3):
            try:
                return os.get_terminal_size(stream).columns or 80
            except OSError:
                pass
    return 80


def _is_plain(text: str) -> bool:
    """Whether a terminal shows each character where it stands."""
    return text.replace("\n", "").isprintable()


def _breaks(line: str, width: int) -> Iterator[int]:
    """The places where a line is broken so that each part fits."""
    used = 0
    for word in _WORD.finditer(line):
        start, long = word.start(), cell_len(word[0].rstrip())
        if long <= width - used:
            used += cell_len(word[0])
        elif long > width:
            for part in chopped(word[0], width):
                if start:
                    yield start
                start += len(part)
                used = cell_len(part)
        elif used and start:
            yield start
            used = cell_len(word[0])


def _row(cells: Sequence[Text], widths: Sequence[int], right: Sequence[bool]) -> Text:
    made = Text()
    for cell, width, at_right in zip(cells, widths, right, strict=True):
        blank = " " * (width - cell.cell_len)
        made.append(blank if at_right else "").append_text(cell).append("" if at_right else blank)
        made.append(" " * _GAP)
    made.rstrip()
    return made


def _codes(style: str) -> str:
    """The numbers of a style for a terminal; of several colours the last."""
    bold, colour = "", ""
    for word in style.split():
        if word == "bold":
            bold = "1"
        else:
            bright = word.startswith("bright_")
            colour = str(_COLOURS.index(word.removeprefix("bright_")) + (90 if bright else 30))
    return ";".join(code for code in (bold, colour) if code)
