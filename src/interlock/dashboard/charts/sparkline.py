"""A sparkline: the course of one number, as small as a word."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

WIDTH, HEIGHT = 120, 24
_MARGIN = 2


def sparkline(values: Sequence[float | None], label: str, *, kind: str = "") -> Markup:
    """The course of a number, oldest value first. None is a gap. `label` says it in words."""
    known = [value for value in values if value is not None]
    top = max(known, default=0.0) or 1.0
    step = (WIDTH - 2 * _MARGIN) / max(1, len(values) - 1)
    runs: list[list[str]] = [[]]
    for n, value in enumerate(values):
        if value is None:
            runs.append([])
            continue
        y = HEIGHT - _MARGIN - (HEIGHT - 2 * _MARGIN) * max(0.0, value) / top
        runs[-1].append(f"{_MARGIN + n * step:.1f},{y:.1f}")
    lines = [
        f'<polyline points="{" ".join(run)}" fill="none" stroke="currentColor" stroke-width="1.5" '
        'stroke-linejoin="round" stroke-linecap="round"/>'
        if len(run) > 1
        else f'<circle cx="{run[0].split(",")[0]}" cy="{run[0].split(",")[1]}" r="1.5" fill="currentColor"/>'
        for run in runs
        if run
    ]
    return Markup(  # noqa: S704  (numbers alone, and an escaped label)
        f'<svg class="spark {escape(kind)}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(label)}"><path d="M{_MARGIN} {HEIGHT - 1}H{WIDTH - _MARGIN}" '
        f'stroke="currentColor" stroke-opacity=".25"/>{"".join(lines)}</svg>'
    )
