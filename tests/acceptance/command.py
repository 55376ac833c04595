"""The real command on a store of the test's own: as a process where that matters, else in this one."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.main import main
from tests.patience import PATIENCE_S

PROGRAM = (sys.executable, "-m", "interlock")
#: Commands that answer the same whichever process asks. The others start processes, or look at who asks.
PLAIN = frozenset(
    (
        *("add", "next", "renew", "done", "fail", "release", "inbox", "msg", "plan"),
        *("ls", "show", "why", "events", "stats", "metrics", "lanes", "agents", "workers", "pools"),
        *("cancel", "retry", "edit", "ask", "pause", "resume", "sweep", "migrate"),
    )
)


@dataclass(frozen=True)
class Answer:
    """What one run of the command left behind."""

    args: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        assert self.out.count("\n") == 1, f"not one line of JSON: {self}"
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The error object, checked for what every error must have."""
        assert "Unexpected error" not in self.out
        assert self.code != 0
        assert set(self.json) == {"error"}
        error: dict[str, str] = self.json["error"]
        assert set(error) - {"reasons"} == {"code", "message", "hint", "cures"}
        assert error["message"].endswith((".", "?"))
        assert "\n" not in error["message"]
        assert error["hint"]
        return error


@dataclass
class Command:
    """Runs `interlock` in `directory`, by default on the SQLite file that it makes there."""

    directory: Path
    url: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    #: A program that starts ours under some restriction, with its arguments.
    under: tuple[str, ...] = ()

    def __call__(
        self, *args: str | int, stdin: str | bytes = b"", env: dict[str, str] | None = None
    ) -> Answer:
        """Run to the end, whatever the exit code."""
        texts = tuple(map(str, args))
        done = subprocess.run(
            [*self.under, *PROGRAM, *texts],
            cwd=self.directory,
            env=self.environment(env),
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        answer = Answer(args=texts, code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())
        assert "Traceback" not in answer.err, answer.err
        return answer

    def ok(self, *args: str | int, stdin: str | bytes = b"") -> Any:
        """The JSON of a command that must succeed: most often to prepare a scene, or to look at the outcome.

        Starting a process takes ten times as long as what most of them do, so plain ones do without. A test
        that is about the process says `il(…)`.
        """
        here = args[0] in PLAIN and not self.under
        ask = CommandHere(self.directory, self.url, self.env) if here else self
        answer = ask("--json", *args, stdin=stdin)
        assert answer.code == 0, answer
        return answer.json

    def claim(self, agent: str = "coder", *args: str | int) -> dict[str, Any]:
        """The one lease of a claim that must succeed."""
        (lease,) = self.ok("next", "--agent", agent, *args)["leases"]
        return dict(lease)

    def start(self, *args: str | int) -> "subprocess.Popen[bytes]":
        """Start without waiting. The caller ends it, see `interrupt`."""
        return subprocess.Popen(
            [*PROGRAM, *map(str, args)],
            cwd=self.directory,
            env=self.environment(None),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def environment(self, more: dict[str, str] | None) -> dict[str, str]:
        """This process's environment without settings and terminal, plus the test's own."""
        dropped = ("INTERLOCK_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        chosen = {"INTERLOCK_URL": self.url} if self.url else {}
        return kept | {"USER": "alice"} | chosen | self.env | (more or {})


class CommandHere(Command):
    """The same command without a process of its own: for long tables and for drivers that load slowly."""

    def __call__(
        self, *args: str | int, stdin: str | bytes = b"", env: dict[str, str] | None = None
    ) -> Answer:
        texts = tuple(map(str, args))
        out, err = _stream(b""), _stream(b"")
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.directory)
            patch.setattr(os, "environ", self.environment(env))
            patch.setattr(sys, "stdin", _stream(stdin.encode() if isinstance(stdin, str) else stdin))
            code = main(texts)
        return Answer(args=texts, code=code, out=_written(out), err=_written(err))


def _stream(data: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def interrupt(process: "subprocess.Popen[bytes]") -> Answer:
    """Press Ctrl-C and wait."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Answer(args=(), code=process.returncode, out=out.decode(), err=err.decode())
