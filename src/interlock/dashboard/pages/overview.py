"""The overview: what needs you, what is stuck, what runs, and what is next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from interlock.core.errors import InterlockError
from interlock.core.timing import LEASE_DEFAULT_S
from interlock.dashboard.host import Health
from interlock.dashboard.rendering import compact, moment_of, span, url
from interlock.dashboard.visit import Page, Visit
from interlock.service.contract import ItemFilter

#: How many items run and are next at most, and the span of the sparklines.
RUNNING, NEXT, MINUTES = 15, 8, 60
#: The window of the present rates.
WINDOW_S = 60.0
#: Kinds of notes with the word and colour of each, and where the rest of them is.
KINDS: Mapping[str, tuple[str, str, str]] = {
    "question": ("question", "warn", url("/items", status="asking")),
    "wake_up_loop": ("wake-up loop", "warn", ""),
    "dead_letter": ("dead letter", "bad", url("/items", status="failed")),
    "effects": ("GitHub", "bad", "/effects"),
    "finding": ("doctor", "bad", ""),
    "silent_run": ("silent run", "bad", "/runs"),
    "paused_agent": ("agent paused", "warn", "/agents"),
    "quota_limit": ("quota limit", "warn", "/agents"),
    "absent_agent": ("no live worker", "bad", "/agents"),
    "unknown_agent": ("unknown agent", "warn", "/agents"),
    "paused_project": ("project paused", "warn", ""),
    "gate": ("series", "quiet", "/series"),
    "edit_deadline": ("edit deadline", "warn", "/plans"),
    "paused_plan": ("plan paused", "warn", "/plans"),
    "block": ("blocked", "quiet", "/lanes"),
}
#: Kinds that need a person; the others are stuck.
NEEDS = ("question", "wake_up_loop", "dead_letter", "effects", "finding")
#: The doctor's checks that find what the notes above tell.
_TOLD = frozenset({"nothing_waits_for_a_person", "no_dead_effects", "stalled_lanes"})
#: Errors of a store that cannot answer now.
_AWAY = frozenset({"store_unavailable", "store_busy", "store_replaced", "store_sealed", "schema_mismatch"})


async def overview(visit: Visit) -> Page:
    """The first look at a store."""
    health = await visit.health()
    try:
        stats = await visit.call("stats", window_s=WINDOW_S)
        attention = await visit.call("attention")
        upcoming = await visit.call("upcoming", limit=NEXT)
        running = await visit.call("items", wanted=ItemFilter(statuses=("in_progress",), limit=RUNNING))
        trend = await visit.call("trend", minutes=MINUTES)
        lines = await visit.call("last_lines", runs=[item["run"] for item in running])
    except InterlockError as error:
        if error.code not in _AWAY:
            raise
        known = {"verdict": {"kind": "unknown", "sentence": f"Unknown: {error.sentence}"}, "known": False}
        return Page("overview.html", known, "Overview", "overview")
    findings = [_finding(each) for each in health.findings if each["name"] not in _TOLD]
    needs = [*attention["needs"], *findings]
    counts = {**attention["counts"], **({"finding": len(findings)} if findings else {})}
    verdict = _verdict(counts, stats, health)
    current = stats["current_locks"]
    values = {
        "known": True,
        "verdict": verdict,
        "empty": not stats["items"],
        "needs": needs,
        "needs_count": _total(counts, needy=True),
        "needs_more": _more(counts, needs),
        "stuck": [_with_command(note) for note in attention["stuck"]],
        "stuck_count": _total(counts, needy=False),
        "stuck_more": _more(counts, attention["stuck"]),
        "kinds": KINDS,
        "running": [
            {**_with_lease(item), "last_line": lines.get(str(item["run"]), "")}
            for item in sorted(running, key=_started, reverse=True)
        ],
        "running_count": current,
        "upcoming": upcoming,
        "next_max": NEXT,
        "behind": stats["items"].get("deferred", 0),
        "scheduled": stats["items"].get("waiting", 0),
        "ready_count": sum(stats["depth_by_priority"].values()),
        "tiles": _tiles(stats, trend, visit.now),
        "checked_at": health.checked_at,
    }
    waiting = _total(counts, needy=True)
    return Page("overview.html", values, f"({waiting}) Overview" if waiting else "Overview", "overview")


# -- words --------------------------------------------------------------------------------------------


def _total(counts: Mapping[str, int], *, needy: bool) -> int:
    return sum(n for kind, n in counts.items() if (kind in NEEDS) is needy)


def _more(counts: Mapping[str, int], shown: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How many of each kind are not listed, and where they are."""
    found = []
    for kind in dict.fromkeys(note["kind"] for note in shown):
        rest = counts[kind] - sum(note["kind"] == kind for note in shown)
        if rest > 0 and kind != "effects":  # one note tells of all
            word, _, address = KINDS[kind]
            found.append({"n": rest, "word": word, "url": address})
    return found


