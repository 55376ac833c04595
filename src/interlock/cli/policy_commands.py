"""`policy`: check the rules for GitHub's events, try them on deliveries, and print their schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import Invocation, invocation_of
from interlock.core.errors import Exit, InvalidInput

if TYPE_CHECKING:
    from interlock.github.rules import Rules

policy = Group("Check the rules for GitHub's events, and try them on deliveries.")

_RULES = Annotated[
    str | None,
    typer.Option("--rules", metavar="FILE", help="The rules; default: .github/interlock.toml."),
]


@policy.callback()
def show_help(ctx: typer.Context) -> int:
    """Check the rules for GitHub's events, and try them on deliveries."""
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help())
    return Exit.OK


@policy.command("check")
def check(
    ctx: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="The rules; default: .github/interlock.toml."),
    ] = None,
) -> int:
    """Find mistakes in the rules; exit 1 if there is one.

    Examples: a rule that can never match, an agent that the store does not know.
    """
    from interlock.github import rulecheck
    from interlock.github.rulefile import FILE_MAX_BYTES

    call = invocation_of(ctx)
    path = _path(file)
    text = _content(str(path), FILE_MAX_BYTES, "Without rules of its own a repository has the defaults.")
    try:
        rules, mistakes = _parsed(text, path)
        own = sum(not rule.name.startswith("default:") for rule in rules.rules)
        findings = tuple(rulecheck.unreadable(str(path), wrong) for wrong in mistakes)
        findings = findings or rulecheck.check(rules, _agents(call))
    except InvalidInput as wrong:
        own, findings = 0, (rulecheck.unreadable(str(path), wrong),)
    call.out.answer(
        {"file": str(path), "rules": own, "findings": findings},
        lambda out: views.policies.findings(out, str(path), own, findings),
    )
    return Exit.ERROR if findings else Exit.OK


@policy.command("test")
def test(
    ctx: typer.Context,
    payloads: Annotated[
        list[str], typer.Argument(metavar="PAYLOAD…", help="Bodies of deliveries; - reads standard input.")
    ],
    *,
    event: Annotated[
        str | None,
        typer.Option(metavar="EVENT", help="Their X-GitHub-Event; default: derived from their content."),
    ] = None,
    rules: _RULES = None,
    outsider: Annotated[
        bool, typer.Option("--outsider", help="Treat the sender as one without write access.")
    ] = False,
) -> int:
    """Print what deliveries would create, and why, rule by rule. Nothing is stored; GitHub is not asked."""
    from interlock.core.record import as_dict
    from interlock.github.delivery import BODY_MAX_BYTES, read
    from interlock.github.rules import default_rules
    from interlock.github.trial import event_of, trial

    call = invocation_of(ctx)
    path = _path(rules)
    chosen = default_rules() if rules is None and not path.exists() else _read(path)
    trials = []
    for name in payloads:
        body = sys.stdin.buffer.read(BODY_MAX_BYTES + 1) if name == "-" else _content(name, BODY_MAX_BYTES)
        delivery = read(event or event_of(body), "trial", body)
        trials.append(trial(delivery, chosen, may_write=not outsider))
    return call.out.answer(
        {"trials": [{"payload": name, **as_dict(each)} for name, each in zip(payloads, trials, strict=True)]},
        lambda out: views.policies.trials(out, list(zip(payloads, trials, strict=True))),
    )


@policy.command("schema")
def schema(ctx: typer.Context) -> int:
    """Print the JSON schema of the rules, for editors."""
    from interlock.github import ruleschema

    call = invocation_of(ctx)
    found = ruleschema.schema()
    return call.out.answer(found, json.dumps(found, indent=2))


def _path(given: str | None) -> Path:
    if given is not None:
        return Path(given)
    from interlock.github.rulefile import PATH
    from interlock.settings.places import here, worktree_root

    root = worktree_root(here())
    return Path(PATH) if root == here() else root / PATH


def _read(path: Path) -> Rules:
    from interlock.github.rulefile import FILE_MAX_BYTES

    rules, mistakes = _parsed(_content(str(path), FILE_MAX_BYTES), path)
    if mistakes:
        raise mistakes[0]
    return rules


def _parsed(text: bytes, path: Path) -> tuple[Rules, list[InvalidInput]]:
    from interlock.github.rulefile import read

    try:
        return read(text.decode("utf-8"), str(path))
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8.", "Save it as UTF-8.") from None


def _content(name: str, most: int, more: str = "") -> bytes:
    """A file's content, cut one byte above the limit."""
    try:
        with Path(name).open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        hint = f"Name a file that exists. {more}".strip()
        raise InvalidInput(f"{name} cannot be read: {error.strerror}.", hint) from None


def _agents(call: Invocation) -> frozenset[str]:
    """The agents that the store knows; none without a store."""
    with call.reading() as service:
        return frozenset(agent.name for agent in service.agents())
