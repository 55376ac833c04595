"""The entry: which commands there are, and how every failure becomes a sentence and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from interlock import __version__
from interlock.cli.command import CONTEXT_SETTINGS, LazyGroup, Place
from interlock.cli.session import Session
from interlock.core.errors import Exit, InterlockError

_INTERRUPTED = 130
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)

_WORK, _LOOK, _OPERATE, _SET_UP, _STORE = "Work", "Look", "Operate", "Set up", "Store"


class Root(LazyGroup):
    """`interlock` itself."""

    places = {  # noqa: RUF012  (read only)
        "add": Place("add_command", "add", _WORK),
        "next": Place("work_commands", "claim", _WORK),
        "renew": Place("work_commands", "renew", _WORK),
        "done": Place("work_commands", "done", _WORK),
        "fail": Place("work_commands", "fail", _WORK),
        "release": Place("work_commands", "release", _WORK),
        "inbox": Place("work_commands", "inbox", _WORK),
        "msg": Place("work_commands", "msg", _WORK),
        "work": Place("worker_command", "work", _WORK),
        "hold": Place("hold_command", "hold", _WORK),
        "session": Place("session_commands", "session", _WORK),
        "push": Place("push_command", "push", _WORK),
        "plan": Place("plan_commands", "plan", _WORK),
        "ls": Place("look_commands", "list_items", _LOOK),
        "show": Place("look_commands", "show", _LOOK),
        "why": Place("look_commands", "why", _LOOK),
        "events": Place("look_commands", "events", _LOOK),
        "stats": Place("look_commands", "stats", _LOOK),
        "top": Place("look_commands", "top", _LOOK),
        "cancel": Place("operator_commands", "cancel", _OPERATE),
        "retry": Place("operator_commands", "retry", _OPERATE),
        "pause": Place("operator_commands", "pause", _OPERATE),
        "resume": Place("operator_commands", "resume", _OPERATE),
        "agents": Place("fleet_commands", "agents", _OPERATE),
        "lanes": Place("fleet_commands", "lanes", _OPERATE),
        "actions": Place("actions_commands", "actions", _SET_UP),
        "hook": Place("hook_command", "hook", _SET_UP),
        "sweep": Place("store_commands", "sweep", _STORE),
        "migrate": Place("store_commands", "migrate", _STORE),
        "doctor": Place("store_commands", "doctor", _STORE),
        "demo": Place("store_commands", "demo", _STORE),
        "completion": Place("store_commands", "completion", _STORE),
    }


root = typer.Typer(
    cls=Root,
    name="interlock",
    add_completion=True,
    context_settings=CONTEXT_SETTINGS,
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"interlock {__version__}")
        raise typer.Exit


@root.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decides who works on what, one at a time, and loses nothing.

    Exit codes: 0 ok, 1 error, 2 usage, 3 no work, 4 held by another, 5 lease lost, 6 stale revision.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and answer its exit code. Nothing a person can cause ends in a traceback."""
    _open_missing_streams()
    args = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    session = Session()
    try:
        return _run(args, session)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        if not _is_of_output(error):
            raise
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # then the reader has gone, and knows
            session.out.refuse(f"The output cannot be written: {error.strerror}.", "Free some space.")
        return Exit.ERROR


def _is_of_output(error: Exception) -> bool:
    """Whether a standard stream could not be written: an error of a file has the file's name."""
    full = isinstance(error, OSError) and error.errno in _CANNOT_WRITE and error.filename is None
    return full or isinstance(error, BrokenPipeError)


def _open_missing_streams() -> None:
    """Whoever starts us without a standard stream gets an empty one, and so do the commands we run: else
    the next file to be opened would take its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, "w" if number else "r", encoding="utf-8")  # noqa: PTH123, SIM115
            if stream.fileno() != number:
                os.dup2(stream.fileno(), number)
            os.set_inheritable(number, True)
            setattr(sys, name, stream)


def _run(args: list[str], session: Session) -> int:
    try:
        code = get_command(root).main(args=args, prog_name="interlock", standalone_mode=False, obj=session)
        sys.stdout.flush()
    except InterlockError as error:
        session.out.error(error.code, error.sentence, error.hint, getattr(error, "reasons", ()))
        return error.exit_code
    except typer.TyperException as error:
        # The parser stops at the first mistake, perhaps before it came to `--json`.
        session.out.json = session.out.json or "--json" in args[: args.index("--") if "--" in args else None]
        sentence, hint = _usage_sentence(error)
        session.out.error("usage", sentence, hint)
        return Exit.USAGE
    except Exception as error:
        if os.environ.get("INTERLOCK_DEBUG") or _is_of_output(error):
            raise
        session.out.error(
            "internal",
            f"Interlock met an error it did not foresee: {type(error).__name__}: {error}.",
            "Please report it, with what INTERLOCK_DEBUG=1 prints for the same command.",
        )
        return Exit.ERROR
    return code if isinstance(code, int) else Exit.OK


def _usage_sentence(error: Any) -> tuple[str, str]:
    """A mistake on the command line, as one sentence and where to read on."""
    sentence = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "interlock"
    return sentence if sentence.endswith((".", "?")) else f"{sentence}.", f"See {path} --help."
