"""Items: as a list, in full, and after a change."""

from __future__ import annotations

import json
from collections.abc import Sequence

from interlock.cli.page import Console, Table, Text
from interlock.cli.views import costs, history, words
from interlock.core.model import Reason
from interlock.core.timing import span
from interlock.service.contract import (
    BulkView,
    ChangeView,
    EndedRunView,
    LinkView,
    MessageView,
    ShowView,
    WhyView,
    WorkflowRunView,
)
from interlock.service.item_view import ItemView

_EVENTS_SHOWN = 12
#: So much of a failed run's error is in an explanation.
_ERROR_MAX = 200
#: How many numbers of items an answer names.
_NUMBERS_SHOWN = 10
#: The column of a run's agent, the only one that is cut; the numbers are before it.
_AGENT_AT = 3
#: The output of a run is below its number.
_INDENT = 4
_HOW = {
    "trailer": "its trailer",
    "branch": "its branch",
    "closes": "the issue that it closes",
}
_CI_STYLES = {"failure": "red", "success": "green", "pending": "yellow"}


def listing(
    console: Console,
    items: Sequence[ItemView],
    *,
    limit: int,
    unfinished: bool,
    searched: int | None = None,
    below: Text | None = None,
) -> None:
    """A table of items, and a line below it."""
    if items:
        console.print(item_table(items, console.width))
        questions(console, items)
    else:
        console.print("Nothing is waiting or running." if unfinished else "No item matches.")
    if len(items) == limit:
        console.print(Text(f"The newest {limit}; there may be more: --limit N.", style=words.QUIET))
    if searched is not None:
        console.print(Text(f"Searched the newest {searched:,} items of each status.", style=words.QUIET))
    if below is not None:
        console.print(below)


def questions(console: Console, items: Sequence[ItemView]) -> None:
    """What items ask, and how to answer."""
    for item in items:
        if item.question is not None:
            console.print(Text(words.harmless(f"{item.id} asks: {item.question}"), style="yellow"))
            console.print(Text(f"  answer: interlock msg {item.id} TEXT", style=words.QUIET))


