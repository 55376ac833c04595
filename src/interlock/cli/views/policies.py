"""Rules for GitHub's events, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.page import QUIET, Console, Text
from interlock.cli.views.words import harmless

if TYPE_CHECKING:
    from interlock.github.rulecheck import RuleFinding
    from interlock.github.trial import Trial, TrialItem, TrialStep

_MADE_OF = {"annotate": "agents with an open item get a message", "ignore": "ignored"}


def findings(console: Console, file: str, rules: int, found: Sequence[RuleFinding]) -> None:
    """Each finding: where, why it matters, and how to fix it."""
    for finding in found:
        console.print(Text.assemble(harmless(f"{finding.rule}: "), (finding.code, "bold red")))
        console.print(Text(harmless(f"  {finding.message}")))
        console.print(Text(harmless(f"  {finding.mend}"), style="cyan"))
    own = "1 rule" if rules == 1 else f"{rules} rules"
    many = "no known mistake" if not found else "1 mistake" if len(found) == 1 else f"{len(found)} mistakes"
    console.print(Text(harmless(f"{file}: {own}, {many}.")))


def trials(console: Console, tried: Sequence[tuple[str, Trial]]) -> None:
    """What each delivery would create."""
    for n, (name, trial) in enumerate(tried):
        if n:
            console.print(Text(""))
        about = f' on {trial.number} "{trial.title}"' if trial.number else ""
        console.print(Text.assemble((harmless(f"{trial.event}{about}"), "bold"), harmless(f" ({name})")))
        if trial.untried:
            console.print(Text(f"  Not tried: {trial.untried}"))
        if trial.ends:
            asked = "running items are asked to stop" if trial.stops else "running items keep running"
            console.print(Text(f"  Ends ({trial.ends}): waiting items are cancelled, {asked}."))
        for step in trial.steps:
            _step(console, step)


def _step(console: Console, step: TrialStep) -> None:
    about = f" {step.about}" if step.about else ""
    console.print(Text(harmless(f"  {step.event}{about}: {_outcome(step)}")))
    for made in step.makes:
        console.print(Text(harmless(f"    {_item(made)}"), style="green"))
    for passed in step.passed:
        console.print(Text(harmless(f"    {passed.rule} {passed.why}"), style=QUIET))


def _outcome(step: TrialStep) -> str:
    if step.makes:
        return f"{step.rule} matches"
    if step.why:
        return step.why[:1].lower() + step.why[1:].rstrip(".")
    return f"{step.rule}: {_MADE_OF[step.does]}"


def _item(made: TrialItem) -> str:
    who = f"for {made.agent}" if made.agent else "for any agent"
    lane = f"on lane {made.lane}" if made.lane else "without a lane"
    why = f", {made.reason}" if made.reason else ""
    return f"{made.type} {who}, priority {made.priority}, {lane}, {made.policy}{why}"
