"""Plans for people: lists, details, drawings, differences and figures."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from interlock.cli.page import Console, Table, Text
from interlock.cli.views import words
from interlock.core.model import Reason
from interlock.core.timing import span
from interlock.plans.diff import Difference
from interlock.plans.drawing import text as text_drawing
from interlock.plans.drawing.picture import PlanPicture
from interlock.plans.drawing.symbols import EDGE_WORDS, sign
from interlock.service.contract import to_json
from interlock.service.plan_view import (
    BatchView,
    CycleView,
    EdgeView,
    EditView,
    PlanStatsView,
    PlanSummary,
    PlanView,
    RevisionView,
    TaskView,
)

_TASKS_SHOWN = 200
_SOURCES_SHOWN = 4
_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def listing(console: Console, found: Sequence[PlanSummary], *, unfinished: bool) -> None:
    """A table of plans."""
    if not found:
        console.print("No plan is running." if unfinished else "There are no plans.")
        return
    numbers = ("ID", "DONE", "FAILED", "TASKS", "REV")
    table = words.table(
        *("ID", "STATUS", "NAME", "DONE", "FAILED", "TASKS", "REV", "NOW", "WHEN"),
        right=numbers,
        wrapped=("NAME",),
    )
    for one in found:
        now = [word for word, on in (("paused", one.paused), ("editing", one.editing)) if on]
        table.add_row(
            str(one.id),
            words.status(one.status),
            words.harmless(one.name),
            str(one.completed),
            Text(str(one.failed), style="red" if one.failed else words.QUIET),
            str(one.tasks),
            str(one.revision),
            Text(", ".join(now), style="yellow"),
            Text(words.relative(one.ended_at or one.created_at), style=words.QUIET),
        )
    console.print(table)


def created(console: Console, made: PlanView) -> None:
    ready = [t.key for t in made.tasks if t.status == "pending"]
    console.print(
        f"Plan {made.id} has {_count(len(made.tasks), 'task')} and {_count(len(made.edges), 'edge')}; "
        f"{_named(ready, 'none')} may start."
    )
    console.print(Text(f"See it: interlock plan watch {made.id}", style=words.QUIET))


def detail(console: Console, found: PlanView) -> None:
    """Everything about one plan, then its tasks."""
    deadline = words.exactly(found.edit_deadline_s)
    console.print(headline(found))
    console.print(
        words.facts(
            ("now", now_doing(found)),
            ("tasks", counts(found)),
            ("editor", f"{found.editor}, who has {deadline} for an edit" if found.editor else None),
            ("project", found.project),
            ("created", words.at(found.created_at)),
            ("ended", words.at(found.ended_at) if found.ended_at else None),
        )
    )
    console.print()
    console.print(task_table(found, found.tasks[:_TASKS_SHOWN], console.width))
    if len(found.tasks) > _TASKS_SHOWN:
        left = len(found.tasks) - _TASKS_SHOWN
        console.print(Text(f"and {left:,} more: interlock --json plan show {found.id}", style=words.QUIET))


def headline(found: PlanView) -> Text:
    return Text.assemble(
        (f"Plan {found.id}  ", "bold"),
        words.status(found.status),
        ("  " + words.harmless(found.name), "bold"),
        (f"  revision {found.revision}", words.QUIET),
    )


def now_doing(found: PlanView) -> str | None:
    """What holds a plan back, if anything."""
    held = []
    if found.paused:
        held.append(f"paused: {found.paused_reason or 'no reason given'}")
    if found.cycle is not None:
        held.append(_editing(found, found.cycle))
    return "; ".join(held) or None


def _editing(found: PlanView, cycle: CycleView) -> str:
    who = (
        f"{cycle.agent} (run {cycle.run})"
        if cycle.run is not None
        else f"{found.editor}, which has not started"
    )
    until = f"at most until {words.clock(cycle.deadline_at)}"
    if cycle.deadline_at <= datetime.now(UTC):
        until = f"overdue since {words.clock(cycle.deadline_at)}: the next claim closes the edit cycle"
    return (
        f"waits for an edit by {who}, after {_named(cycle.pending, 'nothing')}; "
        f"asked {words.relative(cycle.opened_at)}, {until}"
    )


def counts(found: PlanView) -> Text:
    """The number of tasks in each status."""
    return Text("   ").join(words.counts(Counter(t.status for t in found.tasks)))


def task_table(found: PlanView, tasks: Sequence[TaskView], width: int) -> Table:
    """Tasks with what they wait for, or why they ended."""
    sources: dict[str, list[EdgeView]] = defaultdict(list)
    for edge in found.edges:
        if edge.state != "satisfied":
            sources[edge.target].append(edge)
    titled = any(task.title != task.key for task in tasks)
    names = ("", "TASK", "ITEM", "STATUS", "AGENT", *(("TITLE",) if titled else ()), "WHY")
    table = words.table(*names, right=("ITEM",))
    agents = [words.shorten(task.run_agent or task.agent or "anyone", 14) for task in tasks]
    fixed = (
        1
        + max([4, *(len(str(task.item)) for task in tasks)])
        + max([6, *(len(task.status) for task in tasks)])
        + max([5, *map(len, agents)])
        + 2 * (len(names) - 1)
    )
    left = max(width - fixed, 30)
    key_width = min(max([4, *(len(task.key) for task in tasks)]), left * 2 // 5)
    title_width = min(max([5, *(len(t.title) for t in tasks)]), (left - key_width) // 2) if titled else 0
    for task, agent in zip(tasks, agents, strict=True):
        title = words.shorten(words.harmless(task.title), title_width) if task.title != task.key else ""
        why = words.shorten(_why(task, sources[task.key]), left - key_width - title_width)
        table.add_row(
            Text(sign(task.status), style=words.STATUS_STYLES.get(task.status, "")),
            words.shorten(task.key, key_width),
            str(task.item),
            words.status(task.status),
            Text(agent, style="" if task.run_agent or task.agent else words.QUIET),
            *((title,) if titled else ()),
            Text(why, style="red" if task.status == "failed" else words.QUIET),
        )
    return table


def _why(task: TaskView, edges: Sequence[EdgeView]) -> str:
    """What a task waits for, or why it ended without success."""
    if task.ended_at is not None:
        return task.reason if task.status in ("failed", "cancelled") else ""
    if task.status == "deferred":
        return f"lane {task.lane}"
    if task.reason == Reason.BACK_OFF:
        return f"back-off after attempt {task.attempt}"
    named = [edge.source + _condition(edge) for edge in edges]
    return f"after {_named(named, '')}" if named else ""


def _condition(edge: EdgeView) -> str:
    """Which end an edge waits for, unless it is only success."""
    if edge.state == "broken":
        return " (never)"
    kinds = [] if edge.when == "success" else [EDGE_WORDS.get(edge.when, edge.when)]
    if edge.on_cancel == "satisfy":
        kinds.append("or cancelled")
    return f" ({', '.join(kinds)})" if kinds else ""


def graph_text(drawn: PlanPicture, chosen: str, width: int = 10_000) -> str:
    """The graph as text of the chosen kind."""
    if chosen == "svg":
        from interlock.plans.drawing.svg import svg

        return svg(drawn)
    if chosen == "mermaid":
        from interlock.plans.drawing.mermaid import mermaid

        return mermaid(drawn)
    return f"{text_drawing.drawn(drawn, width=width)}\n"


def written(document: Mapping[str, Any]) -> str:
    """A graph as `plan edit` reads it."""
    return json.dumps({"graph": document}, indent=2, ensure_ascii=False) + "\n"


def graph(console: Console, drawn: PlanPicture, plan: int, revision: int | None) -> None:
    """The text drawing; for a list, also how to get a picture."""
    made = text_drawing.drawn(drawn, width=console.width)
    console.print(_coloured(made))
    if made.listed:
        at = "" if revision is None else f" --revision {revision}"
        command = f"interlock plan graph {plan}{at} --format svg > plan-{plan}.svg"
        console.print(Text(f"As a picture: {command}", style=words.QUIET))


def drawing(drawn: PlanPicture, width: int) -> Text:
    """The text drawing with its statuses in colour."""
    return _coloured(text_drawing.drawn(drawn, width=width))


def _coloured(made: text_drawing.Drawing) -> Text:
    lines = [Text(line, no_wrap=True, overflow="crop") for line in made.lines]
    for line, start, end, word in made.marks:
        lines[line].stylize(words.STATUS_STYLES.get(word, ""), start, end)
    return Text("\n", no_wrap=True, overflow="crop").join(lines)


def edited(console: Console, answer: EditView) -> None:
    changed = answer.added or answer.removed or answer.updated or answer.rebased
    on_top = ", on top of later changes" if answer.rebased else ""
    console.print(f"Plan {answer.plan} is {'now ' if changed else ''}at revision {answer.revision}{on_top}.")
    for verb, keys in (
        ("added", answer.added),
        ("removed", answer.removed),
        ("changed", answer.updated),
        ("may start", answer.ready),
    ):
        if keys:
            console.print(f"  {verb}: {_named(keys, '')}")
    if answer.editing:
        console.print("More tasks have ended meanwhile; the plan waits for another edit.")


def batch(console: Console, found: BatchView, handle: str | None) -> None:
    """What an editor must answer, and what to type; with `--run` only if the caller gave the handle."""
    console.print(
        f"Plan {found.plan} {words.harmless(found.name)}, revision {found.revision}: "
        f"{_count(len(found.completions), 'end')} to answer until {words.at(found.deadline_at)}."
    )
    table = words.table("N", "TASK", "STATUS", "WHEN", "RESULT", right=("N",), wrapped=("TASK", "RESULT"))
    for one in found.completions:
        said = one.error or ("" if one.result is None else json.dumps(one.result, ensure_ascii=False))
        table.add_row(
            str(one.n),
            one.key,
            words.status(one.status),
            words.relative(one.at),
            Text(words.harmless(" ".join(said.split())), style="red" if one.error else ""),
        )
    console.print(table)
    run = f" --run {handle}" if handle else ""
    answer = f"interlock plan edit {found.plan} --base {found.revision}{run} --through {found.through} FILE"
    console.print(Text(f"Answer: {answer}", style=words.QUIET), soft_wrap=True)


def stats(console: Console, found: PlanView, figures: PlanStatsView) -> None:
    """The known figures of a plan."""
    console.print(headline(found))
    path = " → ".join(figures.critical_path)
    spans = (figures.to_dispatch_avg_s, figures.to_dispatch_p50_s, figures.to_dispatch_p95_s)
    avg, p50, p95 = ("" if each is None else _precise(each) for each in spans)
    edits = (
        f"{figures.edits_completed} completed, {figures.edits_timed_out} timed out, "
        f"{figures.edits_refused} refused, {figures.edits_failed} failed; {figures.edits_rebased} rebased"
    )
    ends = f"{figures.completions_registered} registered, {figures.completions_answered} answered"
    console.print(
        words.facts(
            ("tasks", counts(found)),
            ("depth", _count(figures.depth, "task")),
            ("critical path", f"{span(figures.critical_path_s)}: {path}" if path else None),
            ("total work", span(figures.total_work_s) if path else None),
            ("parallelism", None if figures.parallelism is None else f"{figures.parallelism:.1f}"),
            ("edits", f"{figures.edits_total} in {_count(figures.cycles, 'cycle')}"),
            ("of these", edits),
            ("ends of tasks", ends),
            ("editing took", span(figures.lock_s)),
            ("next start", f"{avg} on average, {p50} median, {p95} p95 after a task's end" if avg else None),
        )
    )


def deadline_set(console: Console, changed: PlanView) -> None:
    """The editor's time for an edit, and the deadline of the open cycle."""
    who = f"Plan {changed.id}: {changed.editor}" if changed.editor else f"An editor of plan {changed.id}"
    console.print(Text(f"{who} has {span(changed.edit_deadline_s)} for an edit."))
    if changed.cycle is not None:
        console.print(Text(f"  The open cycle ends {words.at(changed.cycle.deadline_at)} at the latest."))


