"""Docs that cannot lie: whatever the code has, the reference names, and nothing that is generated is stale.

The names are read from the code and looked for in the pages, apart from how the pages are written.
"""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from docs.generate import REGIONS, ROOT, filled, generated_pages, pages, regions
from docs.generation.limits import shown
from interlock import settings
from interlock.cli.command import ENTRIES
from interlock.cli.parser import root
from interlock.core.errors import Exit
from interlock.core.model import ArrivalDecision, EventKind, Policy, Reason
from interlock.core.states import BIRTHS, ITEM_MOVES, RUN_MOVES, ItemStatus, RunStatus
from interlock.settings import OTHER_VARIABLES, SETTINGS, TYPE_SETTINGS
from tests.docs.pages import REFERENCE, name_of, rows, section

SOURCE = ROOT / "src" / "interlock"


def page(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def commands() -> list[tuple[str, Any]]:
    top: Any = root()
    found = [(name, top.get_command(None, name)) for name in ENTRIES]
    below = [(f"{n} {m}", member) for n, c in found for m, member in getattr(c, "commands", {}).items()]
    return [*found, *below]


def constants(module: str) -> dict[str, float]:
    """Public numbers at the top of a module, read from its text."""
    names: dict[str, Any] = {}
    text = (SOURCE / f"{module}.py").read_text("utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign):
            for name in (n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)):
                names[name] = None
    imported = __import__(f"interlock.{module.replace('/', '.')}", fromlist=["*"])
    values = {name: getattr(imported, name) for name in names if re.fullmatch(r"[A-Z][A-Z_]+", name)}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


@pytest.mark.parametrize("path", list(generated_pages()), ids=name_of)
def test_what_is_generated_is_current(path: Path):
    text = path.read_text("utf-8")
    assert filled(text) == text, f"{name_of(path)} is stale: run `make docs` and commit it"


def test_every_region_stands_on_exactly_one_page():
    used = [name for path in generated_pages() for name in regions(path.read_text("utf-8"))]
    assert sorted(used) == sorted(REGIONS)


@pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])
def test_every_command_is_documented_with_its_options_and_arguments(name: str, command: Any):
    told = section(REFERENCE / "commands.md", f"interlock {name}")
    everywhere = section(REFERENCE / "commands.md", "Everywhere")
    for parameter in command.params:
        spellings = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]
        for spelling in spellings:
            found = rf"`{re.escape(spelling)}[` ]|[ \[]{re.escape(spelling)}[\] \n]"
            place = everywhere if getattr(parameter, "rich_help_panel", None) == "Everywhere" else told
            assert re.search(found, place), f"interlock {name} does not tell of {spelling}"
        if parameter.help:
            assert parameter.help.split(";")[0].replace("|", "\\|") in told + everywhere


def test_options_of_the_command_itself_are_documented():
    top: Any = root()
    for parameter in top.params:
        for spelling in parameter.opts:
            assert f"`{spelling}" in page("commands.md")


def test_no_command_is_documented_that_does_not_exist():
    told = re.findall(r"^### interlock (.+)$", page("commands.md"), re.MULTILINE)
    assert sorted(told) == sorted(name for name, _ in commands())


def test_commands_named_in_running_text_exist():
    there = {name.partition(" ")[0] for name, _ in commands()} | {"--json", "--help"}
    for path in pages():
        for word in re.findall(r"(?:^|`|\$ )interlock ([a-z][a-z-]*)", path.read_text("utf-8"), re.MULTILINE):
            assert word in there, f"{name_of(path)} speaks of `interlock {word}`"


def test_every_setting_is_documented_with_its_variable_default_and_meaning():
    told = rows(section(REFERENCE / "settings.md", "The settings"))
    for setting in SETTINGS:
        row = told[setting.name]
        assert f"`{setting.env}`" in row
        assert " ".join(setting.description.split()) in row
        if setting.default is not None:
            assert f"`{setting.default:g}`" in row
    assert set(told) == {s.name for s in SETTINGS}
    assert set(rows(section(REFERENCE / "settings.md", "Types"))) == {s.name for s in TYPE_SETTINGS}
    assert set(rows(section(REFERENCE / "settings.md", "Other variables"))) == OTHER_VARIABLES


def test_the_configuration_file_of_the_page_is_accepted(tmp_path: Path):
    shown_file = page("settings.md").split("```toml\n")[1].partition("```")[0]
    (tmp_path / "interlock.toml").write_text(shown_file)
    found = settings.load(environ={}, directory=tmp_path)
    assert [held.setting for held in found.withheld] == ["url"]
    assert (found.lease_s, found.types["pr_review"].policy) == (120, "coalesce")


