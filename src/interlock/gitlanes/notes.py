"""Notes about series in git: one ref each, moved by compare-and-swap. `git log` shows the last notes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interlock.git.refusals import PushRefusal, RefMove, RefusalKind
from interlock.gitlanes.remote import LaneRemote
from interlock.store.series_notes import Note

NOTES = "refs/interlock/notes/"
FORMAT = 1
#: The most commits in a chain. The next commit begins a new chain, and the old chain is dropped.
CHAIN_MAX = 200
#: Refusals that are not caused by starting a new chain.
_UNCLEAR = (RefusalKind.STALE, RefusalKind.NETWORK)


class GitNotes:
    """The notes of one remote."""

    def __init__(self, remote: LaneRemote) -> None:
        self._remote = remote
        #: The commit and the note that were last read, by ref.
        self._tips: dict[str, tuple[str, Note | None]] = {}

    def note(self, lane: str) -> Note | None:
        """The note about a series. An unreadable note counts as missing and is rewritten."""
        return self._read(self._ref(lane)).get(lane)

    def notes(self, after: str, limit: int) -> list[Note]:
        """The notes of lanes after this one, in order."""
        found = [note for lane, note in self._read(NOTES).items() if lane > after]
        return sorted(found, key=lambda note: note.lane)[:limit]

    def keep_note(self, note: Note) -> bool:
        """Write the note if the stored revision is one less; else write nothing and return False."""
        ref = self._ref(note.lane)
        if self._known(ref) != note.revision - 1:
            self._read(ref)  # the caller may have read a newer revision
            if self._known(ref) != note.revision - 1:
                return False
        old, known = self._tips.get(ref, (None, None))
        cuts = note.revision % CHAIN_MAX == 0
        parents = [] if old is None or known is None else [old]
        refusal = self._push(ref, note, old, [] if cuts else parents)
        if cuts and parents and refusal is not None and refusal.kind not in _UNCLEAR:
            refusal = self._push(ref, note, old, parents)  # the server refuses a new chain
        if refusal is None:
            return True
        self._tips.pop(ref, None)
        if refusal.kind is RefusalKind.STALE:
            return False
        raise self._remote.failed(refusal)

    def _push(self, ref: str, note: Note, old: str | None, parents: list[str]) -> PushRefusal | None:
        document = {
            "format": FORMAT,
            "lane": note.lane,
            "revision": note.revision,
            "data": json.loads(note.data),
        }
        subject = f"{note.lane}: note {note.revision}"
        new = self._remote.repository.commit_json(document, subject=subject, parents=parents)
        refusal = self._remote.push([RefMove(ref=ref, old_oid=old, new_oid=new)])
        if refusal is None:
            self._tips[ref] = new, note
        return refusal

    def _known(self, ref: str) -> int:
        """The revision that was last read; 0 if the note is missing or unreadable."""
        note = self._tips.get(ref, (None, None))[1]
        return 0 if note is None else note.revision

    def _ref(self, lane: str) -> str:
        return f"{NOTES}{self._remote.ref_id(lane)}"

    def _read(self, beginning: str) -> dict[str, Note]:
        found = {ref: (oid, _note(document)) for ref, (oid, document) in self._remote.tips(beginning).items()}
        self._tips = {ref: tip for ref, tip in self._tips.items() if not ref.startswith(beginning)} | found
        return {note.lane: note for _, note in found.values() if note is not None}


def _note(document: Mapping[str, Any] | None) -> Note | None:
    """The note in a document; None if it is unreadable."""
    try:
        assert document is not None and document["format"] == FORMAT
        lane, revision, data = document["lane"], document["revision"], document["data"]
        if not isinstance(lane, str) or not isinstance(revision, int) or not isinstance(data, dict):
            return None
    except (AssertionError, KeyError, TypeError):
        return None
    return Note(lane, revision, json.dumps(data))
