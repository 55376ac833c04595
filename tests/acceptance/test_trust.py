"""Trust: a stranger's repository chooses nothing that could harm whoever clones it."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock import settings
from interlock.core.errors import InvalidInput, NotTrusted
from tests.acceptance.command import Command, CommandHere
from tests.git_fixtures import git

SHARED, LOCAL = "interlock.toml", ".interlock/config.toml"


class Stranger:
    """A clone of a stranger's repository, and the user who made it."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.clone = directory / "clone"
        git(directory, "init", "--quiet", str(self.clone))
        self.environ = {"HOME": str(self.home), "USER": "alice"}
        self.il: Command = CommandHere(
            self.clone, env={"HOME": str(self.home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
        )

    def write(self, text: str, name: str = SHARED) -> None:
        path = self.clone / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def write_own(self, text: str) -> None:
        own = self.home / ".config" / "interlock" / "config.toml"
        own.parent.mkdir(parents=True)
        own.write_text(text)

    def load(self, **environ: str) -> settings.Settings:
        return settings.load(environ=self.environ | environ, directory=self.clone)

    def trust(self) -> None:
        assert self.il("trust").code == 0


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    return Stranger(tmp_path)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server of the stranger's, which must hear of nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def called(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("name", [SHARED, LOCAL])
@pytest.mark.parametrize(
    "command", [["ls"], ["add", "x"], ["migrate"], ["hold", "lane:1", "--", "true"], ["doctor"]]
)
def test_a_clone_sends_nothing_to_a_host_of_its_own_choice(
    stranger: Stranger, listener: socket.socket, command: list[str], name: str
):
    port = listener.getsockname()[1]
    stranger.write(f'url = "postgresql://u:secret@127.0.0.1:{port}/x"\n', name)
    answer = stranger.il("--json", *command)
    assert (answer.code, answer.error["code"]) == (1, "not_trusted")
    assert str(stranger.clone / name) in answer.error["message"]
    assert "secret" not in answer.out
    assert not called(listener)
    assert not (stranger.clone / ".git" / "interlock").exists()
    if command == ["ls"]:
        stranger.trust()
        stranger.il("ls", env={"INTERLOCK_BUSY_TIMEOUT_S": "0"})
        assert called(listener)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///x?host=/tmp/stranger",
        "git+https://stranger.example/x.git",
        "git+ssh://-oProxyCommand=touch%20pwned/x.git",
        "git+file:///tmp/stranger.git",
        "sqlite:////tmp/elsewhere.db",
        "sqlite:///../elsewhere.db",
        "sqlite:///sub/../../elsewhere.db",
        "sqlite:///.git/hooks/post-checkout",
        "sqlite:///linked/elsewhere.db",
        "sqlite:///tmp/elsewhere.db",
    ],
)
def test_a_store_outside_of_the_repository_needs_trust(stranger: Stranger, url: str):
    (stranger.clone / "linked").symlink_to(stranger.clone.parent)
    stranger.write(f'url = "{url}"\n')
    with pytest.raises(NotTrusted):
        stranger.load().check_store()
    stranger.trust()
    assert stranger.load().url == url
    stranger.load().check_store()


def test_a_file_in_the_repository_is_a_harmless_store(stranger: Stranger):
    stranger.write('url = "sqlite:///work.db"\nlease_s = 120\n[types.review]\npriority = 7\n')
    stranger.il.ok("add", "x")
    assert (stranger.clone / "work.db").exists()
    found = stranger.load()
    assert (found.withheld, found.lease_s, found.types["review"].priority) == ((), 120.0, 7)


@pytest.mark.parametrize(
    ("line", "name", "usual"),
    [
        ('actor = "root"', "actor", "alice"),
        ("retention_s = 1", "retention_s", None),
        ('worktrees = "/tmp/elsewhere"', "worktrees", None),
        ('worktrees = "../elsewhere"', "worktrees", None),
        ('worktrees = "~/elsewhere"', "worktrees", None),
        ('worktrees = ".git/modules"', "worktrees", None),
        ('worktrees = "."', "worktrees", None),
    ],
)
def test_what_needs_trust_is_named_and_ignored(stranger: Stranger, line: str, name: str, usual: str | None):
    stranger.write(line)
    answer = stranger.il("ls")
    assert answer.code == 0
    assert answer.err == f"Ignored until you trust {stranger.clone / SHARED} (interlock trust): {name}.\n"
    assert getattr(stranger.load(), name) == usual
    stranger.trust()
    assert stranger.il("ls").err == ""
    assert getattr(stranger.load(), name) != usual


