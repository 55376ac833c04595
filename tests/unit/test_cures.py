"""Cures name operations that exist, with arguments that every shell accepts."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import interlock
from interlock.cli import cures as command_line
from interlock.cli import parser
from interlock.core.cures import Cure, cure, hint, python_call
from interlock.core.errors import NotFound
from interlock.http.cures import request_line
from interlock.http.problems import problem_of
from interlock.mcp.answer_conversion import tool_call
from interlock.mcp.tools import NAMES, Tools
from interlock.remote.connection import ServerAnswer, error_of
from interlock.service.operations import BY_NAME
from tests.cures import BLANKS, arguments, filled

SOURCE = Path(interlock.__file__).parent
#: What a test writes for an argument whose value is computed.
VALUES: dict[str, Any] = BLANKS | {
    "blocker": "acme/app#3",
    "item": 7,
    "labels": ["gpu"],
    "plan": 3,
    "project": "acme",
    "per": "day",
    "repository": "acme/app",
    "scope": "agent",
    "token": "tok_1",
    "types": ["review"],
    "when_spent": "finish",
}


class Found(NamedTuple):
    """A cure in the sources."""

    place: str
    cure: Cure


def trees(*packages: str) -> Iterator[tuple[Path, ast.Module]]:
    for package in packages:
        for path in sorted((SOURCE / package).rglob("*.py")):
            yield path, ast.parse(path.read_text("utf-8"))


def is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def written() -> Iterator[Found]:
    """Every cure that is made in the sources, with a value for each argument that is not left blank."""
    for path, tree in trees("."):
        for node in ast.walk(tree):
            if not is_call(node, "cure") or not isinstance(node, ast.Call) or path.name == "cures.py":
                continue
            operation = _text(node.args[0])
            assert operation is not None, "an operation is named where its cure is made"
            given = {each.arg: _value(each.arg, each.value) for each in node.keywords if each.arg is not None}
            if any(each.arg is None for each in node.keywords):
                given["item"] = 7  # the only argument that a cure may have or not
            if operation == "take_back" and "run" in given:
                given["run"] = 5  # the number of a run; elsewhere `run` is a handle
            effect = _text(node.args[1]) or "does it"
            place = f"{path.relative_to(SOURCE)}:{node.lineno}"
            yield Found(place, Cure(operation=operation, arguments=given, effect=effect))


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _value(name: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        constant = isinstance(node, ast.Name) and node.id == "FROM_PERSON"
        return {"kind": "person"} if constant else {"agent": "coder"} if name == "wanted" else VALUES[name]


CURES = list(written())


@pytest.fixture(params=CURES, ids=lambda found: found.place)
def found(request: pytest.FixtureRequest) -> Cure:
    made: Found = request.param
    return made.cure


def test_there_are_cures() -> None:
    assert len(CURES) > 30


def test_its_operation_exists_and_takes_its_arguments(found: Cure) -> None:
    operation = BY_NAME[found.operation]
    known = {parameter.name: parameter for parameter in operation.parameters}
    assert found.arguments.keys() <= known.keys()
    missing = {name for name, each in known.items() if each.needed} - found.arguments.keys()
    assert not missing - {"types"}, f"{found.operation} needs {missing}"
    assert re.fullmatch(r"[a-z]+s\b[^\n]*[^.]", found.effect), "a clause in the third person"


def test_a_server_reads_its_request(found: Cure) -> None:
    assert arguments(filled(found)).keys() >= found.arguments.keys() - {"changes", "wanted"}
    line = request_line(found)
    assert line is not None
    assert re.match(r"(GET|POST|PUT|PATCH) /v1/\S+", line)


def test_a_program_calls_it_by_its_signature(found: Cure) -> None:
    text = python_call(filled(found))
    called = ast.parse(text, mode="eval").body
    assert isinstance(called, ast.Call)
    names = [parameter.name for parameter in BY_NAME[found.operation].parameters]
    assert len(called.args) <= 1
    if called.args:
        assert names[0] == next(iter(found.arguments)), "only the first parameter goes by its position"


def test_the_command_line_reads_its_command(found: Cure) -> None:
    assert found.arguments.keys() - {"sender"} <= _spelled(found.operation), "an option for each argument"
    line = command_line.command(filled(found, operations="edit.yaml"))
    assert line is not None
    _parse(shlex.split(line)[1:])
    blank = command_line.command(found)
    assert blank is not None
    assert len(shlex.split(blank)) == len(shlex.split(line))


def _spelled(operation: str) -> set[str]:
    """The arguments that the command of an operation has words for."""
    names = set(re.findall(r"\{(\w+)", command_line.COMMANDS[operation]))
    # A command takes an item from the run that has it now.
    others = {"items": {"wanted"}, "edit": {"changes"}, "take_back": {"run"}}
    return names | others.get(operation, set())


def _parse(args: list[str]) -> None:
    """Read a line as the command line does, and run nothing."""
    command: Any = parser.root()
    context = command.make_context("interlock", list(args))
    while context._protected_args or (context.args and hasattr(command, "resolve_command")):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("operation", command_line.COMMANDS)
def test_every_command_is_of_an_operation(operation: str) -> None:
    known = {parameter.name for parameter in BY_NAME[operation].parameters}
    assert _spelled(operation) <= known | {"title", "agent", "lane"} | set(_FLAT.get(operation, ()))


#: The parts of a filter and of changes are beside the other arguments.
_FLAT = {
    "items": ("all", "statuses", "asking", "lane", "agent", "project", "type"),
    "edit": ("title", "priority", "agent", "type", "labels", "position", "run_at"),
}


def test_a_tool_takes_what_a_cure_gives_it() -> None:
    for each in CURES:
        call = tool_call(filled(each.cure))
        if call is None:
            continue
        read = ast.parse(call, mode="eval").body
        assert isinstance(read, ast.Call)
        assert isinstance(read.func, ast.Name)
        assert read.func.id in NAMES
        taken = getattr(Tools, read.func.id).__annotations__
        assert {keyword.arg for keyword in read.keywords} <= taken.keys(), each.place


def test_each_shell_renders_a_cure_in_its_own_syntax() -> None:
    again = cure("retry", "gives it another attempt", item=7)
    assert command_line.command(again) == "interlock retry 7"
    assert request_line(again) == "POST /v1/items/7/retry"
    assert python_call(again) == "retry(7)"
    assert tool_call(again) is None
    said = cure("msg", "answers it", item=7, text=None)
    assert command_line.command(said) == "interlock msg 7 TEXT"
    assert request_line(said) == 'POST /v1/items/7/messages {"text": "…"}'
    assert python_call(said) == "msg(7, text=...)"
    assert tool_call(said) == "send_message(item=7, text=…)"
    lists = cure("items", "lists them", wanted={"all": True, "statuses": ["failed"]})
    assert command_line.command(lists) == "interlock ls --all --status failed"
    assert request_line(lists) == "GET /v1/items?all=true&statuses=failed"
    assert python_call(lists) == "items(ItemFilter(all=True, statuses=['failed']))"
    resume = cure("pause_project", "resumes it", project="it's acme", paused=False, why="")
    assert command_line.command(resume) == """interlock resume project 'it'"'"'s acme'"""


def test_a_hint_is_the_advice_and_what_the_shell_can_perform() -> None:
    cures = (cure("retry", "gives it another attempt", item=7), cure("no_such", "does nothing"))
    told = hint("Look at its error first.", cures, command_line.command)
    assert told == "Look at its error first. `interlock retry 7` gives it another attempt."


def test_a_client_reads_an_error_back_and_renders_it_in_its_own_syntax() -> None:
    error = NotFound("There is no item 9.", "Look.", (cure("show", "shows it", item=9),), fields=("why",))
    sent = problem_of(error)
    body = json.loads(bytes(sent.body))
    assert body["hint"] == "Look. `GET /v1/items/9` shows it."
    read = error_of(ServerAnswer(status=sent.status_code, value=body, retry_after_s=0.0))
    assert (read.sentence, read.hint, read.cures) == (error.sentence, error.hint, error.cures)
    assert read.fields == error.fields
    assert command_line.hint_of(read) == "Look. `interlock show 9` shows it."


# -- fields -----------------------------------------------------------------------------------------


def test_fields_of_errors_are_named_in_their_sentences_and_are_options() -> None:
    options = {each for line in _help() for each in re.findall(r"--[a-z-]+", line)}
    seen = 0
    for path, tree in trees("core", "service"):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            named = next((each.value for each in node.keywords if each.arg == "fields"), None)
            if not isinstance(named, ast.Tuple):
                continue
            fields = [field for each in named.elts if (field := _text(each)) is not None]
            said = " ".join(text for each in ast.walk(node) if (text := _text(each)) is not None)
            for field in fields:
                seen += 1
                starred = any(isinstance(each, ast.Starred) for each in node.args)
                assert starred or f"`{field}`" in said, f"{path}:{node.lineno}"
                assert command_line.option(field) in options or field in _ONLY_IN_JSON, field
    assert seen > 10


#: Fields of items in batches and requests, which the command line spells in another way.
_ONLY_IN_JSON = {"run_after"}


def _help() -> Iterator[str]:
    for path, tree in trees("cli"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("--"):
                yield node.value
            elif isinstance(node, ast.arg) and path.name.endswith(
                ("_command.py", "_commands.py", "options.py")
            ):
                yield f"--{node.arg.strip('_').replace('_', '-')}"