def history(console: Console, found: Sequence[RevisionView]) -> None:
    """Revisions, oldest first, each with its operations."""
    if not found:
        console.print("There are no such revisions.")
    for one in found:
        who = one.by or "someone"
        run = f", run {one.run}" if one.run is not None else ""
        base = f", on revision {one.base}" if one.base not in (one.revision - 1, one.revision) else ""
        console.print(
            Text.assemble(
                (f"{one.revision:>4}  ", "bold"),
                words.harmless(f"{words.clock(one.at)}  {who}{run}{base}"),
                (words.harmless(f"  {one.why}") if one.why else "", words.QUIET),
            )
        )
        for operation in one.operations:
            console.print(Text(words.harmless(f"      {_operation(operation)}"), style=words.QUIET))


def differences(console: Console, found: Sequence[Difference]) -> None:
    """One line for each task and edge that differs."""
    if not found:
        console.print("The two revisions are the same.")
    for one in found:
        mark, style = _MARKS[one.change]
        name = one.name if isinstance(one.name, str) else " → ".join(one.name)
        if one.change == "changed":
            told = _moves(one.before, one.after)
        else:
            chosen = (one.after or one.before).items()
            told = "  ".join(f"{k}: {_value(v)}" for k, v in chosen if (k, v) != ("title", one.name))
        console.print(Text(words.harmless(f"{mark} {one.what} {name}  {told}".rstrip()), style=style))


