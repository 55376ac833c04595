"""The entry point: every failure becomes a sentence and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from interlock.cli import plain_line
from interlock.cli.invocation import Invocation
from interlock.core.errors import Exit, InterlockError

_INTERRUPTED = 130
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


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
            call.out.print_problem(f"The output cannot be written: {error.strerror}.", "Free some space.")
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
        completing = "_INTERLOCK_COMPLETE" in os.environ
        plain = None if completing else plain_line.read(args, call)
        code = _parse_and_run(args, call) if plain is None else plain()
        sys.stdout.flush()
    except InterlockError as error:
        call.out.error(error)
        return error.exit_code
    except Exception as error:
        if os.environ.get("INTERLOCK_DEBUG") or _is_of_output(error):
            raise
        call.out.error(
            _with_code(
                "internal",
                f"Unexpected error: {type(error).__name__}: {error}.",
                "Please report it, with the output of the same command under INTERLOCK_DEBUG=1.",
            )
        )
        return Exit.ERROR
    return code if isinstance(code, int) else Exit.OK


def _parse_and_run(args: list[str], call: Invocation) -> object:
    """Let typer parse the line and run its command."""
    from interlock.cli import parser

    try:
        return parser.run(args, call)
    except parser.Abort:
        raise KeyboardInterrupt from None
    except parser.UsageError as error:
        # The parser stops at the first mistake, perhaps before it reads `--json`.
        call.out.json = call.out.json or "--json" in args[: args.index("--") if "--" in args else None]
        call.out.error(_with_code("usage", *parser.sentence_of(error)))
        return Exit.USAGE


def _with_code(code: str, sentence: str, hint: str) -> InterlockError:
    """An error specific to the command line."""
    error = InterlockError(sentence, hint)
    error.code = code
    return error
