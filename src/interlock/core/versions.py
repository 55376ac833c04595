"""The version of an item: a mark that changes with anything of it."""

from __future__ import annotations

from interlock.core.model import Item


def version_of(item: Item) -> str:
    """The same for the same item, in every process on its store. Only equality means anything."""
    import hashlib  # noqa: PLC0415  (takes long to import, and few edits name a version)

    return hashlib.sha256(repr(item).encode()).hexdigest()[:32]
