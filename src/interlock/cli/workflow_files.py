"""Files that commands write for workflows, and the source that installs Interlock there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from interlock.core.errors import InvalidInput

#: Where workflows are, and the default place of the Interlock wheel.
WORKFLOWS, WHEELS = Path(".github") / "workflows", Path(".github")


def source_of(install: str | None) -> tuple[str, dict[Path, bytes]]:
    """The source that pip installs Interlock from, and a wheel to write, if any."""
    from interlock.actions.own_wheel import own_wheel, pinned_address

    source = pinned_address() if install is None else install
    if source is not None:
        return source, {}
    wheel = own_wheel()
    return f"./{WHEELS / wheel.name}", {tree() / WHEELS / wheel.name: wheel.content}


def write(files: Mapping[Path, bytes], *, force: bool) -> None:
    """Write all of them, or none if one exists with other content, or is outside of the working tree."""
    from interlock.settings.places import here, inside, worktree_root

    for file in files:
        inside(worktree_root(here()), here() / file)
    path = next(iter(files))
    try:
        for path, content in files.items():
            if not force and path.exists() and path.read_bytes() != content:
                raise InvalidInput(
                    f"{path} exists already.",
                    "Replace it with --force, or choose another place with --output.",
                )
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}.", "Choose another place with --output."
        ) from None


def outside_words() -> list[str]:
    """The warning outside a git repository."""
    from interlock.settings.places import common_directory, here

    if common_directory(here()) is not None:
        return []
    return [
        f"This directory is in no git repository: workflows run only from one, in {WORKFLOWS} at its root."
    ]


def tree() -> Path:
    """The working tree around the current directory; empty if that is its root."""
    from interlock.settings.places import here, worktree_root

    root = worktree_root(here())
    return Path() if root == here() else root
