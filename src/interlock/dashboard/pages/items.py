"""The items: filtered, page by page, and changed together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.ci import CiFilter
from interlock.core.errors import InvalidInput
from interlock.core.row import NamedTuple
from interlock.core.states import TERMINAL, ItemStatus
from interlock.dashboard.actions import BULK_MAX
from interlock.dashboard.reasons import reason_words
from interlock.dashboard.rendering import url
from interlock.dashboard.visit import Page, Visit
from interlock.service.contract import ItemFilter

#: The items of a page, few enough to be changed together.
ROWS = 50
assert ROWS <= BULK_MAX
#: The most items that a search for a number reads: others may have the digits in a longer number.
NUMBERED = 500
_FIELDS = ("agent", "lane", "type", "project", "label", "ci")
_UNFINISHED = tuple(status.value for status in ItemStatus if status not in TERMINAL)
#: Each tab with its statuses.
_TABS: Mapping[str, tuple[str, ...]] = {
    "Unfinished": ("",),
    "Asking": ("asking",),
    "In progress": ("in_progress",),
    "Pending": ("pending",),
    "Deferred": ("deferred",),
    "Waiting": ("waiting",),
    "Failed": ("failed",),
    "Completed": ("completed",),
    "Cancelled": ("cancelled",),
    "Absorbed": ("superseded", "coalesced"),
    "All": ("all",),
}
#: What a count means, where a person should look.
_KINDS = {"Asking": "warn", "Failed": "bad"}
_STATUSES = tuple(status for tab in _TABS.values() for status in tab)
_NUMBER = re.compile(r"#?(\d{1,18})", re.ASCII)
#: An issue or a pull request as people write it or copy it from a browser.
_ISSUE = re.compile(
    r"(?:https?://[\w.:-]+/)?([\w.-]{1,100}/[\w.-]{1,100})(?:#|/(?:issues|pull)/)(\d{1,18})(?:[/?#].*)?",
    re.ASCII,
)


class Search(NamedTuple):
    """What was typed into the search: a text, a number, or an issue, which names a lane."""

    text: str = ""
    number: int | None = None
    lane: str = ""


async def items(visit: Visit) -> Page:
    """Items, the newest first, with the filters of the address."""
    given = {name: visit.query.get(name, "").strip() for name in _FIELDS}
    statuses, before = visit.query_all("status") or [""], visit.query_number("before")
    typed = visit.query.get("text", "").strip()
    search = Search() if given["lane"] else _search(typed)
    if typed and search == Search():
        search = Search(text=typed)
    if (given["ci"] or search.number or search.lane) and statuses == [""]:
        statuses = ["all"]  # pull requests and past work on an issue matter after the end, too
    wanted = _wanted(statuses, {**given, "lane": given["lane"] or search.lane}, search, before)
    found = await visit.call("items", wanted=wanted)
    unasked = not {"", "all", "asking"} & {*statuses}  # an item that asks is neither ready nor scheduled
    rows = [
        row
        for row in reversed(found)
        if not (unasked and row["asking"]) and (search.number is None or _names(row, search.number))
    ]
    more = len(rows) > ROWS or len(found) == wanted.limit
    rows = rows[:ROWS]
    kept = {"text": typed, **given}
    named = [status for status in statuses if status]
    chosen = [name for name, value in kept.items() if value]
    last = rows[-1]["id"] if rows else found[0]["id"] if found else None
    stats = None if chosen else await visit.call("stats", window_s=1.0)
    values = {
        "rows": [_row(item) for item in rows],
        "exact": await _exact(visit, search.number) if before is None else None,
        "search": search,
        "text": typed,
        "given": given,
        "statuses": statuses,
        "tabs": [_tab(label, statuses, kept, stats) for label in _TABS],
        "chosen": [_chosen(name, kept, named) for name in chosen],
        "newest_only": _newest_only(kept, search),
        "ci_options": [("", "any"), *((each.value, each.value) for each in CiFilter)],
        "more_open": bool(given["type"] or given["project"] or given["label"] or given["ci"]),
        "next_url": url("/items", status=named, **kept, before=last) if more else "",
        "first_page": before is None,
        "first_url": url("/items", status=named, **kept),
        "kept_statuses": [("status", status) for status in named],
    }
    return Page("items.html", values, "Items", "items")


def _wanted(
    statuses: Sequence[str], given: Mapping[str, Any], search: Search, before: int | None
) -> ItemFilter:
    """The filter of the service for the filters of a page."""
    if wrong := [status for status in statuses if status not in _STATUSES]:
        raise InvalidInput(
            f"There is no status {wrong[0][:80]!r}.", f"Use {', '.join(filter(None, _STATUSES))}."
        )
    if "asking" in statuses and len(statuses) > 1:
        raise InvalidInput("The status asking cannot be combined with others.", "Use it alone.")
    named = [status for status in statuses if status in list(ItemStatus)]
    if "" in statuses and statuses != [""]:
        named += [status for status in _UNFINISHED if status not in named]
    text = search.text if search.number is None else str(search.number)
    return ItemFilter(
        all="all" in statuses,
        asking="asking" in statuses,
        statuses=() if "all" in statuses else tuple(named),
        before=before,
        text=text or None,
        limit=ROWS + 1 if search.number is None else NUMBERED,
        **{name: value for name, value in given.items() if value},
    )


# -- search -------------------------------------------------------------------------------------------


def _search(typed: str) -> Search:
    if number := _NUMBER.fullmatch(typed):
        return Search(number=int(number[1]))
    if issue := _ISSUE.fullmatch(typed):
        return Search(lane=f"issue:{issue[1]}#{issue[2]}")
    return Search()


def _names(item: Mapping[str, Any], number: int) -> bool:
    """Whether an item has a number in its lane, title or agent, and not only as a part of a longer number."""
    texts = (item["lane"], item["observed_lane"], item["title"], item["agent"])
    whole = re.compile(rf"(?<!\d){number}(?!\d)", re.ASCII)
    return any(whole.search(text) for text in texts if text)


async def _exact(visit: Visit, number: int | None) -> dict[str, Any] | None:
    """The item with this number, if there is one."""
    if not number:
        return None
    found = await visit.call("items", wanted=ItemFilter(all=True, before=number + 1, limit=1))
    return _row(found[0]) if found and found[0]["id"] == number else None


# -- the page -----------------------------------------------------------------------------------------


def _newest_only(kept: Mapping[str, str], search: Search) -> str:
    """The filters that do not look at everything, and at what they look."""
    if kept["ci"]:
        return "The filter by checks covers the newest 10,000 links to pull requests"
    words = ["the search"] if kept["text"] and not search.lane else []
    words += ["the filter by label"] if kept["label"] else []
    if not words:
        return ""
    verb = "cover" if len(words) > 1 else "covers"
    return f"{' and '.join(words).capitalize()} {verb} the newest 10,000 items of each status"


def _tab(label: str, statuses: Sequence[str], kept: Mapping[str, str], stats: Any) -> dict[str, Any]:
    """A tab, with the number of its items where no other filter is set."""
    named = _TABS[label]
    count = None
    if stats is not None:
        counts = stats["items"]
        counted = (*_UNFINISHED, "asking") if named == ("",) else counts if named == ("all",) else named
        count = sum(counts.get(status, 0) for status in counted)
    return {
        "label": label,
        "count": count,
        "kind": _KINDS.get(label, ""),
        "current": bool({*named} & {*statuses}),
        "url": url("/items", status=[status for status in named if status], **kept),
    }


def _chosen(name: str, kept: Mapping[str, str], statuses: Sequence[str]) -> dict[str, str]:
    """A filter that is set, and the address without it."""
    others = {other: value for other, value in kept.items() if other != name}
    return {
        "name": "Search" if name == "text" else name.upper() if name == "ci" else name.capitalize(),
        "value": kept[name],
        "url": url("/items", status=statuses, **others),
    }


def _row(item: dict[str, Any]) -> dict[str, Any]:
    """An item with what its row says besides its fields: a note, and a time with its word."""
    status = item["status"]
    if status == ItemStatus.IN_PROGRESS:
        when = ("started", item["started_at"])
    elif item["ended_at"]:
        when = ("ended", item["ended_at"])
    else:
        when = ("added", item["created_at"])
    due = (
        item["run_at"] if status in (ItemStatus.PENDING, ItemStatus.WAITING) and not item["asking"] else None
    )
    return {**item, "note": note(item), "due": due, "when": when}


def note(item: Mapping[str, Any]) -> str:
    """Why an item is where it is, in a few words; empty where its status says it all."""
    status, reason = item["status"], item["reason"]
    if item["asking"]:
        return item["question"] or "Waits for an answer"
    if item["cancel_requested"]:
        return f"asked to stop: {reason_words(item['cancel_reason'] or '')}"
    if item["blocked_by"]:
        return f"blocked by {', '.join(item['blocked_by'])}"
    if item["gated_by"]:
        return f"waits for its turn in {item['gated_by']}"
    if status == ItemStatus.CANCELLED:
        return reason_words(item["cancel_reason"] or reason)
    if status == ItemStatus.FAILED:
        attempts = f"{item['attempt']} {'attempt' if item['attempt'] == 1 else 'attempts'}"
        return f"after {attempts}: {reason_words(reason)}"
    if status == ItemStatus.SUPERSEDED:
        return f"replaced by item {item['absorbed_by']}"
    if status == ItemStatus.COALESCED:
        return f"became a message of item {item['absorbed_by']}"
    if status == ItemStatus.WAITING or (status == ItemStatus.PENDING and item["run_at"]):
        return reason_words(reason)
    return ""
