"""What the suite costs, in seconds of a processor for each folder: `make test ARGS="-p tests.costs"`.

Unlike the time that tests take, it hardly depends on what else the machine does. Counted are pytest's own
processes and what tests start and wait for; the PostgreSQL servers that all share stand by themselves, and
servers of single tests are not counted.
"""

from __future__ import annotations

import resource
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from tests.postgres_fixtures import RUN

#: By folder: how many tests there were, and what they cost.
TESTS: Counter[str] = Counter()
SPENT_S: defaultdict[str, float] = defaultdict(float)


def _spent_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    begun_s = _spent_s()
    try:
        return (yield)
    finally:
        SPENT_S["collection"] += _spent_s() - begun_s


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    begun_s, folder = _spent_s(), item.path.relative_to(item.config.rootpath).parts[1]
    try:
        return (yield)
    finally:
        TESTS[folder] += 1
        SPENT_S[folder] += _spent_s() - begun_s


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["costs"] = dict(TESTS), dict(SPENT_S)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    tests, spent_s = getattr(node, "workeroutput", {}).get("costs", ({}, {}))
    TESTS.update(tests)
    for name, seconds in spent_s.items():
        SPENT_S[name] += seconds


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    SPENT_S["PostgreSQL"] = sum(_servers_s(str(config.stash[RUN].path)))
    terminalreporter.section("seconds of a processor")
    for name in sorted(SPENT_S, key=SPENT_S.__getitem__, reverse=True):
        terminalreporter.write_line(f"{name:12} {TESTS[name] or '':5} {SPENT_S[name]:7.1f}")
    terminalreporter.write_line(f"{'all':12} {TESTS.total():5} {sum(SPENT_S.values()):7.1f}")


def _servers_s(directory: str) -> Iterator[float]:
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "postgres" and directory in " ".join(process.info["cmdline"] or ()):
            for each in (process, *process.children()):
                used = each.cpu_times()
                yield used.user + used.system
            yield process.cpu_times().children_user + process.cpu_times().children_system
