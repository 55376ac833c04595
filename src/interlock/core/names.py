"""Limits and alphabets: checks of input before it becomes a row, a path or a ref."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from typing import Any, TypeVar

from interlock.core import jsontext
from interlock.core.cures import Cure, cure
from interlock.core.errors import InvalidInput, NotFound, TooLarge
from interlock.core.row import NamedTuple

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

#: Means no agent and no pool, so neither can have this name.
_RESERVED = "none"
NAME_MAX_CHARS = 200
TITLE_MAX_CHARS = 500
URL_MAX_CHARS = 2_000
PAYLOAD_MAX_BYTES = 1 << 20
MESSAGE_MAX_BYTES = 1 << 20
BATCH_MAX = 1_000
#: A search for a label or a text reads at most this many items of each status, the newest first.
SEARCHED = 10_000
#: The most upcoming items of one answer, as each is explained.
UPCOMING_MAX = 50
#: The most rows of a section of a recap.
RECAP_MAX = 100
WAIT_MAX_S = 60.0
LEASE_MIN_S, LEASE_MAX_S = 1.0, 24 * 3600.0
TIMEOUT_MAX_S = 30 * 24 * 3600.0
ATTEMPTS_MAX = 100
PRIORITY_MIN, PRIORITY_MAX = -1000, 1000
POSITION_MAX = 2**31 - 2
RUN_AFTER_MAX_S = 10 * 366 * 24 * 3600.0
#: Rates and spans are measured back to this far at most.
WINDOW_MAX_S = 366 * 24 * 3600
RUN_AT_MAX_US = 253_402_300_799 * 1_000_000  # the last second of 9999

# Letters, digits and a few joiners; no space, no backslash, no control characters. A name may not
# start with a dash (it would read as an option) and no part between slashes may start with a dot or
# end with one or with ".lock", so that every name can also become a ref or, escaped, a file name.
_ALPHABET = re.compile(r"[A-Za-z0-9_@#+=:./\[\]-]+", re.ASCII)
_REPOSITORY = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}", re.ASCII)
_URL = re.compile(r"https?://[^\s\x00-\x20\x7f-\x9f]+")
_ALPHABET_WORDS = "letters, digits and _ @ # + = : . / [ ] -"


def check_name(what: str, value: str) -> str:
    """Return `value` if it is a valid name of a lane, agent, type, project, label or key."""
    if not _is_text(what, value):
        raise InvalidInput(f"The {what} is empty.", f"Use {_ALPHABET_WORDS}.")
    if len(value) > NAME_MAX_CHARS:
        raise TooLarge(f"The {what} has {len(value)} characters.", f"Use at most {NAME_MAX_CHARS}.")
    if not _ALPHABET.fullmatch(value):
        raise InvalidInput(f"The {what} {value!r} contains an invalid character.", f"Use {_ALPHABET_WORDS}.")
    parts = value.split("/")
    if value[0] == "-" or any(not p or p[0] == "." or p[-1] == "." or p.endswith(".lock") for p in parts):
        raise InvalidInput(
            f"The {what} {value!r} could be mistaken for an option, a path or a ref.",
            "Avoid a leading dash, empty parts between slashes, and parts that begin or end with a dot.",
        )
    if ".." in value:
        raise InvalidInput(f"The {what} {value!r} contains '..'.", "Use a single dot.")
    return value


def safe_name(text: str) -> str:
    """A valid name made from any text, such as the name of a host, user or program."""
    name = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9_@+=:.-]+", "-", text, flags=re.ASCII))
    name = re.sub(r"\.lock$", "", name[: NAME_MAX_CHARS // 2]).strip(".-")
    return name if name.lower() not in ("", _RESERVED) else "unnamed"


def agent_key(name: str) -> str:
    """The key under which an agent is compared: trimmed and lower case. Empty, like `none`, is no agent."""
    key = name.strip().lower() if _is_text("agent name", name) else ""
    return check_name("agent name", key) if key not in ("", _RESERVED) else ""


def needed_agent(name: str) -> str:
    """The key of an agent that cannot be left out."""
    key = agent_key(name)
    if key:
        return key
    if name.strip():
        raise InvalidInput(f"The name {_RESERVED} is reserved: it means any agent.", "Use another name.")
    raise InvalidInput("The agent name is empty.", "Pass a name.")


def lane_key(name: str) -> str:
    """A lane's key, or a clear refusal."""
    return folded_lane(check_name("lane", name))


def folded_lane(name: str) -> str:
    """The lane with an `issue:` name in lower case, as GitHub compares repositories without case."""
    return name.lower() if name.lower().startswith("issue:") else name


