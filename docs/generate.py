"""Fills in what the code knows better: `python -m docs.generate`, or `make docs`.

A page marks a place with `<!-- begin: NAME -->` and `<!-- end: NAME -->`; what stands between is written
here, from the code and from `docs/meanings.toml`. A test fails when it is not what this would write.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from docs.generation import (
    api,
    codes,
    commands,
    glossary,
    http,
    limits,
    mcp,
    metrics,
    schema,
    settings,
    shapes,
    states,
)
from docs.generation.meanings import Unexplained

ROOT = Path(__file__).parent.parent

REGIONS: dict[str, Callable[[], str]] = {
    "global options": commands.global_options,
    "options alone": commands.options_alone,
    "commands": commands.all_commands,
    "glossary": glossary.for_users,
    "words": glossary.for_engineers,
    "settings": settings.all_settings,
    "types": settings.types,
    "other variables": settings.other_variables,
    "event kinds": codes.event_kinds,
    "event data": codes.event_keys,
    "reasons": codes.reasons,
    "error codes": codes.error_codes,
    "error codes of the command": codes.command_error_codes,
    "exit codes": codes.exit_codes,
    "workflow findings": codes.workflow_findings,
    "item diagram": states.item_diagram,
    "item states": states.items,
    "run diagram": states.run_diagram,
    "run states": states.runs,
    "decisions": states.decisions,
    "answers": shapes.answers,
    "shapes": shapes.all_shapes,
    "limits of input": limits.of_input,
    "limits of time": limits.of_time,
    "limits of plans": limits.of_plans,
    "limits of documents": limits.of_documents,
    "limits of sweeps": limits.of_sweeps,
    "limits of bodies": limits.of_bodies,
    "limits of requests": limits.of_requests,
    "limits of streams": limits.of_streams,
    "limits of bearers": limits.of_bearers,
    "limits of tools": limits.of_tools,
    "limits of answers": limits.of_answers,
    "limits of connections": limits.of_connections,
    "limits of listening": limits.of_listening,
    "metrics of the store": metrics.of_the_store,
    "levels of the store": metrics.levels,
    "metrics of a server": metrics.of_a_server,
    "alerts": metrics.alerts,
    "tables": schema.all_tables,
    "indexes": schema.all_indexes,
    "connect": api.connect,
    "session_lock": api.session_lock,
    "Interlock": api.client,
    "Claimed": api.claimed,
    "Lease": api.lease,
    "ItemFields": api.item_fields,
    "NewItem": api.new_item,
    "Service": api.service,
    "Report": api.report,
    "NextWish": api.next_wish,
    "ItemFilter": api.item_filter,
    "Orchestrator": api.orchestrator,
    "AsyncOrchestrator": api.async_orchestrator,
    "TaskRun": api.task_run,
    "AsyncTaskRun": api.async_task_run,
    "EditRequest": api.edit_request,
    "AsyncEditRequest": api.async_edit_request,
    "PlanEvent": api.plan_event,
    "TaskSpec": api.task_spec,
    "EdgeSpec": api.edge_spec,
    "addresses": http.addresses,
    "queries": http.queries,
    "bodies": http.bodies,
    "problems": http.problems,
    "tools": mcp.tools,
    "resources": mcp.resources,
}
_REGION = re.compile(r"<!-- begin: ([^>]+?) -->\n.*?<!-- end: \1 -->", re.DOTALL)


def pages() -> Iterator[Path]:
    """Every page of the documentation."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def generated_pages() -> Iterator[Path]:
    """Every page that may have regions: those of the documentation, and the one for engineers."""
    yield from pages()
    yield ROOT / "AGENTS.md"


def regions(text: str) -> list[str]:
    """The regions a page asks for."""
    return [m[1] for m in _REGION.finditer(text)]


def filled(text: str) -> str:
    """A page with its regions as they should be."""
    return _REGION.sub(lambda m: f"<!-- begin: {m[1]} -->\n\n{REGIONS[m[1]]()}\n\n<!-- end: {m[1]} -->", text)


def main() -> int:
    """Write every page that has changed, and say which."""
    for path in generated_pages():
        before = path.read_text("utf-8")
        try:
            after = filled(before)
        except Unexplained as error:
            sys.stderr.write(f"{error}\n")
            return 1
        if after != before:
            path.write_text(after, "utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