def test_variables_named_in_running_text_exist():
    workflow = (SOURCE / "actions" / "setup_steps.yml").read_text("utf-8")
    of_repositories = set(re.findall(r"\bvars\.(INTERLOCK_[A-Z_]+)", workflow))
    known = {s.env for s in SETTINGS} | OTHER_VARIABLES | of_repositories | {"INTERLOCK_"}
    for path in pages():
        for word in re.findall(r"\bINTERLOCK_[A-Z_]*", path.read_text("utf-8")):
            assert word in known, f"{name_of(path)} speaks of {word}"


def test_every_kind_of_event_is_documented():
    assert set(rows(section(REFERENCE / "events.md", "Kinds"))) == set(EventKind)


def test_every_reason_code_is_documented():
    assert set(rows(page("reason-codes.md"))) == set(Reason)


def test_every_error_code_is_documented_with_its_exit_code():
    text = (SOURCE / "core" / "errors.py").read_text("utf-8")
    told = rows(page("error-codes.md"))
    of_the_command = set(
        re.findall(r'_with_code\(\s*"(\w+)"', (SOURCE / "cli" / "main.py").read_text("utf-8"))
    )
    assert of_the_command
    assert set(told) == set(re.findall(r'^    code = "(\w+)"$', text, re.MULTILINE)) | of_the_command
    assert "| 5 |" in told["lease_lost"]
    assert "| 2 |" in told["usage"]


def test_every_exit_code_is_documented():
    for code in Exit:
        assert f"| {int(code)} | `{code.name}` |" in page("exit-codes.md")
    assert "130" in page("exit-codes.md")


def test_every_state_and_decision_is_documented():
    states = REFERENCE / "states.md"
    assert set(rows(section(states, "Items"))) == set(ItemStatus)
    assert set(rows(section(states, "Runs"))) == set(RunStatus)
    assert set(rows(section(states, "Decisions on an arrival"))) == set(ArrivalDecision)


def test_the_diagrams_show_every_move_and_no_other():
    arrows = re.findall(r"^    (\S+) --> (\w+)", section(REFERENCE / "states.md", "Items"), re.MULTILINE)
    moves = {(before.value, after.value) for before, to in ITEM_MOVES.items() for after in to}
    assert set(arrows) == moves | {("[*]", birth.value) for birth in BIRTHS}
    arrows = re.findall(r"^    (\w+) --> (\w+)", section(REFERENCE / "states.md", "Runs"), re.MULTILINE)
    assert set(arrows) == {(before.value, after.value) for before, to in RUN_MOVES.items() for after in to}


def test_every_policy_is_explained():
    for policy in Policy:
        assert section(ROOT / "docs" / "how-to" / "choose-a-policy.md", policy.value).strip()
        assert f"| `{policy}` |" in (ROOT / "docs" / "explanation" / "lanes-and-policies.md").read_text(
            "utf-8"
        )


@pytest.mark.parametrize("module", ["core/names", "core/timing", "service/sweeper"])
def test_every_limit_is_documented_with_its_value(module: str):
    lines = page("limits.md").splitlines()
    for name, value in constants(module).items():
        row = next((line for line in lines if f"`{module.replace('/', '.')}.{name}`" in line), None)
        assert row, f"{name} is not among the limits"
        assert f"| {shown(name, value)} |" in row
        if name.endswith(("_S", "_MAX")) and value < 1_000:
            assert f"{value:g}" in row


def test_every_answer_of_the_service_is_documented():
    contract = ast.parse((SOURCE / "service/contract.py").read_text("utf-8"))
    views = {n.name: n for n in contract.body if isinstance(n, ast.ClassDef) and n.name.endswith("View")}
    for name, node in views.items():
        told = rows(section(REFERENCE / "json.md", name))
        fields = [
            n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
        ]
        if name in ("LeaseView", "RunView"):  # JSON adds the handle under its own name
            fields.insert(1, "handle")
        assert list(told) == fields


def test_every_method_of_the_service_and_the_client_is_documented():
    for module, kind in (("service/contract", "Service"), ("client", "Interlock"), ("client", "Lease")):
        tree = ast.parse((SOURCE / f"{module}.py").read_text("utf-8"))
        node = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind)
        told = section(REFERENCE / "python.md", kind)
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                assert f"{method.name}(" in told or f"`{method.name}`" in told, f"{kind}.{method.name}"


def test_every_table_and_column_of_the_schema_is_documented(tmp_path: Path):
    import apsw

    from interlock.app import open_service

    open_service(f"sqlite:///{tmp_path}/x.db").close()
    database = apsw.Connection(str(tmp_path / "x.db"))
    names = [r[0] for r in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    assert len(names) > 10
    for name in names:
        if name.startswith("sqlite_") or name == "migrations":
            continue
        columns = {r[1] for r in database.execute(f"PRAGMA table_info({name})")}
        assert columns == set(rows(section(REFERENCE / "schema.md", name))), name
