"""Handles: the right to write as a run.

A run number alone could be guessed, and one agent could finish the run of another.

A handle is `<run>.<item>.<64 bits>`, the bits as sixteen hexadecimal digits. The store draws the bits when it
claims and keeps them beside the run, so that no two runs have equal handles: not even those of a copied
store, or of one that was restored or failed over and counts the same numbers again.
"""

from __future__ import annotations

import re
import reprlib

from interlock.core.errors import UnknownRun
from interlock.core.model import ItemId, RunId
from interlock.core.row import NamedTuple

_FORM = re.compile(r"([1-9][0-9]{0,18})\.([1-9][0-9]{0,18})\.([0-9a-f]{16})", re.ASCII)
_NUMBER_MAX = (1 << 63) - 1
_ALL_BITS = (1 << 64) - 1


class Handle(NamedTuple):
    """What a handle names. The bits are a signed number, as the stores keep them."""

    run: RunId
    item: ItemId
    bits: int

    def __str__(self) -> str:
        return f"{self.run}.{self.item}.{self.bits & _ALL_BITS:016x}"

    def __repr__(self) -> str:
        return f"Handle({self.run}.{self.item})"  # the bits are for their holder alone


def read_handle(text: object) -> Handle:
    """What a handle names; whether a run has it, only the store knows."""
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is not None:
        run, item, bits = int(match[1]), int(match[2]), int(match[3], 16)
        if run <= _NUMBER_MAX and item <= _NUMBER_MAX:
            return Handle(RunId(run), ItemId(item), bits if bits <= _NUMBER_MAX else bits - _ALL_BITS - 1)
    shown = repr(text[:80]) if isinstance(text, str) else reprlib.repr(text)
    raise UnknownRun(f"{shown} is not a handle.", "Use the handle that `next` returned.")
