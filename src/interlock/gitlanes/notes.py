"""Notes about series in git: a ref for each, moved by compare-and-swap; `git log` shows the last ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interlock.git.refusals import PushRefusal, RefMove, RefusalKind
from interlock.gitlanes.remote import LaneRemote
from interlock.store.series_port import Note

NOTES = "refs/interlock/notes/"
FORMAT = 1
#: A chain has at most this many commits; then the next one begins a new chain, and the old one is dropped.
CHAIN_MAX = 200
#: Refusals that have nothing to do with a chain that begins anew.
_UNCLEAR = (RefusalKind.STALE, RefusalKind.NETWORK)


class GitNotes:
    """The notes of one remote."""

    def __init__(self, remote: LaneRemote) -> None:
        self._remote = remote
        #: The commits that notes were read from last, by their refs.
        self._tips: dict[str, tuple[str, Note | None]] = {}

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
        if self._known(ref) != note.revision - 1:
            self._read(ref)  # what was read last is not what the caller has read
            if self._known(ref) != note.revision - 1:
                return False
        old, known = self._tips.get(ref, (None, None))
        cuts = note.revision % CHAIN_MAX == 0
        parents = [] if old is None or known is None else [old]
        refusal = self._push(ref, note, old, [] if cuts else parents)
        if cuts and parents and refusal is not None and refusal.kind not in _UNCLEAR:
            refusal = self._push(ref, note, old, parents)  # the server lets no chain begin anew
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
        """The revision that was read last; 0 if there is none, or none that can be read."""
        note = self._tips.get(ref, (None, None))[1]
        return 0 if note is None else note.revision

    def _ref(self, lane: str) -> str:
        return f"{NOTES}{self._remote.ref_id(lane)}"

    def _read(self, beginning: str) -> dict[str, Note]:
        found = {ref: (oid, _note(document)) for ref, (oid, document) in self._remote.tips(beginning).items()}
        self._tips = {ref: tip for ref, tip in self._tips.items() if not ref.startswith(beginning)} | found
        return {note.lane: note for _, note in found.values() if note is not None}


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
