"""Reads and checks a repository's file of rules, and names every mistake by its rule."""

from __future__ import annotations

import reprlib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from interlock.core.errors import InvalidInput
from interlock.core.model import Policy
from interlock.core.names import (
    LEASE_MIN_S,
    TIMEOUT_MAX_S,
    agent_key,
    check_flag,
    check_name,
    check_number,
)
from interlock.github.rules import DEFAULTS, ENDING, EVENTS, PRIORITIES, Rule, RuleAction, Rules
from interlock.service.item_fields import choice, span_s

T = TypeVar("T")
#: The path of the file. It is read from the default branch only: a pull request must not choose its rules.
PATH = ".github/interlock.toml"
FILE_MAX_BYTES = 1 << 18
RULES_MAX = 200
PRIORITY_MAX = 1_000
_TOP = (
    "rule",
    "agents",
    "priorities",
    "anyone_wakes",
    "sub_issues_block",
    "progress_comments",
    "lane_status",
    "defaults",
)
_FIELDS = (
    "event", "action", "label", "author", "title", "path", "draft", "branch", "check", "conclusion",
    "do", "type", "priority", "lane", "agent", "policy", "timeout",
)  # fmt: skip


def parse(text: str, source: str = PATH) -> Rules:
    """Read a repository's rules. The defaults come after its own, unless the file excludes them."""
    rules, mistakes = read(text, source)
    if mistakes:
        raise mistakes[0]
    return rules


def read(text: str, source: str = PATH) -> tuple[Rules, list[InvalidInput]]:
    """The readable rules, and every mistake of form."""
    if len(text.encode()) > FILE_MAX_BYTES:
        raise InvalidInput(f"{source} is larger than {FILE_MAX_BYTES:,} bytes.", "Use fewer rules.")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{source} is not valid TOML: {error}.") from None
    wrong = _Mistakes()
    wrong.known(source, table, _TOP)
    own = table.get("rule", [])
    if not isinstance(own, list) or not all(isinstance(each, dict) for each in own):
        raise InvalidInput(f"`rule` in {source} is not a list of tables.", "Begin each rule with [[rule]].")
    if len(own) > RULES_MAX:
        raise InvalidInput(f"{source} has {len(own)} rules.", f"At most {RULES_MAX} are allowed.")

    def flag(field: str, *, default: bool) -> bool:
        return wrong.try_(default, check_flag, f"`{field}` in {source}", table.get(field, default))

    rules = tuple(_rule(f"rule {n} of {source}", each, wrong) for n, each in enumerate(own, 1))
    agents: Mapping[str, Any] = wrong.try_({}, _table, source, table, "agents", str)
    priorities: Mapping[str, Any] = wrong.try_({}, _table, source, table, "priorities", int)
    found = Rules(
        rules=rules + (DEFAULTS if flag("defaults", default=True) else ()),
        agents={key.lower(): wrong.try_("", agent_key, value) for key, value in agents.items()},
        priorities={
            **PRIORITIES,
            **{
                key.lower(): wrong.try_(0, _priority, f"priority of '{key}'", value)
                for key, value in priorities.items()
            },
        },
        anyone_wakes=flag("anyone_wakes", default=False),
        sub_issues_block=flag("sub_issues_block", default=True),
        progress_comments=flag("progress_comments", default=False),
        lane_status=flag("lane_status", default=True),
    )
    return found, wrong.found


