"""What every test can use. The fixtures are described where they are defined."""

import gc
import itertools
import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from tests import postgres_fixtures, temporary_files
from tests.postgres_fixtures import (
    pg_database16,
    pg_database18,
    pg_empty16,
    pg_empty18,
    postgres16,
    postgres18,
    pytest_configure_node,
    pytest_unconfigure,
    start_postgres,
)

__all__ = [
    "pg_database16",
    "pg_database18",
    "pg_empty16",
    "pg_empty18",
    "postgres16",
    "postgres18",
    "pytest_configure_node",
    "pytest_unconfigure",
    "start_postgres",
]


# A busy machine is no defect: an example may take as long as it does.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    _keep_bytecode()
    _hear_signals()
    temporary_files.choose()
    # Whoever runs the tests may have settings of their own, and trust files.
    os.environ.update(XDG_CONFIG_HOME="/nonexistent", XDG_STATE_HOME="/nonexistent")
    postgres_fixtures.pytest_configure(config)


def _keep_bytecode() -> None:
    """Images often forbid it. Then each of some thousand commands would compile all that it imports, which
    takes twice as long as what it does, and each pytest process all tests."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def _hear_signals() -> None:
    """Tests send signals to processes that they start. What is started in the background of a script, or by
    nohup, ignores some of them, and so would they."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)


def pytest_collection_finish() -> None:
    """Ten thousand tests and what they import stay: no search for garbage need look at them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More than there are processors: half of the time they wait, for leases and for other processes."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(trylast=True)  # of what was chosen by name
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long comes first in each process, so that none is left with it when the others have nothing
    to do.

    PostgreSQL 16 is asked one case of each scenario, so that it has run every statement. All cases are for
    18: `INTERLOCK_EVERY_CASE=1 make test` tries them on both.
    """
    if "INTERLOCK_EVERY_CASE" not in os.environ:
        asked, left_out = set(), []
        for item in items:
            scenario = _scenario_on_16(item)
            if scenario is not None and scenario in asked:
                left_out.append(item)
            asked.add(scenario)
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    items[:] = _spread(items, getattr(config, "workerinput", {}).get("workercount", 1))


def _spread(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """What takes long in equal parts, one before each part of the others: `--dist worksteal` gives each
    process neighbours, all as many, and later lets those that are done take from the end of the others'."""
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    others = iter([item for item in items if item.get_closest_marker("slow") is None])
    spread: list[pytest.Item] = []
    for worker in range(workers):
        part = slow[worker::workers]
        size = (len(items) - len(spread)) // (workers - worker)
        spread += part + list(itertools.islice(others, max(0, size - len(part))))
    return spread + list(others)


def _scenario_on_16(item: pytest.Item) -> str | None:
    """What a test shows with a case of its own on PostgreSQL 16, if it does."""
    cases = getattr(item, "callspec", None)
    if cases is None or "postgres16" not in cases.params.values():
        return None
    return item.nodeid.partition("[")[0]
