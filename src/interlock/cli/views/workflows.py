"""Workflows, for people."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.actions.findings import WorkflowFinding
from interlock.cli.page import Console, Text


def findings(console: Console, files: int, found: Sequence[WorkflowFinding]) -> None:
    """Each finding as `file:line: code`, why it matters, and how to mend it."""
    for finding in found:
        where = f"{finding.file}:{finding.line}: "
        console.print(Text.assemble(where, (finding.code.value, "bold red")))
        console.print(Text(f"  {finding.message}"))
        console.print(Text(f"  {finding.mend}", style="cyan"))
    looked = "1 workflow" if files == 1 else f"{files} workflows"
    many = "no known mistake" if not found else "1 mistake" if len(found) == 1 else f"{len(found)} mistakes"
    console.print(Text(f"{looked}, {many}."))
