"""The report as one HTML page that needs no other file: numbers, lanes over time, recoveries, violations.

It has no script, and every text is escaped: titles and errors may contain anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import count, takewhile

from interlock.prove.guards import CONSEQUENCES
from interlock.prove.journal import Line
from interlock.prove.page_style import STYLE
from interlock.prove.report import ProofReport, slowest, zombie_writes
from interlock.service.contract import EventView

LANES_MAX, ROWS_MAX = 14, 100
_WIDTH, _LEFT, _RIGHT, _ROW, _BAR = 1_080, 150, 16, 30, 14
_ENDINGS = ("succeeded", "failed", "released", "lost", "cancelled", "timed_out")
_TICKS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
_RULES = (
    ("At most one run has a lane", "spans of runs on each lane, in the order of the events"),
    ("Late writes and pushes are refused", "what each process was told, against the end of its run"),
    ("Nothing is lost", "each acknowledged arrival and result, against history and store"),
    ("Nothing is doubled", "one item for each dedupe key, one winner for each race"),
    ("No lease outlives its holder", "its last acknowledged end, plus the longest gap between sweeps"),
)


def rendered(report: ProofReport, events: Sequence[EventView], lines: Sequence[Line]) -> str:
    """The whole page."""
    title = f"interlock prove: {'pass' if report.ok else 'fail'}"
    body = "\n".join(
        [
            _head(report),
            _tiles(report),
            _lanes(events, lines),
            _recoveries(lines),
            _violations(report),
            _zombies(lines),
            _tried(report),
            _judged(),
        ]
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _head(report: ProofReport) -> str:
    word, tone = ("PASS", "good") if report.ok else ("FAIL", "bad")
    broken = (
        f" The guard <b>{escape(report.broken)}</b> was removed, so it must fail." if report.broken else ""
    )
    return (
        f'<header><h1>interlock prove <span class="verdict {tone}">{word}</span></h1>'
        f"<p>{report.processes} processes on {escape(report.store)}, {report.seconds:.0f} s,"
        f" seed <code>{report.seed}</code>.{broken} Every number comes from the store's events and from the"
        " journals that the processes kept outside it.</p></header>"
    )


def _tiles(report: ProofReport) -> str:
    recovery = "none needed" if report.recovery_s is None else f"{report.recovery_s:.1f} s"
    median = "" if report.recovery_median_s is None else f"at most; median {report.recovery_median_s:.1f} s"
    tiles = (
        ("violations", f"{report.violations:,}", "must be 0", "bad" if report.violations else "good"),
        (
            "zombies refused",
            f"{report.zombies_refused:,}",
            "must be more than 0",
            "good" if report.zombies_refused else "bad",
        ),
        ("attempts", f"{report.attempts:,}", f"{report.acknowledged:,} acknowledged", ""),
        ("race", f"{report.winners:,} of {report.rounds:,}", f"winners, {report.racers} processes each", ""),
        ("recovery", recovery, median, ""),
        (
            "faults",
            f"{report.kills + report.pauses + report.outages:,}",
            f"{report.kills} kills, {report.pauses} pauses, {report.outages} outages",
            "",
        ),
    )
    cells = (
        f'<div class="tile {tone}"><span>{escape(name)}</span><b>{escape(value)}</b>'
        f"<small>{escape(note)}</small></div>"
        for name, value, note, tone in tiles
    )
    return f'<section class="tiles">{"".join(cells)}</section>'


# -- lanes ----------------------------------------------------------------------------------------------


def _lanes(events: Sequence[EventView], lines: Sequence[Line]) -> str:
    """The runs of the busiest lanes over time, with the writes that came too late."""
    runs: dict[int, tuple[EventView, EventView | None]] = {}
    for event in events:
        kind = event.kind.removeprefix("run.")
        if event.run is not None and kind == "started":
            runs[event.run] = (event, None)
        elif event.run in runs and kind in _ENDINGS:
            runs[event.run] = (runs[event.run][0], event)
    if not runs:
        return "<section><h2>Lanes over time</h2><p>No run was started.</p></section>"
    zero_s = min(start.at.timestamp() for start, _ in runs.values())
    end_s = max(event.at.timestamp() for event in events)
    offset_s = _zero(events, lines)
    late = [(line["t"] + offset_s, line) for line in zombie_writes(lines)]
    signals = [(line["t"] + offset_s, line) for line in lines if line["state"] == "fault" and line.get("run")]
    of_lane: dict[str, list[int]] = defaultdict(list)
    for number, (start, _) in runs.items():
        of_lane[start.lane or "no lane"].append(number)
    marked = Counter(_lane_of(runs, line["run"]) for _, line in (*late, *signals))
    shown = sorted(of_lane, key=lambda lane: (-marked[lane], -len(of_lane[lane]), lane))[:LANES_MAX]
    end_s = max([end_s, *(at for at, _ in late)])
    span_s = max(end_s - zero_s, 0.001)

    def x(at_s: float) -> float:
        return float(_LEFT + (at_s - zero_s) / span_s * (_WIDTH - _LEFT - _RIGHT))

    height = len(shown) * _ROW + 40
    parts = list(_axis(span_s, lambda s: x(zero_s + s), height))
    row_of = {lane: n for n, lane in enumerate(shown)}
    for lane, n in row_of.items():
        y = n * _ROW + 30
        name = escape(_short(lane))
        parts.append(f'<text class="lane" x="{_LEFT - 10}" y="{y + 11}" text-anchor="end">{name}</text>')
        parts.append(f'<line class="row" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y + 22}" y2="{y + 22}"/>')
        for number in of_lane[lane]:
            start, end = runs[number]
            from_s = start.at.timestamp()
            to_s = end.at.timestamp() if end is not None else end_s
            how = end.kind.removeprefix("run.") if end is not None else "open"
            told = f"run {number} of item {start.item}, {how}, {to_s - from_s:.2f} s"
            parts.append(
                f'<rect class="{how}" x="{x(from_s):.1f}" y="{y}" width="{max(x(to_s) - x(from_s), 1.5):.1f}"'
                f' height="{_BAR}" rx="2"><title>{escape(told)}</title></rect>'
            )
    for at, line in signals:
        lane = _lane_of(runs, line["run"])
        if lane in row_of:
            y = row_of[lane] * _ROW + 30
            told = f"{line['op']} to {line['who_']} in run {line['run']}"
            parts.append(
                f'<g class="signal"><title>{escape(told)}</title><line x1="{x(at):.1f}" x2="{x(at):.1f}"'
                f' y1="{y - 5}" y2="{y + _BAR + 4}"/><circle cx="{x(at):.1f}" cy="{y - 5}" r="3"/></g>'
            )
    for at, line in late:
        lane = _lane_of(runs, line["run"])
        if lane in row_of:
            middle, at_x = row_of[lane] * _ROW + 30 + _BAR / 2, x(at)
            told = f"late {line['op']} of run {line['run']} by {line['who']}: refused"
            cross = f"M{at_x - 4:.1f} {middle - 4}l8 8m0 -8l-8 8"
            parts.append(f'<path class="late" d="{cross}"><title>{escape(told)}</title></path>')
    left = len(of_lane) - len(shown)
    more = f" {left} quieter {'lane is' if left == 1 else 'lanes are'} not shown." if left > 0 else ""
    keys = "".join(
        f'<span><i class="{how}"></i>{how.replace("_", " ")}</span>' for how in (*_ENDINGS, "open")
    )
    keys += '<span><b class="late">&times;</b>late write refused</span>'
    keys += '<span><b class="signal">&bull;</b>kill -9 or SIGSTOP</span>'
    return (
        "<section><h2>Lanes over time</h2>"
        "<p>Each bar is a run. On a lane, no bar may begin before the one in front of it has ended. Items"
        " without a lane may overlap."
        f"{more}</p>"
        f'<div class="keys">{keys}</div><div class="wide">'
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="Runs of {len(shown)} lanes over {span_s:.0f} seconds">{"".join(parts)}</svg>'
        "</div></section>"
    )


def _axis(span_s: float, x: Callable[[float], float], height: int) -> Iterable[str]:
    step = next((t for t in _TICKS if span_s / t <= 12), _TICKS[-1])
    for s in takewhile(lambda s: s <= span_s, count(0, step)):
        yield f'<line class="tick" x1="{x(s):.1f}" x2="{x(s):.1f}" y1="18" y2="{height}"/>'
        yield f'<text class="tick" x="{x(s):.1f}" y="12" text-anchor="middle">{s} s</text>'


def _zero(events: Sequence[EventView], lines: Sequence[Line]) -> float:
    """What to add to a time of the journals for the store's time. A claim's event is a little older than its
    acknowledgement, so the largest difference is the closest."""
    started = {event.run: event.at.timestamp() for event in events if event.kind == "run.started"}
    claims = (line for line in lines if line["op"] == "claim" and line["state"] == "ack" and "run" in line)
    return max((started[line["run"]] - line["t"] for line in claims if line["run"] in started), default=0.0)


def _lane_of(runs: dict[int, tuple[EventView, EventView | None]], number: int) -> str:
    return (runs[number][0].lane or "no lane") if number in runs else ""


def _short(lane: str) -> str:
    """A lane without the name of the proof's project."""
    kind, _, name = lane.partition(":")
    return f"{kind} {name.partition('/')[2]}" if "/" in name else lane


