"""A month of RFC series against the fake GitHub: how many requests an hour they cost.

    python -m bench.series            20 series of 8 issues, 30 days, a reconcile every 15 minutes

Time passes by the fake's clock. An issue is worked on for some hours and then merged; now and then somebody
assigns a second one, edits the state issue or abandons an issue. What GitHub counts is counted: answers of 304
cost nothing.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

from interlock.core.series.standing import Choices, Mode
from interlock.github.series.acting import Assigning
from interlock.github.series.cycle import Rules
from tests.github.fake import FakeGitHub
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
        rules = Rules(assigning=Assigning(login=BOT), choices=Choices(mode=Mode.COMMENT))
        desk = SeriesDesk(github, repo, f"sqlite:///{directory}/store.db", rules, directory=directory)
        for n in range(series):
            for micro in range(1, issues + 1):
                desk.issue(micro, f"RFC-{n + 1:03}")
        keeper, begun_s = desk.keeper(), github.clock()
        due_s: dict[int, float] = {}
        while github.clock() - begun_s < days * 86_400:
            before, hour = len(github.requests), int((github.clock() - begun_s) // 3600)
            _live(desk, due_s, rng, found)
            keeper.reconcile()
            spent = sum(status != 304 for _, _, status in github.requests[before:])
            found[f"hour {hour}"] += spent
            found["requests"] += spent
            found["asked"] += len(github.requests) - before
            github.clock.advance(every_s)
        found["double"] = sum(
            sum(bool(i.assignees) and i.state == "open" for i in repo.numbers.values() if f"RFC-{n + 1:03}-" in i.title) > 1
            for n in range(series)
        )
        found["merged"] = sum(i.state == "closed" and "RFC-" in i.title for i in repo.numbers.values())
        desk.close()
    return found


def _live(desk: SeriesDesk, due_s: dict[int, float], rng: random.Random, found: Counter[str]) -> None:
    """What people and agents do until the next reconcile."""
    now_s = desk.github.clock()
    active = [i for i in desk.repo.numbers.values() if i.assignees and i.state == "open" and "-0" in i.title]
    for issue in active:
        due_s.setdefault(issue.number, now_s + rng.uniform(4, 140) * 3600)
        if now_s >= due_s[issue.number]:
            issue.close(by="bob", commit_id="0" * 40 if rng.random() < 0.9 else None)
    waiting = [i for i in desk.repo.numbers.values() if not i.assignees and i.state == "open" and "-0" in i.title]
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
    days = parser.parse_args().days
    with tempfile.TemporaryDirectory() as directory:
        found = month(SERIES, ISSUES, days, EVERY_S, Path(directory))
    hours = [count for name, count in found.items() if name.startswith("hour ")]
    print(f"{SERIES} series of {ISSUES} issues, {days} days, a reconcile every {EVERY_S // 60} minutes")
    print(f"requests that count: {found['requests']:,}; with answers of 304: {found['asked']:,}")
    print(f"in an hour: at most {max(hours):,}, on average {sum(hours) / len(hours):.1f}")
    print(f"closed {found['merged']}, assigned by hand {found['assigned by hand']},", end=" ")
    print(f"state issues edited {found['state issues edited']}, series with two assigned {found['double']}")


if __name__ == "__main__":
    main()
