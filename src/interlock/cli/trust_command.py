"""`trust`: accept a repository's settings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.core.errors import InvalidInput

if TYPE_CHECKING:
    from interlock.settings import Settings


def trust(
    ctx: typer.Context,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw the trust.")] = False,
) -> int:
    """Trust this repository's settings, and the commands of its fleet.toml.

    These files come with a clone, so before that only harmless settings are used. A change of a file
    revokes its trust. Links out of the repository, where Interlock writes, are trusted in the same way.
    """
    from interlock import settings
    from interlock.settings import places
    from interlock.settings import trust as records

    call = invocation_of(ctx)
    root = places.repository_root(places.here())
    contents = {path: settings.read(path) for path in settings.repository_files(root)}
    files: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    lines: list[str] = []
    for path, data in contents.items():
        if withdraw:
            if records.withdraw(path, os.environ):
                files.append({"path": str(path), "trusted": False, "settings": {}})
                lines.append(f"{path} is no longer trusted.")
            continue
        table, *_ = settings.parsed(path, data)
        shown = {name: _shown(name, table[name]) for name in settings.needing_trust(table, root)}
        if not data:
            continue
        if shown:
            records.trust(path, data, os.environ)
        files.append({"path": str(path), "trusted": bool(shown), "settings": shown})
        lines += _sentences(path, shown)
    for path, shown in _fleet(root, withdraw=withdraw):
        files.append({"path": str(path), "trusted": not withdraw, "settings": shown})
        lines += [f"{path} is no longer trusted."] if withdraw else _sentences(path, shown)
    for path, real in _links(call.settings).items():
        where = str(real) if str(real).isprintable() else ascii(str(real))
        if not withdraw:
            records.trust(path, os.fsencode(real), os.environ)
            lines.append(f"{path} is trusted as long as it leads to {where}.")
        elif records.withdraw(path, os.environ):
            lines.append(f"{path}, which leads to {where}, is no longer trusted.")
        else:
            continue
        links.append({"path": str(path), "target": where, "trusted": not withdraw})
    if not lines and withdraw:
        lines = ["No file of this repository was trusted."]
    elif not lines:
        raise InvalidInput(
            f"{root} has no settings file.", "`interlock init` writes one; your own file needs no trust."
        )
    return call.out.answer({"files": files, "links": links}, "\n".join(lines))


def _fleet(root: Path, *, withdraw: bool) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Trust the fleet.toml of the repository, or of this working tree of it; its commands are shown."""
    from interlock.core.errors import NotFound
    from interlock.fleet import fleetfile
    from interlock.settings import places
    from interlock.settings import trust as records

    for place in dict.fromkeys((root, places.worktree_root(places.here()))):
        path = fleetfile.located(place / fleetfile.NAME)
        if withdraw:
            if records.withdraw(path, os.environ):
                yield path, {}
            continue
        try:
            path, data = fleetfile.find(path)
        except NotFound:
            continue
        workers = fleetfile.parse(path, data).workers
        records.trust(path, data, os.environ)
        shown: dict[str, Any] = {f"workers.{worker.name}.command": worker.command for worker in workers}
        for worker in workers:
            shown |= {
                f"workers.{worker.name}.environment.{name}": value
                for name, value in worker.environment.items()
            }
        yield path, shown


def _links(chosen: Settings) -> dict[Path, Path]:
    """The links that lead out of the repository where Interlock writes, and where they lead."""
    from interlock.settings import places, sqlite_path

    roots = (chosen.root, places.worktree_root(places.here()))
    written = [(root, root / name) for root in roots for name in places.WRITTEN]
    if chosen.url.startswith("sqlite:"):
        written.append((chosen.root, sqlite_path(chosen.url, chosen.root)))
    for chosen_place in filter(None, (chosen.worktrees, chosen.locks)):
        written.append((chosen.root, chosen.root / Path(chosen_place).expanduser()))
    return {link: real for root, place in written for link, real in places.leading_out(root, place)}


def _sentences(path: Path, shown: dict[str, Any]) -> list[str]:
    if not shown:
        return [f"{path} chooses nothing that needs trust."]
    values = [f"  {name} = {json.dumps(value, ensure_ascii=False)}" for name, value in shown.items()]
    return [f"{path} is trusted until it changes:", *values]


def _shown(name: str, value: Any) -> Any:
    from interlock.settings import without_password

    return without_password(value) if name == "url" else value