def item_table(items: Sequence[ItemView], width: int) -> Table:
    """Items cut to the width of the terminal: titles at their end, lanes at their front."""
    today = words.now()
    agents, times = [words.who(item) for item in items], [words.when(item, today) for item in items]
    lanes = [item.lane or item.observed_lane or "" for item in items]
    ranked = any(item.priority for item in items)
    checks = [" ".join(filter(None, (item.ci_outcome, item.outcome))) for item in items]
    checked = max(map(len, checks), default=0)
    agent_width = min(14, max(map(len, [*agents, Text("AGENT")])))
    fixed = (
        max([2, *(len(str(item.id)) for item in items)])
        + max([6, *(len(words.status_of(item)) for item in items)])
        + (3 if ranked else -2)
        + agent_width
        + max(map(len, [*times, Text("WHEN")]))
        + (max(checked, 2) + 2 if checked else 0)
        + 6 * 2
    )
    left = max(width - fixed, 20)
    longest_title = max([5, *(len(item.title) for item in items)])
    longest_lane = max([4, *map(len, lanes)])
    lane_width = min(longest_lane, max(left * 2 // 5, left - longest_title))
    marks = (*(("PRI",) if ranked else ()), *(("CI",) if checked else ()))
    columns = ("ID", "STATUS", *marks, "TITLE", "LANE", "AGENT", "WHEN")
    made = words.table(*columns, right=("ID", "PRI"))
    for item, lane, agent, time, check in zip(items, lanes, agents, times, checks, strict=True):
        made.add_row(
            str(item.id),
            words.status(words.status_of(item)),
            *((Text(str(item.priority), style="" if item.priority else words.QUIET),) if ranked else ()),
            *((Text(check, style=_CI_STYLES.get(item.ci_outcome or "", "")),) if checked else ()),
            words.shorten(item.title, left - lane_width),
            Text(words.shorten_lane(lane, lane_width), style="" if item.lane else words.QUIET),
            Text(words.shorten(agent.plain, agent_width), style=agent.style),
            time,
        )
    return made


def explained(console: Console, why: WhyView, failed: EndedRunView | None = None) -> None:
    """What an item waits for, the error of the run after which it is in back-off, and commands that help."""
    stop = "" if why.state.endswith("?") else "."
    console.print(words.harmless(f"Item {why.item.id} {why.state}{stop}"))
    error = None
    if failed is not None and failed.error:
        error = words.shorten(words.harmless(" ".join(failed.error.split())), _ERROR_MAX)
    told = [*words.clauses("next", why.next), ("CI", why.ci), *words.cure_lines(why.cures, "hint")]
    console.print(words.facts(("error", error), *told))


def detail(console: Console, shown: ShowView) -> None:
    """Everything about one item, most important first."""
    item = shown.item
    console.print(
        Text.assemble(
            (f"Item {item.id}  ", "bold"), words.status(words.status_of(item)), ("  " + item.title, "bold")
        )
    )
    told = words.cure_lines(shown.cures, "hint")
    used = ("used", costs.in_words(shown.cost) if shown.cost is not None else None)
    console.print(words.facts(("why", _state(shown)), *told, *_facts(item), used))
    if item.payload is not None:
        _heading(console, "Payload")
        console.print(Text(_indented_json(item.payload)))
    if shown.runs:
        _heading(console, "Runs")
        _runs(console, shown.runs, item.id)
    if shown.links:
        _heading(console, "On GitHub")
        links(console, shown.links)
    if shown.messages:
        _heading(console, "Messages")
        messages(console, shown.messages)
    if shown.events:
        left_out = len(shown.events) - _EVENTS_SHOWN
        _heading(console, "History" + (f", the last {_EVENTS_SHOWN}" if left_out > 0 else ""))
        history.lines(console, shown.events[-_EVENTS_SHOWN:], of_item=item.id)
        if left_out > 0:
            more = f"  {left_out} earlier: interlock events --item {item.id}"
            console.print(Text(more, style=words.QUIET))


def _state(shown: ShowView) -> str:
    """What the item waits for; `interlock why` also says what moves it."""
    asked = shown.item.question or ""
    before, _, after = shown.why.partition(asked) if asked else ("", "", shown.why)
    said = f"{before}{asked}{words.split_clauses(after)[0]}"
    return said.removeprefix(f"Item {shown.item.id} ").removesuffix(".")


def links(console: Console, found: Sequence[LinkView]) -> None:
    """Pull requests and commits of runs, their state and their logs."""
    for link in found:
        name = f"{link.repository}#{link.pull_request}" if link.pull_request else link.commit[:12]
        state = f" {link.outcome}" if link.outcome else ""
        head = f"  run {link.run}  {name}{state}, found by {_HOW[link.how]}"
        console.print(Text(words.harmless(head)))
        console.print(Text(f"     {words.harmless(link.url)}", style=words.QUIET))
        said = f"{link.ci_outcome}: {link.ci_why}" if link.ci_outcome else link.ci_why
        line = Text(words.harmless(f"     CI of {link.commit[:12]}: {said or 'not known'}"))
        if link.ci_outcome is not None:
            line.highlight(link.ci_outcome, _CI_STYLES.get(link.ci_outcome, ""))
        console.print(line)
        for run in link.workflow_runs:
            workflow_run(console, run)


def workflow_run(console: Console, run: WorkflowRunView) -> None:
    """A workflow run, its logs and artifacts, and when they expire."""
    attempt = f" (attempt {run.attempt})" if run.attempt > 1 else ""
    title = f"     {run.name}{attempt} {run.conclusion or run.status}: {run.url}"
    console.print(Text(words.harmless(title)))
    gone = run.logs_expire_at <= words.now()
    logs = "logs: expired" if gone else f"logs until {run.logs_expire_at:%Y-%m-%d}"
    kept = [f"{each['name']} until {str(each['expires_at'])[:10]}" for each in run.artifacts]
    console.print(Text(words.harmless(f"       {'; '.join([logs, *kept])}"), style=words.QUIET))


def messages(console: Console, found: Sequence[MessageView]) -> None:
    """Messages in their order, each with its number."""
    for message in found:
        origin = f", sent to item {message.origin}" if message.origin is not None else ""
        why = f", {message.reason}" if message.reason else ""
        head = f"  {message.n}  {message.author or 'unsigned'}, {words.relative(message.at)}{why}{origin}"
        console.print(Text(words.harmless(head), style=words.QUIET))
        if message.url is not None:
            console.print(Text(f"     {words.harmless(message.url)}", style=words.QUIET))
        if message.text:
            lines = words.harmless(message.text.replace("\r\n", "\n")).split("\n")
            console.print(Text("\n".join("     " + line for line in lines)))
        if message.payload is not None:
            payload = words.harmless(json.dumps(message.payload, ensure_ascii=False))
            console.print(Text(f"     {payload}", style=words.QUIET))


def change(console: Console, verb: str, answer: ChangeView) -> None:
    """The outcome for an item, and the items it promotes."""
    item = answer.item
    if item.cancel_requested and item.run is not None:
        late = f"If it still runs after its grace period, {item.run_agent} loses it."
        said = f"Item {item.id} was asked to stop. {late}"
    else:
        said = f"Item {item.id} {verb}." if item.status in verb else f"Item {item.id} {verb}: {item.status}."
    console.print(said + promoted(answer.promoted))


def batch(console: Console, answer: BulkView, *, did: str, nothing: str) -> None:
    """How many items a change of many reached, and the first of them by number."""
    if answer.items:
        console.print(f"{did} {_counted(answer.items)}.")
    if answer.stopping:
        console.print(f"Asked {_counted(answer.stopping)} to stop.")
    for each in answer.refused[:_NUMBERS_SHOWN]:
        console.print(words.harmless(each.refusal))
    if len(answer.refused) > _NUMBERS_SHOWN:
        console.print(f"{len(answer.refused) - _NUMBERS_SHOWN:,} more were refused.")
    if not (answer.items or answer.stopping or answer.refused):
        console.print(nothing)


def _counted(items: Sequence[int]) -> str:
    """As in "item 7", or "3 items (7, 8, 9)"."""
    if len(items) == 1:
        return f"item {items[0]}"
    more = ", …" if len(items) > _NUMBERS_SHOWN else ""
    return f"{len(items):,} items ({', '.join(map(str, sorted(items)[:_NUMBERS_SHOWN]))}{more})"


def told(console: Console, asked: int, answer: ChangeView) -> None:
    """The item that got a message, and the message's reader."""
    item = answer.item
    where = f"item {item.id}" if item.id == asked else f"item {item.id}, which took in item {asked}"
    if item.run is not None:
        reader = f"{item.run_agent} (run {item.run}) can read it"
    elif item.reason == Reason.ANSWERED:
        reader = f"it is answered and {'ready' if item.status == 'pending' else item.status}"
    else:
        reader = "the next run reads it"
    number = f"Message {answer.n}" if answer.n is not None else "The message"
    console.print(f"{number} is with {where}; {reader}.")


def promoted(items: Sequence[int]) -> str:
    """A sentence about the items that moved up, or nothing."""
    if not items:
        return ""
    several = ", ".join(map(str, items))
    return f" Item {several} moved up." if len(items) == 1 else f" Items {several} moved up."


def _facts(item: ItemView) -> list[tuple[str, Text | str | None]]:
    lane = item.lane or (f"{item.observed_lane} (observed only)" if item.observed_lane else None)
    run = None
    if item.run is not None:
        started = f", since {words.at(item.started_at)}" if item.started_at else ""
        worker = f" on {item.worker}" if item.worker else ""
        kind = "external run" if item.external else "run"
        run = f"{kind} {item.run} by {item.run_agent}{worker}{started}"
    lease = f"until {words.at(item.expires_at)}" if item.expires_at is not None else None
    if item.external:
        lease = (
            f"none, ends {words.at(item.expires_at)} at the latest"
            if item.expires_at
            else "none, no deadline"
        )
    if lease is not None and item.cancel_requested:
        lease += f"; asked to stop: {item.cancel_reason or 'no reason given'}"
    return [
        ("lane", lane),
        ("held by", run),
        ("lease", lease),
        ("for", item.agent or "any agent"),
        ("policy", item.policy + (f", position {item.position}" if item.position is not None else "")),
        ("type", f"{item.type} in project {item.project}, priority {item.priority}"),
        ("plan", f"a task of plan {item.plan}" if item.plan is not None else None),
        ("labels", ", ".join(item.labels)),
        ("attempt", f"{item.attempt or 'none'} of {item.max_attempts}{'' if item.attempt else ' yet'}"),
        ("due", words.at(item.run_at) if item.run_at else None),
        ("blocked by", ", ".join(item.blocked_by)),
        ("gated by", item.gated_by),
        ("timeout", words.exactly(item.timeout_s) if item.timeout_s else None),
        ("taken in by", f"item {item.absorbed_by}" if item.absorbed_by is not None else None),
        ("added", words.at(item.created_at)),
        ("ended", words.at(item.ended_at) if item.ended_at else None),
        ("reason", _reason(item)),
    ]


def _reason(item: ItemView) -> Text | None:
    """The stable code, after what an operator said."""
    if not item.reason:
        return None
    said = item.cancel_reason if item.status == "cancelled" else None
    shown = item.reason if said in (None, item.reason) else f"{said} ({item.reason})"
    return Text(words.harmless(shown), style="red" if item.status == "failed" else "")


def _runs(console: Console, runs: Sequence[EndedRunView], item: int) -> None:
    """Each run on one line, and below it what it said."""
    today = words.now()
    rows = [
        (
            str(run.run),
            str(run.attempt),
            run.status,
            run.agent,
            words.relative(run.started_at, today),
            span((run.ended_at - run.started_at).total_seconds()) if run.ended_at else "",
        )
        for run in runs
    ]
    header = ("RUN", "TRY", "STATUS", "AGENT", "STARTED", "TOOK")
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    others = sum(widths) - widths[_AGENT_AT] + 2 * (len(widths) - 1)
    widths[_AGENT_AT] = min(widths[_AGENT_AT], max(console.width - others, len("AGENT")))
    console.print(Text(_aligned(header, widths), style=f"bold {words.QUIET}"))
    for run, cells in zip(runs, rows, strict=True):
        line = Text(_aligned(cells, widths))
        line.highlight(run.status, words.STATUS_STYLES.get(run.status, ""))
        console.print(line)
        for said in _said(run, item):
            for part in said.wrap(max(console.width - _INDENT, 1)):
                console.print(Text(" " * _INDENT) + part)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Cells below each other, the numbers at the right of their columns."""
    cut = [words.shorten(cell, width) for cell, width in zip(cells, widths, strict=True)]
    pairs = list(zip(cut, widths, strict=True))
    numbers = [cell.rjust(width) for cell, width in pairs[: _AGENT_AT - 1]]
    return "  ".join([*numbers, *(cell.ljust(width) for cell, width in pairs[_AGENT_AT - 1 :])]).rstrip()


def _said(run: EndedRunView, item: int) -> list[Text]:
    """A run's own report: the last line of its error or output, which is often the cause."""
    if run.error:
        return _last_line(run.error, item, style="red")
    if isinstance(run.result, dict) and run.result.keys() == {"stdout"}:  # a worker's command
        return _last_line(str(run.result["stdout"]), item)
    if run.result is not None:
        return [Text(words.harmless(json.dumps(run.result, ensure_ascii=False)))]
    return [Text(words.harmless(run.reason))] if run.reason not in ("", Reason.REPORTED) else []


def _last_line(text: str, item: int, style: str = "") -> list[Text]:
    lines = [words.harmless(line).strip() for line in text.splitlines() if line.strip()]
    before = "1 line comes" if len(lines) == 2 else f"{len(lines) - 1} lines come"
    more = [f"{before} before it; all of them: interlock --json show {item}"] if len(lines) > 1 else []
    return [
        *(Text(line, style=style) for line in lines[-1:]),
        *(Text(line, style=words.QUIET) for line in more),
    ]


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _indented_json(value: object) -> str:
    text = words.harmless(json.dumps(value, ensure_ascii=False, indent=2))
    return "\n".join("  " + line for line in text.splitlines())