def _operation(operation: Mapping[str, Any]) -> str:
    """An operation in one line: its name, its task or edge, and its values or changes."""
    one = dict(operation)
    op, key = one.pop("op", "?"), one.pop("key", None)
    name = key if key is not None else f"{one.pop('from', '?')} → {one.pop('to', '?')}"
    before, after = one.pop("before", None), one.pop("after", None)
    if before is not None and after is not None:
        return f"{op} {name}  {_moves(before, after)}"
    for usual in (("title", name), ("when", "success"), ("on_cancel", "block")):
        if one.get(usual[0]) == usual[1]:
            del one[usual[0]]
    told = (f"{k}: {_value(v)}" for k, v in one.items() if k not in ("item", "source", "target"))
    return "  ".join((f"{op} {name}", *told))


def _moves(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    moved = (key for key in after if after[key] != before.get(key))
    return "  ".join(f"{key}: {_value(before.get(key))} → {_value(after[key])}" for key in moved)


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(to_json(value), ensure_ascii=False)


def _precise(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else span(seconds)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _named(keys: Sequence[str], none: str) -> str:
    shown = ", ".join(words.harmless(key) for key in keys[:_SOURCES_SHOWN])
    more = len(keys) - _SOURCES_SHOWN
    return (f"{shown} and {more:,} more" if more > 0 else shown) or none
