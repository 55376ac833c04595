"""Notes about series in git: a ref for each, moved by compare-and-swap; `git log` of it is its history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interlock.git.refusals import RefMove, RefusalKind
from interlock.gitlanes.remote import LaneRemote
from interlock.store.series_port import Note

NOTES = "refs/interlock/notes/"
FORMAT = 1


class GitNotes:
    """The notes of one remote."""

    def __init__(self, remote: LaneRemote) -> None:
        self._remote = remote

    def note(self, lane: str) -> Note | None:
        """What is noted about a series. A note that cannot be read counts as none, and is written anew."""
        return self._read(self._ref(lane)).get(lane)

    def notes(self, after: str, limit: int) -> list[Note]:
        """Those of lanes after this one, in order."""
        found = [note for lane, note in self._read(NOTES).items() if lane > after]
        return sorted(found, key=lambda note: note.lane)[:limit]

    def keep_note(self, note: Note) -> bool:
        """False, and nothing written, unless the revision that is there is one less."""
        ref = self._ref(note.lane)
        tip = self._remote.tips(ref).get(ref)
        known = None if tip is None else _note(tip[1])
        if (0 if known is None else known.revision) != note.revision - 1:
            return False
        old = None if tip is None else tip[0]
        document = {
            "format": FORMAT,
            "lane": note.lane,
            "revision": note.revision,
            "data": json.loads(note.data),
        }
        subject = f"{note.lane}: note {note.revision}"
        parents = [] if old is None or known is None else [old]
        new = self._remote.repository.commit_json(document, subject=subject, parents=parents)
        refusal = self._remote.push([RefMove(ref=ref, old_oid=old, new_oid=new)])
        if refusal is None:
            return True
        if refusal.kind is RefusalKind.STALE:
            return False
        raise self._remote.failed(refusal)

    def _ref(self, lane: str) -> str:
        return f"{NOTES}{self._remote.ref_id(lane)}"

    def _read(self, beginning: str) -> dict[str, Note]:
        notes = (_note(document) for _, document in self._remote.tips(beginning).values())
        return {note.lane: note for note in notes if note is not None}


def _note(document: Mapping[str, Any] | None) -> Note | None:
    """The note in a document; None if it cannot be read."""
    try:
        assert document is not None and document["format"] == FORMAT
        lane, revision, data = document["lane"], document["revision"], document["data"]
        if not isinstance(lane, str) or not isinstance(revision, int) or not isinstance(data, dict):
            return None
    except (AssertionError, KeyError, TypeError):
        return None
    return Note(lane, revision, json.dumps(data))
