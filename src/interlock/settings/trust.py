"""The files of a repository that the user has reviewed and trusts.

A clone brings its own configuration file. Until the user trusts it, it may set only harmless settings: no
commands, no other machines and no paths outside the clone. Trust is bound to the path and the content of the
file, and is stored in the user's own directory. A change of the file revokes it.
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
    """Trust the file with this content. It replaces earlier trusted content."""
    record = _record(path, environ)
    if record is None:
        raise InterlockError("There is no home directory to keep it in.", "Set HOME, or XDG_STATE_HOME.")
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record.write_text(f"{_hash(data)}\n{path}\n")
    except OSError as error:
        raise InterlockError(f"{record} cannot be written: {error.strerror}.", "Make it writable.") from None


def withdraw(path: Path, environ: Mapping[str, str]) -> bool:
    """Revoke the trust in a file; returns whether it was trusted with any content."""
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
    """The user's directory for one kind of files, by the XDG rules: a relative path is ignored."""
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
