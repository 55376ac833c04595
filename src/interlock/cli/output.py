"""Where answers go: JSON or text on standard output, errors as one sentence and a hint.

Text for people goes to a page, which imports `rich` only for complex output.
"""

from __future__ import annotations

import json as json_module
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from interlock.core.errors import Exit, InterlockError

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from interlock.cli.page import Console
    from interlock.core.cures import Cure

_REASONS_SHOWN = 30


class _Trimmed:
    """A stream that drops the blanks at the end of lines, which fill a table's last column."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        self._stream.write("\n".join(line.rstrip(" ") for line in text.split("\n")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Output:
    """Prints for one invocation."""

    def __init__(self) -> None:
        self.json = False
        self.color = not os.environ.get("NO_COLOR")

    def print_json(self, value: Any) -> None:
        """One JSON value on one line."""
        from interlock.service.contract import to_json

        encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
        plain, ascii_only = to_json(value, _command), encoding != "utf8"
        try:
            text = _dumps(plain, ascii_only)
        except ValueError:  # an old row may hold NaN or an infinity, which are refused today
            text = _dumps(_finite(plain), ascii_only)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def answer(self, value: Any, text: str | Callable[[Console], None]) -> int:
        """A command's answer: JSON, or for people a sentence or what a view prints. It is out on return."""
        if self.json:
            self.print_json(value)
        elif isinstance(text, str):
            from interlock.cli.views import words

            self.page.print(words.harmless(text))
        else:
            text(self.page)
        sys.stdout.flush()
        return Exit.OK

    @cached_property
    def page(self) -> Console:
        """Where text goes on standard output."""
        return self._page(stderr=False)

    @cached_property
    def console(self) -> RichConsole:
        """The console on standard output, for screens that are redrawn."""
        return self._console(stderr=False)

    def error(self, error: InterlockError) -> None:
        """One error: as JSON on standard output, or on standard error as its sentence, reasons and hint."""
        if self.json:
            self.print_json({"error": as_json(error)})
        else:
            self.refuse(error)

    def refuse(self, error: InterlockError) -> None:
        """Print an error for people on standard error: the refusal and what to do."""
        from interlock.cli.cures import hint_of, spelled

        sentence = spelled(error.sentence, error.fields)
        self.print_problem(
            sentence, hint_of(error), [each for each in error.reasons if each != error.sentence]
        )

    def print_problem(self, sentence: str, hint: str, reasons: Sequence[str] = ()) -> None:
        """Print on standard error what went wrong and what to do."""
        listed = [f"- {reason}" for reason in reasons[:_REASONS_SHOWN]]
        if len(reasons) > _REASONS_SHOWN:
            listed.append(f"- and {len(reasons) - _REASONS_SHOWN:,} more: --json lists all")
        if not sys.stderr.isatty() and not os.environ.get("FORCE_COLOR"):
            sys.stderr.write("".join(f"{line}\n" for line in (sentence, *listed, hint) if line))
            return
        from interlock.cli.page import Text

        console = self._page(stderr=True)
        console.print(Text.assemble(("✗ ", "bold red"), sentence))
        for reason in listed:
            console.print(Text(f"  {reason}"))
        if hint:
            console.print(Text(f"  {hint}", style="cyan"))

    def _page(self, *, stderr: bool) -> Console:
        from interlock.cli.page import PagePrinter, terminal_width

        if "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ:  # rich knows what they mean
            return self._console(stderr=stderr)
        stream = sys.stderr if stderr else sys.stdout
        terminal, dumb = stream.isatty(), os.environ.get("TERM", "").lower() in ("dumb", "unknown")
        width = terminal_width(os.environ.get("COLUMNS", ""), terminal=terminal, dumb=dumb)
        styled = terminal and self.color and not dumb
        return PagePrinter(stream, width, styled=styled, rich=lambda: self._console(stderr=stderr))

    def _console(self, *, stderr: bool) -> RichConsole:
        from rich.console import Console

        from interlock.cli.page import PIPE_WIDTH

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
            width=PIPE_WIDTH if piped else None,
        )


def as_json(error: InterlockError) -> dict[str, Any]:
    """An error in the syntax of the command line."""
    from interlock.cli.cures import hint_of, spelled

    return {
        "code": error.code,
        "message": spelled(error.sentence, error.fields),
        "hint": hint_of(error),
        "cures": error.cures,
        **({"reasons": error.reasons} if error.reasons else {}),
    }


def _command(cure: Cure) -> str | None:
    from interlock.cli.cures import command  # few answers have cures

    return command(cure)


def tell(sentence: str) -> None:
    """Print progress on standard error; standard output is for the answer."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def _dumps(value: Any, ascii_only: bool) -> str:
    return json_module.dumps(value, ensure_ascii=ascii_only, separators=(", ", ": "), allow_nan=False)


def _finite(value: Any) -> Any:
    """The same value with null for infinities and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
