"""Limits, read from the constants that enforce them."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

from docs.generation.markdown import code, table
from docs.generation.meanings import meanings
from interlock.core import names, timing
from interlock.core.plans import model
from interlock.http import (
    bearers,
    bodies,
    claims,
    connections,
    execution,
    handlers,
    server,
    store_watch,
    streams,
)
from interlock.mcp import answer_conversion, tools
from interlock.plans import markup
from interlock.service import sweeper


def of_input() -> str:
    return _table("names", names)


def of_time() -> str:
    return _table("timing", timing)


def of_plans() -> str:
    return _table("plans", model)


def of_documents() -> str:
    return _table("documents", markup)


def of_sweeps() -> str:
    return _table("sweeper", sweeper)


def of_requests() -> str:
    return _table("requests", execution, handlers, claims, store_watch)


def of_bodies() -> str:
    return _table("bodies", bodies)


def of_streams() -> str:
    return _table("streams", streams)


def of_bearers() -> str:
    return _table("bearers", bearers)


def of_connections() -> str:
    return _table("connections", connections)


def of_listening() -> str:
    return _table("listening", server)


def of_answers() -> str:
    return _table("answers", answer_conversion)


def of_tools() -> str:
    return _table("tools", tools)


def constants(module: ModuleType) -> dict[str, int | float]:
    """The public numbers a module defines itself, not those it imports."""
    tree = ast.parse(inspect.getsource(module))
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    named = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    values = {name: getattr(module, name) for name in named if name.isupper() and not name.startswith("_")}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def shown(name: str, value: int | float) -> str:
    """A number with the unit its name ends in."""
    if name == "RUN_AT_MAX_US":
        return "the last second of 9999"
    if name.endswith("_BYTES"):
        return f"{value:,} bytes ({value / (1 << 20):g} MiB)"
    if name.endswith("_CHARS"):
        return f"{value:,} characters"
    if name.endswith("_PER_S"):
        return f"{value:,g} a second"
    if name.endswith("_S"):
        return _seconds(value)
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}"


def _seconds(value: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3_600)):
        if value >= 2 * size and value % size == 0:
            return f"{value:,.12g} s ({value / size:g} {unit})"
    return f"{value:,.12g} s"


def _table(section: str, *modules: ModuleType) -> str:
    found = {
        name: (value, f"{module.__name__.removeprefix('interlock.')}.{name}")
        for module in modules
        for name, value in constants(module).items()
    }
    words = meanings(f"limits.{section}", found)
    rows = ((words[name], shown(name, value), code(place)) for name, (value, place) in found.items())
    return table(("what", "limit", "constant"), rows)
