"""The settings: `INTERLOCK_*` in the environment, then the repository's files, then the user's own file.

A repository's files come from its authors: harmful settings are withheld until the user trusts the file
(`trust`, ADR 0026).
This is hand-written on purpose: the usual library takes longer to import than a whole command may take
(ADR 0006).
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from interlock.core import names, timing
from interlock.core.errors import InvalidInput, NotTrusted
from interlock.core.model import Policy
from interlock.core.policies import Policies
from interlock.core.record import Record, replace
from interlock.core.row import NamedTuple
from interlock.core.store_outage import StoreOutage
from interlock.settings import trust
from interlock.settings.places import (
    DATABASE_NAME,
    DIRECTORY,
    GIT_DIRECTORY,
    common_directory,
    here,
    is_below,
    repository_root,
    worktree_root,
)

CONFIG_NAME = "config.toml"
#: The file in the root of a repository, to be committed.
SHARED_NAME = "interlock.toml"
#: Longer than any settings file. The limit also stops reads of a link to an endless device.
FILE_MAX_BYTES = 1 << 20
#: SIGINT, 7.5 s, SIGTERM, 2.5 s, SIGKILL: a shorter grace would revoke a run that is still ending.
CANCEL_INTERRUPT_S, CANCEL_TERMINATE_S = 7.5, 2.5
CANCEL_LADDER_S = CANCEL_INTERRUPT_S + CANCEL_TERMINATE_S


class FromRepository(Enum):
    """Whether an untrusted repository file may set a setting."""

    YES = "yes"
    #: Only if the value is a path in the repository itself.
    INSIDE = "inside the repository"
    NO = "when trusted"


class Setting(Record):
    """One setting. Its environment variable takes precedence over the files."""

    description: str
    from_repository: FromRepository
    name: str = ""
    default: str | float | int | None = None
    kind: type[str] | type[float] | type[int] | type[tuple[str, ...]] = str
    low: float = -math.inf
    high: float = math.inf
    #: What a list is, and an example.
    form: tuple[str, str] = ("a list of a program and its arguments", '["notify-send", "Interlock"]')

    @property
    def env(self) -> str:
        return f"INTERLOCK_{self.name.upper()}"


def _text(description: str, from_repository: FromRepository = FromRepository.NO) -> Any:
    return Setting(description=description, from_repository=from_repository)


def _command(description: str) -> Any:
    return Setting(description=description, from_repository=FromRepository.NO, kind=tuple)


def _list(description: str, example: str) -> Any:
    return Setting(
        description=description,
        from_repository=FromRepository.NO,
        kind=tuple,
        form=("a list of texts", example),
    )


def _number(
    default: float | None,
    low: float,
    high: float,
    description: str,
    *,
    whole: bool = False,
    from_repository: FromRepository = FromRepository.YES,
) -> Any:
    kind = int if whole else float
    return Setting(
        description=description,
        from_repository=from_repository,
        default=default,
        kind=kind,
        low=low,
        high=high,
    )


class Withheld(NamedTuple):
    """A setting in a repository's file that is ignored."""

    path: Path
    setting: str
    value: Any
    #: The user's own file or the environment sets another value.
    replaced: bool


class TypeDefaults(Record):
    """A table [types.NAME]: the defaults of `add` for items of that type."""

    lease_s: float | None = _number(
        None, names.LEASE_MIN_S, names.LEASE_MAX_S, "Lease of items of this type."
    )
    timeout_s: float | None = _number(
        None,
        names.LEASE_MIN_S,
        names.TIMEOUT_MAX_S,
        "Maximum time of a run of this type, renewed or not.",
    )
    max_attempts: int | None = _number(
        None, 1, names.ATTEMPTS_MAX, "Attempts before an item of this type is a dead letter.", whole=True
    )
    policy: str | None = _text(
        f"What items of this type do when their lane is taken: {', '.join(Policy)}.",
        FromRepository.YES,
    )
    priority: int | None = _number(
        None,
        names.PRIORITY_MIN,
        names.PRIORITY_MAX,
        "Priority of items of this type; higher is claimed earlier.",
        whole=True,
    )


