"""The runs of a window of time, as a chart and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.dashboard.charts.timeline import (
    OUTCOMES,
    RunBar,
    TimelineRow,
    TimeWindow,
    WaitSpan,
    swatch,
    timeline,
    timeline_row,
)
from interlock.dashboard.reasons import reason_words
from interlock.dashboard.rendering import item_url, moment_of, span, url
from interlock.dashboard.visit import Page, Visit

#: The most runs and rows of the chart, and the most rows of the table at once.
DRAWN, CHART_ROWS, ROWS = 150, 30, 25
RANGES = {"15m": 15, "1h": 60, "6h": 360, "24h": 1_440}
_LABELS = {"15m": "15 min", "1h": "1 h", "6h": "6 h", "24h": "24 h"}
_USUAL = "1h"
#: The window moves on in steps of its length through this, so that the page stays the same meanwhile.
_STEPS = 180
_YEARS = (2000, 2200)
_FORM = "%Y-%m-%dT%H:%M"


async def runs(visit: Visit) -> Page:
    """Runs that were current within a window, with the filters of the address."""
    rows = visit.query.get("rows", "lanes")
    if rows not in ("lanes", "agents"):
        raise InvalidInput(f"Rows cannot be {rows[:80]!r}.", "Use lanes or agents.")
    window, chosen = _window(visit)
    given = {name: visit.query.get(name, "").strip() for name in ("lane", "agent")}
    wanted: dict[str, Any] = {name: value for name, value in given.items() if value}
    if chosen == "":
        wanted["until"] = window.end
    found = await visit.call("recent_runs", since=window.begin, limit=DRAWN + 1, **wanted)
    shown = found[:DRAWN]
    page = max(1, visit.query_number("page") or 1)
    kept = {**given, "rows": "" if rows == "lanes" else rows}
    kept |= {name: visit.query.get(name, "") for name in ("range", "from", "to")}
    names, drawn, left_out = _lanes(shown, rows, window)
    label = f"Runs by {rows[:-1]}, {_clock(window.begin)} to {_clock(min(window.end, window.now))}"
    values = {
        "runs": [_row(run, window) for run in shown[(page - 1) * ROWS : page * ROWS]],
        "count": len(shown),
        "first_row": (page - 1) * ROWS + 1,
        "cut_at": shown[-1]["started_at"] if len(found) > DRAWN else None,
        "names": names,
        "chart": timeline(drawn, window, label) if drawn else None,
        "label": label,
        "left_out": left_out,
        "rows": rows,
        "legend": list(_legend(shown, drawn)),
        "ranges": [
            {
                "label": _LABELS[name],
                "url": _at({**kept, "range": name, "from": "", "to": ""}),
                "current": name == chosen,
            }
            for name in RANGES
        ],
        "switch": [
            {"label": "Lanes", "url": _at({**kept, "rows": ""}), "current": rows == "lanes"},
            {"label": "Agents", "url": _at({**kept, "rows": "agents"}), "current": rows == "agents"},
        ],
        "given": given,
        "from": f"{window.begin:{_FORM}}" if chosen == "" else "",
        "to": f"{window.end:{_FORM}}" if chosen == "" else "",
        "kept": [(name, value) for name, value in kept.items() if value and name in ("rows", "range")],
        "filtered": any(given.values()),
        "searched": bool(wanted),
        "next_url": f"{_at({**kept, 'page': page + 1})}#runs" if len(shown) > page * ROWS else "",
        "window": f"{_clock(window.begin)} to {_clock(window.end)} UTC",
    }
    return Page("runs.html", values, "Runs", "runs")


def _at(query: Mapping[str, Any]) -> str:
    return url("/runs", **query)


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


# -- the window ---------------------------------------------------------------------------------------


def _window(visit: Visit) -> tuple[TimeWindow, str]:
    """The window of the address, and the name of its range; empty for one with its own begin and end."""
    begin, end = (_moment(visit, name) for name in ("from", "to"))
    now = visit.now
    if begin is None and end is None:
        name = visit.query.get("range", "") or _USUAL
        if name not in RANGES:
            raise InvalidInput(f"There is no range {name[:80]!r}.", f"Use {', '.join(RANGES)}.")
        whole = timedelta(minutes=RANGES[name])
        step_s = whole.total_seconds() / _STEPS
        seen = datetime.fromtimestamp(now.timestamp() // step_s * step_s, UTC)
        return TimeWindow(
            seen + timedelta(seconds=step_s) - whole, seen + timedelta(seconds=step_s), seen
        ), name
    end = now if end is None else end
    begin = end - timedelta(hours=1) if begin is None else begin
    if begin >= end:
        raise InvalidInput("The window ends before it begins.", "Set from before to.")
    return TimeWindow(begin, end, now), ""


def _moment(visit: Visit, name: str) -> datetime | None:
    text = visit.query.get(name, "").strip()
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{name} is {text[:80]!r}.", "Use a time such as 2027-01-31T09:00, in UTC."
        ) from None
    if not _YEARS[0] <= at.year <= _YEARS[1]:
        raise InvalidInput(f"{name} is in the year {at.year}.", f"Use {_YEARS[0]} to {_YEARS[1]}.")
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


# -- the chart ----------------------------------------------------------------------------------------


def _lanes(
    shown: Sequence[Mapping[str, Any]], rows: str, window: TimeWindow
) -> tuple[list[dict[str, Any]], list[TimelineRow], int]:
    """The rows of the chart by name: those that had a run last. And how many others had one."""
    field = "lane" if rows == "lanes" else "agent"
    last = list(dict.fromkeys(run[field] for run in shown))
    chosen = sorted(last[:CHART_ROWS], key=lambda name: (name is None, name or ""))
    waits = _waits(shown)
    names, drawn = [], []
    for name in chosen:
        mine = [run for run in shown if run[field] == name]
        bars = [_bar(run, rows) for run in mine]
        row = timeline_row(bars, [waits[run["run"]] for run in mine if run["run"] in waits], window)
        drawn.append(row)
        names.append({"name": name, "tracks": len(row.tracks)})
    return names, drawn, len(last) - len(chosen)


def _waits(shown: Sequence[Mapping[str, Any]]) -> dict[int, WaitSpan]:
    """How long the item of each run waited: since it was added, or since its run before."""
    ended: dict[int, datetime] = {}
    waits: dict[int, WaitSpan] = {}
    for run in sorted(shown, key=lambda run: run["started_at"]):
        started, item = moment_of(run["started_at"]), run["item"]
        added = None if run["item_added_at"] is None else moment_of(run["item_added_at"])
        since = ended.get(item, added)
        if since is not None and since < started:
            waits[run["run"]] = WaitSpan(since, started)
        if run["ended_at"] is not None:
            ended[item] = moment_of(run["ended_at"])
    return waits


def _bar(run: Mapping[str, Any], rows: str) -> RunBar:
    begin, end = moment_of(run["started_at"]), None if run["ended_at"] is None else moment_of(run["ended_at"])
    where = run["agent"] if rows == "lanes" else run["lane"] or "no lane"
    why = f" · {reason_words(run['reason'])}" if run["reason"] not in ("", "reported") else ""
    times = f"since {begin:%H:%M:%S}"
    if end is not None:
        times = f"{begin:%H:%M:%S} to {end:%H:%M:%S}, {span((end - begin).total_seconds())}"
    first = f"run {run['run']} · {run['status'].replace('_', ' ')} · {_short(where)}"
    details = (first, f"{times} · item {run['item']}{why}")
    return RunBar(begin, end, run["status"], item_url(run["item"]), details)


def _short(text: str) -> str:
    """A name within its own direction of writing, and not too long."""
    return f"\u2068{text if len(text) <= 40 else f'{text[:39]}…'}\u2069"


def _legend(shown: Sequence[Mapping[str, Any]], drawn: Sequence[TimelineRow]) -> Iterator[dict[str, Any]]:
    counts = Counter(run["status"] for run in shown)
    for outcome in OUTCOMES:
        if counts[outcome]:
            words = outcome.replace("_", " ")
            yield {"swatch": swatch(outcome), "label": f"{counts[outcome]} {words}"}
    if any(row.waits for row in drawn):
        yield {"swatch": swatch("wait"), "label": "an item waits"}


def _row(run: Mapping[str, Any], window: TimeWindow) -> dict[str, Any]:
    end = window.now if run["ended_at"] is None else moment_of(run["ended_at"])
    return {
        **run,
        "took": None if run["ended_at"] is None else (end - moment_of(run["started_at"])).total_seconds(),
        "why": reason_words(run["reason"]) if run["reason"] not in ("", "reported") else "",
    }
