"""A runner for generated workflows: reads the YAML and carries out its steps against the fake GitHub.

    runner = Runner(github, repo, tmp_path, files, variables={"INTERLOCK_SERIES_ASSIGNEE": "alice"})
    done = runner.run("assign.yml", inputs={"number": "2"})

The job's token has the job's own `permissions:` and no other. Actions that are not scripts are carried out as
far as a test needs them: a checkout is a clone that keeps the token, an upload is read. What installs
Interlock is skipped. A step that is one `interlock` command is called in this process; others are bash's.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
import shlex
import string
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.command import CommandHere
from tests.git_fixtures import git
from tests.github.fake import FakeGitHub, Repository
from tests.patience import PATIENCE_S

_INSTALLS = "pip install"
_TOKENS = re.compile(r"\s*(\|\||&&|==|!=|!|\(|\)|'(?:[^']|'')*'|[\w.-]+)")


@dataclass
class Step:
    """What one step came to."""

    name: str
    code: int
    said: str = ""
    outputs: dict[str, str] = field(default_factory=dict)


@dataclass
class Done:
    """What a run came to."""

    steps: list[Step]
    files: dict[str, str]

    @property
    def green(self) -> bool:
        return all(step.code == 0 for step in self.steps)

    @property
    def outputs(self) -> dict[str, str]:
        return {name: value for step in self.steps for name, value in step.outputs.items()}

    @property
    def said(self) -> str:
        return "".join(step.said for step in self.steps)


class Runner:
    """Runs the workflows of one repository, each run in a workspace of its own."""

    def __init__(
        self,
        github: FakeGitHub,
        repo: Repository,
        directory: Path,
        files: Mapping[str, str],
        *,
        variables: dict[str, str] | None = None,
        secrets: dict[str, str] | None = None,
        url: str | None = None,
    ) -> None:
        """`url` is the store of all runs instead of the one that the files name."""
        self.github, self.repo, self._directory, self._url = github, repo, directory, url
        self.workflows: dict[str, Any] = {
            Path(name).name: yaml.safe_load(text) for name, text in files.items()
        }
        self.variables, self.secrets = variables or {}, secrets or {}
        self._numbers = itertools.count(1)
        for name, workflow in self.workflows.items():
            inputs = ((workflow[True] or {}).get("workflow_dispatch") or {}).get("inputs") or {}
            title = re.sub(r"\$\{\{ inputs\.(\w+) \}\}", r"{\1}", workflow.get("run-name", ""))
            repo.workflow(name, inputs=inputs, run_name=title)

    def run(self, file: str, *, inputs: dict[str, str] | None = None, event: str = "schedule") -> Done:
        """Run a workflow to its end."""
        (job,) = self.workflows[file]["jobs"].values()
        return _Run(self, job, {"event_name": event}, inputs or {}, next(self._numbers)).done()

    def run_dispatched(self) -> list[Done]:
        """Run what was dispatched and has not run."""
        found = []
        for run in list(self.repo.workflow_runs.values()):
            file = run.workflow.path.rpartition("/")[2]
            if run.status == "queued" and file in self.workflows:
                found.append(self.run(file, inputs=run.inputs, event="workflow_dispatch"))
                run.finish("success" if found[-1].green else "failure")
        return found


class _Run:
    def __init__(
        self, runner: Runner, job: Any, github: dict[str, Any], inputs: dict[str, str], number: int
    ) -> None:
        self._runner, self._job, self._number = runner, job, number
        fake, repo = runner.github, runner.repo
        rights = {name.replace("-", "_"): level for name, level in (job["permissions"] or {}).items()}
        self._token = fake.actions_token(repo, rights)
        self._there = {
            "github": {
                "token": self._token,
                "server_url": fake.html_url,
                "repository": repo.full_name,
                **github,
            },
            "vars": runner.variables,
            "secrets": runner.secrets,
            "inputs": inputs,
            "steps": {},
        }
        self._workspace = runner._directory / f"job-{number}"
        self._steps: list[Step] = []
        self._files: dict[str, str] = {}

    def done(self) -> Done:
        if self._value(self._job.get("if", "true")):
            for step in self._job["steps"]:
                self._carry_out(step)
        return Done(self._steps, self._files)

    def _carry_out(self, step: Any) -> None:
        failed = any(each.code for each in self._steps)
        condition = str(step.get("if", ""))
        if failed and "always()" not in condition:
            return
        if condition and not self._value(condition):
            return
        if "uses" in step:
            self._use(step)
        elif _INSTALLS not in step["run"]:
            self._script(step)

    def _use(self, step: Any) -> None:
        action = step["uses"].partition("@")[0]
        if action == "actions/checkout":
            server = self._runner.github.html_url
            login = base64.b64encode(f"x-access-token:{self._token}".encode()).decode()
            header = f"http.{server}/.extraheader=AUTHORIZATION: basic {login}"
            address = self._runner.repo.clone_url
            git(self._runner._directory, "clone", "-q", "-c", header, address, str(self._workspace))
        elif action == "actions/upload-artifact":
            file = self._workspace / step["with"]["path"]
            if file.exists():
                self._files[file.name] = file.read_text()
        else:
            assert action == "actions/setup-python", action

    def _script(self, step: Any) -> None:
        outputs = self._workspace.parent / f"output-{self._number}-{len(self._steps)}"
        environ = {**self._environ(), "GITHUB_OUTPUT": str(outputs)}
        for name, value in {**(self._job.get("env") or {}), **(step.get("env") or {})}.items():
            environ[name] = self._filled(str(value))
        if self._runner._url is not None:
            environ["INTERLOCK_URL"] = self._runner._url
        text = step["run"].strip()
        assert "${{" not in text, "what somebody chose is no part of a script"
        if text.startswith("interlock ") and "\n" not in text:
            words = [string.Template(word).substitute(environ) for word in shlex.split(text)[1:]]
            answer = CommandHere(self._workspace, env=environ)(*words)
            made = Step(step.get("name", ""), answer.code, answer.out + answer.err)
        else:
            made = self._bash(step.get("name", ""), text, environ)
        if outputs.exists():
            made.outputs = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
        self._steps.append(made)
        if "id" in step:
            self._there["steps"][step["id"]] = {"outputs": made.outputs}

    def _bash(self, name: str, text: str, environ: dict[str, str]) -> Step:
        beside = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self._workspace),
            "GH_HOST": "github.localhost",
            "http_proxy": self._runner.github.api_url,
            "no_proxy": "127.0.0.1",
            "GH_NO_UPDATE_NOTIFIER": "1",
        }
        done = subprocess.run(
            ["bash", "-e", "-c", text],
            env=beside | environ,
            cwd=self._workspace,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return Step(name, done.returncode, done.stdout + done.stderr)

    def _environ(self) -> dict[str, str]:
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self._runner.github.api_url,
            "GITHUB_SERVER_URL": self._runner.github.html_url,
            "GITHUB_REPOSITORY": self._runner.repo.full_name,
            "GITHUB_RUN_ID": str(9_000_000 + self._number),
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_WORKSPACE": str(self._workspace),
        }

    # Expressions

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(self._value(found[1]) or ""), text)

    def _value(self, text: str) -> Any:
        left = _TOKENS.findall(text.removeprefix("${{").removesuffix("}}"))
        value = self._either(left)
        assert not left, left
        return value

    def _either(self, left: list[str]) -> Any:
        value = self._both(left)
        while left and left[0] == "||":
            left.pop(0)
            other = self._both(left)
            value = value or other
        return value

    def _both(self, left: list[str]) -> Any:
        value = self._compared(left)
        while left and left[0] == "&&":
            left.pop(0)
            other = self._compared(left)
            value = value and other
        return value

    def _compared(self, left: list[str]) -> Any:
        value = self._one(left)
        if left and left[0] in ("==", "!="):
            same = left.pop(0) == "=="
            return (str(value or "").lower() == str(self._one(left) or "").lower()) is same
        return value

    def _one(self, left: list[str]) -> Any:
        word = left.pop(0)
        if word == "!":
            return not self._one(left)
        if word == "(":
            value = self._either(left)
            assert left.pop(0) == ")"
            return value
        if word.startswith("'"):
            return word[1:-1].replace("''", "'")
        if left[:2] == ["(", ")"]:
            del left[:2]
            return word in ("always", "success")
        if word in ("true", "false"):
            return word == "true"
        found: Any = self._there
        for part in word.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found
