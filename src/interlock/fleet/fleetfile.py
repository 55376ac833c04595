"""The file `fleet.toml`: the workers of a fleet, and what each of them gets.

It is checked as a whole before anything starts. An error names the key and its line.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from interlock.core import names
from interlock.core.errors import CommandUnusable, InvalidInput, NotFound
from interlock.process.command import check_command
from interlock.process.smallfile import read_bytes
from interlock.service.item_fields import span_s

NAME = "fleet.toml"
FILE_MAX_BYTES = 1 << 20
WORKERS_MAX = 100
#: A worker's name is also the name of its files.
_WORKER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_WORKER_KEYS = (
    *("agent", "command", "max", "worktree", "types", "labels", "lease", "account", "pool"),
    "environment",
)
_TABLES = ("workers", "pools", "environment")
_EXAMPLE = 'command = ["./agent.sh"]'


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """One worker of a fleet: a process of `interlock work`."""

    name: str
    agent: str
    #: The program has a path that is valid in every directory.
    command: tuple[str, ...]
    max: int = 1
    worktree: bool = False
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    lease_s: float | None = None
    account: str | None = None
    pool: str | None = None
    #: The variables of the file, of all workers and of this one.
    environment: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """The arguments of `interlock` for this worker."""
        words = ["--json", "work", "--echo", "--agent", self.agent, "--max", str(self.max)]
        words += ["--worktree"] if self.worktree else []
        for option, values in (("--type", self.types), ("--label", self.labels)):
            words += [word for value in values for word in (option, value)]
        words += [] if self.lease_s is None else ["--lease", f"{self.lease_s:g}s"]
        words += [] if self.account is None else ["--account", self.account]
        return [*words, "--", *self.command]

    def identity(self) -> str:
        """What a running worker must have in common with this one to be adopted, as a hash: variables may be
        secrets."""
        whole = json.dumps([self.arguments(), dict(self.environment)], sort_keys=True)
        return sha256(whole.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """A checked file. Its directory is that of its workers."""

    path: Path
    workers: tuple[WorkerSpec, ...]
    #: The limit of runs at once of each pool.
    pools: Mapping[str, int] = field(default_factory=dict)


def located(path: Path) -> Path:
    """The one name of a file in a directory, through whichever links and dots it was named."""
    return path.parent.resolve() / path.name


def find(given: Path) -> tuple[Path, bytes]:
    """The file with its content; raises if there is none."""
    path = located(given)
    try:
        return path, read_bytes(path.resolve(), FILE_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"There is no {path}.", "interlock init --recipe claude writes one; or name another with --file."
        ) from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", "Fix its permissions.") from None
    except ValueError as error:
        raise InvalidInput(f"{path} cannot be read: {error}.", "Put a small text file there.") from None


def parse(path: Path, data: bytes) -> FleetFile:
    """The fleet in the content of a file. Raises `InvalidInput` with the key and its line."""
    try:
        text = data.decode()
        document = tomllib.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}.", "Fix the line it names.") from None
    reader = _FleetFileReader(path, text)
    reader.check_keys(document, _TABLES, ())
    shared = reader.environment(document.get("environment", {}), ("environment",))
    pools = {
        name: reader.pool(table, ("pools", name))
        for name, table in reader.tables(document.get("pools", {}), "pools")
    }
    workers = tuple(
        reader.worker(name, table, shared)
        for name, table in reader.tables(document.get("workers", {}), "workers")
    )
    if not workers:
        raise InvalidInput(f"{path} names no worker.", f"Write [workers.coder] and, below it, {_EXAMPLE}.")
    if len(workers) > WORKERS_MAX:
        raise InvalidInput(
            f"{path} names {len(workers)} workers, and the limit is {WORKERS_MAX}.",
            "Raise max of a worker: it has that many runs at once.",
        )
    reader.check_pools(workers, pools)
    return FleetFile(path=path, workers=workers, pools=pools)


class _FleetFileReader:
    """Reads tables of one file, and knows the lines of their keys."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def worker(self, name: str, table: Mapping[str, Any], shared: Mapping[str, str]) -> WorkerSpec:
        place = ("workers", name)
        if not _WORKER_NAME.fullmatch(name):
            raise self.error(
                place, f"the worker {name!r} has an invalid name", "Use letters, digits, - and _."
            )
        self.check_keys(table, _WORKER_KEYS, place)
        if "command" not in table:
            raise self.error(place, "it has no command", f"Add the line {_EXAMPLE}.")
        get = table.get
        return WorkerSpec(
            name=name,
            agent=self._named((*place, "agent"), get("agent", name), names.needed_agent),
            command=self._command((*place, "command"), table["command"]),
            max=self._max((*place, "max"), get("max", 1)),
            worktree=self._flag((*place, "worktree"), get("worktree", False)),
            types=self._list((*place, "types"), get("types", []), "type"),
            labels=self._list((*place, "labels"), get("labels", []), "label"),
            lease_s=self._lease((*place, "lease"), get("lease")),
            account=self._optional((*place, "account"), get("account"), _check_account),
            pool=self._optional((*place, "pool"), get("pool"), names.pool_key),
            environment={**shared, **self.environment(get("environment", {}), (*place, "environment"))},
        )

    def pool(self, table: Mapping[str, Any], place: tuple[str, ...]) -> int:
        self._named(place, place[-1], names.pool_key)
        self.check_keys(table, ("max",), place)
        if "max" not in table:
            raise self.error(place, "it has no max", "Add the line max = 2.")
        return self._max((*place, "max"), table["max"])

    def environment(self, value: Any, place: tuple[str, ...]) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self.error(
                place, "it is not a table", f'Write [{".".join(place)}] and, below it, NAME = "value".'
            )
        for name, text in value.items():
            if not _VARIABLE.fullmatch(name):
                raise self.error(
                    (*place, name), f"{name!r} is no name of a variable", "Use letters, digits and _."
                )
            self._text((*place, name), text)
        return dict(value)

    def tables(self, value: Any, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if not isinstance(value, dict):
            raise self.error(
                (kind,), "it is not a table of tables", f"Write [{kind}.NAME] and its keys below."
            )
        for name, table in value.items():
            if not isinstance(table, dict):
                raise self.error(
                    (kind, name), "it is not a table", f"Write [{kind}.{name}] and its keys below."
                )
            yield name, table

    def check_keys(self, table: Mapping[str, Any], known: tuple[str, ...], place: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                near = names.nearest(key, known)
                meant = f"Did you mean {near}? " if near else ""
                raise self.error((*place, key), "the key is unknown", f"{meant}Use {', '.join(known)}.")

    def check_pools(self, workers: tuple[WorkerSpec, ...], pools: Mapping[str, int]) -> None:
        """An agent has one pool, whichever of its workers claims."""
        chosen: dict[str, str | None] = {}
        for worker in workers:
            key = names.agent_key(worker.agent)
            if chosen.setdefault(key, worker.pool) != worker.pool:
                raise self.error(
                    ("workers", worker.name, "pool"),
                    f"another worker of the agent {worker.agent} names another pool",
                    "Give all workers of an agent the same pool.",
                )
        used = {names.pool_key(worker.pool) for worker in workers if worker.pool is not None}
        for name in pools:
            if names.pool_key(name) not in used:
                raise self.error(
                    ("pools", name), "no worker is in this pool", f'Add pool = "{name}" to a worker.'
                )

    # -- values ---------------------------------------------------------------------------------------

    def _command(self, place: tuple[str, ...], value: Any) -> tuple[str, ...]:
        fits = isinstance(value, list) and value and all(isinstance(w, str) and "\0" not in w for w in value)
        if not fits or not value[0]:
            raise self.error(
                place, "it is not a list of a program and its arguments", f"Write it as in {_EXAMPLE}."
            )
        program, *arguments = value
        if "/" in program:  # beside the file, so that a script need not be in the worktree
            program = str(self._path.parent / Path(program).expanduser())
        try:
            check_command((program, *arguments), here=True)
        except CommandUnusable as error:
            hint = (
                "Check its spelling and its permissions."
                if "/" in program
                else "Check its spelling and PATH."
            )
            if Path(program).is_file():
                hint = f"Make it executable: chmod +x {program}"
            raise self.error(place, error.sentence.rstrip("."), hint) from None
        return (program, *arguments)

    def _max(self, place: tuple[str, ...], value: Any) -> int:
        if type(value) is not int or not 1 <= value <= names.BATCH_MAX:
            raise self.error(
                place,
                f"it cannot be {value!r}",
                f"Use a whole number from 1 to {names.number(names.BATCH_MAX)}.",
            )
        return value

    def _flag(self, place: tuple[str, ...], value: Any) -> bool:
        if not isinstance(value, bool):
            raise self.error(place, f"it cannot be {value!r}", "Use true or false.")
        return value

    def _text(self, place: tuple[str, ...], value: Any) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise self.error(place, "it is not a string", "Put it in quotes.")
        return value

    def _list(self, place: tuple[str, ...], value: Any, what: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self.error(place, "it is not a list", f'Write it as in {place[-1]} = ["{what}"].')
        return tuple(self._named(place, each, lambda name: names.check_name(what, name)) for each in value)

    def _lease(self, place: tuple[str, ...], value: Any) -> float | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.error(
                place, f"it cannot be {value!r}", 'Write a span with its unit, as in lease = "5m".'
            )
        try:
            lease_s = span_s("lease", value)
            names.check_number("lease", lease_s, names.LEASE_MIN_S, names.LEASE_MAX_S)
        except InvalidInput as error:
            raise self.error(place, error.sentence.rstrip("."), error.hint) from None
        return lease_s

    def _optional(self, place: tuple[str, ...], value: Any, check: Callable[[str], str]) -> str | None:
        return None if value is None else self._named(place, value, check)

    def _named(self, place: tuple[str, ...], value: Any, check: Callable[[str], str]) -> str:
        text = self._text(place, value)
        try:
            check(text)
        except InvalidInput as error:
            raise self.error(place, error.sentence.rstrip("."), error.hint) from None
        return text.strip()

    # -- places ---------------------------------------------------------------------------------------

    def error(self, place: tuple[str, ...], what: str, hint: str) -> InvalidInput:
        """The error of one key, with its line if it can be found."""
        line = self._line(place)
        where = f", line {line}" if line else ""
        return InvalidInput(f"{'.'.join(place)} in {self._path}{where}: {what[:1].lower()}{what[1:]}.", hint)

    def _line(self, place: tuple[str, ...]) -> int | None:
        """The line of a key: `key =` below its table's header, the header itself, or a dotted key."""
        for depth in range(len(place), -1, -1):
            header, keys = place[:depth], place[depth:]
            inside = not header
            for number, text in enumerate(self._lines, 1):
                if (found := _header(text)) is not None:
                    inside = found == header
                    if inside and not keys:
                        return number
                elif inside and keys and _keys(text)[: len(keys)] == keys:
                    return number
        headers = ((number, _header(text) or ()) for number, text in enumerate(self._lines, 1))
        below = next((number for number, found in headers if found[: len(place)] == place), None)
        return self._line(place[:-1]) if below is None and len(place) > 1 else below


def _check_account(login: str) -> str:
    if not login.strip():
        raise InvalidInput("It is empty.", "Name an account, or omit the key.")
    return login


def _header(line: str) -> tuple[str, ...] | None:
    """The parts of `[a.b]`, or of `[[a]]`."""
    found = re.match(r"\s*\[\[?([^\[\]]+)\]", line)
    return None if found is None else _parts(found[1])


def _keys(line: str) -> tuple[str, ...]:
    """The parts of the key of `a.b = value`, and of the first keys of an inline table."""
    found = re.match(r"\s*([\w.\"' -]+?)\s*=", line)
    return () if found is None else _parts(found[1])


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
