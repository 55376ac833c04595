"""Shell completion: item numbers, agents, lanes and plans of the store.

Reads are bounded, no store is created, and errors are not printed: completion then offers nothing. The store
is that of the settings; an option `--url` on the typed line is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from interlock.core.record import replace

if TYPE_CHECKING:
    from interlock.service.contract import Service

#: The most completions, and the longest wait for a busy or unreachable store.
OFFERED = 100
_BUSY_MAX_S = 1.0

Offers = list[tuple[str, str]]

_ZSH = """\
#compdef interlock
_interlock() {
    local line
    local -a found
    for line in "${(@f)$(_INTERLOCK_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \\
            _TYPER_COMPLETE_ARGS="${(j: :)words[1,CURRENT]}" "${words[1]}" 2> /dev/null)}"; do
        [[ -n $line ]] && found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    if (( ${#found} )); then _describe interlock found; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _interlock interlock
"""

_BASH = """\
_interlock() {
    local line="${COMP_LINE:0:COMP_POINT}" word IFS=$' \\t\\n'
    local -a typed
    read -ra typed <<< "$line"
    [[ $line == *[[:space:]] ]] && typed+=("")
    word="${typed[${#typed[@]} - 1]}"
    IFS=$'\\n'
    COMPREPLY=($(COMP_WORDS="$line" COMP_CWORD=$((${#typed[@]} - 1)) \\
        _INTERLOCK_COMPLETE=complete_bash "$1" 2> /dev/null))
    # bash takes a colon for the beginning of a new word.
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
    fi
}
complete -o default -F _interlock interlock
"""
#: Our own scripts, because the library's break names with a colon, such as lanes.
SCRIPTS = {"bash": _BASH, "zsh": _ZSH}


def offers_for(parameter: str, metavar: str | None) -> Callable[[str], Offers] | None:
    """The completions for a parameter, by its name in the help; None if there are none."""
    if parameter in ("agent", "name", "as_agent"):
        return agents
    return {"ITEM": items, "ITEM…": items, "ITEM|HANDLE": items, "LANE": lanes, "ID": plans}.get(
        metavar or ""
    )


def items(incomplete: str) -> Offers:
    """Unfinished items, the newest first."""
    from interlock.service.contract import ItemFilter

    return _offer(
        incomplete,
        lambda service: (
            (str(item.id), item.title) for item in reversed(service.items(ItemFilter(limit=OFFERED)))
        ),
    )


def agents(incomplete: str) -> Offers:
    """Agents that were set or have asked for work."""
    return _offer(incomplete, lambda service: ((agent.key, "") for agent in service.agents()))


def lanes(incomplete: str) -> Offers:
    """Lanes that are held or waited for."""
    return _offer(
        incomplete,
        lambda service: (
            (lane.lane, f"{lane.waiting} waiting") for lane in service.lanes(prefix=incomplete, limit=OFFERED)
        ),
    )


def plans(incomplete: str) -> Offers:
    """Plans, the newest first."""
    return _offer(
        incomplete,
        lambda service: ((str(plan.id), plan.name) for plan in service.plans(ended=True, limit=OFFERED)),
    )


def _offer(incomplete: str, read: Callable[[Service], Iterable[tuple[str, str]]]) -> Offers:
    try:
        service = _service()
        if service is None:
            return []
        with closing(service):
            found = list(read(service))
    except Exception:
        if os.environ.get("INTERLOCK_DEBUG"):
            raise
        return []
    fitting = [(value, _plain(about)) for value, about in found if value.startswith(incomplete)]
    return fitting[:OFFERED]


def _service() -> Service | None:
    from interlock import app, settings

    chosen = settings.load()
    quick = replace(chosen, busy_timeout_s=min(chosen.busy_timeout_s, _BUSY_MAX_S))
    return app.open_for_reading(quick)


def _plain(text: str) -> str:
    """One short line without terminal control characters."""
    return "".join(c if c.isprintable() else " " for c in text)[:60]
