"""What a deployment may choose: `INTERLOCK_*` in the environment, then `.interlock/config.toml`.

`SETTINGS` describes every setting once; reading, checking and the documentation all use that table.
Written by hand on purpose: the usual library costs more to import than a whole command may take.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from interlock.core import names, timing
from interlock.core.errors import InvalidInput
from interlock.core.model import Policy

DIRECTORY = ".interlock"
CONFIG_NAME = "config.toml"
DATABASE_NAME = "interlock.db"
#: SIGINT, 7.5 s, SIGTERM, 2.5 s, SIGKILL: a shorter grace would revoke a run that is still ending.
CANCEL_INTERRUPT_S, CANCEL_TERMINATE_S = 7.5, 2.5
CANCEL_LADDER_S = CANCEL_INTERRUPT_S + CANCEL_TERMINATE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing to choose. Its variable in the environment wins over the file."""

    name: str
    kind: type[str] | type[float] | type[int]
    default: str | float | int | None
    description: str
    low: float = -math.inf
    high: float = math.inf

    @property
    def env(self) -> str:
        return f"INTERLOCK_{self.name.upper()}"


SETTINGS = (
    Setting(
        name="url",
        kind=str,
        default=None,
        description=(
            f"The store. Without it: the SQLite file {DIRECTORY}/{DATABASE_NAME} of the enclosing git"
            " repository, or of the current directory outside of one. sqlite:///name.db is relative to the"
            " same place, sqlite:////srv/name.db is absolute, postgresql://user@host/name is for many"
            " machines. git+https://host/name.git, git+ssh:// and git+file:// keep lanes only, without a"
            " database."
        ),
    ),
    Setting(
        name="lease_s",
        kind=float,
        default=timing.LEASE_DEFAULT_S,
        description="How long a lease lasts without a renewal, where neither item, type nor claim says.",
        low=names.LEASE_MIN_S,
        high=names.LEASE_MAX_S,
    ),
    Setting(
        name="cancel_grace_s",
        kind=float,
        default=timing.CANCEL_GRACE_S,
        description=(
            "How long a run has to end after it was asked to; then its lease is revoked. It covers the cancel"
            f" ladder of {CANCEL_LADDER_S:g} s."
        ),
        low=CANCEL_LADDER_S,
        high=names.LEASE_MAX_S,
    ),
    Setting(
        name="back_off_first_s",
        kind=float,
        default=timing.BACK_OFF_FIRST_S,
        description="The wait after the first failed attempt; it doubles with each further one.",
        low=0.0,
        high=names.TIMEOUT_MAX_S,
    ),
    Setting(
        name="back_off_max_s",
        kind=float,
        default=timing.BACK_OFF_MAX_S,
        description="The longest wait between attempts.",
        low=0.0,
        high=names.TIMEOUT_MAX_S,
    ),
    Setting(
        name="ageing_step_s",
        kind=float,
        default=0.0,
        description="The head start that one step of priority is worth. 0 keeps strict priority.",
        low=0.0,
        high=names.TIMEOUT_MAX_S,
    ),
    Setting(
        name="busy_timeout_s",
        kind=float,
        default=30.0,
        description="How long to wait for another writer of the same SQLite file.",
        low=0.0,
        high=600.0,
    ),
    Setting(
        name="poll_s",
        kind=float,
        default=1.0,
        description="How often a waiting claim looks again where no notification comes.",
        low=0.01,
        high=60.0,
    ),
    Setting(
        name="git_lease_min_s",
        kind=float,
        default=900.0,
        description=(
            "The shortest lease on a store in git; a shorter one that is asked for is lengthened to it. Such"
            " a store has no clock, and every renewal is a push: less than the default is for tests."
        ),
        low=names.LEASE_MIN_S,
        high=names.LEASE_MAX_S,
    ),
    Setting(
        name="actor",
        kind=str,
        default=None,
        description=(
            "Who signs messages, and what an operator does, where the caller names nobody."
            " Without it: the name of the user."
        ),
    ),
)

