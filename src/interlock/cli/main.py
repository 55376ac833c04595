"""The entry point: the list of commands, and every failure as a sentence and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from interlock import __version__
from interlock.cli.command import CONTEXT_SETTINGS, Entry, LazyGroup
from interlock.cli.invocation import Invocation
from interlock.core.errors import Exit, InterlockError

_INTERRUPTED = 130
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)

_WORK, _LOOK, _OPERATE, _SET_UP, _STORE = "Work", "Look", "Operate", "Set up", "Store"


class Root(LazyGroup):
    """`interlock` itself."""

    entries = {  # noqa: RUF012  (read only)
        "add": Entry("add_command", "add", _WORK),
        "next": Entry("work_commands", "claim", _WORK),
        "renew": Entry("work_commands", "renew", _WORK),
        "done": Entry("work_commands", "done", _WORK),
        "fail": Entry("work_commands", "fail", _WORK),
        "release": Entry("work_commands", "release", _WORK),
        "inbox": Entry("work_commands", "inbox", _WORK),
        "msg": Entry("work_commands", "msg", _WORK),
        "work": Entry("worker_command", "work", _WORK),
        "hold": Entry("hold_command", "hold", _WORK),
        "session": Entry("session_commands", "session", _WORK),
        "push": Entry("push_command", "push", _WORK),
        "plan": Entry("plan_commands", "plan", _WORK),
        "ls": Entry("look_commands", "list_items", _LOOK),
        "show": Entry("look_commands", "show", _LOOK),
        "why": Entry("look_commands", "why", _LOOK),
        "events": Entry("look_commands", "events", _LOOK),
        "stats": Entry("look_commands", "stats", _LOOK),
        "top": Entry("look_commands", "top", _LOOK),
        "cancel": Entry("operator_commands", "cancel", _OPERATE),
        "retry": Entry("operator_commands", "retry", _OPERATE),
        "pause": Entry("operator_commands", "pause", _OPERATE),
        "resume": Entry("operator_commands", "resume", _OPERATE),
        "agents": Entry("fleet_commands", "agents", _OPERATE),
        "lanes": Entry("fleet_commands", "lanes", _OPERATE),
        "init": Entry("init_command", "init", _SET_UP),
        "trust": Entry("trust_command", "trust", _SET_UP),
        "actions": Entry("actions_commands", "actions", _SET_UP),
        "hook": Entry("hook_command", "hook", _SET_UP),
        "sweep": Entry("store_commands", "sweep", _STORE),
        "migrate": Entry("store_commands", "migrate", _STORE),
        "doctor": Entry("store_commands", "doctor", _STORE),
        "demo": Entry("store_commands", "demo", _STORE),
        "completion": Entry("store_commands", "completion", _STORE),
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
    """Run one command and answer its exit code. No input of a person ends in a traceback."""
    _open_missing_streams()
    args = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    call = Invocation()
    try:
        return _run(args, call)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        if not _is_of_output(error):
            raise
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # else the reader closed the pipe and knows
            call.out.refuse(f"The output cannot be written: {error.strerror}.", "Free some space.")
        return Exit.ERROR


def _is_of_output(error: Exception) -> bool:
    """Whether writing a standard stream failed: an error about a file has its name."""
    full = isinstance(error, OSError) and error.errno in _CANNOT_WRITE and error.filename is None
    return full or isinstance(error, BrokenPipeError)


def _open_missing_streams() -> None:
    """Open missing standard streams on /dev/null, for us and the commands we run: otherwise the next file
    opened would take their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, "w" if number else "r", encoding="utf-8")  # noqa: PTH123, SIM115
            if stream.fileno() != number:
                os.dup2(stream.fileno(), number)
            os.set_inheritable(number, True)
            setattr(sys, name, stream)


def _run(args: list[str], call: Invocation) -> int:
    try:
        code = get_command(root).main(args=args, prog_name="interlock", standalone_mode=False, obj=call)
        sys.stdout.flush()
    except InterlockError as error:
        call.out.error(error.code, error.sentence, error.hint, getattr(error, "reasons", ()))
        return error.exit_code
    except typer.TyperException as error:
        # The parser stops at the first mistake, perhaps before it reads `--json`.
        call.out.json = call.out.json or "--json" in args[: args.index("--") if "--" in args else None]
        sentence, hint = _usage_sentence(error)
        call.out.error("usage", sentence, hint)
        return Exit.USAGE
    except Exception as error:
        if os.environ.get("INTERLOCK_DEBUG") or _is_of_output(error):
            raise
        call.out.error(
            "internal",
            f"Unexpected error: {type(error).__name__}: {error}.",
            "Please report it, with the output of the same command under INTERLOCK_DEBUG=1.",
        )
        return Exit.ERROR
    return code if isinstance(code, int) else Exit.OK


def _usage_sentence(error: Any) -> tuple[str, str]:
    """A mistake on the command line: one sentence, and where to read on."""
    sentence = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "interlock"
    return sentence if sentence.endswith((".", "?")) else f"{sentence}.", f"See {path} --help."