#: Texts that may come from anybody: they only name fields of a payload, or say how titles are read.
HARMLESS = {"lane_fields", "lane_repository_fields", "series_pattern", "series_prefixes"}


def test_every_setting_that_is_no_bounded_number_needs_trust():
    for setting in settings.SETTINGS:
        if setting.kind not in (int, float) and setting.name not in HARMLESS:
            assert setting.from_repository is not settings.FromRepository.YES, setting.name


def test_trust_ends_with_any_change_of_the_file(stranger: Stranger):
    stranger.write('actor = "bot"\n')
    stranger.trust()
    assert stranger.load().actor == "bot"
    stranger.write('actor = "bot"\n\n')
    assert stranger.load().actor == "alice"
    stranger.trust()
    assert stranger.load().actor == "bot"
    stranger.write('actor = "bot"\n')
    assert stranger.load().actor == "alice", "an older content was trusted, and no longer is"


def test_trust_is_of_one_user_and_one_clone(stranger: Stranger, tmp_path: Path):
    stranger.write('actor = "bot"\n')
    stranger.trust()
    assert stranger.load(HOME=str(tmp_path / "other")).actor == "alice"
    other = stranger.clone.rename(tmp_path / "moved")
    assert settings.load(environ=stranger.environ, directory=other).actor == "alice"
    assert settings.load(environ={}, directory=other).actor != "bot", "nobody's home"


def test_trust_can_be_withdrawn(stranger: Stranger):
    stranger.write('actor = "bot"\n')
    stranger.trust()
    assert stranger.il("--json", "trust", "--withdraw").json["files"][0]["trusted"] is False
    assert stranger.load().actor == "alice"
    assert "No file of this repository was trusted" in stranger.il("trust", "--withdraw").out


def test_trusting_says_what_is_trusted_and_keeps_passwords_to_itself(stranger: Stranger):
    stranger.write('url = "postgresql://u:secret@db.example.com/x?sslpassword=secret"\nactor = "bot"\n')
    said = stranger.il("trust").out
    assert 'url = "postgresql://db.example.com/x"' in said
    assert 'actor = "bot"' in said
    assert "secret" not in said
    assert stranger.il("--json", "trust").json["files"][0]["settings"]["actor"] == "bot"


def test_there_must_be_something_to_trust(stranger: Stranger):
    assert "no settings file" in stranger.il("--json", "trust").error["message"]
    stranger.write("lease_s = 30\n")
    assert "nothing that needs trust" in stranger.il("trust").out


def test_the_users_own_file_and_the_environment_need_no_trust(stranger: Stranger):
    stranger.write_own('url = "sqlite:////srv/own.db"\nactor = "ann"\nlease_s = 45\n')
    stranger.write('url = "sqlite:////tmp/elsewhere.db"\nactor = "root"\nlease_s = 90\n')
    found = stranger.load()
    found.check_store()
    assert (found.url, found.actor, found.lease_s) == ("sqlite:////srv/own.db", "ann", 90.0)
    assert stranger.load(INTERLOCK_URL="sqlite:///x.db", INTERLOCK_ACTOR="eva").actor == "eva"
    stranger.trust()
    found = stranger.load()
    assert (found.url, found.actor) == ("sqlite:////tmp/elsewhere.db", "root")


@pytest.mark.parametrize("kind", ["pipe", "device", "huge", "directory"])
def test_a_file_that_is_none_keeps_nobody_waiting(stranger: Stranger, kind: str):
    path = stranger.clone / SHARED
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "huge":
        path.write_bytes(b"#" * (settings.FILE_MAX_BYTES + 1))
    else:
        path.mkdir()
    with pytest.raises(InvalidInput, match=SHARED):
        stranger.load()


def test_a_python_program_connects_to_no_store_of_a_strangers_choice(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
):
    stranger.write('url = "git+https://stranger.example/x.git"\n')
    monkeypatch.chdir(stranger.clone)
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    with pytest.raises(NotTrusted):
        interlock.connect()
