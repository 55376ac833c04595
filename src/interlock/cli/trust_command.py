"""`trust`: accept what a repository's files of settings choose, as they are now."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.core.errors import InvalidInput


def trust(
    ctx: typer.Context,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Trust the repository's files no more.")
    ] = False,
) -> int:
    """Take commands, stores and places from this repository's files of settings, as they are now.

    They come with a clone, so until then only harmless settings are taken from them. A change of a file
    withdraws the trust in it.
    """
    from interlock import settings
    from interlock.settings import places
    from interlock.settings import trust as records

    root = places.repository_root(places.here())
    contents = {path: settings.read(path) for path in settings.repository_files(root)}
    told: list[dict[str, Any]] = []
    lines: list[str] = []
    for path, data in contents.items():
        if withdraw:
            if records.withdraw(path, os.environ):
                told.append({"path": str(path), "trusted": False, "settings": {}})
                lines.append(f"{path} is no longer trusted.")
            continue
        table, _ = settings.parsed(path, data)
        shown = {name: _shown(name, table[name]) for name in settings.needing_trust(table, root)}
        if not data:
            continue
        if shown:
            records.trust(path, data, os.environ)
        told.append({"path": str(path), "trusted": bool(shown), "settings": shown})
        lines += _sentences(path, shown)
    if not told and withdraw:
        lines = ["No file of this repository was trusted."]
    elif not told:
        raise InvalidInput(
            f"{root} has no file of settings.", "`interlock init` writes one; your own file needs no trust."
        )
    return invocation_of(ctx).out.answer({"files": told}, "\n".join(lines))


def _sentences(path: Path, shown: dict[str, Any]) -> list[str]:
    if not shown:
        return [f"{path} chooses nothing that needs trust."]
    values = [f"  {name} = {json.dumps(value, ensure_ascii=False)}" for name, value in shown.items()]
    return [f"{path} is trusted until it changes:", *values]


def _shown(name: str, value: Any) -> Any:
    from interlock.settings import without_password

    return without_password(value) if name == "url" else value
