"""What commands tell typer about their options and arguments, kept until typer is needed.

Importing typer costs more than most commands do. A plain command line is read without it (`plain_line`);
`parser` hands these declarations on to typer for everything else: help, completion, and every mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Option:
    """What `typer.Option` takes."""

    def __init__(self, *names: str, **more: Any) -> None:
        self.names, self.more = names, more


class Argument:
    """What `typer.Argument` takes."""

    def __init__(self, **more: Any) -> None:
        self.more = more


class Context:
    """What a command is given beside its values; typer's own context if typer has read the line."""

    invoked_subcommand: str | None = None

    def __init__(self, obj: object) -> None:
        self.obj = obj

    def find_root(self) -> Any:
        """The context of `interlock` itself."""
        return self

    if TYPE_CHECKING:

        def get_help(self) -> str:
            """The help, which only typer writes."""