class _Mistakes:
    """Collects mistakes, so that people see all of them at once."""

    def __init__(self) -> None:
        self.found: list[InvalidInput] = []

    def try_(self, default: T, check: Callable[..., Any], *args: Any) -> T:
        """The result of a check; the default if the check fails."""
        try:
            found: T = check(*args)
        except InvalidInput as mistake:
            self.found.append(mistake)
            return default
        return found

    def known(self, name: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        for field in sorted(set(table) - set(known)):
            hint = f"Use one of {', '.join(known)}."
            self.found.append(InvalidInput(f"{_start(name)} has the unknown field '{field}'.", hint))


def _rule(name: str, table: Mapping[str, Any], wrong: _Mistakes) -> Rule:
    wrong.known(name, table, _FIELDS)
    events: tuple[str, ...] = wrong.try_((), _events, name, table)
    given = wrong.try_(
        RuleAction.CREATE, choice, f"`do` of {name}", table.get("do", RuleAction.CREATE), tuple(RuleAction)
    )
    does, kind = RuleAction(given), table.get("type", "")
    if does is RuleAction.CREATE and not kind:
        hint = 'Add the type of its items: type = "issue_triage".'
        wrong.found.append(InvalidInput(f"{_start(name)} has no type.", hint))
    priority, timeout = table.get("priority"), table.get("timeout")
    # An item for the end of a number is no message to the run that ended the number.
    usual = Policy.QUEUE if events and {*events} <= {*ENDING} else Policy.COALESCE
    policy, draft = table.get("policy", usual), None
    if "draft" in table:
        draft = wrong.try_(None, check_flag, f"`draft` of {name}", table["draft"])
    return Rule(
        name=name,
        events=events,
        labels=wrong.try_((), _words, name, table, "label"),
        authors=wrong.try_((), _words, name, table, "author"),
        titles=wrong.try_((), _words, name, table, "title"),
        paths=wrong.try_((), _words, name, table, "path"),
        draft=draft,
        branches=wrong.try_((), _words, name, table, "branch"),
        checks=wrong.try_((), _words, name, table, "check"),
        conclusions=wrong.try_((), _words, name, table, "conclusion"),
        does=does,
        type=wrong.try_("", check_name, "type", kind) if kind else "",
        priority=None if priority is None else wrong.try_(None, _priority, f"priority of {name}", priority),
        lane=wrong.try_("", _lane, name, table.get("lane", "")),
        agent=wrong.try_("", agent_key, table["agent"]) if table.get("agent") else "",
        policy_named="policy" in table,
        policy=Policy(wrong.try_(Policy.COALESCE, choice, f"`policy` of {name}", policy, tuple(Policy))),
        timeout_s=None if timeout is None else wrong.try_(None, _timeout, f"timeout of {name}", timeout),
    )


def _events(name: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    """The events that `event` and `action` name: `issues.labeled`, `issues.*`, or `issues` with an action."""
    actions = _words(name, table, "action")
    wanted = [
        f"{event}.{action}" if action else event
        for event in _words(name, table, "event")
        for action in (actions or ("*" if "." not in event and event not in EVENTS else "",))
    ]
    found = [
        [
            e
            for e in EVENTS
            if e == each or (each.endswith(".*") and e.startswith(each[:-1]) and e not in ENDING)
        ]
        for each in wanted
    ]
    for each, events in zip(wanted, found, strict=True):
        if not events:
            raise InvalidInput(
                f"{_start(name)} has the event '{each}', which creates no work.",
                f"Use one of {', '.join(EVENTS)}.",
            )
    if not wanted:
        raise InvalidInput(f"{_start(name)} has no event.", 'Add event = "issues.labeled" or another.')
    return tuple(dict.fromkeys(e for events in found for e in events))


def _words(name: str, table: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = table.get(field, [])
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
        raise InvalidInput(
            f"`{field}` of {name} is {reprlib.repr(value)}.", "Use a text, or a list of texts."
        )
    return tuple(words)


def _lane(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"`lane` of {name} is {reprlib.repr(value)}.", "Use a text.")
    try:
        example = value.format(repository="acme/app", number=1)
    except (KeyError, IndexError, ValueError, AttributeError):
        raise InvalidInput(
            f"`lane` of {name} has braces around something else.",
            "Only {repository} and {number} are filled in.",
        ) from None
    return value if not value or check_name("lane", example) else ""


def _timeout(what: str, value: object) -> float:
    seconds = span_s(what, value)
    check_number(what, seconds, LEASE_MIN_S, TIMEOUT_MAX_S)
    return seconds


def _priority(what: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"The {what} is {reprlib.repr(value)}.", "Use a whole number.")
    number = value
    if abs(number) > PRIORITY_MAX:
        raise InvalidInput(f"The {what} is {number}.", f"Use {-PRIORITY_MAX} to {PRIORITY_MAX}.")
    return number


def _table(source: str, table: Mapping[str, Any], field: str, kind: type) -> Mapping[str, Any]:
    value = table.get(field, {})
    if not isinstance(value, dict) or not all(isinstance(each, kind) for each in value.values()):
        what = "texts" if kind is str else "whole numbers"
        raise InvalidInput(f"[{field}] in {source} is not a table of {what}.")
    return value


def _start(name: str) -> str:
    return name[:1].upper() + name[1:] if name.startswith("rule") else name
