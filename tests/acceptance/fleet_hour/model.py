"""A plain model of the hour: what a recap must say, by what was asked for and what the agents wrote down.

It knows nothing of the store, and only these rules of Interlock: an item that fails `ATTEMPTS` times is given
up, a run that hit a provider's limit does not count, and of a run's reports the greatest figure wins.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

ATTEMPTS = 3

Line = dict[str, Any]


@dataclass(frozen=True)
class Added:
    """An item that was added, and when."""

    item: int
    title: str
    agent: str
    at_us: int


def moment(at_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)


class Model:
    """What was added, what was replaced, and the journal of the agents."""

    def __init__(self, added: list[Added], replaced: dict[int, int], journal: Path) -> None:
        self.added = {each.item: each for each in added}
        self.replaced = replaced
        self.lines: list[Line] = [json.loads(line) for line in journal.read_text().splitlines()]
        self.starts = [line for line in self.lines if line["what"] == "start"]
        self.ends = {line["run"]: line for line in self.lines if line["what"] == "end"}

    def of(self, what: str) -> list[Line]:
        return [line for line in self.lines if line["what"] == what]

    def ended(self, outcome: str) -> list[Line]:
        return [line for line in self.ends.values() if line["outcome"] == outcome]

    @property
    def given_up(self) -> list[Line]:
        """The last failures of the items that failed too often."""
        failures: dict[int, list[Line]] = defaultdict(list)
        for line in self.ended("failed"):
            failures[line["item"]].append(line)
        return [lines[-1] for lines in failures.values() if len(lines) == ATTEMPTS]

    @property
    def unanswered(self) -> list[Line]:
        answered = {line["run"] for line in self.of("answered")}
        return [line for line in self.of("asked") if line["run"] not in answered]

    def early(self, limit: Line) -> list[Line]:
        """Runs of an agent that started between its provider's limit and the end of that."""
        since_us, until_us = limit["at_us"], limit["until_us"]
        others = (line for line in self.starts if line["run"] != limit["run"])
        return [
            line
            for line in others
            if line["agent"] == limit["agent"] and since_us <= line["at_us"] < until_us
        ]

    def costs(self) -> dict[str, tuple[float, int, int]]:
        """Dollars, tokens in and tokens out of each agent."""
        runs: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        for line in self.of("cost"):
            total = runs[line["agent"], line["run"]]
            figures = (line["micro_usd"], line["tokens"], line["tokens"] // 10)
            total[:] = map(max, total, figures)
        agents: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for (agent, _), total in runs.items():
            agents[agent] = [a + b for a, b in zip(agents[agent], total, strict=True)]
        return {agent: (usd / 1e6, into, out) for agent, (usd, into, out) in agents.items()}

    def recap(self) -> dict[str, Any]:
        """What a recap says of it, in the form of `of_recap`."""
        finished, given_up = self.ended("done"), self.given_up
        first: dict[int, Line] = {}
        for line in self.starts:
            first.setdefault(line["item"], line)
        costs = self.costs().values()
        return {
            "counts": {
                "finished": len(finished),
                "failed": len(given_up),
                "superseded": len(self.replaced),
                "cancelled": 0,
                "retries": len(self.ended("failed")) - len(given_up),
                "runs": len(self.starts),
            },
            "finished": {self._entry(line) for line in finished},
            "failed": {(*self._entry(line), f"Exit code 3.\n{line['text']}") for line in given_up},
            "superseded": {
                (item, self.added[item].title, self.added[item].agent, by, moment(self.added[by].at_us))
                for item, by in self.replaced.items()
            },
            "waits": {
                (item, line["run"], line["agent"], (line["at_us"] - self.added[item].at_us) / 1e6)
                for item, line in first.items()
            },
            "needs": {("dead_letter", line["item"]) for line in given_up},
            "cost": (round(sum(c[0] for c in costs), 6), sum(c[1] for c in costs), sum(c[2] for c in costs)),
        }

    def _entry(self, line: Line) -> tuple[Any, ...]:
        """An ended run, with its item and how long it took."""
        (start,) = (each for each in self.starts if each["run"] == line["run"])
        took_s = (line["at_us"] - start["at_us"]) / 1e6
        item = line["item"]
        return item, self.added[item].title, line["agent"], line["run"], moment(line["at_us"]), took_s

    def overlaps(self) -> list[tuple[Line, Line]]:
        """Runs of one item of which the later began before the earlier had ended, or though it never did."""
        found = []
        runs = sorted(self.starts, key=lambda line: (line["item"], line["real_s"]))
        for one, other in pairwise(runs):
            end = self.ends.get(one["run"])
            if one["item"] == other["item"] and (end is None or end["real_s"] > other["real_s"]):
                found.append((one, other))
        return found

    def twice(self) -> list[int]:
        """Runs that started more than once, and items that finished more than once."""
        runs = Counter(line["run"] for line in self.starts)
        items = Counter(line["item"] for line in self.ended("done"))
        return [number for each in (runs, items) for number, n in each.items() if n > 1]


def of_recap(said: dict[str, Any]) -> dict[str, Any]:
    """A recap of the command, in the form of `Model.recap`."""

    def entry(each: dict[str, Any]) -> tuple[Any, ...]:
        at = datetime.fromisoformat(each["at"])
        return each["item"], each["title"], each["agent"], each["run"], at, each["span_s"]

    def replaced(each: dict[str, Any]) -> tuple[Any, ...]:
        return (
            each["item"],
            each["title"],
            each["agent"],
            each["by_item"],
            datetime.fromisoformat(each["at"]),
        )

    return {
        "counts": said["counts"],
        "finished": set(map(entry, said["finished"])),
        "failed": {(*entry(each), each["error"]) for each in said["failed"]},
        "superseded": set(map(replaced, said["superseded"])),
        "waits": {(each["item"], each["run"], each["agent"], each["span_s"]) for each in said["waits"]},
        "needs": {(each["kind"], each["item"]["id"] if each["item"] else None) for each in said["needs"]},
        "cost": (said["cost"]["usd"], said["cost"]["input_tokens"], said["cost"]["output_tokens"]),
    }
