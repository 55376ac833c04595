"""Opens the dashboard in a browser, if this machine has a screen."""

from __future__ import annotations

import os
import sys
from html import escape
from pathlib import Path

from interlock.cli.invocation import Invocation

_FILE = "dashboard.html"


def has_screen() -> bool:
    """Whether a graphical browser can open here, for a person."""
    if os.environ.get("CI") or not sys.stdout.isatty():
        return False
    if os.environ.get("BROWSER"):
        return True
    if sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def show_in_browser(link: str, call: Invocation) -> bool:
    """Open a one-time link; gives whether a browser was started.

    A command line is public on this machine. So the browser gets a file, which only the user can read and
    which leads to the link.
    """
    import webbrowser

    if not has_screen():
        return False
    path = _forwarding(link, call)
    try:
        return path is not None and webbrowser.open(path.as_uri())
    except (OSError, webbrowser.Error):
        return False


def _forwarding(link: str, call: Invocation) -> Path | None:
    """A file that leads to the link; None if it cannot be written."""
    from interlock.settings.places import inside, make_home

    url = escape(link, quote=True)
    text = (
        '<!doctype html><meta charset="utf-8"><title>Interlock</title>'
        f'<meta http-equiv="refresh" content="0; url={url}"><a href="{url}">Open the dashboard</a>\n'
    )
    home = call.settings.home
    path = inside(call.settings.root, home / _FILE)
    try:
        make_home(home)
        path.unlink(missing_ok=True)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "w") as file:
            file.write(text)
    except OSError:
        return None
    return path