def issue_number(lane: str) -> int | None:
    """The number in an `issue:` lane; null for other lanes."""
    number = lane.removeprefix("issue:").rpartition("#")[2]
    whole_number = lane.startswith("issue:") and number.isascii() and number.isdecimal()
    return int(number) if whole_number else None


def unknown(what: str, name: str, known: Iterable[str], *cures: Cure) -> NotFound:
    """The refusal of an unknown name; the hint suggests a known one that is spelled alike."""
    near = nearest(name, known)
    hint = f"Did you mean {near}?" if near else ""
    return NotFound(f"There is no {what} {name} in this store.", hint, cures)


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The most similar known name, if it is similar enough."""
    import difflib  # noqa: PLC0415  (only for people who mistype)

    return next(iter(difflib.get_close_matches(name, sorted(filter(None, known)), 1, likeness)), None)


def check_repository(name: str) -> str:
    """Return the name of a repository on GitHub, such as acme/app."""
    if not _is_text("repository", name):
        raise InvalidInput("The repository is missing.", "Pass it as OWNER/NAME, such as acme/app.")
    if not _REPOSITORY.fullmatch(name):
        raise InvalidInput(
            f"{reprlib.repr(name)} is not a repository.", "Pass it as OWNER/NAME, such as acme/app."
        )
    return name


def check_text(what: str, value: str, max_bytes: int = MESSAGE_MAX_BYTES) -> str:
    """Return `value` if every store can keep it: valid Unicode, no NUL, within the limit."""
    try:
        size = len(value.encode()) if _is_text(what, value) else 0
    except UnicodeEncodeError:
        raise InvalidInput(f"The {what} is not valid Unicode.", "Send UTF-8 text.") from None
    if size > max_bytes:
        raise TooLarge(
            f"The {what} has {size:,} bytes.", f"Use at most {max_bytes:,}, or store a link instead."
        )
    if "\x00" in value:
        raise InvalidInput(f"The {what} contains a NUL character.", "Remove it.")
    return value


def check_message(value: str) -> str:
    """Return `value` if it is the text of a message. An empty message would count as an answer."""
    if not check_text("message", value).strip():
        raise InvalidInput("The message is empty.", "Write a message.")
    return value


def check_cause(reason: str, url: str) -> None:
    """Raise unless the reason of a message is a name and its source a URL; either may be empty."""
    if reason != "":
        check_name("reason", reason)
    if url == "":
        return
    if len(check_text("url", url)) > URL_MAX_CHARS:
        raise TooLarge(f"The URL has {len(url)} characters.", f"Use at most {URL_MAX_CHARS:,}.")
    if not _URL.fullmatch(url):
        raise InvalidInput(f"{reprlib.repr(url)} is not a URL.", "Use https://… or http://…, without spaces.")


def check_title(value: str) -> str:
    """Return `value` if it is a valid title: one line within the limit."""
    return _one_line("title", value, ", and put the rest into the message or the payload")


def check_plan_name(value: str) -> str:
    """Return `value` if it is a valid name of a plan: one line like a title."""
    return _one_line("name of the plan", value, ", and put the rest into its tasks")


def _one_line(what: str, value: str, instead: str) -> str:
    if not (_is_text(what, value) and value.strip()):
        raise InvalidInput(f"The {what} is empty.", "Describe the work in a few words.")
    if len(value) > TITLE_MAX_CHARS:
        raise TooLarge(f"The {what} has {len(value)} characters.", f"Use at most {TITLE_MAX_CHARS}{instead}.")
    check_text(what, value)
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise InvalidInput(f"The {what} contains a line break or a control character.", "Use one line.")
    return value


def check_payload(text: str) -> Mapping[str, Any]:
    """Parse a payload: one JSON object within the limit."""
    check_text("payload", text, PAYLOAD_MAX_BYTES)
    try:
        value = jsontext.parse(text)
    except ValueError as error:
        raise InvalidInput(
            f"The payload is not valid JSON: {error}.", 'Pass a JSON object, such as {"a": 1}.'
        ) from None
    if not isinstance(value, dict):
        raise InvalidInput("The payload is not a JSON object.", 'Wrap the value: {"value": …}.')
    return value


def the(what: str) -> str:
    """The subject of a sentence: a noun with its article, an option or a field by its spelling."""
    return what if what.startswith(("-", "`")) or "_" in what else f"The {what}"


def check_number(what: str, value: float, low: float, high: float) -> None:
    """Raise unless `low` <= `value` <= `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float):  # programs may pass anything
        raise InvalidInput(f"{the(what)} {reprlib.repr(value)} is not a number.")
    if not low <= value <= high:
        raise InvalidInput(
            f"{the(what)} {number(value)} is out of range.", f"Use {number(low)} to {number(high)}."
        )


def check_whole(what: str, value: int, low: int, high: int) -> None:
    """Raise unless it is a whole number, and `low` <= `value` <= `high`."""
    check_number(what, whole(what, value), low, high)


def whole(what: str, value: object) -> int:
    """Return `value` if it is a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{the(what)} {reprlib.repr(value)} is not a whole number.")
    return value


def check_flag(what: str, value: object) -> bool:
    """Return `value` if it is true or false: the string "no" would count as true."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{the(what)} is {reprlib.repr(value)}.", "Use true or false.")
    return value


def check_list(what: str, values: Iterable[T]) -> tuple[T, ...]:
    """Return several values as a tuple. A string is no list: each character would count as a value."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | Set):
        raise InvalidInput(f"The {what} {reprlib.repr(values)} are not a list.", 'Use ["one", "two"].')
    return tuple(values)


def pool_key(name: str) -> str:
    """The name by which a pool is compared: trimmed, lower case."""
    key = name.strip().lower() if _is_text("pool", name) else ""
    if key == _RESERVED:
        raise InvalidInput(f"The name {_RESERVED} is reserved: it means no pool.", "Use another name.")
    return check_name("pool", key)


def no_pool(key: str | None) -> NotFound:
    """The refusal of a pool that does not exist, or was removed."""
    create = cure("set_pool", "creates it", name=key, max_concurrency=None)
    return NotFound(f"There is no pool {key} in this store.", cures=(create,))


def check_names(what: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return several names as a tuple."""
    return tuple(check_name(what, value) for value in check_list(f"{what}s", values))


def one_of(what: str, value: object, lawful: type[E]) -> E:
    """Return `value`, a member of an enumeration or its text, as a member."""
    if not isinstance(value, str) or value not in list(lawful):
        *most, last = lawful
        words = f"{', '.join(most)} or {last}"
        raise InvalidInput(f"Unknown {what} {reprlib.repr(value)}.", f"Use {words}.")
    return lawful(value)


def _is_text(what: str, value: str) -> bool:
    """Whether there is any text; raises if it is something else, since programs may pass anything."""
    if not isinstance(value, str):
        raise InvalidInput(f"The {what} {reprlib.repr(value)} is not a string.")
    return bool(value)


def number(value: float) -> str:
    """A number for people: 0.5, 31,622,400. Only numbers beyond every limit are rounded."""
    return f"{max(-1e300, min(value, 1e300)) if isinstance(value, int) else value:,.15g}"


class LaneFields(NamedTuple):
    """Fields of a payload that name an issue and its repository. They are read before the usual ones.

    A dot leads into an object: `object_attributes.iid`.
    """

    issue: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()


USUAL_FIELDS = LaneFields()


def lane_of_payload(payload: Mapping[str, Any], fields: LaneFields = USUAL_FIELDS) -> str | None:
    """The lane of the issue or pull request that a payload names, if any.

    Issues and pull requests share their numbers on GitHub, so both give an `issue:` lane. A number needs a
    repository, unless it is in a field of `fields`. A key such as `PAP-39` needs none.
    """
    repository = _repository(payload, fields.repository)
    for path in fields.issue:
        value = _at(payload, path)
        value = value.strip() if isinstance(value, str) else value
        number = _issue_number(value)
        if number is not None:
            return lane_key(f"issue:{repository}#{number}" if repository is not None else f"issue:{number}")
        if isinstance(value, str) and value:
            return lane_key(f"issue:{value}")
    named: object = None
    for key in ("number", "issue_number", "pr_number", "issue", "pull_request"):
        named = payload.get(key)
        if isinstance(named, Mapping):
            named = named.get("number")
        if named is not None:
            break
    number = _issue_number(named)
    return lane_key(f"issue:{repository}#{number}") if repository is not None and number is not None else None


def _repository(payload: Mapping[str, Any], paths: Iterable[str]) -> str | None:
    usual = payload.get("repository", payload.get("repo"))
    if isinstance(usual, Mapping):
        usual = usual.get("full_name")
    named = (*(_at(payload, path) for path in paths), usual)
    return next((name for name in named if isinstance(name, str)), None)


def _issue_number(value: object) -> int | None:
    """A number from 1 on, as GitHub counts, or its digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def _at(payload: Mapping[str, Any], path: str) -> object:
    """The value at a path of fields; null if there is none."""
    found: object = payload
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
