"""Where answers go: JSON or people's words on standard output, errors as one sentence and a hint.

`rich` is imported only for people: with `--json` it would be 50 ms for nothing.
"""

from __future__ import annotations

import json as json_module
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from interlock.service.contract import to_json

if TYPE_CHECKING:
    from rich.console import Console

#: So wide that nothing is cut when another program reads: a pipe has no right margin.
_PIPE_WIDTH = 10_000
_REASONS_SHOWN = 30


class _Trimmed:
    """A stream without the blanks that fill the last column of a table."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        self._stream.write("\n".join(line.rstrip(" ") for line in text.split("\n")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass
class Output:
    """Prints for one invocation."""

    json: bool = False
    color: bool = field(default_factory=lambda: not os.environ.get("NO_COLOR"))

    def print_json(self, value: Any) -> None:
        """One JSON value on one line."""
        encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
        plain, ascii_only = to_json(value), encoding != "utf8"
        try:
            text = _dumps(plain, ascii_only)
        except ValueError:  # kept before such numbers were refused
            text = _dumps(_finite(plain), ascii_only)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    @cached_property
    def console(self) -> Console:
        """For answers to people."""
        return self._console(stderr=False)

    def error(self, code: str, sentence: str, hint: str, reasons: Sequence[str] = ()) -> None:
        """One error: as JSON on standard output, or on standard error as its sentence, reasons and hint."""
        if self.json:
            more = {"reasons": reasons} if reasons else {}
            self.print_json({"error": {"code": code, "message": sentence, "hint": hint, **more}})
        else:
            self.refuse(sentence, hint, [reason for reason in reasons if reason != sentence])

    def refuse(self, sentence: str, hint: str, reasons: Sequence[str] = ()) -> None:
        """Tell a person what was refused and what to do, on standard error."""
        listed = [f"- {reason}" for reason in reasons[:_REASONS_SHOWN]]
        if len(reasons) > _REASONS_SHOWN:
            listed.append(f"- and {len(reasons) - _REASONS_SHOWN:,} more: --json lists all")
        if not sys.stderr.isatty() and not os.environ.get("FORCE_COLOR"):
            sys.stderr.write("".join(f"{line}\n" for line in (sentence, *listed, hint) if line))
            return
        from rich.text import Text

        console = self._console(stderr=True)
        console.print(Text.assemble(("✗ ", "bold red"), sentence))
        for reason in listed:
            console.print(Text(f"  {reason}"))
        if hint:
            console.print(Text(f"  {hint}", style="cyan"))

    def _console(self, *, stderr: bool) -> Console:
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        terminal = stream.isatty()
        piped = not terminal and "COLUMNS" not in os.environ
        return Console(
            file=stream if terminal else cast("IO[str]", _Trimmed(stream)),
            color_system="auto" if self.color else None,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=False,
            width=_PIPE_WIDTH if piped else None,
        )


def _dumps(value: Any, ascii_only: bool) -> str:
    return json_module.dumps(value, ensure_ascii=ascii_only, separators=(", ", ": "), allow_nan=False)


def _finite(value: Any) -> Any:
    """The same with null for what is no number in JSON: infinities, and what is not a number."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
