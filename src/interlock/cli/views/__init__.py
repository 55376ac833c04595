"""Views print answers for people. Each is imported when it is first used: `--json` needs none."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.cli.views import (  # noqa: F401
        access,
        agents,
        arrivals,
        budgets,
        costs,
        figures,
        github,
        glossary,
        history,
        items,
        itemwatch,
        live,
        policies,
        recap,
        runs,
        series,
        sessions,
        words,
        workers,
        workflows,
    )
else:

    def __getattr__(name: str) -> ModuleType:
        return import_module(f"{__name__}.{name}")
