"""The source of Interlock for a generated workflow: the address that it was installed from, or a wheel of it.

A plain name would be installed from a public index, where it may be a stranger's package. The installed code
runs with the permissions of the job.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from importlib import metadata, resources
from importlib.resources.abc import Traversable

from interlock.core.record import Record

_NAME = "interlock"
#: The oldest time in a zip file. A fixed time makes the wheel reproducible.
_AT = (1980, 1, 1, 0, 0, 0)
_PLAIN = re.compile(r"https://[\w.:/+~-]+", re.ASCII)


class Wheel(Record):
    """A wheel: its file name and its content."""

    name: str
    content: bytes


def pinned_address() -> str | None:
    """The address that pip installed this Interlock from: a git commit, or an archive with its digest.

    None if it is unknown, or if it has a user, a password or a scheme that needs a key: a runner has none.
    """
    recorded = metadata.distribution(_NAME).read_text("direct_url.json")
    origin = json.loads(recorded) if recorded else {}
    address = str(origin.get("url", ""))
    if not _PLAIN.fullmatch(address) or origin.get("subdirectory"):
        return None
    if (vcs := origin.get("vcs_info")) and vcs.get("vcs") == "git":
        return f"git+{address}@{vcs['commit_id']}"
    digest = origin.get("archive_info", {}).get("hashes", {}).get("sha256")
    return f"{address}#sha256={digest}" if digest else None


def own_wheel() -> Wheel:
    """A wheel of the running files, even if they are an unbuilt checkout."""
    found = metadata.distribution(_NAME)
    about = f"{_NAME}-{found.version}.dist-info"
    files = {path: file.read_bytes() for path, file in _files(resources.files(_NAME), _NAME)}
    for name in ("METADATA", "entry_points.txt"):
        files[f"{about}/{name}"] = (found.read_text(name) or "").encode()
    files[f"{about}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: interlock\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = f"{about}/RECORD"
    rows = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in files.items()]
    files[record] = "".join([*rows, f"{record},,\n"]).encode()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _AT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return Wheel(name=f"{_NAME}-{found.version}-py3-none-any.whl", content=target.getvalue())


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry, f"{path}/{entry.name}")
        elif not entry.name.endswith(".pyc"):
            yield f"{path}/{entry.name}", entry


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
