"""The evidence: events, items and commits beside the journals, as plain JSON, for both judges."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interlock.core.record import Record
from interlock.prove.journal import SUFFIX
from interlock.prove.place import ProofPlace
from interlock.prove.pusher import pushed_runs
from interlock.service.contract import EventView, ItemFilter, Service, to_json
from interlock.service.item_view import ItemView

_PAGE = 1_000


class Evidence(Record):
    """What the store says in the end."""

    events: Sequence[EventView]
    items: Sequence[ItemView]
    commits: Sequence[dict[str, str]]
    #: The time of the judgement, on the store's clock.
    now_us: int


def newest_event(service: Service) -> int:
    """The number of the newest event: those of the proof come after it."""
    newest = service.events(limit=1, newest=True)
    return newest[-1].seq if newest else 0


def gather(service: Service, place: ProofPlace, *, after: int, remote: str) -> Evidence:
    """Read all of it, and write it beside the journals."""
    items = _items(service, place.project)
    events = _events(service, place.project, {item.id for item in items}, after)
    commits = pushed_runs(remote) if remote else []
    store: Any = getattr(service, "store", None)
    last_us = round(events[-1].at.timestamp() * 1e6) if events else 0
    now_us = store.now_us() if store is not None else last_us
    for name, found in (("events", events), ("commits", commits), ("time", [{"now_us": now_us}])):
        _write(place.directory, name, to_json(found))
    short = [{"id": item.id, "status": item.status, "title": item.title, "lane": item.lane} for item in items]
    _write(place.directory, "items", short)
    return Evidence(events=events, items=items, commits=commits, now_us=now_us)


def keep(place: ProofPlace, directory: Path) -> None:
    """Copy the evidence to a directory of the user's."""
    for file in sorted(place.directory.iterdir()):
        if file.suffix in (".json", SUFFIX):
            shutil.copyfile(file, directory / file.name)


def _write(directory: Path, name: str, found: Any) -> None:
    (directory / f"{name}.json").write_text(json.dumps(found, ensure_ascii=False), "utf-8")


def _items(service: Service, project: str) -> list[ItemView]:
    found: list[ItemView] = []
    while True:
        before = min((item.id for item in found), default=None)
        page = service.items(ItemFilter(all=True, project=project, limit=_PAGE, before=before))
        found += page
        if len(page) < _PAGE:
            return found


def _events(service: Service, project: str, items: set[int], after: int) -> list[EventView]:
    """The events of the project. Others may use the same store. The event of a refused renewal names its
    item, but no project."""
    found: list[EventView] = []
    while True:
        page = service.events(after=after, limit=_PAGE)
        found += [e for e in page if e.item in items or (e.item is None and e.project == project)]
        if not page:
            return found
        after = page[-1].seq
