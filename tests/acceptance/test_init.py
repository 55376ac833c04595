"""`init`, and looking at a store that is not there yet."""

import os
import pty
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from interlock import settings
from interlock.cli.init_command import example
from tests.acceptance.command import PROGRAM, Command, CommandHere
from tests.git_fixtures import git
from tests.patience import PATIENCE_S


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", str(tmp_path / "clone"))
    return tmp_path / "clone"


def test_init_says_the_store_and_writes_a_file_that_git_sees(clone: Path):
    il = CommandHere(clone)
    answer = il("init")
    assert answer.code == 0
    assert f"The store is {clone}/.git/interlock/interlock.db.\n" in answer.out
    assert f"Wrote {clone}/interlock.toml: commit it.\n" in answer.out
    assert git(clone, "status", "--porcelain") == "?? interlock.toml"
    assert not (clone / ".git" / "interlock").exists(), "it needs no store"
    again = il("--json", "init").json
    assert (again["written"], again["hook"], again["pre_push"]) == (False, None, None)


def test_what_was_there_stays(clone: Path):
    (clone / "interlock.toml").write_text("lease_s = 30\n")
    assert "stays unchanged" in CommandHere(clone)("init").out
    assert (clone / "interlock.toml").read_text() == "lease_s = 30\n"


def test_the_file_has_every_default_that_a_repository_may_choose(tmp_path: Path):
    usual = settings.load(environ={}, directory=tmp_path)
    file = tmp_path / "interlock.toml"
    file.write_text(example())
    assert settings.load(environ={}, directory=tmp_path) == usual
    lines = example().splitlines()
    file.write_text("\n".join(line.removeprefix("#") for line in lines if not line.startswith("# ")))
    chosen = settings.load(environ={}, directory=tmp_path)
    for setting in settings.SETTINGS:
        if setting.from_repository is settings.FromRepository.YES:
            assert f"#{setting.name} = " in example()
            assert (getattr(chosen, setting.name) or None) == (getattr(usual, setting.name) or None)
    assert {held.setting for held in chosen.withheld} >= {
        "actor",
        "retention_s",
        "on_dead_letter",
        "on_question",
    }
    assert all(f"\n#{setting.name} = " in example() for setting in settings.SETTINGS)
    assert chosen.types["pr_review"].policy == "coalesce"
    assert chosen.policies.lanes == {"issue:": "coalesce"}
    assert chosen.policies.projects == {"shop": "supersede"}
    assert max(map(len, lines)) <= 100


def test_hooks_are_installed_when_asked_for(clone: Path):
    answer = CommandHere(clone)("--json", "init", "--hook", "--pre-push").json
    assert "interlock hook" in Path(answer["hook"]).read_text()
    assert Path(answer["pre_push"]).is_file()


def test_a_person_at_a_terminal_is_offered_the_hooks(clone: Path):
    master, slave = pty.openpty()
    asked = subprocess.Popen(
        [*PROGRAM, "init"],
        cwd=clone,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=Command(clone).environment(None),
    )
    os.write(master, b"y\nn\n")
    assert asked.wait(PATIENCE_S) == 0
    os.close(slave)
    said = os.read(master, 1 << 16).decode().replace("\r\n", "\n")
    os.close(master)
    said = said.replace(str(clone), "/home/sam/app")
    assert said.index("The store is") < said.index("Install it in .claude/settings.json? [y/N]: ")
    assert max(map(len, said.splitlines())) <= 80
    assert (clone / ".claude" / "settings.json").is_file()
    assert not (clone / ".git" / "hooks" / "pre-push").exists()


@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["Ctrl-C", "Ctrl-D"])
@pytest.mark.parametrize("line", [["init"], ["--no-color", "init", "--hook", "--hook"]])
def test_a_question_that_is_not_answered_ends_it_quietly(clone: Path, key: bytes, line: list[str]):
    """Taken out: `Abort`. It printed "Unexpected error: Abort." and asked to report it."""
    master, slave = pty.openpty()
    asked = subprocess.Popen(
        [*PROGRAM, *line],
        cwd=clone,
        env=Command(clone).environment({"COLUMNS": "80"}),
        stdin=slave,
        stdout=slave,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    said = b""
    while b"[y/N]" not in said:
        said += os.read(master, 1 << 16)
    if key == b"\x04":
        os.write(master, key)
    while key == b"\x03" and asked.poll() is None:
        # As a terminal of its own would. Python notices a signal that comes just before it begins to read
        # only when the read ends, so a person presses the key again.
        asked.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            asked.wait(PATIENCE_S / 60)
    _, errors = asked.communicate(timeout=PATIENCE_S)
    os.close(slave)
    os.close(master)
    assert (asked.returncode, errors.strip()) == (130, b"")
    assert (clone / "interlock.toml").is_file()


def test_outside_of_git_there_is_no_pre_push(tmp_path: Path):
    il = CommandHere(tmp_path)
    assert "push" not in il("init").out
    assert "no git repository" in il("--json", "init", "--pre-push").error["message"]


def test_a_bare_repository_has_no_place_for_the_file(tmp_path: Path):
    git(tmp_path, "init", "--quiet", "--bare", str(tmp_path / "bare"))
    assert "bare" in CommandHere(tmp_path / "bare")("--json", "init").error["message"]


LISTINGS: dict[str, dict[str, list[object]]] = {
    "ls": {"items": []},
    "events": {"events": []},
    "agents": {"agents": []},
    "lanes": {"lanes": []},
    "plan": {"plans": []},
}


@pytest.mark.parametrize("command", [*LISTINGS, "pause", "stats", "lanes mode", "doctor", "top"])
def test_looking_makes_no_store(clone: Path, command: str):
    il = CommandHere(clone)
    answer = il("--json", *command.split())
    assert answer.code == 0
    assert answer.json == LISTINGS.get(command, answer.json)
    assert sorted(path.name for path in clone.iterdir()) == [".git"]
    assert not (clone / ".git" / "interlock").exists()


def test_looking_makes_no_schema_in_an_empty_database(tmp_path: Path, pg_empty18: str):
    il = CommandHere(tmp_path, url=pg_empty18)
    assert il("--json", "ls").json == {"items": []}
    assert il("ls").out.startswith("Nothing is waiting or running.\nThere is no store yet: postgresql://")
    assert il("--json", "migrate", "--check").json["version"] == 0


@pytest.mark.parametrize(
    "command",
    [
        ["show", "1"],
        ["why", "1"],
        ["plan", "show", "1"],
        ["events", "--follow"],
        ["plan", "watch", "1"],
        ["top"],
    ],
)
def test_what_must_be_there_is_refused_where_there_is_no_store(clone: Path, command: list[str]):
    answer = CommandHere(clone)(*command)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"There is no store yet: {clone}/.git/interlock/interlock.db.\n")
    assert not (clone / ".git" / "interlock").exists()


@pytest.mark.parametrize("command", LISTINGS)
def test_an_empty_listing_names_its_store(clone: Path, command: str):
    il = CommandHere(clone)
    where = f"{clone}/.git/interlock/interlock.db.\n"
    assert il(command).out.endswith(f"There is no store yet: {where}")
    il.ok("lanes", "mode", "enforce", "--prefix", "x")
    if command == "events":
        assert "mode.set" in il(command).out
    else:
        assert il(command).out.endswith(f"Looked in {where}")
