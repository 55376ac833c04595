"""The runs of one item on one line of time: how long it waited, ran, and where a late write was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup, escape

from interlock.core.model import EventKind

WIDTH, HEIGHT = 1000, 24
#: A run is drawn at least this wide, so that short ones are seen.
_RUN_MIN = 4.0
_TOP, _TALL = 6, 12
#: The most runs and marks that are drawn, the newest.
_DRAWN_MAX = 100


def run_strip(
    item: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> Markup:
    """Bars for runs, ticks for refused writes, from the item's arrival to its end or the newest known time.
    Empty without a run."""
    if not runs:
        return Markup("")
    begin = _moment(item["created_at"])
    known = [
        item["ended_at"],
        item["expires_at"],
        *(e["at"] for e in events),
        *(run["ended_at"] for run in runs),
    ]
    end = max([_moment(run["started_at"]) for run in runs] + [_moment(text) for text in known if text])
    if item["run"] is not None and not item["expires_at"]:  # an external run may end at any time
        end += max(timedelta(minutes=1), (end - begin) / 4)
    whole_s = max(1.0, (end - begin).total_seconds())

    def x(at: datetime) -> float:
        return WIDTH * min(1.0, max(0.0, (at - begin).total_seconds() / whole_s))

    parts = [f'<rect class="track" y="{_TOP + _TALL / 2 - 1:g}" width="{WIDTH}" height="2"/>']
    for run in runs[-_DRAWN_MAX:]:
        start = x(_moment(run["started_at"]))
        stop = x(_moment(run["ended_at"]) if run["ended_at"] else end)
        start = min(start, WIDTH - _RUN_MIN)
        parts.append(
            f'<rect class="bar {escape(run["status"])}" x="{start:.1f}" y="{_TOP}" '
            f'width="{max(_RUN_MIN, stop - start):.1f}" height="{_TALL}"/>'
        )
    refused = [event for event in events if event["kind"] == EventKind.RUN_REFUSED][-_DRAWN_MAX:]
    for event in refused:
        at = min(x(_moment(event["at"])), WIDTH - 3)
        parts.append(f'<rect class="late" x="{at:.1f}" y="0" width="3" height="{HEIGHT}"/>')
    count = f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}"
    late = f", {len(refused)} late {'write' if len(refused) == 1 else 'writes'} refused" if refused else ""
    return Markup(  # noqa: S704  (numbers and escaped words)
        f'<svg class="strip" viewBox="0 0 {WIDTH} {HEIGHT}" height="{HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{count} since its arrival{late}">{"".join(parts)}</svg>'
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