#: Variables that are no settings: what a worker tells its command, and the switch for tracebacks.
OTHER_VARIABLES = frozenset(
    {
        "INTERLOCK_RUN",
        "INTERLOCK_FENCE",
        "INTERLOCK_ITEM",
        "INTERLOCK_LANE",
        "INTERLOCK_PLAN",
        "INTERLOCK_AGENT",
        "INTERLOCK_PAYLOAD",
        "INTERLOCK_MESSAGES",
        "INTERLOCK_RESULT",
        "INTERLOCK_SALVAGE",
        "INTERLOCK_DEBUG",
    }
)

#: The keys of a table [types.NAME]: what `add` takes for items of that type where the caller says nothing.
TYPE_SETTINGS = (
    Setting(
        name="lease_s",
        kind=float,
        default=None,
        description="Lease of items of this type.",
        low=names.LEASE_MIN_S,
        high=names.LEASE_MAX_S,
    ),
    Setting(
        name="timeout_s",
        kind=float,
        default=None,
        description="Longest a run of this type may take, renewed or not.",
        low=names.LEASE_MIN_S,
        high=names.TIMEOUT_MAX_S,
    ),
    Setting(
        name="max_attempts",
        kind=int,
        default=None,
        description="Attempts before an item of this type is a dead letter.",
        low=1,
        high=names.ATTEMPTS_MAX,
    ),
    Setting(
        name="policy",
        kind=str,
        default=None,
        description="What items of this type do when their lane is taken: " + ", ".join(Policy) + ".",
    ),
    Setting(
        name="priority",
        kind=int,
        default=None,
        description="Priority of items of this type; higher is claimed earlier.",
        low=names.PRIORITY_MIN,
        high=names.PRIORITY_MAX,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDefaults:
    """What `add` takes for one type of item where the caller says nothing."""

    lease_s: float | None = None
    timeout_s: float | None = None
    max_attempts: int | None = None
    policy: str | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The choices that hold for this process, checked."""

    #: The directory that holds `.interlock`, and from which relative SQLite paths start.
    root: Path
    url: str
    lease_s: float
    cancel_grace_s: float
    back_off_first_s: float
    back_off_max_s: float
    ageing_step_s: float
    busy_timeout_s: float
    poll_s: float
    git_lease_min_s: float
    actor: str
    types: Mapping[str, TypeDefaults] = field(default_factory=dict)

    @property
    def timing(self) -> timing.Timing:
        """The part that the rules need."""
        return timing.Timing(
            lease_s=self.lease_s,
            cancel_grace_s=self.cancel_grace_s,
            back_off_first_s=self.back_off_first_s,
            back_off_max_s=self.back_off_max_s,
            ageing_step_s=self.ageing_step_s,
        )

    def unread(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Variables that look like ours and that nothing reads: most often a slip of the pen."""
        known = {setting.env for setting in SETTINGS} | OTHER_VARIABLES
        return tuple(sorted(name for name in environ if name.startswith("INTERLOCK_") and name not in known))


def load(
    *, url: str | None = None, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> Settings:
    """Read the environment and the file; `url` wins over both."""
    environ = os.environ if environ is None else environ
    root = repository_root(here() if directory is None else directory)
    table, types = _read_file(root / DIRECTORY / CONFIG_NAME)
    for setting in SETTINGS:
        text = environ.get(setting.env, "")
        if text:
            table[setting.name] = _from_text(setting, text)
    values: dict[str, Any] = {setting.name: table.get(setting.name, setting.default) for setting in SETTINGS}
    values["url"] = url or values["url"] or f"sqlite:///{DIRECTORY}/{DATABASE_NAME}"
    values["actor"] = values["actor"] or environ.get("USER") or environ.get("LOGNAME") or "operator"
    if values["back_off_first_s"] > values["back_off_max_s"]:
        raise InvalidInput(
            f"back_off_first_s is {values['back_off_first_s']:g}, above back_off_max_s.",
            f"Use at most {values['back_off_max_s']:g}, or raise back_off_max_s.",
        )
    return Settings(root=root, types=types, **values)


def here() -> Path:
    """The working directory, or the place it had if it was deleted: such a run can still report."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/", os.environ.get("PWD", ""))


def make_home(directory: Path) -> None:
    """Make a directory `.interlock` that git ignores by itself, if it is not there."""
    directory.mkdir(exist_ok=True)
    ignore = directory / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


def repository_root(directory: Path) -> Path:
    """The root of the git repository around `directory`, else `directory`.

    All worktrees of a repository share one root, so that agents in several worktrees share one store:
    otherwise each of them would hold "the" lane of an issue.
    """
    place = worktree_root(directory)
    git = place / ".git"
    return _main_worktree(place, git) if git.is_file() else place


def worktree_root(directory: Path) -> Path:
    """The root of the working tree around `directory`, else `directory`: where a repository's files stand."""
    directory = directory.absolute()
    return next((p for p in (directory, *directory.parents) if (p / ".git").exists()), directory)


def _main_worktree(place: Path, git: Path) -> Path:
    try:
        pointer = git.read_text().removeprefix("gitdir:").strip()
        private = place / pointer
        common = (private / (private / "commondir").read_text().strip()).resolve()
    except (OSError, ValueError):
        return place  # a submodule: a repository of its own
    return common.parent if common.name == ".git" else common


def _read_file(path: Path) -> tuple[dict[str, Any], dict[str, TypeDefaults]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}, {}
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", "Mend or remove the file.") from None
    import tomllib  # noqa: PLC0415  (only where there is a file)

    try:
        document = tomllib.loads(data.decode())
    except ValueError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}.", "Mend the line it names.") from None
    types = document.pop("types", {})
    if not isinstance(types, dict) or not all(isinstance(table, dict) for table in types.values()):
        raise InvalidInput(
            f"types in {path} is not a table of tables.", "Write [types.NAME] and its keys below."
        )
    table = _checked(document, SETTINGS, str(path))
    return table, {names.check_name("type", name): _type_defaults(name, t, path) for name, t in types.items()}


def _type_defaults(name: str, table: dict[str, Any], path: Path) -> TypeDefaults:
    values = _checked(table, TYPE_SETTINGS, f"[types.{name}] of {path}")
    policy = values.get("policy")
    if policy is not None and policy not in list(Policy):
        raise InvalidInput(f"The policy {policy!r} does not exist.", f"Use one of {', '.join(Policy)}.")
    return TypeDefaults(**values)


def _checked(table: Mapping[str, Any], known: tuple[Setting, ...], where: str) -> dict[str, Any]:
    by_name = {setting.name: setting for setting in known}
    for key in table:
        if key not in by_name:
            raise InvalidInput(f"{where} has an unknown key {key!r}.", f"Known are {', '.join(by_name)}.")
    return {key: _check(by_name[key], key, value) for key, value in table.items()}


def _from_text(setting: Setting, text: str) -> Any:
    if setting.kind is str:
        return text
    try:
        value = float(text)
    except ValueError:
        _refuse(setting, setting.env, text)
    return _check(setting, setting.env, value)


def _check(setting: Setting, label: str, value: Any) -> Any:
    if setting.kind is str:
        if not isinstance(value, str):
            raise InvalidInput(f"{label} is not a text.", "Put it in quotes.")
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (
        not number
        or (setting.kind is int and not isinstance(value, int))
        or not setting.low <= value <= setting.high
    ):
        _refuse(setting, label, value)
    return setting.kind(value)


def _refuse(setting: Setting, label: str, value: object) -> NoReturn:
    kind = "a whole number" if setting.kind is int else "a number"
    raise InvalidInput(
        f"{label} cannot be {value!r}.",
        f"Use {kind} from {names.number(setting.low)} to {names.number(setting.high)}.",
    )
