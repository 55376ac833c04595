"""The two refs of a lane, and what they carry: a lane, or what cannot be read and counts as held."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from interlock.core.errors import InterlockError, UnreadableState
from interlock.git.plumbing import lane_ref_id
from interlock.gitlanes.documents import FORMAT, check_pair, read_owner, read_queue, unreadable
from interlock.gitlanes.lane import Lane

OWNERS, QUEUES = "refs/interlock/owner/", "refs/interlock/queue/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A lane whose state cannot be read: held by nobody knows whom."""

    ref_id: str
    why: UnreadableState
    #: Its name, if at least one document still tells it.
    name: str | None
    owner_oid: str | None
    queue_oid: str | None
    #: Written by a version of Interlock that is newer than this one.
    newer: bool


def read_pair(ref_id: str, carried: dict[str, tuple[str, Any]]) -> Lane | Unread:
    """The lane that its two refs carry, each given with its commit's id and document."""
    owner_oid, owner_document = carried.get(f"{OWNERS}{ref_id}", (None, None))
    queue_oid, queue_document = carried.get(f"{QUEUES}{ref_id}", (None, None))
    if owner_oid is None and queue_oid is None:
        return Lane(name="", ref_id=ref_id)
    try:
        if owner_document is None or queue_document is None:
            missing = "owner" if owner_document is None else "queue"
            raise unreadable(ref_id, f"its {missing} is not a document of Interlock")
        name, queue = read_queue(ref_id, queue_document)
        name, owner = read_owner(ref_id, owner_document)
        check_pair(ref_id, owner, queue)
    except UnreadableState as why:
        documents = [document for document in (owner_document, queue_document) if document]
        names = [name for name in (document.get("lane") for document in documents) if isinstance(name, str)]
        formats = [document.get("format") for document in documents]
        return Unread(
            ref_id=ref_id,
            why=why,
            name=next((name for name in names if is_name_of(ref_id, name)), None),
            owner_oid=owner_oid,
            queue_oid=queue_oid,
            newer=any(type(number) is int and number > FORMAT for number in formats),
        )
    return Lane(name=name, ref_id=ref_id, owner=owner, queue=queue, owner_oid=owner_oid, queue_oid=queue_oid)


def is_name_of(ref_id: str, name: str) -> bool:
    """Whether a lane of this name has these refs."""
    try:
        return lane_ref_id(name) == ref_id
    except InterlockError:
        return False


def document_of(contents: str) -> Any:
    """The JSON between the subject and the trailer of a commit, as `Repository.commit_json` writes it."""
    try:
        document = json.loads(contents.split("\n\n")[1])
    except (IndexError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