class Settings(Record):
    """The settings of this process, checked by `load`. Each field with a description is a setting."""

    #: The directory that contains `.interlock`; relative SQLite paths start there.
    root: Path
    #: The directory of the default store and the files of runs.
    home: Path
    #: Where an older version may have put the default store; None if another store is set.
    former: Path | None = None
    url: str = _text(
        f"The store. Default: the SQLite file {GIT_DIRECTORY}/{DATABASE_NAME} in .git, one for all worktrees;"
        f" outside of a git repository {DIRECTORY}/{DATABASE_NAME} of the current directory."
        " sqlite:///name.db is relative to the root of the repository, sqlite:////srv/name.db is absolute,"
        " postgresql://user@host/name is for many machines."
        " https://host:port is an Interlock server, for which INTERLOCK_TOKEN has the token."
        " git+https://host/name.git, git+ssh:// and git+file:// keep lanes only, without a database.",
        FromRepository.INSIDE,
    )
    lease_s: float = _number(
        timing.LEASE_DEFAULT_S,
        names.LEASE_MIN_S,
        names.LEASE_MAX_S,
        "How long a lease lasts without a renewal, unless the item, its type or the claim sets it.",
    )
    cancel_grace_s: float = _number(
        timing.CANCEL_GRACE_S,
        CANCEL_LADDER_S,
        names.LEASE_MAX_S,
        "How long a run may take to end after a cancel request; then its lease is revoked. It must cover the"
        f" cancel ladder of {CANCEL_LADDER_S:g} s.",
    )
    back_off_first_s: float = _number(
        timing.BACK_OFF_FIRST_S,
        0.0,
        names.TIMEOUT_MAX_S,
        "The wait after the first failed attempt; it doubles with each further one.",
    )
    back_off_max_s: float = _number(
        timing.BACK_OFF_MAX_S, 0.0, names.TIMEOUT_MAX_S, "The longest wait between attempts."
    )
    ageing_step_s: float = _number(
        0.0,
        0.0,
        names.TIMEOUT_MAX_S,
        "The head start that one step of priority is worth. 0 keeps strict priority.",
    )
    wakes_max: int = _number(
        timing.WAKES_MAX,
        0,
        1_000_000,
        "The most wake-ups or follow-ups in a row of a lane without a person's message. The next one waits"
        " for a person.",
        whole=True,
    )
    busy_timeout_s: float = _number(
        30.0,
        0.0,
        600.0,
        "How long to wait for a locked SQLite file or an unreachable PostgreSQL server. A server that accepts"
        " the connection but does not answer is waited for at least 5 s.",
    )
    retention_s: float | None = _number(
        None,
        1.0,
        names.TIMEOUT_MAX_S * 1_000,
        "Retention of ended items and plans. Sweeps delete older ones, with their runs, messages and events."
        " Dead letters stay. Default: for ever; 7776000 is 90 days.",
        from_repository=FromRepository.NO,  # it deletes data, perhaps in a store shared by other repositories
    )
    poll_s: float = _number(
        1.0, 0.01, 60.0, "The poll interval of a waiting claim where no notification comes."
    )
    log_share_s: float = _number(
        3.0,
        0.0,
        3_600.0,
        "How often a worker sends new output of its runs to the store, so that `interlock log` and the"
        " dashboard show its end on any machine. 0 keeps output on the worker's machine: it may contain"
        " secrets.",
    )
    git_lease_min_s: float = _number(
        900.0,
        names.LEASE_MIN_S,
        names.LEASE_MAX_S,
        "The shortest lease on a store in git; a claim that asks for less gets this. Such a store has no"
        " clock, and every renewal is a push: go below the default only in tests.",
    )
    actor: str = _text(
        "Who signs messages and operator commands when the caller names no author. Default: the user's name."
    )
    worktrees: str = _text(
        f"Where interlock work --worktree makes its worktrees. Default: {DIRECTORY}/worktrees, inside the"
        " clone: a sandbox or container that knows the clone knows them too. In another directory, which may"
        " be relative to the clone, each clone gets one of its own.",
        FromRepository.INSIDE,
    )
    locks: str = _text(
        f"Where session locks are. Default: {DIRECTORY}/locks. Another directory, which may be relative to"
        " the root of the repository, is made if it is missing; git does not ignore it by itself.",
        FromRepository.INSIDE,
    )
    lane_fields: str = _text(
        "Payload fields with the number of the issue or pull request, such as issueId, pull_request_number."
        " An item without a lane gets its lane from the first field present. Commas separate the names; a dot"
        " leads into an object.",
        FromRepository.YES,
    )
    lane_repository_fields: str = _text(
        "Fields of a payload that name the repository of that issue, written in the same way.",
        FromRepository.YES,
    )
    series_mode: str = _text(
        "Rollout stage of series: observe (the state issue and the metrics only), enforce"
        " (default), or comment (enforce, with a comment for each promotion).",
        FromRepository.NO,
    )
    series_pattern: str = _text(
        "How titles name a series and a place in it. Default: {prefix}RFC-{series}-{micro}. A title may lack"
        " the {prefix}, which is a word and a dash.",
        FromRepository.YES,
    )
    series_prefixes: str = _text(
        "Whether a prefix makes another series: apart (default) or together.", FromRepository.YES
    )
    series_assignee: str = _text(
        "The account that a promotion assigns. Default: copilot-swe-agent[bot]; none: no account.",
        FromRepository.NO,
    )
    series_workflow: str = _text(
        "A workflow that a promotion starts with the issue's number, instead of an assignment: the name of"
        " its file, and after @ its branch if that is not main.",
        FromRepository.NO,
    )
    series_logins: str = _text(
        "Logins whose assignments count as work on a series, separated by commas. Default: all.",
        FromRepository.NO,
    )
    series_label: str = _text(
        "The label that admits an issue whose author has no write access to its series. An account with"
        " write access must set it. Default: rfc-series.",
        FromRepository.NO,
    )
    series_unassigned: str = _text(
        "What happens when the active issue is unassigned: released (default) or kept.",
        FromRepository.NO,
    )
    series_exempt: str | None = _text(
        "Types of read-only work, separated by commas: a series never holds them back. Default:"
        " issue_triage.",
        FromRepository.NO,
    )
    public_url: str = _text(
        "The server's address as other machines reach it (https://interlock.example.com). Default:"
        " unknown. `token create` prints it, and notices to receivers link to the dashboard there."
    )
    allowed_hosts: str = _text(
        "Host names that the server accepts, without ports, separated by commas; * allows any."
        " Default: localhost and its addresses where only this machine reaches the server, else any.",
    )
    trusted_proxies: str = _text(
        "Addresses or networks of trusted proxies, separated by commas. Only their X-Forwarded-For and"
        " X-Forwarded-Proto headers are used. Default: none.",
    )
    on_dead_letter: tuple[str, ...] | None = _command(
        "The command that sweepers and workers run when an item failed for good: a list of arguments, without"
        " a shell. It gets the event as JSON on standard input."
    )
    on_question: tuple[str, ...] | None = _command("The same for a question to a person.")
    notify_urls: tuple[str, ...] | None = _list(
        "Receivers: addresses to which servers, sweepers and workers send a JSON request for each question"
        " and each dead letter. https is required, except for this machine and `notify_http_hosts`.",
        '["https://hooks.example.com/interlock"]',
    )
    notify_events: str = _text(
        "What is sent to the receivers, separated by commas: question, dead_letter, quota_limit. Default:"
        " question, dead_letter.",
    )
    notify_http_hosts: str = _text(
        "Host names of receivers that may be reached over plain http, separated by commas. Default: none.",
    )
    question_lease_s: float = _number(
        timing.LIVE_QUESTION_TIMEOUT_S,
        1,
        names.RUN_AFTER_MAX_S,
        "How long a live run without a worker keeps its lease while its question to a person is open, unless"
        " `ask --timeout` says otherwise. The hook's questions last as long.",
    )
    quota_scope: str = _text(
        "Who waits when a worker or the hook notices a provider's limit in an agent's output: item, agent"
        " (default), or pool for all agents of its pool, which share an account.",
    )
    quota_wait_s: float = _number(
        timing.QUOTA_WAIT_S,
        timing.QUOTA_WAIT_MIN_S,
        timing.QUOTA_LIMIT_MAX_S,
        "How long they wait if the program names no time.",
    )
    quota_patterns: tuple[str, ...] | None = _list(
        "How further programs say that a limit was hit: a list of texts such as 'aider: Rate limit of * is"
        " used up'. A line of output must begin so; * before the colon is any program, after it any text.",
        '["aider: Rate limit reached"]',
    )
    prices: tuple[str, ...] | None = _list(
        "What models cost, for the hook: a list of texts such as 'claude-sonnet-4: 3, 15, 0.3'. The name of a"
        " model begins so; then its dollars for a million tokens: read, written, read from a cache.",
        '["claude-sonnet-4: 3, 15, 0.3"]',
    )
    types: Mapping[str, TypeDefaults]
    #: The policies of the tables [types.NAME], [policies.lanes] and [policies.projects].
    policies: Policies
    #: Ignored settings of an untrusted repository file.
    withheld: tuple[Withheld, ...] = ()
    #: Called when the store becomes unreachable and when it is reachable again.
    outage: StoreOutage | None = None

    @property
    def lanes(self) -> names.LaneFields:
        """The payload fields that determine the lanes of items."""
        return names.LaneFields(listed(self.lane_fields), listed(self.lane_repository_fields))

    @property
    def timing(self) -> timing.Timing:
        """The part for the rules: each of its fields is a setting."""
        return timing.Timing(**{name: getattr(self, name) for name in timing.Timing.PARTS})

    def check_store(self) -> None:
        """Raise if the repository names an untrusted store and the user has set no other.

        Falling back to the default store would create a second store: its users would not see the holders of
        lanes in the store of the others.
        """
        for held in self.withheld:
            if held.setting == "url" and not held.replaced:
                store = without_password(held.value)
                raise NotTrusted(
                    f"{held.path} names the store {store}, and you do not trust it yet.",
                    "Look at the file, then run interlock trust; or choose a store with INTERLOCK_URL.",
                )

    def unknown_variables(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Unknown variables that begin with INTERLOCK_: usually typos."""
        known = {setting.env for setting in SETTINGS} | OTHER_VARIABLES
        return tuple(sorted(name for name in environ if name.startswith("INTERLOCK_") and name not in known))


def _described(kind: type[Record]) -> tuple[Setting, ...]:
    """The settings among the fields of a record. They become the defaults of these fields."""
    found = []
    for name in kind.PARTS:
        setting = vars(kind).get(name)
        if isinstance(setting, Setting):
            found.append(replace(setting, name=name))
            setattr(kind, name, setting.default)
    return tuple(found)


#: Every setting, and the keys of a table [types.NAME]; reading, checking and the documentation use these.
SETTINGS, TYPE_SETTINGS = _described(Settings), _described(TypeDefaults)

#: Variables that are not settings: a worker's variables for its command, secrets, the switch for tracebacks.
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
        "INTERLOCK_RETRY_AT_FILE",
        "INTERLOCK_FAULT_FILE",
        "INTERLOCK_SALVAGE",
        "INTERLOCK_GITHUB_TOKEN",
        "INTERLOCK_GITHUB_APP_ID",
        "INTERLOCK_GITHUB_APP_INSTALLATION",
        "INTERLOCK_GITHUB_APP_KEY",
        "INTERLOCK_GITHUB_APP_KEY_FILE",
        "INTERLOCK_TOKEN",
        "INTERLOCK_WEBHOOK_SECRET",
        "INTERLOCK_NOTIFY_SECRET",
        "INTERLOCK_DEBUG",
    }
)


def own_run(environ: Mapping[str, str]) -> str | None:
    """The handle of the run that a process works for, if any; the first of several."""
    return next(iter(environ.get("INTERLOCK_RUN", "").split()), None)


def load(
    *, url: str | None = None, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> Settings:
    """Read the environment and the files. `url` takes precedence over all of them."""
    environ = os.environ if environ is None else environ
    if url is not None:
        names.check_text("url", url)
    place = worktree_root(here() if directory is None else directory)
    root, common = repository_root(place), common_directory(place)
    own = own_file(environ)
    table, types, policies = parsed(own, read(own)) if own is not None else ({}, {}, {})
    withheld: list[tuple[Path, str, Any]] = []
    for path in repository_files(root):
        data = read(path)
        chosen, more, named = parsed(path, data)
        held = needing_trust(chosen, root)
        if held and not trust.is_trusted(path, data, environ):
            withheld += [(path, name, chosen.pop(name)) for name in held]
        table.update(chosen)
        types.update(more)
        policies = {kind: {**policies.get(kind, {}), **named.get(kind, {})} for kind in _POLICIES}
    for setting in SETTINGS:
        text = environ.get(setting.env, "")
        if text:
            table[setting.name] = _from_text(setting, text)
    given = table | ({"url": url} if url else {})
    values: dict[str, Any] = {setting.name: table.get(setting.name, setting.default) for setting in SETTINGS}
    home = root / DIRECTORY if common is None else common / GIT_DIRECTORY
    former = None
    url = url or values["url"]
    if not url:
        if common is None and (place / ".git").exists():
            raise InvalidInput(
                f"{place / '.git'} does not lead to a git repository.",
                "Repair it (`git worktree repair`), or choose a store with INTERLOCK_URL.",
            )
        url = f"sqlite:///{home if common else DIRECTORY}/{DATABASE_NAME}"
        former = root / DIRECTORY / DATABASE_NAME if common else None
    values["url"] = url
    values["actor"] = values["actor"] or environ.get("USER") or environ.get("LOGNAME") or _user()
    if values["back_off_first_s"] > values["back_off_max_s"]:
        raise InvalidInput(
            f"back_off_first_s is {values['back_off_first_s']:g}, above back_off_max_s.",
            f"Use at most {values['back_off_max_s']:g}, or raise back_off_max_s.",
        )
    return Settings(
        root=root,
        home=home,
        former=former,
        types=types,
        policies=Policies(
            types={name: Policy(each.policy) for name, each in types.items() if each.policy is not None},
            **policies,
        ),
        withheld=tuple(Withheld(path, name, value, name in given) for path, name, value in withheld),
        **values,
    )


def _user() -> str:
    """The name of the user if the environment has none, as in a container or under cron."""
    import pwd  # noqa: PLC0415  (most environments name the user)

    try:
        return pwd.getpwuid(os.getuid()).pw_name or "operator"
    except KeyError:
        return "operator"


def own_file(environ: Mapping[str, str]) -> Path | None:
    """The user's own settings file, for every repository."""
    directory = trust.own_directory(environ, "XDG_CONFIG_HOME", ".config")
    return None if directory is None else directory / CONFIG_NAME


def repository_files(root: Path) -> tuple[Path, Path]:
    """The settings files that a repository may have. The second takes precedence, and git ignores it."""
    return root / SHARED_NAME, root / DIRECTORY / CONFIG_NAME


def needing_trust(table: Mapping[str, Any], root: Path) -> tuple[str, ...]:
    """The settings in a repository's file that need the user's trust."""
    found = ((setting, table[setting.name]) for setting in SETTINGS if setting.name in table)
    return tuple(
        setting.name
        for setting, value in found
        if setting.from_repository is FromRepository.NO
        or (setting.from_repository is FromRepository.INSIDE and not _is_inside(setting, value, root))
    )


def _is_inside(setting: Setting, value: str, root: Path) -> bool:
    """Whether a value is a path in the repository, outside the directory of git."""
    if setting.name == "url":
        if value.partition("://")[0].lower() != "sqlite":
            return False
        path = sqlite_path(value, root)
    else:
        path = root / Path(value).expanduser()
    real, top = path.resolve(), root.resolve()
    return real != top and is_below(real, top)


def without_password(url: str) -> str:
    """A store's URL for people: without the user, the password and the parameters."""
    scheme, _, place = url.partition("://")
    return f"{scheme}://{place.rpartition('@')[2].partition('?')[0]}"


def sqlite_path(url: str, root: Path) -> Path:
    """The file of a SQLite URL: with four slashes the path is absolute, with three it is relative to `root`.

    People often write `sqlite:///srv/x.db` and mean four slashes. The path is absolute if only the absolute
    directory exists.
    """
    text = url.partition("://")[2]
    if not text.startswith("/") or len(text) < 2 or not {"?", "#"}.isdisjoint(Path(text).name):
        raise InvalidInput("The SQLite URL does not name a file.", "Use sqlite:///path/to/file.db.")
    relative, absolute = root / text[1:], Path(text)
    if not relative.parent.is_dir() and relative.parent.name != DIRECTORY and absolute.parent.is_dir():
        return absolute
    return relative


def read(path: Path) -> bytes:
    """The content of a settings file; empty if it does not exist."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block us
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", "Fix or remove the file.") from None
    try:
        state = os.fstat(number)
        plain = stat.S_ISREG(state.st_mode) and state.st_size <= FILE_MAX_BYTES
        data = os.read(number, FILE_MAX_BYTES) if plain else b""
    finally:
        os.close(number)
    if not plain:
        raise InvalidInput(f"{path} is not a settings file.", "Remove it, or put a small text file there.")
    return data


def parsed(
    path: Path, data: bytes
) -> tuple[dict[str, Any], dict[str, TypeDefaults], dict[str, dict[str, Policy]]]:
    """The settings, the types and the policies of lanes and projects in the content of a file."""
    if not data:
        return {}, {}, {}
    import tomllib  # noqa: PLC0415  (only where there is a file)

    try:
        document = tomllib.loads(data.decode())
    except ValueError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}.", "Fix the line it names.") from None
    types = document.pop("types", {})
    if not isinstance(types, dict) or not all(isinstance(table, dict) for table in types.values()):
        raise InvalidInput(
            f"types in {path} is not a table of tables.", "Write [types.NAME] and its keys below."
        )
    policies = _policies(document.pop("policies", {}), path)
    table = _checked(document, SETTINGS, str(path), tables=("types", "policies"))
    by_type = {names.check_name("type", name): _type_defaults(name, t, path) for name, t in types.items()}
    return table, by_type, policies


def _policies(tables: object, path: Path) -> dict[str, dict[str, Policy]]:
    """Policies by the prefix of a lane and by project."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise InvalidInput(f"policies in {path} is not a table of tables.", "Write [policies.lanes].")
    for kind in tables:
        if kind not in _POLICIES:
            raise InvalidInput(f"[policies.{kind}] of {path} is unknown.", f"Use {', '.join(_POLICIES)}.")
    return {
        kind: {
            _POLICIES[kind](name, path): _policy(value, f"[policies.{kind}] of {path}")
            for name, value in table.items()
        }
        for kind, table in tables.items()
    }


def _lane_prefix(prefix: str, path: Path) -> str:
    """The prefix in the notation of lanes; raises if no lane can begin with it."""
    reasons = []
    for lane in (prefix, f"{prefix}x"):  # a prefix such as `team/` is not a valid name by itself
        try:
            return names.lane_key(lane)[: len(prefix)]
        except InvalidInput as error:
            reasons.append(error)
    raise InvalidInput(f"[policies.lanes] of {path}: no lane begins with {prefix!r}.", reasons[-1].hint)


def _project(name: str, path: Path) -> str:
    try:
        return names.check_name("project", name)
    except InvalidInput as error:
        raise InvalidInput(
            f"[policies.projects] of {path}: no project is called {name!r}.", error.hint
        ) from None


def _policy(value: object, where: str) -> Policy:
    if not isinstance(value, str) or value not in list(Policy):
        raise InvalidInput(f"Unknown policy {value!r} in {where}.", f"Use one of {', '.join(Policy)}.")
    return Policy(value)


_POLICIES = {"lanes": _lane_prefix, "projects": _project}


def _type_defaults(name: str, table: dict[str, Any], path: Path) -> TypeDefaults:
    values = _checked(table, TYPE_SETTINGS, f"[types.{name}] of {path}")
    if values.get("policy") is not None:
        _policy(values["policy"], f"[types.{name}] of {path}")
    return TypeDefaults(**values)


def _checked(
    table: Mapping[str, Any], known: tuple[Setting, ...], where: str, tables: tuple[str, ...] = ()
) -> dict[str, Any]:
    by_name = {setting.name: setting for setting in known}
    for key in table:
        if key not in by_name:
            near = names.nearest(key, (*by_name, *tables))
            known_names = f"Use {', '.join((*by_name, *tables))}."
            meant = f"Did you mean {near}? " if near else ""
            raise InvalidInput(f"{where} has an unknown key {key!r}.", meant + known_names)
    return {key: _check(by_name[key], f"{key} in {where}", value) for key, value in table.items()}


def listed(text: str | None) -> tuple[str, ...]:
    """The names in a comma-separated text."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _from_text(setting: Setting, text: str) -> Any:
    value: Any = text
    if setting.kind is tuple:
        import json  # noqa: PLC0415

        with contextlib.suppress(ValueError):
            value = json.loads(text)
    elif setting.kind is not str:
        with contextlib.suppress(ValueError):
            value = setting.kind(text)
    return _check(setting, setting.env, value)


def _check(setting: Setting, label: str, value: Any) -> Any:
    if setting.kind is str:
        if not isinstance(value, str):
            raise InvalidInput(f"{label} is not a string.", "Put it in quotes.")
        return value
    if setting.kind is tuple:
        if isinstance(value, list) and value and value[0] and all(_is_argument(part) for part in value):
            return tuple(value)
        raise InvalidInput(
            f"{label} is not {setting.form[0]}.",
            f"Write it as in {setting.form[1]}.",
        )
    kinds = (int,) if setting.kind is int else (int, float)
    if type(value) in kinds and setting.low <= value <= setting.high:
        return setting.kind(value)
    kind = "a whole number" if setting.kind is int else "a number"
    raise InvalidInput(
        f"{label} cannot be {names.number(value) if type(value) in (int, float) else repr(value)}.",
        f"Use {kind} from {names.number(setting.low)} to {names.number(setting.high)}.",
    )


def _is_argument(part: Any) -> bool:
    return isinstance(part, str) and "\x00" not in part
