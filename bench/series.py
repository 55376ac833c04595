"""A month of RFC series against the fake GitHub: how many requests an hour they cost.

    python -m bench.series            20 series of 8 issues, 30 days, a reconcile every 15 minutes

Time passes by the fake's clock. An issue is worked on for some hours and then merged; now and then somebody
assigns a second one, edits the state issue or abandons an issue. Each reconcile is a process of its own that
remembers no answers, as in a job of Actions, so every request counts.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

from interlock.core.series.snapshot import RolloutStage, SeriesOptions
from interlock.github.client import GitHub
from interlock.github.series import issues, members
from interlock.github.series.context import SeriesContext, SeriesStore
from interlock.github.series.controller import SeriesController
from interlock.github.series.effects import AssignmentMethod, DirectSeriesEffects
from interlock.github.series.options import SeriesRules
from interlock.github.series.overview import Overview
from interlock.github.tokens import PlainToken
from tests.github.fake import FakeGitHub
from tests.github.issues import Issue
from tests.github.series_desk import BOT, SeriesDesk
from tests.github.server import serve

SERIES, ISSUES, DAYS, EVERY_S = 20, 8, 30, 900
SEED = 14


def month(series: int, issues: int, days: int, every_s: int, directory: Path) -> Counter[str]:
    """Live through it; counts by hour, and what happened."""
    rng = random.Random(SEED)
    github = FakeGitHub(directory / "github")
    limits = github.faults.limits
    limits.hourly = dict.fromkeys(limits.hourly, 10**9)
    limits.creations_per_minute = limits.creations_per_hour = 10**9
    found: Counter[str] = Counter()
    with serve(github):
        repo = github.repository("acme/app", admin=["boss"], write=["alice", "bob"])
        rules = SeriesRules(
            assigning=AssignmentMethod(login=BOT), choices=SeriesOptions(stage=RolloutStage.COMMENT)
        )
        desk = SeriesDesk(github, repo, f"sqlite:///{directory}/store.db", rules, directory=directory)
        for n in range(series):
            for micro in range(1, issues + 1):
                desk.issue(micro, f"RFC-{n + 1:03}")
        begun_s = github.clock()
        due_s: dict[int, float] = {}
        while github.clock() - begun_s < days * 86_400:
            before, hour = len(github.requests), int((github.clock() - begun_s) // 3600)
            _live(desk, due_s, rng, found)
            _reconcile(desk)
            spent = sum(status != 304 for _, _, status in github.requests[before:])
            found[f"hour {hour}"] += spent
            found["requests"] += spent
            github.clock.advance(every_s)
        assigned = Counter(_series(i) for i in _members(desk) if i.assignees)
        found["double"] = sum(count > 1 for count in assigned.values())
        found["closed"] = series * issues - len(_members(desk))
        desk.close()
    return found


def _reconcile(desk: SeriesDesk) -> None:
    """As a job of Actions does: it remembers no answers, and sends what it has to do at once."""
    token = PlainToken(desk.github.token("boss"))
    with GitHub(token, api_url=desk.github.api_url, sleep=lambda _: None) as client:
        found = issues.find(client, desk.repo.full_name)
        context = SeriesContext(
            store=SeriesStore(lanes=desk.lanes, notes=desk.notes),
            github=client,
            repository=found,
            rules=desk.rules,
            acting=DirectSeriesEffects(client, found),
            authors=members.Authors(client, found),
            lane_name=found.name.lower(),
        )
        named = Overview(context.store, found.name, context.lane_name, desk.rules)
        SeriesController(named, desk.rules, lambda: context).reconcile()


def _members(desk: SeriesDesk) -> list[Issue]:
    return [i for i in desk.repo.numbers.values() if i.state == "open" and ": Part" in i.title]


def _series(issue: Issue) -> str:
    return issue.title[:7]


def _live(desk: SeriesDesk, due_s: dict[int, float], rng: random.Random, found: Counter[str]) -> None:
    """What people and agents do until the next reconcile."""
    now_s = desk.github.clock()
    active = [issue for issue in _members(desk) if issue.assignees]
    for issue in active:
        due_s.setdefault(issue.number, now_s + rng.uniform(4, 140) * 3600)
        if now_s >= due_s[issue.number]:
            issue.close(by="bob", commit_id="0" * 40 if rng.random() < 0.9 else None)
    waiting = [issue for issue in _members(desk) if not issue.assignees]
    if waiting and rng.random() < 0.02:
        rng.choice(waiting).assign("alice", by="boss")
        found["assigned by hand"] += 1
    shown = [i for i in desk.repo.numbers.values() if i.title.endswith("Series State")]
    if shown and rng.random() < 0.01:
        rng.choice(shown).edit(by="alice", body="Oops.")
        found["state issues edited"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--every", type=int, default=EVERY_S, help="seconds between two reconciles")
    chosen = parser.parse_args()
    days, every_s = chosen.days, chosen.every
    with tempfile.TemporaryDirectory() as directory:
        found = month(SERIES, ISSUES, days, every_s, Path(directory))
    hours = [count for name, count in found.items() if name.startswith("hour ")]
    print(f"{SERIES} series of {ISSUES} issues, {days} days, a reconcile every {every_s // 60} minutes")
    print(f"requests: {found['requests']:,}")
    print(f"in an hour: at most {max(hours):,}, on average {sum(hours) / len(hours):.1f}")
    print(f"closed {found['closed']}, assigned by hand {found['assigned by hand']},", end=" ")
    print(f"state issues edited {found['state issues edited']}, series with two assigned {found['double']}")


if __name__ == "__main__":
    main()
