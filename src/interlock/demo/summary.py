"""The summary of the demo: the events, the checks and their results. All data is from the store's events."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from interlock.demo import promises
from interlock.demo.scenes import Conclusion
from interlock.demo.stage import Stage
from interlock.demo.words import QUIET
from interlock.proof.checker import seconds

Story = list[tuple[str, str]]
"""Titles, and a sentence for each."""


def conclude(stage: Stage, played: list[tuple[str, str, Conclusion]]) -> tuple[dict[str, Any], Story]:
    """The results of the demo, for `--json` and as a story."""
    stage.headline = "Checking what happened"
    stage.narrate("Every number that follows comes from the store's events.")
    stage.everyone_idle()
    stage.step()
    stage.look()
    found: dict[str, Any] = {
        "ok": False,
        "seconds": round(seconds(stage.lines[0], stage.lines[-1]), 1),
        "store": stage.url.partition(":")[0],
        "project": stage.project,
        "processes": len(stage.crew.agents),
        "events": len(stage.lines),
        "items_added": stage.count("item.added", "item.coalesced"),
        "items_completed": stage.count("run.succeeded"),
        "items_superseded": stage.count("item.superseded"),
        "items_coalesced": stage.count("item.coalesced"),
        "runs": stage.count("run.started"),
        "runs_failed": stage.count("run.failed"),
        "leases_lost": stage.count("run.lost"),
        "writes_refused": stage.count("run.refused"),
        "promotions": stage.count("lane.promoted"),
    }
    items = (
        "{items_added} added: {items_completed} completed, {items_superseded} superseded,"
        " {items_coalesced} coalesced"
    )
    runs = (
        "{runs} started: {items_completed} succeeded, {runs_failed} failed, {leases_lost} lost;"
        " {promotions} promotions"
    )
    story = [("items", items.format_map(found)), ("runs", runs.format_map(found))]
    for title, section, conclusion in played:
        sentence, facts = conclusion()
        found.setdefault(section, {}).update(facts)
        story.append((title, sentence))
    found["checks"] = tuple(promises.check(stage))
    found["ok"] = all(check.ok for check in found["checks"])
    found["kept_url"] = stage.url if stage.kept else None
    return found, story


def write(console: Console, found: dict[str, Any], story: Story) -> None:
    """Print the story, the checks with their results, and what to try next."""
    head = "   {seconds:.0f} s, {processes} processes, {store}, {events} events".format_map(found)
    lines = [Text.assemble(("What happened", "bold cyan"), (head, QUIET))]
    lines += [Text.assemble((f"  {title:<15}", "bold"), sentence) for title, sentence in story]
    lines += [Text(), Text("What was checked", style="bold cyan")]
    for check in found["checks"]:
        mark = ("✓ ", "bold green") if check.ok else ("✗ ", "bold red")
        lines.append(Text.assemble(mark, (f"{check.name:<33}", "bold"), check.detail))
        lines += [Text(f"  {check.mend}", style="cyan")] if check.mend else []
    broken = [check.name for check in found["checks"] if not check.ok]
    if broken:
        lines += [Text(), Text.assemble((" FAIL ", "bold white on red"), f"  broken: {', '.join(broken)}")]
    else:
        held = f"  all {len(found['checks'])} checks hold"
        lines += [Text(), Text.assemble((" PASS ", "bold black on green"), held)]
    commands = ['interlock add "Fix the login" --lane issue:acme/app#41', "interlock next --agent me"]
    if url := found["kept_url"]:
        commands = [f"INTERLOCK_URL={url} interlock {command}" for command in ("events", "ls --all")]
    for title, command in zip(("Try next: ", "          "), commands, strict=True):
        lines.append(Text.assemble((title, "bold"), (command, "cyan")))
    for line in lines:
        console.print(line, soft_wrap=True)
