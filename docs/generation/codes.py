"""Events, reason codes, error codes and exit codes."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generation.markdown import code, table
from docs.generation.meanings import meanings
from interlock.actions.findings import Mistake
from interlock.core.errors import Exit, InterlockError
from interlock.core.model import EventKind, Reason

_COMMAND_EXITS = {"usage": Exit.USAGE, "internal": Exit.ERROR}


def event_data() -> dict[str, tuple[str, ...]]:
    """What each kind of event may carry in `data`."""
    words = meanings("events", (k.value for k in EventKind))
    return {kind: tuple(text[1].split()) for kind, text in words.items()}


def event_kinds() -> str:
    words = meanings("events", (k.value for k in EventKind))
    carried = event_data()
    rows = ((code(k), text[0], ", ".join(map(code, carried[k]))) for k, text in words.items())
    return table(("kind", "written when", "data"), rows)


def event_keys() -> str:
    keys = sorted({key for row in event_data().values() for key in row})
    words = meanings("event_data", keys)
    return table(("key", "meaning"), ((code(key), text) for key, text in words.items()))


def reasons() -> str:
    words = meanings("reasons", (r.value for r in Reason))
    return table(("code", "meaning"), ((code(r), text) for r, text in words.items()))


def errors() -> Iterator[type[InterlockError]]:
    """Every kind of error of the library, the general one first; the demo has one of its own."""
    waiting = [InterlockError]
    while waiting:
        kind = waiting.pop(0)
        if kind.__module__ == InterlockError.__module__:
            yield kind
        waiting += kind.__subclasses__()


def error_codes() -> str:
    kinds = {kind.code: kind for kind in errors()}
    words = meanings("errors", kinds)
    rows = (
        (code(name), code(kinds[name].__name__), str(int(kinds[name].exit_code)), *text)
        for name, text in words.items()
    )
    return table(("code", "exception", "exit", "meaning", "what to do"), rows)


def command_error_codes() -> str:
    """Errors that only the command line has."""
    words = meanings("errors_of_the_command", _COMMAND_EXITS)
    rows = ((code(name), str(int(_COMMAND_EXITS[name])), *text) for name, text in words.items())
    return table(("code", "exit", "meaning", "what to do"), rows)


def workflow_findings() -> str:
    """What `interlock actions check` can find."""
    words = meanings("workflow_findings", (m.value for m in Mistake))
    rows = ((code(name), *text) for name, text in words.items())
    return table(("code", "what is wrong", "how to mend it"), rows)


def exit_codes() -> str:
    words = meanings("exits", (e.name for e in Exit))
    rows = ((str(int(Exit[name])), code(name), text) for name, text in words.items())
    return table(("code", "name", "meaning"), rows)