# -- tables ---------------------------------------------------------------------------------------------


def _recoveries(lines: Sequence[Line]) -> str:
    found = slowest(lines)
    if not found:
        return ""
    worst_s = found[0].seconds
    rows = []
    for each in found[:ROWS_MAX]:
        where = f"item {each.item}" if each.item is not None else "the store"
        width = max(100 * each.seconds / worst_s, 0.5)
        rows.append(
            f"<tr><td>{escape(each.fault)}</td><td>{where}</td><td class='n'>{each.seconds:.2f} s</td>"
            f'<td class="bar"><i style="width:{width:.1f}%"></i></td></tr>'
        )
    return (
        "<section><h2>Recovery after each fault</h2>"
        "<p>From the signal to the next claim of the item, or to the next answer of the store.</p>"
        f'<table><thead><tr><th>fault</th><th>of</th><th class="n">time</th><th></th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></section>"
    )


def _violations(report: ProofReport) -> str:
    if not report.findings:
        none = '<p class="none">None, by two judges that share no code.</p>'
        return f"<section><h2>Violations</h2>{none}</section>"
    rows = (
        f"<tr><td>{escape(f.judge)}</td><td><code>{escape(f.rule)}</code></td><td>{escape(f.text)}</td></tr>"
        for f in report.findings[:ROWS_MAX]
    )
    more = len(report.findings) - ROWS_MAX
    rest = f"<p>And {more} more.</p>" if more > 0 else ""
    told = CONSEQUENCES.get(report.broken or "")
    why = f"<p>{escape(told)}</p>" if told else ""
    return (
        f"<section><h2>Violations</h2>{why}"
        "<table><thead><tr><th>judge</th><th>rule</th><th>what was seen</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{rest}</section>"
    )


