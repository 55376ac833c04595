"""Declarations of options and arguments for typer, kept until typer is needed.

Importing typer costs more than most commands do. A plain command line is read without it (`plain_line`);
`parser` hands these declarations on to typer for everything else: help, completion, and every mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Option:
    """What `typer.Option` takes, or `of` instead of `help`: the parameter of an operation that has the same
    sentence, as in `add.lane`."""

    def __init__(self, *names: str, **more: Any) -> None:
        self.names, self.more = names, more


class Argument:
    """What `typer.Argument` takes, or `of`."""

    def __init__(self, **more: Any) -> None:
        self.more = more


class Context:
    """The context of a command; typer's own if typer parsed the line."""

    invoked_subcommand: str | None = None

    def __init__(self, obj: object) -> None:
        self.obj = obj

    def find_root(self) -> Any:
        """The context of `interlock` itself."""
        return self

    if TYPE_CHECKING:

        def get_help(self) -> str:
            """The help, written by typer."""
