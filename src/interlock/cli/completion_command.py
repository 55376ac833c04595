"""`interlock completion`: the script that completes words in a shell."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from interlock.cli import typer
from interlock.core.errors import Exit, InvalidInput

_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def completion(
    ctx: typer.Context,
    shell: Annotated[
        str | None, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell; default: yours.")
    ] = None,
) -> int:
    """Print the script that completes commands, items, agents, lanes and plans in your shell.

    In ~/.bashrc: eval "$(interlock completion bash)". In ~/.zshrc the same with zsh. For fish: interlock
    completion fish > ~/.config/fish/completions/interlock.fish
    """
    from typer.completion import shell_complete

    from interlock.cli.completion import SCRIPTS

    name = (shell or os.environ.get("SHELL", "").rpartition("/")[2]).strip().lower()
    if name not in _SHELLS:
        raise InvalidInput(
            f"There is no completion for the shell {name[:80]!r}.", f"Use one of {', '.join(_SHELLS)}."
        )
    if name in SCRIPTS:
        sys.stdout.write(SCRIPTS[name])
        return Exit.OK
    return shell_complete(ctx.find_root().command, {}, "interlock", "_INTERLOCK_COMPLETE", f"source_{name}")
