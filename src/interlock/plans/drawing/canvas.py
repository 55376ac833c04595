"""A grid of characters with texts and wires, drawn so that the eye can follow each wire.

Where wires cross, the vertical one is drawn on top, with only its own sides. `─│─` is a crossing. In `─├─`
and `─└─` the vertical turns right, and the horizontal from the left passes behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.plans.drawing.symbols import columns_of

UP, RIGHT, DOWN, LEFT = 1, 2, 4, 8
_ACROSS = UP | DOWN
_GLYPHS = dict(enumerate(" ╵╶└╷│┌├╴┘─┴┐┤┬┼"))


@dataclass(slots=True)
class Canvas:
    """Texts over lines over blanks. Coordinates are columns and lines, from the top left."""

    #: For each cell, which of its four sides each wire reaches.
    _sides: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    _chars: dict[tuple[int, int], str] = field(default_factory=dict)

    def horizontal(self, wire: int, line: int, left: int, right: int) -> None:
        """A horizontal line, from the middle of one cell to the middle of another."""
        for x in range(left, right + 1):
            self._add_sides(wire, x, line, (LEFT if x > left else 0) | (RIGHT if x < right else 0))

    def vertical(self, wire: int, x: int, top: int, bottom: int) -> None:
        """A vertical line."""
        for line in range(top, bottom + 1):
            self._add_sides(wire, x, line, (UP if line > top else 0) | (DOWN if line < bottom else 0))

    def write(self, x: int, line: int, text: str) -> int:
        """Write a text; returns the column after it."""
        for char in text:
            if columns_of(char) == 0:
                self._chars[x - 1, line] = self._chars.get((x - 1, line), "") + char
                continue
            self._chars[x, line] = char
            if columns_of(char) == 2:
                self._chars[x + 1, line] = ""
            x += columns_of(char)
        return x

    def lines(self) -> list[str]:
        """The lines from top to bottom, without blanks at the ends."""
        cells = self._sides.keys() | self._chars.keys()
        ends = [0] * (max((y for _, y in cells), default=-1) + 1)
        for x, y in cells:
            ends[y] = max(ends[y], x + 1)
        return ["".join(self._char(x, y) for x in range(end)).rstrip() for y, end in enumerate(ends)]

    @property
    def meetings(self) -> int:
        """In how many cells wires cross or touch."""
        return sum(
            1
            for place, wires in self._sides.items()
            if len(wires) > 1 and place not in self._chars and any(s & _ACROSS for s in wires.values())
        )

    def _add_sides(self, wire: int, x: int, line: int, sides: int) -> None:
        cell = self._sides.setdefault((x, line), {})
        cell[wire] = cell.get(wire, 0) | sides

    def _char(self, x: int, y: int) -> str:
        if (x, y) in self._chars:
            return self._chars[x, y]
        wires = self._sides.get((x, y), {}).values()
        sides = next((reached for reached in wires if reached & _ACROSS), 0)
        if not sides:
            for reached in wires:
                sides |= reached
        return _GLYPHS[sides]
