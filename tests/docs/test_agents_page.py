"""The recipe of the page on agents works as it is written, with scripts that nobody has committed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from docs.examples import steps
from docs.generate import ROOT
from interlock.fleet.recipes import RECIPES
from tests.git_fixtures import git
from tests.patience import PATIENCE_S

PAGE = ROOT / "docs" / "how-to" / "agents.md"
#: A stand-in for the agent: it keeps its prompt, and does what it was asked to.
AGENT = '#!/bin/sh\nprintf "%s\\n" "$@" > prompt.txt\ngit add prompt.txt\ngit commit -qm "Do it"\n'


def recipes() -> list[str]:
    """The command of each agent, as the table has it."""
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| [")]
    return [re.split(r"(?<!\\)\|", row)[2].strip().strip("`") for row in rows]


def test_every_recipe_takes_the_prompt() -> None:
    assert len(recipes()) > 3
    assert all('"$prompt"' in recipe for recipe in recipes())


def test_the_table_has_what_init_writes() -> None:
    written = [recipe.lines for recipe in RECIPES.values() if recipe.program is not None]
    assert [lines.splitlines()[-1] for lines in written] == recipes()


def test_the_recipe_pushes_what_the_agent_did(tmp_path: Path) -> None:
    """Taken out: the absolute path of the script. A worktree has only what was committed."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(tmp_path, "clone", "-q", "remote.git", "app")
    clone, programs = tmp_path / "app", tmp_path / "bin"
    git(clone, "commit", "-q", "--allow-empty", "-m", "first")
    git(clone, "push", "-q", "origin", "HEAD:main")
    programs.mkdir()
    (programs / "claude").write_text(AGENT)
    (programs / "claude").chmod(0o755)
    text = PAGE.read_text("utf-8")
    files = {step.file: step.text for step in steps(text) if step.file is not None}
    assert set(files) == {"prompt.sh", "agent.sh"}
    assert recipes()[0] in files["agent.sh"]
    for name, body in files.items():
        (clone / name).write_text(body)
    (command,) = (line for line in text.splitlines() if line.startswith("interlock work"))
    environ = {k: v for k, v in os.environ.items() if not k.startswith("INTERLOCK_")}
    environ["PATH"] = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    environ |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def shell(line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=clone,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    shell('interlock add "Fix the login" --lane issue:acme/app#1 --message "Since Monday" --author sam')
    said = shell(command.replace(" -- ", " --exit-when-idle -- "))
    assert "Run 1 succeeded; item 1 is completed" in said
    prompt = git(clone, "--git-dir=../remote.git", "show", "agent/item-1:prompt.txt")
    assert "Work on this: Fix the login\nsam says: Since Monday\n" in prompt
