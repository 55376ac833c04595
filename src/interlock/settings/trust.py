"""Which files of a repository the user has looked at and trusts.

A clone brings its own configuration file. It may choose what is harmless, but no command, no other machine
and no place outside of the clone, until the user has said so. Trust is bound to the path of the file and to
what is in it, and is kept in the user's own directory. Whoever changes the file withdraws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from interlock.core.errors import InterlockError


def is_trusted(path: Path, data: bytes, environ: Mapping[str, str]) -> bool:
    """Whether the user trusts this file with exactly this content."""
    record = _record(path, environ)
    try:
        return record is not None and record.read_text().partition("\n")[0] == _hash(data)
    except OSError:
        return False


def trust(path: Path, data: bytes, environ: Mapping[str, str]) -> None:
    """Trust the file as it is; what was trusted of it before is replaced."""
    record = _record(path, environ)
    if record is None:
        raise InterlockError("There is no home directory to keep it in.", "Set HOME, or XDG_STATE_HOME.")
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record.write_text(f"{_hash(data)}\n{path}\n")
    except OSError as error:
        raise InterlockError(f"{record} cannot be written: {error.strerror}.", "Make it writable.") from None


def withdraw(path: Path, environ: Mapping[str, str]) -> bool:
    """Trust the file no more; returns whether it was trusted with any content."""
    record = _record(path, environ)
    try:
        if record is not None:
            record.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InterlockError(f"{record} cannot be removed: {error.strerror}.", "Remove it by hand.") from None
    return record is not None


def own_directory(environ: Mapping[str, str], variable: str, default: str) -> Path | None:
    """The user's directory for one kind of files, by the XDG rules: a relative path does not count."""
    for place in (Path(environ.get(variable, "")), Path(environ.get("HOME", ""), default)):
        if place.is_absolute():
            return place / "interlock"
    return None


def _record(path: Path, environ: Mapping[str, str]) -> Path | None:
    directory = own_directory(environ, "XDG_STATE_HOME", ".local/state")
    name = _hash(str(path.absolute()).encode(errors="surrogateescape"))
    return None if directory is None else directory / "trusted" / name


def _hash(data: bytes) -> str:
    import hashlib  # noqa: PLC0415  (most commands find nothing that needs trust)

    return hashlib.sha256(data).hexdigest()
