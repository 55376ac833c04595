"""P: how many requests GitHub gets for one issue from opened to merged, and in an idle hour."""

from __future__ import annotations

from pathlib import Path

from bench.figure import Figure, Row, Sample, Target
from bench.plan import Plan
from tests.github.thrift import Spent, house


def requests(plan: Plan) -> list[Figure]:
    """P. Counts, against the tests' own GitHub: no clock, no spread. Unchanged answers (304) cost nothing."""
    plan.rounds.say("requests to GitHub")
    totals, figures = list[Row](), list[Figure]()
    targets = list[Target]()
    for name, comments in (("by default", False), ("with a comment for each item", True)):
        issue, idle = _spent(plan.directory / f"requests-{comments}", comments=comments)
        totals += [
            _row(f"an issue, {name}: sent", issue.sent),
            _row(f"an issue, {name}: counted by GitHub", issue.counted),
            _row(f"an issue, {name}: creations", issue.creations),
            _row(f"an idle hour, {name}: sent", idle.sent),
            _row(f"an idle hour, {name}: counted by GitHub", idle.counted),
        ]
        targets += [
            Target.at_most(f"P, {name}: 10 issues an hour, of 1,000", 10.0 * issue.counted, 1_000),
            Target.at_most(f"P, {name}: 3 an hour in 20 repositories, of 5,000", 60.0 * issue.counted, 5_000),
            Target.at_most(f"P, {name}: creations of 20 issues an hour, of 500", 20.0 * issue.creations, 500),
        ]
        routes = [_row(route, count) for route, count in issue.by_route().most_common()]
        title = f"P. Counted requests for one issue from opened to merged, {name}, by route"
        figures.append(Figure(name="requests", title=title, unit="requests", rows=routes, exact=True))
    total = Figure(
        name="requests",
        title="P. Requests to GitHub",
        unit="requests",
        rows=totals,
        exact=True,
        targets=targets,
    )
    return [total, *figures]


def _spent(directory: Path, *, comments: bool) -> tuple[Spent, Spent]:
    directory.mkdir()
    with house(directory, comments=comments) as made:
        made.issue("first")
        made.spent()
        made.issue("second")
        issue = made.spent()
        made.idle_hour()
        made.spent()
        made.idle_hour()
        return issue, made.spent()


def _row(name: str, count: float) -> Row:
    return Row(subject=name, samples=[Sample(value=float(count))])
