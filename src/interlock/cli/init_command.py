"""`init`: a repository's file of settings, and the hooks that keep agents to their leases."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.core.errors import InvalidInput, StoreUnavailable

if TYPE_CHECKING:
    from interlock.fleet.recipes import Recipe
    from interlock.settings import Setting

_BEGINNING = """\
# Settings of Interlock for everybody who clones this repository: commit this file.
# A line without its # chooses a value; what is commented out is the default, or an example.
#
# A clone must not choose by itself what runs on your machine, or where its work is sent. So a
# store with a host, a command, or a place outside of the repository counts only once its user
# has run `interlock trust`, and again after every change of this file. Passwords do not belong
# here.
"""
#: For settings without a plain default.
_EXAMPLES = {
    "url": "postgresql://interlock@db.example.com/interlock",
    "worktrees": ".interlock/worktrees",
    "locks": ".interlock/locks",
    "retention_s": 7_776_000,
    "actor": "bot",
    "on_dead_letter": ["notify-send", "Interlock", "An item failed for good."],
    "on_question": ["notify-send", "Interlock", "An agent asks a person."],
    "notify_urls": ["https://hooks.example.com/interlock"],
    "quota_patterns": ["aider: Rate limit of * is used up"],
    "prices": ["claude-sonnet-4: 3, 15, 0.3"],
}
_TRUSTED = """
# The next ones belong in your own settings, ~/.config/interlock/config.toml. From this file they
# count only for users who have run `interlock trust`.
"""
_TABLES = """
# Defaults for items of one type.
#[types.pr_review]
#lease_s = 300
#policy = "coalesce"
#priority = 5

