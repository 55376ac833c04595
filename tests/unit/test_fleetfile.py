"""`fleet.toml`: what it may say, and what is said of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.core.errors import InvalidInput
from interlock.fleet import fleetfile
from interlock.fleet.fleetfile import WORKERS_MAX, WorkerSpec
from interlock.fleet.recipes import RECIPES, fleet_file, script

ONE = '[workers.coder]\ncommand = ["true"]\n'


def parse(text: str, directory: Path = Path("/srv/app")) -> fleetfile.FleetFile:
    return fleetfile.parse(directory / "fleet.toml", text.encode())


def test_a_worker_has_the_options_of_work(tmp_path: Path) -> None:
    (tmp_path / "agent.sh").touch(0o755)
    (worker,) = parse(
        """
        [environment]
        A = "1"
        B = "1"

        [workers.reviewer]
        agent = " Bert "
        command = ["./agent.sh", "--fast"]
        max = 3
        worktree = true
        types = ["review", "docs"]
        labels = ["gpu"]
        lease = "5m"
        account = "bot"
        pool = "shared"
        environment = {B = "2"}

        [pools.Shared]
        max = 4
        """,
        tmp_path,
    ).workers
    assert worker == WorkerSpec(
        name="reviewer",
        agent="Bert",
        command=(f"{tmp_path}/agent.sh", "--fast"),
        max=3,
        worktree=True,
        types=("review", "docs"),
        labels=("gpu",),
        lease_s=300.0,
        account="bot",
        pool="shared",
        environment={"A": "1", "B": "2"},
    )
    assert worker.arguments() == [
        *("--json", "work", "--echo", "--agent", "Bert", "--max", "3", "--worktree"),
        *("--type", "review", "--type", "docs", "--label", "gpu", "--lease", "300s", "--account", "bot"),
        *("--", f"{tmp_path}/agent.sh", "--fast"),
    ]


def test_what_is_left_out_has_a_default() -> None:
    (worker,) = parse(ONE).workers
    assert worker == WorkerSpec(name="coder", agent="coder", command=("true",))


@pytest.mark.parametrize("change", ["max = 2", 'labels = ["gpu"]', 'environment = {A = "1"}', 'lease = "9s"'])
def test_an_entry_that_changes_is_another_worker(change: str) -> None:
    (before,), (after,) = parse(ONE).workers, parse(ONE + change).workers
    assert before.identity() != after.identity()
    assert before.identity() == parse("# a remark\n" + ONE).workers[0].identity()


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        ("", "/srv/app/fleet.toml names no worker.", "[workers.coder]"),
        ("[workers]\n", "/srv/app/fleet.toml names no worker.", "[workers.coder]"),
        (
            "a = ",
            "/srv/app/fleet.toml is not valid TOML: Invalid value (at end of document).",
            "Fix the line",
        ),
        (
            "[worker.a]\n",
            "worker in /srv/app/fleet.toml, line 1: the key is unknown.",
            "Did you mean workers?",
        ),
        (
            "workers = 3\n",
            "workers in /srv/app/fleet.toml, line 1: it is not a table of tables.",
            "[workers.NAME]",
        ),
        ("[workers]\na = 3\n", "workers.a in /srv/app/fleet.toml, line 2: it is not a table.", "[workers.a]"),
        (
            "[workers.a]\nmax = 1\n",
            "workers.a in /srv/app/fleet.toml, line 1: it has no command.",
            "command = [",
        ),
        ('\n[workers."a b"]\n', "line 2: the worker 'a b' has an invalid name.", "Use letters"),
        ('[workers."../a"]\ncommand = ["true"]\n', "the worker '../a' has an invalid name.", "Use letters"),
        (
            '[workers.a]\ncommand = "true"\n',
            "workers.a.command in /srv/app/fleet.toml, line 2: it is not a list",
            "[",
        ),
        ("[workers.a]\ncommand = []\n", "line 2: it is not a list of a program", "["),
        ('[workers.a]\ncommand = [""]\n', "line 2: it is not a list of a program", "["),
        (
            '[workers.a]\ncommand = ["no-such"]\n',
            "the command 'no-such' cannot be started: program not",
            "PATH",
        ),
        ('[workers.a]\ncommand = ["./x.sh"]\n', "the command '/srv/app/x.sh' cannot be started", "spelling"),
        (ONE + "max = 0\n", "workers.coder.max in /srv/app/fleet.toml, line 3: it cannot be 0.", "from 1 to"),
        (ONE + "max = true\n", "line 3: it cannot be True.", "whole number"),
        (ONE + 'max = "2"\n', "line 3: it cannot be '2'.", "whole number"),
        (
            ONE + 'worktree = "yes"\n',
            "workers.coder.worktree in /srv/app/fleet.toml, line 3",
            "true or false",
        ),
        (
            ONE + 'types = "a"\n',
            "workers.coder.types in /srv/app/fleet.toml, line 3: it is not a list.",
            '["type"]',
        ),
        (ONE + 'labels = ["a b"]\n', "line 3: the label 'a b' contains an invalid character.", "Use letters"),
        (ONE + "lease = 5\n", "workers.coder.lease in /srv/app/fleet.toml, line 3: it cannot be 5.", '"5m"'),
        (ONE + 'lease = "soon"\n', "workers.coder.lease in /srv/app/fleet.toml, line 3", ""),
        (ONE + 'lease = "0.1s"\n', "workers.coder.lease in /srv/app/fleet.toml, line 3", ""),
        (ONE + 'agent = "none"\n', "line 3: the name none is reserved", "another name"),
        (
            ONE + 'account = " "\n',
            "workers.coder.account in /srv/app/fleet.toml, line 3: it is empty.",
            "omit",
        ),
        (
            ONE + "[workers.coder.environment]\nA = 1\n",
            "workers.coder.environment.A in /srv/app/fleet.toml, line 4",
            "quotes",
        ),
        (ONE + 'environment = {"A B" = "1"}\n', "line 3: 'A B' is no name of a variable.", "Use letters"),
        (ONE + "exit_when_idle = true\n", "workers.coder.exit_when_idle in", "Use agent, command"),
        (
            ONE + "[pools.p]\nmax = 1\n",
            "pools.p in /srv/app/fleet.toml, line 3: no worker is in this pool.",
            'pool = "p"',
        ),
        (
            ONE + 'pool = "p"\n[pools.p]\n',
            "pools.p in /srv/app/fleet.toml, line 4: it has no max.",
            "max = 2",
        ),
        (
            ONE + '[workers.b]\nagent = "CODER"\ncommand = ["true"]\npool = "p"\n',
            "workers.b.pool in /srv/app/fleet.toml, line 6: another worker of the agent CODER names",
            "same pool",
        ),
        (
            "".join(f'[workers.w{n}]\ncommand = ["true"]\n' for n in range(WORKERS_MAX + 1)),
            "names 101 workers, and the limit is 100.",
            "max",
        ),
    ],
)
def test_a_mistake_is_named_with_its_key_and_line(text: str, sentence: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert sentence in caught.value.sentence
    assert "\n" not in caught.value.sentence
    assert caught.value.sentence.endswith(".")
    assert hint in caught.value.hint
    assert caught.value.hint


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not valid TOML"):
        fleetfile.parse(tmp_path / "fleet.toml", b"\xff\xfe")
    (tmp_path / "fleet.toml").mkdir()
    with pytest.raises(InvalidInput, match="it is a directory"):
        fleetfile.find(tmp_path / "fleet.toml")


def test_one_file_has_one_name(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "link").symlink_to("app")
    (tmp_path / "app" / "fleet.toml").touch()
    names = {fleetfile.find(tmp_path / way / "fleet.toml")[0] for way in ("app", "link", "app/../link/.")}
    assert names == {(tmp_path / "app" / "fleet.toml").resolve()}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("in_git", [True, False])
def test_recipes_are_files_that_can_be_read(tmp_path: Path, name: str, *, in_git: bool) -> None:
    (tmp_path / "agent.sh").touch(0o755)
    recipe = RECIPES[name]
    text = fleet_file(recipe, in_git=in_git)
    (worker,) = parse(text, tmp_path).workers
    assert (worker.agent, worker.worktree) == (name, in_git)
    assert worker.command == (str(tmp_path / "agent.sh"),)
    remarks = [line[1:] if line[:1] == "#" and line[1:2].strip() else line for line in text.splitlines()]
    every = "\n".join(remarks)
    assert parse(every, tmp_path).workers[0].types == ("issue_triage",), "the remarks are right, too"
    assert '"$prompt"' in script(recipe)
    assert max(map(len, (text + script(recipe)).splitlines())) <= 100