def _verdict(counts: Mapping[str, int], stats: Mapping[str, Any], health: Health) -> dict[str, str]:
    """How things are, in one sentence."""
    if health.troubles:
        return {"kind": "unknown", "sentence": f"Unknown: {' '.join(health.troubles)}"}
    needs, stuck = _total(counts, needy=True), _total(counts, needy=False)
    stuck_words = f"{stuck:,} {'is' if stuck == 1 else 'are'} stuck"
    if needs:
        words = f"{needs:,} {'thing needs' if needs == 1 else 'things need'} you"
        return {"kind": "needs", "sentence": f"{words}, {stuck_words}." if stuck else f"{words}."}
    if stuck:
        return {"kind": "stuck", "sentence": f"Nothing needs you, {stuck_words}."}
    runs = stats["current_locks"]
    return {"kind": "calm", "sentence": f"All calm, {runs:,} running." if runs else "All calm."}


def _finding(check: Mapping[str, Any]) -> dict[str, Any]:
    """A finding of the doctor as a note."""
    return {
        **dict.fromkeys(("item", "lane", "agent", "plan", "since", "until", "said")),
        "kind": "finding",
        "sentence": f"{check['name'].replace('_', ' ').capitalize()}: {check['detail']}",
        "said": check["mend"] or None,
        "cures": check["cures"],
    }


def _with_command(note: Mapping[str, Any]) -> dict[str, Any]:
    """A note with the command that starts a worker, if its agent has none."""
    starts = note["agent"] and note["kind"] in ("absent_agent", "unknown_agent")
    command = f"interlock work --agent {shlex.quote(note['agent'])} -- COMMAND" if starts else None
    return {**note, "command": command}


def _started(item: Mapping[str, Any]) -> str:
    return item["started_at"] or ""


def _with_lease(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item in progress with the beginning of its lease, which each renewal moves."""
    begin = item["started_at"]
    if item["expires_at"] is not None:
        spans = timedelta(seconds=item["lease_s"] or LEASE_DEFAULT_S)
        renewed = moment_of(item["expires_at"]) - spans
        begin = max(moment_of(item["started_at"]), renewed).isoformat()
    return {**item, "lease_since": begin}


# -- figures ------------------------------------------------------------------------------------------


def _tiles(
    stats: Mapping[str, Any], trend: Sequence[Mapping[str, Any]], now: datetime
) -> list[dict[str, Any]]:
    """Figures with their course over the last hour."""
    by_minute = {moment_of(point["at"]): point for point in trend}
    first = now.replace(second=0, microsecond=0) - timedelta(minutes=MINUTES - 1)
    points = [by_minute.get(first + timedelta(minutes=n)) for n in range(MINUTES)]

    def course(name: str) -> list[float | None]:
        return [None if point is None else point[name] for point in points]

    ready, minutes = sum(stats["depth_by_priority"].values()), stats["window_s"] / 60
    claims, completions = stats["claims"] / minutes, stats["completions"] / minutes
    oldest_s = stats["oldest_pending_s"] or 0.0
    failures = sum(point["failures"] or 0 for point in points if point is not None)

    def rate(number: float) -> str:
        return "run a minute" if compact(number) == "1" else "runs a minute"

    warning = f"{failures:,} failed or lost in the hour" if failures else ""
    to_claim = "item to be claimed" if ready == 1 else "items to be claimed"
    oldest = _tile("Oldest ready item", "", course("oldest_ready_s"), oldest_s, span)
    return [
        _tile("Ready", to_claim, course("ready"), ready, "{:,.0f}".format),
        oldest if ready else {**oldest, "value": "\N{EN DASH}", "unit": "no ready items"},
        _tile("Started", rate(claims), course("claims"), claims, compact),
        _tile(
            "Completed",
            rate(completions),
            course("completions"),
            completions,
            compact,
            kind="good",
            warning=warning,
        ),
    ]


def _tile(
    name: str,
    unit: str,
    course: Sequence[float | None],
    present: float,
    words: Callable[[float], str],
    *,
    kind: str = "",
    warning: str = "",
) -> dict[str, Any]:
    """A figure now, and its values in the last hour, if any are known."""
    known = [each for each in course if each is not None]
    peak = words(max([*known, present]))
    return {
        "name": name,
        "value": words(present),
        "unit": unit,
        "values": [*course, present],
        "label": f"{name} in the last hour: peak {peak}, now {words(present)}" if known else "",
        "peak": peak,
        "kind": kind,
        "warning": warning,
    }