# The policy of items that name none, nor has their type one: by the beginning of their lane's name,
# of which the longest counts, then by project.
#[policies.lanes]
#"issue:" = "coalesce"
#[policies.projects]
#shop = "supersede"
"""

#: The offer and the question, on separate lines: both fit a terminal of 80 columns.
_HOOK = (
    "A hook for Claude Code renews the lease of an agent and brings it messages.",
    "Install it in .claude/settings.json?",
)
_PRE_PUSH = (
    "A pre-push hook stops a plain git push of a run that has lost its lease.",
    "Install it in this clone?",
)


def init(
    ctx: typer.Context,
    hook: Annotated[bool, typer.Option("--hook", help="Also install the hook for Claude Code.")] = False,
    pre_push: Annotated[
        bool, typer.Option("--pre-push", help="Also let git in this clone refuse pushes of lost runs.")
    ] = False,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Also write fleet.toml and agent.sh for an agent: claude, codex, copilot, gemini or script.",
        ),
    ] = None,
) -> int:
    """Set up a repository: show its store, and write interlock.toml, to be committed.

    On a terminal it offers the two hooks; elsewhere the options choose them. Existing files stay unchanged.
    """
    from interlock import settings
    from interlock.settings import places
    from interlock.settings.store_url import store_location

    call = invocation_of(ctx)
    chosen = call.settings
    chosen.check_store()
    wanted = None if recipe is None else _recipe(recipe)
    common = places.common_directory(places.here())
    if common == chosen.root:
        raise InvalidInput(f"{chosen.root} is a bare repository.", "Run it in a clone, and commit the file.")
    path, place = chosen.root / settings.SHARED_NAME, store_location(chosen)
    written = _write(path)
    share = ": commit it" if common is not None else ""
    lines = [
        f"The store is {place}.",
        f"Wrote {path}{share}." if written else f"{path} exists and stays unchanged.",
    ]
    fleet: list[dict[str, object]] = []
    if wanted is not None:
        fleet = _write_recipe(wanted, in_git=common is not None)
        lines += _recipe_lines(wanted, fleet)
    asks = not call.out.json and sys.stdin.isatty() and sys.stdout.isatty()
    if asks:
        call.out.answer(None, "\n".join(lines))
        lines.clear()
    added_hook, added_pre_push = None, None
    if hook or (asks and _wanted(*_HOOK)):
        added_hook = _add_hook()
        lines.append(f"The hook is in {added_hook}.")
    else:
        lines.append("For agents in Claude Code: interlock hook install")
    if common is not None:
        if pre_push or (asks and _wanted(*_PRE_PUSH)):
            added_pre_push = _add_pre_push()
            lines.append(f"The hook is in {added_pre_push}.")
        else:
            lines.append("For every push in this clone: interlock push --install-hook")
    elif pre_push:
        raise InvalidInput("There is no git repository here.", "Leave out --pre-push.")
    answer = {
        "store": place,
        "file": str(path),
        "written": written,
        "hook": added_hook,
        "pre_push": added_pre_push,
        "fleet": fleet,
    }
    return call.out.answer(answer, "\n".join(lines))


def example() -> str:
    """The file with every setting commented out; the ones that need trust come last."""
    from interlock.settings import SETTINGS, FromRepository

    free = [s for s in SETTINGS if s.from_repository is not FromRepository.NO]
    trusted = [s for s in SETTINGS if s.from_repository is FromRepository.NO]
    return "".join((_BEGINNING, *map(_lines, free), _TRUSTED, *map(_lines, trusted), _TABLES))


def _lines(setting: Setting) -> str:
    value = _EXAMPLES.get(setting.name, "" if setting.default is None else setting.default)
    text = f"{value:g}" if isinstance(value, float) else json.dumps(value)
    said = textwrap.fill(setting.description, 96, initial_indent="# ", subsequent_indent="# ")
    return f"\n{said}\n#{setting.name} = {text}\n"


def _write(path: Path) -> bool:
    """Write the file unless it exists; returns whether it was written."""
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        return False
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with file:
            file.write(example())
    except OSError as error:
        path.unlink()  # a partial file would count as the whole
        raise _unwritable(path, error) from None
    return True


def _recipe(name: str) -> Recipe:
    from interlock.fleet.recipes import RECIPES

    if name not in RECIPES:
        raise InvalidInput(f"There is no recipe {name!r}.", f"Use one of {', '.join(RECIPES)}.")
    return RECIPES[name]


def _write_recipe(recipe: Recipe, *, in_git: bool) -> list[dict[str, object]]:
    """Write the files of a fleet that do not exist, and trust our own: the user has just asked for it."""
    import os

    from interlock.fleet import fleetfile, recipes
    from interlock.settings import places, trust

    root = places.worktree_root(places.here())
    files = {
        fleetfile.NAME: (recipes.fleet_file(recipe, in_git=in_git), 0o666),
        recipes.SCRIPT: (recipes.script(recipe), 0o777),
    }
    wrote: list[dict[str, object]] = []
    for name, (text, mode) in files.items():
        path = places.inside(root, root / name)
        try:
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except FileExistsError:
            wrote.append({"path": str(path), "written": False})
            continue
        except OSError as error:
            raise _unwritable(path, error) from None
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            path.unlink()
            raise _unwritable(path, error) from None
        if name == fleetfile.NAME:
            trust.trust(fleetfile.located(path), text.encode(), os.environ)
        wrote.append({"path": str(path), "written": True})
    return wrote


def _recipe_lines(recipe: Recipe, wrote: list[dict[str, object]]) -> list[str]:
    import shutil

    lines = [
        f"Wrote {each['path']}." if each["written"] else f"{each['path']} exists and stays unchanged."
        for each in wrote
    ]
    if recipe.program is not None and shutil.which(recipe.program) is None:
        lines.append(
            f"{recipe.program} is not on the PATH: install it, and sign in, before you start the fleet."
        )
    return [*lines, "To start the workers: interlock fleet up"]


def _unwritable(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path} cannot be written: {error.strerror}.", "Make it writable, or free some space."
    )


def _wanted(offered: str, question: str) -> bool:
    """Ask the person at the terminal."""
    from typer import Abort, confirm

    try:
        return confirm(f"\n{offered}\n{question}", default=False)
    except Abort:  # Ctrl-C or Ctrl-D
        sys.stdout.write("\n")
        raise KeyboardInterrupt from None


def _add_hook() -> str:
    from interlock.hook.agent_settings import PLACE, installed
    from interlock.settings.places import here, inside, worktree_root

    root = worktree_root(here())
    change = installed(inside(root, root / PLACE))
    change.write()
    return str(change.path)


def _add_pre_push() -> str:
    from interlock.git.plumbing import GitRepository
    from interlock.push import pre_push
    from interlock.settings.places import here

    return str(pre_push.install(GitRepository.containing(here())))
