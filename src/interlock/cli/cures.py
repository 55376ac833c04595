"""Cures and fields in command-line notation: `interlock retry 7`, `--reason`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.core.cures import Cure, hint
from interlock.core.errors import InterlockError

#: The command of each operation: words, `{argument}`, `--option {argument}`. In `{argument:yes|no}` the
#: argument's value chooses the word. Two arguments with a colon between them are one word. Missing arguments
#: are omitted.
COMMANDS = {
    "add": "add {title} --lane {lane} --agent {agent}",
    "agents": "agents",
    "ask": "ask {run} {question}",
    "block": "block {lane} {item} --by {blocker} --reason {why}",
    "blocks": "block",
    "budgets": "budget ls",
    "set_budget": "budget set {scope}:{name} --per {per} --usd {usd} --when-spent {when_spent}",
    "remove_budget": "budget rm {scope}:{name} --per {per}",
    "set_reserve": "budget reserve {type} --usd {usd}",
    "set_time_zone": "budget time-zone {time_zone}",
    "cancel": "cancel {item} --reason {why} --force {force}",
    "cancel_lane": "cancel --lane {lane} --reason {why} --force {force}",
    "cancel_plan": "plan cancel {plan} --reason {why}",
    "cost": "cost {run} --usd {usd} --input {input_tokens} --output {output_tokens}",
    "create_plan": "plan create {graph}",
    "create_token": "token create {name} --scope {scope}",
    "doctor": "doctor",
    "done": "done {reports}",
    "edit": "edit {item} --title {title} --priority {priority} --agent {agent} --type {type} --label {labels}"
    " --position {position} --run-at {run_at}",
    "edit_plan": "plan edit {plan} {operations} --base {base} --run {run}",
    "events": "events --item {item} --lane {lane}",
    "fail": "fail {reports}",
    "inbox": "inbox {run}",
    "items": "ls --all {all} --status {statuses} --asking {asking} --lane {lane} --agent {agent}"
    " --project {project} --type {type}",
    "lanes": "lanes --prefix {prefix}",
    "msg": "msg {item} {text}",
    "next": "next --agent {agent} --item {item} --type {types} --label {labels}",
    "pause_agent": "{paused:pause|resume} agent {name} --reason {why} --create {create}",
    "pause_plan": "plan pause {plan} --reason {why}",
    "pause_project": "{paused:pause|resume} project {project} --reason {why} --create {create}",
    "paused_projects": "pause",
    "plan": "plan show {plan}",
    "plan_batch": "plan batch {run}",
    "plan_history": "plan history {plan}",
    "plans": "plan ls --all {ended}",
    "pools": "pools",
    "promote_series": "series promote {series} --repo {repository}",
    "rebuild_series": "series rebuild {series} --repo {repository}",
    "recap": "recap",
    "reconcile_series": "series reconcile {series} --repo {repository}",
    "release": "release {reports}",
    "release_issue": "series release {issue} --reason {why} --repo {repository}",
    "remove_agent": "agents remove {name}",
    "remove_pool": "pools remove {name}",
    "renew": "renew {reports}",
    "resume_plan": "plan resume {plan} --reason {why}",
    "retry": "retry {item} --reason {why}",
    "retry_dead": "retry --dead --type {types} --agent {agent} --lane {lane} --project {project}"
    " --reason {why}",
    "revoke_token": "token revoke {token}",
    "sign_in_link": "open",
    "series": "series status {series} --repo {repository}",
    "set_agent": "agents set {name} --max {max_concurrency} --type {types} --label {labels} --pool {pool}",
    "set_edit_deadline": "plan set-deadline {plan} {edit_deadline_s}",
    "set_pool": "pools set {name} --max {max_concurrency}",
    "show": "show {item}",
    "spending": "spending --days {days}",
    "sweep": "sweep",
    "take_back": "release --item {item} --reason {why}",
    "tokens": "token ls",
    "unblock": "unblock {lane} {item} --by {blocker} --reason {why}",
    "why": "why {item}",
    "workers": "workers",
}
_PART = re.compile(r"\{(\w+)\}:\{(\w+)\}|(?:(--[a-z-]+) )?\{(\w+)(?::(\w+)\|(\w+))?\}|(\S+)")

#: Placeholders for blank arguments; others show their own names.
_BLANKS = {
    **dict.fromkeys(("why", "text", "question"), "TEXT"),
    **dict.fromkeys(("agent", "name", "project", "pool"), "NAME"),
    **dict.fromkeys(("max_concurrency", "priority", "position"), "N"),
    **dict.fromkeys(("reports", "run"), "HANDLE"),
    **dict.fromkeys(("graph", "operations"), "FILE"),
    "types": "TYPE",
    "labels": "LABEL",
    "statuses": "STATUS",
    "blocker": "WHAT",
    "base": "REV",
    "usd": "USD",
    "per": "day",
    "edit_deadline_s": "SPAN",
    "run_at": "TIME",
}
#: Fields with a differently named option.
_OPTIONS = {
    "why": "--reason",
    "labels": "--label",
    "types": "--type",
    "statuses": "--status",
    "max_concurrency": "--max",
    "blocker": "--by",
    "input_tokens": "--input",
    "output_tokens": "--output",
    "url": "--link",
}


def command(cure: Cure) -> str | None:
    """The command that performs a cure; null if no command does."""
    if (form := COMMANDS.get(cure.operation)) is None:
        return None
    return " ".join(("interlock", *_words(form, _flat(cure.arguments))))


def _flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with the parts of a filter or of changes beside them. `none` takes something away."""
    given = {name: value for name, value in arguments.items() if name not in ("wanted", "changes")}
    if given.get("pool") == "":
        given["pool"] = "none"
    changes = {name: value or "none" for name, value in arguments.get("changes", {}).items()}
    if changes.get("run_at") == "none":
        changes["run_at"] = "now"
    return {**given, **arguments.get("wanted", {}), **changes}


def _words(form: str, given: Mapping[str, Any]) -> Iterator[str]:
    for scope, of, option, name, yes, no, word in _PART.findall(form):
        if scope:
            yield ":".join(str(given[each] or each.upper()) for each in (scope, of))
        elif word:
            yield word
        elif yes:
            yield yes if given[name] else no
        elif name in given and given[name] not in ("", False):
            value = given[name]
            for each in value if isinstance(value, list | tuple) else (value,):
                if option:
                    yield option
                if each is not True:
                    yield _BLANKS.get(name, name.upper()) if each is None else _quoted(str(each))


def rows(cures: Sequence[Cure]) -> list[tuple[str, str]]:
    """Commands that perform cures, the best one first, and what each does."""
    return [(line, cure.effect) for cure in cures if (line := command(cure)) is not None]


def option(field: str) -> str:
    """A field as an option: `--reason` for `why`."""
    return _OPTIONS.get(field) or f"--{field.removesuffix('_s').replace('_', '-')}"


def spelled(text: str, fields: tuple[str, ...]) -> str:
    """A sentence with its fields as options."""
    for field in fields:
        text = text.replace(f"`{field}`", option(field))
    return text


def hint_of(error: InterlockError) -> str:
    """What to do about an error, in commands and options."""
    return spelled(hint(error.hint, error.cures, command), error.fields)


def _quoted(text: str) -> str:
    if text.isalnum() and text.isascii():
        return text
    from shlex import quote

    return quote(text)
