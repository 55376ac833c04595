"""What a real shell starts for the spellings of `docs/reference/hook.md`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.hook.tool_calls import publishes
from tests.hook_spellings import rows
from tests.patience import PATIENCE_S

#: The last word of these is a script, or their last words are a command.
_STARTERS = {
    "sudo": 'test "$1" = -u && shift 2; exec "$@"',
    "doas": 'exec "$@"',
    "uv": 'shift; exec "$@"',
    "docker": 'shift 2; exec "$@"',
    "interlock": 'shift 3; exec "$@"',
    "ssh": 'exec sh -c "$2"',
    "su": 'exec sh -c "$3"',
}
#: Here the rule is what a program does with its words, not what the shell starts.
_WORDS = ("looking for it", "other git", "reading GitHub")


class Shell:
    """A real bash, in which `git` and others only note how they were started."""

    def __init__(self, directory: Path) -> None:
        self._here, self._bin, self._log = directory, directory / "bin", directory / "started"
        self._bin.mkdir()
        note = f'echo "${{0##*/}} $*" >> {self._log}'
        scripts = dict.fromkeys(("git", "gh", "hub", "jj"), note) | _STARTERS
        for name, script in scripts.items():
            self._write(self._bin / name, script)
        self._write(directory / "run.sh", "git push")
        self._write(self._bin / "alias_of_push", "git push")
        (directory / "app").mkdir()
        self._write(directory / ".bash_profile", f"PATH={self._bin}:$PATH")
        (directory / "Makefile").write_text("publish:\n\tgit push\n", encoding="utf-8")

    def _write(self, path: Path, script: str) -> None:
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def started(self, script: str) -> list[str]:
        """How the programs were started by a script."""
        self._log.write_text("", encoding="utf-8")
        env = {
            **os.environ,
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "GIT": "git",
            "HOME": str(self._here),
        }
        script = script.replace("/usr/bin/git", str(self._bin / "git"))
        subprocess.run(
            ["bash", "-c", f"{script}\nwait"],
            cwd=self._here,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return self._log.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    for program in ("bash", "flock", "make"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not here")
    return Shell(tmp_path_factory.mktemp("shell"))


def _scripts(section: str, *, but: tuple[str, ...] = ()) -> list[str]:
    return [script for kind, scripts in rows(section).items() if kind not in but for script in scripts]


@pytest.mark.parametrize("script", _scripts("Seen", but=("write", "read")))
def test_what_is_seen_is_really_started(shell: Shell, script: str):
    assert any(not line.startswith("git commit") for line in shell.started(script))


@pytest.mark.parametrize("script", _scripts("Left alone", but=_WORDS))
def test_what_is_left_alone_starts_no_push(shell: Shell, script: str):
    assert all(line.startswith("git commit") for line in shell.started(script))


@pytest.mark.parametrize(
    "script", _scripts("Not seen", but=("aliases of git", "tools with a key of their own"))
)
def test_what_is_not_seen_does_push(shell: Shell, script: str):
    """Otherwise it would not be a gap."""
    assert any("push" in line for line in shell.started(script))


_LINES = [
    "it's",
    'say "no',
    "a (b",
    "a) b",
    "git push",
    "$x # {",
    "EOF ",
    "case x in",
    "\\",
    "",
    "*) ;;",
    "<<A",
]
_WORDS_OF_TEXT = [
    '"it\'s"',
    "'say \"no'",
    "\\'",
    "':('",
    '"git push"',
    "a#b",
    "${x:-)}",
    "$'it\\'s'",
    "'#'",
    '"`echo 1`"',
]


_FORMS = [
    "x=$({}\n)",
    'echo "$({}\n)"',
    "({}\n)",
    "{{ {}\n}}",
    "if true\nthen {}\nfi",
    "case a in\n(b) ;;\na) {}\n;; esac",
    "for y in 1\ndo {}\ndone",
    "cat <({}\n)",
    "f() {{ {}\n}}\nf",
    "echo ${{y:-$({}\n)}}",
]


@st.composite
def a_line(draw: st.DrawFn, statements: st.SearchStrategy[str]) -> str:
    """Commands on one line, followed by the bodies of their here-documents."""
    commands, bodies = [], []
    for at in range(draw(st.integers(1, 3))):
        command = draw(
            st.one_of(statements, st.just("cat"), st.sampled_from(_WORDS_OF_TEXT).map("echo {}".format))
        )
        if command == "cat":
            tag = draw(st.sampled_from(["'EOF'", '"EOF"', "\\EOF", "E'O'F", "-'EOF'"]))
            command = f"cat <<{tag}"
            lines = draw(st.lists(st.sampled_from(_LINES), max_size=3))
            bodies.append("".join(f"{line}\n" for line in lines) + "EOF\n")
        commands.append(
            command + draw(st.sampled_from([" ; ", " && ", " | cat ; ", " 2>&1 ; "]))
            if at
            else f"{command} ; "
        )
    comment = draw(st.sampled_from(["", "# it's ( `"]))
    return "".join(commands) + f"true {comment}\n" + "".join(bodies)


def scripts(statements: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Scripts of these statements, nested in all ways that the shell has."""
    forms = st.sampled_from(_FORMS)
    return st.recursive(
        a_line(statements),
        lambda inner: st.one_of(
            st.builds(lambda form, text: form.format(text) + "\n", forms, inner),
            st.tuples(inner, inner).map("".join),
        ),
        max_leaves=4,
    )


_SLOW = settings(
    max_examples=int(os.environ.get("INTERLOCK_SHELL_EXAMPLES", "80")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@_SLOW
@given(script=scripts(st.sampled_from(["git push", "true", "x=1 git push", "command git push"])))
def test_no_push_that_a_shell_starts_is_missed(shell: Shell, script: str):
    if any("push" in line for line in shell.started(script)):
        assert publishes("Bash", {"command": script}) == "git push"


@_SLOW
@given(script=scripts(st.sampled_from(["true", "git status", "git commit -m 'git push'"])))
def test_text_is_never_taken_for_a_push(shell: Shell, script: str):
    assert publishes("Bash", {"command": script}) == ""
