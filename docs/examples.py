"""Runs the examples of a page and compares what they print: docs that were never run are wrong.

A block marked `console` holds commands (`$ …`, continued by `> …`) and what they print. The commands of a
page run one after the other in an empty directory with a store of its own; the working directory and exported
variables carry over. Any other block that follows a line ending in a file's name in backquotes and a colon is
written to that file. A line `…` stands for any number of lines.

Handles, times and spans differ from run to run: they are compared by their form and unit, and a handle in a
command is replaced by the one that was given out for the same run and item this time.

`python -m docs.examples` (part of `make docs`) runs every page and writes down what is printed now where that
differs in more than these.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from docs.generate import ROOT

TIMEOUT_S = 120
ANYTHING = "…"
#: The page says with this line that its examples are about PostgreSQL.
NEEDS_POSTGRES = "<!-- examples: postgres -->"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`([\w./-]+)`:\n\n$")
_HANDLE = re.compile(r"\b(\d+\.\d+)\.([0-9a-f]{16})\b")
_VOLATILE = (
    (_HANDLE, r"\1.<bits>"),
    (re.compile(r"\b1\d{15}\b"), "<run>"),
    (re.compile(r"inode \d+, mark [0-9a-f]{16}|device \d+, inode \d+"), "<file>"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "<commit>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?"), "<time>"),
    (re.compile(r"^\d{4}-\d\d-\d\d(?=  )"), "<day>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)?/(s|min|h)\b"), "<rate>"),
    (re.compile(r"\b\d+(\.\d+)? (s|min|h|d)\b"), r"<number> \2"),
    (re.compile(r"\bjust now\b"), "<number> s ago"),
    (re.compile(r"\bnow\b"), "in <number> s"),
    (re.compile(r'"ticket": \d+'), '"ticket": <number>'),
    (re.compile(r'("\w+_s": )\d+\.\d+(e-\d+)?'), r"\1<span>"),
    (re.compile(r'(\bprocess |"pid": )\d{2,}\b'), r"\1<pid>"),
    (re.compile(r"^\s*\d{6,}(?=  )"), "<seq>"),
    (re.compile(r'"seq": \d+'), '"seq": <seq>'),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a page does: a file to write, or a command with what it printed when it was written down."""

    start: int
    end: int
    text: str
    file: str | None = None
    printed: str = ""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A command that prints something else than the page says."""

    step: Step
    printed: str

    def __str__(self) -> str:
        return f"$ {self.step.text}\n--- the page says:\n{self.step.printed}--- it prints:\n{self.printed}"


def steps(text: str) -> Iterator[Step]:
    """What a page does, in order."""
    for block in _BLOCK.finditer(text):
        language, body = block[1], block[2]
        named = _FILE.search(text, 0, block.start())
        if language == "console":
            yield from _commands(body, block.start(2))
        elif named is not None:
            yield Step(block.start(2), block.end(2), body, file=named[1])


def _commands(body: str, offset: int) -> Iterator[Step]:
    starts = [m.start() for m in re.finditer(r"^\$ ", body, re.MULTILINE)]
    assert starts[:1] == [0], f"a console block starts with a command: {body[:60]!r}"
    for start, end in zip(starts, [*starts[1:], len(body)], strict=True):
        command, _, printed = body[start + 2 : end].partition("\n")
        while printed.startswith("> "):
            more, _, printed = printed[2:].partition("\n")
            command += f"\n{more}"
        yield Step(offset + end - len(printed), offset + end, command, printed=printed)


class Scratch:
    """An empty directory in which the commands of one page run one after the other."""

    def __init__(self, directory: Path, *, url: str | None = None) -> None:
        self.here = directory / "app"
        self.here.mkdir()
        self._state = directory / "state"
        self._state.write_text("")
        self._cwd = self.here
        self._code = 0
        self._handles: dict[str, str] = {}
        self._left_running: list[int] = []
        kept = {"LANG": "C.UTF-8", "TZ": "UTC", "USER": "sam", "HOME": str(directory)}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self._environ = {**kept, "PATH": path, **({"INTERLOCK_URL": url} if url else {})}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for group in self._left_running:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def write(self, name: str, text: str) -> None:
        path = self._cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, command: str) -> str:
        """What a command prints, errors too. The next one finds its directory, variables and exit code."""
        command = _HANDLE.sub(lambda m: f"{m[1]}.{self._handles.get(m[1], m[2])}", command)
        script = (
            f"cd {shlex.quote(str(self._cwd))}\n. {shlex.quote(str(self._state))}\n(exit {self._code})\n"
            f"{command}\ncode=$?\nexport -p > {shlex.quote(str(self._state))}\npwd >&3\nexit $code\n"
        )
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as cwd:
            # A file and no pipe: a process left in the background must not keep us waiting.
            shell = subprocess.Popen(
                ["bash", "-c", f"exec 3>&2 2>&1\n{script}"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=cwd,
                env=self._environ,
                start_new_session=True,
            )
            if re.search(r" &( |$)", command):
                self._left_running.append(shell.pid)
            self._code = shell.wait(TIMEOUT_S)
            out.seek(0)
            cwd.seek(0)
            printed = out.read()
            self._cwd = Path(cwd.read().strip() or self._cwd)
        self._handles.update(_HANDLE.findall(printed))
        return printed.replace(str(self.here.parent), "/home/sam")


def same(said: str, printed: str) -> bool:
    """Whether two outputs differ only in what differs from run to run."""
    wanted = [r"(?:.*\n)*" if line.strip() == ANYTHING else re.escape(line) + "\n" for line in _plain(said)]
    return re.fullmatch("".join(wanted), "".join(f"{line}\n" for line in _plain(printed))) is not None


def _plain(text: str) -> list[str]:
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    for pattern, stand_in in _VOLATILE:
        lines = [pattern.sub(stand_in, line) for line in lines]
    return [line.strip() for line in lines]


def mismatches(page: Path, directory: Path, *, url: str | None = None) -> list[Mismatch]:
    """Run a page and tell what it has wrong."""
    found = []
    with Scratch(directory, url=url) as scratch:
        for step in steps(page.read_text("utf-8")):
            if step.file is not None:
                scratch.write(step.file, step.text)
                continue
            printed = scratch.run(step.text)
            if not same(step.printed, printed):
                found.append(Mismatch(step, printed))
    return found


def examples() -> list[Path]:
    """Pages with examples that are run."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if "```console\n" in page.read_text("utf-8")]


def rewrite(page: Path, directory: Path, *, url: str | None = None) -> bool:
    """Write down what the commands of a page print now, where that differs. True if anything did."""
    text = page.read_text("utf-8")
    known = dict(reversed(_HANDLE.findall(text)))
    for wrong in reversed(mismatches(page, directory, url=url)):
        printed = _HANDLE.sub(lambda m: f"{m[1]}.{known.setdefault(m[1], m[2])}", wrong.printed)
        text = text[: wrong.step.start] + printed + text[wrong.step.end :]
    changed = text != page.read_text("utf-8")
    if changed:
        page.write_text(text, "utf-8")
    return changed


@contextmanager
def store_for(page: Path) -> Iterator[str | None]:
    """The URL of a fresh database where the page needs one."""
    if NEEDS_POSTGRES not in page.read_text("utf-8"):
        yield None
        return
    from tests.postgres_server import PostgresServer  # noqa: PLC0415  (most pages need none)

    with PostgresServer(18, fsync=True) as server:
        yield server.url()


def main(names: list[str]) -> int:
    """Bring the pages named, or all, up to date; say which have changed."""
    pages = [Path(name).resolve() for name in names] or examples()

    def work(page: Path) -> bool:
        with tempfile.TemporaryDirectory() as directory, store_for(page) as url:
            return rewrite(page, Path(directory), url=url)

    with ThreadPoolExecutor(4) as pool:
        for page, changed in zip(pages, pool.map(work, pages), strict=True):
            if changed:
                sys.stdout.write(f"{page.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
