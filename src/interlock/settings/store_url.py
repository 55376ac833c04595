"""The URL of a store: its kind and its location."""

from __future__ import annotations

from interlock.core.errors import InvalidInput
from interlock.settings import Settings, sqlite_path, without_password

DATABASES = "Use sqlite:///path/to/file.db or postgresql://user@host/database."
_FORMS = (
    "Use sqlite:///path/to/file.db, postgresql://user@host/database,"
    " https://host:port for a server, or git+https://host/name.git for lanes alone."
)
_SCHEMES = {
    "sqlite": "sqlite",
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "http": "http",
    "https": "http",
    "git+file": "git",
    "git+http": "git",
    "git+https": "git",
    "git+ssh": "git",
}


def scheme_of(url: str) -> str:
    """`sqlite`, `postgresql`, `git` or `http`. No error repeats the URL: it may hold a password."""
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower()
    if not separator:
        raise InvalidInput("The store's URL has no scheme.", _FORMS)
    if scheme not in _SCHEMES:
        raise InvalidInput(f"There is no store for the scheme {scheme!r}.", _FORMS)
    return _SCHEMES[scheme]


def absolute_url(settings: Settings) -> str:
    """The store's URL for a process in any directory."""
    if scheme_of(settings.url) != "sqlite":
        return settings.url
    return f"sqlite:///{sqlite_path(settings.url, settings.root).absolute()}"


def store_location(settings: Settings) -> str:
    """The store's location in words, without the user and password of a URL."""
    if scheme_of(settings.url) == "sqlite":
        return str(sqlite_path(settings.url, settings.root).absolute())
    return without_password(settings.url)
