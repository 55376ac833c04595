"""The user's tokens for servers: `INTERLOCK_TOKEN`, or a file of the user, never of a repository."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from interlock.core.errors import InvalidInput
from interlock.settings import trust

_HERE = ("127.0.0.1", "localhost", "::1")
VARIABLE, FILE_NAME = "INTERLOCK_TOKEN", "tokens.json"


def tokens_file(environ: Mapping[str, str]) -> Path | None:
    """The file of the user's tokens by the addresses of servers."""
    directory = trust.own_directory(environ, "XDG_CONFIG_HOME", ".config")
    return None if directory is None else directory / FILE_NAME


def token_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The user's token for a server; None if there is none."""
    if given := environ.get(VARIABLE, "").strip():
        return given
    path = tokens_file(environ)
    return None if path is None else _read(path).get(_key(url))


def local_servers(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The addresses of servers on this machine with the user's tokens for them, the newest first."""
    path = tokens_file(environ)
    known = {} if path is None else _read(path)
    here = [(url, token) for url, token in known.items() if urlsplit(url).hostname in _HERE]
    return here[::-1]


def keep_token(url: str, token: str, environ: Mapping[str, str]) -> Path | None:
    """Store a token in the user's own file, readable only by the user; returns its path."""
    path = tokens_file(environ)
    if path is None:
        return None
    known = _read(path)
    known.pop(_key(url), None)  # the newest is last
    kept = {**known, _key(url): token}
    try:
        _replace(path, json.dumps(kept, indent=1).encode())
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}.",
            f"Let this user write there, or set {VARIABLE} or XDG_CONFIG_HOME.",
        ) from None
    return path


def _replace(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(number, text)
    finally:
        os.close(number)
    new.replace(path)


def _key(url: str) -> str:
    """The key of a server's token, which is the same for all spellings of the address."""
    return url.lower().rstrip("/")


def _read(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8")
        if path.stat().st_mode & 0o077:
            raise InvalidInput(f"Others can read {path}, which has your tokens.", f"chmod 600 {path}")
        found = json.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.", "Fix or remove the file.") from None
    return found if isinstance(found, dict) else {}
