"""Workflows, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.actions.findings import WorkflowFinding
from interlock.cli.page import Console, Text
from interlock.cli.views.words import harmless

if TYPE_CHECKING:
    from interlock.github.orphaned_runs import OrphanedRun
    from interlock.process.reaction import PostedReaction


def findings(console: Console, files: int, found: Sequence[WorkflowFinding]) -> None:
    """Each finding as `file:line: code`, why it matters, and how to fix it."""
    for finding in found:
        where = f"{finding.file}:{finding.line}: "
        console.print(Text.assemble(where, (finding.code.value, "bold red")))
        console.print(Text(f"  {finding.message}"))
        console.print(Text(f"  {finding.mend}", style="cyan"))
    looked = "1 workflow" if files == 1 else f"{files} workflows"
    many = "no known mistake" if not found else "1 mistake" if len(found) == 1 else f"{len(found)} mistakes"
    console.print(Text(f"{looked}, {many}."))


_DID = {
    "would_cancel": "Would cancel",
    "cancelled": "Cancelled",
    "forced": "Ended by force",
    "ended": "Skipped, as it has ended:",
}


def swept(
    console: Console, runs: Sequence[OrphanedRun], reactions: Sequence[PostedReaction], *, dry_run: bool
) -> None:
    """What was done about each workflow run and why, and the removed reactions of dead runs."""
    for run in runs:
        which = f"run {run.workflow_run} of {run.workflow}, attempt {run.attempt}"
        console.print(Text(harmless(f"{_DID[run.did]} {which}: {run.why} (run {run.run}).")))
    if not runs:
        console.print(Text("No orphaned workflow runs."))
    for reaction in reactions:
        did = "Would take" if dry_run else "Took"
        where = f"{reaction.kind.replace('_', ' ')} {reaction.subject} of {reaction.repository}"
        console.print(Text(harmless(f"{did} 👀 away from {where}: the run that put it there is dead.")))
