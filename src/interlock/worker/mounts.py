"""Finds mount points: where files below a directory belong to another file system.

A bind mount has the device of the directory around it, so the system's table of mounts is read. Without a
table, a directory on another device counts.

Not promised: mounts of other mount namespaces. They do not affect this process either.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
#: The escape for spaces, line ends and backslashes.
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def below(directory: Path) -> list[str]:
    """The mount points at and below a directory, relative to it. They are not accessed."""
    place = Path(os.path.realpath(directory))
    try:
        table = _TABLE.read_bytes()
    except OSError:
        return by_device(place)
    return [os.fsdecode(name) for name in listed(table, os.fsencode(place))]


def listed(table: bytes, directory: bytes) -> list[bytes]:
    """The mount points at and below a directory, according to a table."""
    inside = directory.rstrip(b"/") + b"/"
    found = []
    for line in table.splitlines():
        fields = line.split(b" ")
        if len(fields) > 4:  # number, parent, device, root, mount point
            point = _ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), fields[4])
            if point == directory:
                found.append(b".")
            elif point.startswith(inside):
                found.append(point.removeprefix(inside))
    return found


def by_device(directory: Path) -> list[str]:
    """The directories at and below this one that are on another device than their parent."""
    found = ["."] if os.path.ismount(directory) else []
    for place, names, _ in os.walk(directory):
        device = os.lstat(place).st_dev
        other = [name for name in names if os.lstat(Path(place, name)).st_dev != device]
        names[:] = [name for name in names if name not in other]
        found += [os.path.relpath(Path(place, name), directory) for name in other]
    return found