def _zombies(lines: Sequence[Line]) -> str:
    late = zombie_writes(lines)
    if not late:
        return "<section><h2>Zombies refused</h2><p>No late write was refused.</p></section>"
    began_s = lines[0]["t"]
    rows = (
        f"<tr><td class='n'>{line['t'] - began_s:.1f} s</td><td>{escape(line['who'])}</td>"
        f"<td class='n'>{line['run']}</td><td><code>{escape(line['op'])}</code></td>"
        f"<td>{escape(line.get('by', 'the store'))}</td><td>{escape(str(line.get('code', '')))}</td></tr>"
        for line in late[:ROWS_MAX]
    )
    more = f" The first {ROWS_MAX} of {len(late)}." if len(late) > ROWS_MAX else ""
    return (
        "<section><h2>Zombies refused</h2>"
        f"<p>Writes and pushes of runs that had lost their leases.{more}</p>"
        '<table><thead><tr><th class="n">at</th><th>process</th><th class="n">run</th><th>write</th>'
        f"<th>refused by</th><th>code</th></tr></thead><tbody>{''.join(rows)}</tbody></table></section>"
    )


def _tried(report: ProofReport) -> str:
    rows = (
        (
            "race",
            (
                f"{report.racers} processes add one item under one dedupe key at once, then claim it"
                f" under one agent name; {'once' if report.rounds == 1 else f'{report.rounds} times'}"
            ),
        ),
        ("workers", "add with every policy, claim, renew, message, done, fail, release, forget, oversleep"),
        ("kill -9", f"{report.kills} processes, in the middle of a run or of a request"),
        (
            "SIGSTOP, SIGCONT",
            f"{report.pauses} processes, past their leases; they write as soon as they wake up",
        ),
        (
            "plans",
            f"{report.edits} edits while tasks were claimed; {report.edits_refused} refused as stale",
        ),
        ("pushes", f"{report.pushes} to a bare repository; {report.pushes_refused} refused as late"),
        ("outages", f"{report.outages} in which all sessions were killed, or the server restarted"),
        (
            "history",
            (
                f"{report.events:,} events, {report.items:,} items, {report.runs:,} runs,"
                f" {report.leases_lost:,} leases lost; {report.unanswered:,} requests without an answer"
            ),
        ),
    )
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(told)}</td></tr>" for name, told in rows)
    return f"<section><h2>What was tried</h2><table><tbody>{cells}</tbody></table></section>"


def _judged() -> str:
    rows = "".join(f"<tr><th>{escape(rule)}</th><td>{escape(how)}</td></tr>" for rule, how in _RULES)
    return (
        "<section><h2>How it was judged</h2>"
        "<p>The history checker replays the events through a model of items."
        " The second judge compares spans of runs, answers in the journals and commits, from plain JSON"
        " and without any code of Interlock. Run it with <code>--break fence</code>, <code>lane</code>,"
        " <code>lease</code> or <code>dedupe</code> to see them notice.</p>"
        f"<table><tbody>{rows}</tbody></table></section>"
    )
