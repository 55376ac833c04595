"""Each known mistake, in a workflow that has it and in one of the same shape that does not."""

import textwrap
from pathlib import Path

import pytest

from interlock.actions.findings import Mistake, WorkflowFinding
from interlock.actions.lint import check

NUMBER = "github.event.issue.number || github.event.pull_request.number"
NO_BOT = "github.event.sender.type != 'Bot'"
#: The key in two parts: what kind of thing, and its number.
OF_NUMBER = "-${{ github.event.issue.number || github.event.number }}"
CLOCK = "{schedule: [{cron: '0 0 * * *'}]}"


def workflow(
    *,
    on: str = "[issues, issue_comment, pull_request]",
    top: str = "",
    group: str = "agent-${{ " + NUMBER + " }}",
    waits: str = "queue: max",
    condition: str = NO_BOT,
    job: str = "timeout-minutes: 30",
    step: str = "run: exec claude -p hello",
) -> str:
    """A clean agent workflow, with one thing or another changed."""
    concurrency = f"concurrency: {{group: {group!r}, {waits}}}" if group else ""
    if group and "'" in group:
        concurrency = f'concurrency: {{group: "{group}", {waits}}}'
    return textwrap.dedent(
        f"""\
        name: agent
        on: {on}
        {top}
        jobs:
          agent:
            if: ${{{{ {condition} }}}}
            runs-on: ubuntu-latest
            {job}
            {concurrency}
            steps:
              - uses: actions/checkout@v6
              - {step}
        """
    )


def found(*texts: str) -> list[WorkflowFinding]:
    return check([(f"w{n}.yml", text.encode()) for n, text in enumerate(texts)])


def codes(*texts: str) -> list[str]:
    return [finding.code.value for finding in found(*texts)]


def test_a_workflow_that_is_right_has_no_findings():
    assert codes(workflow()) == []
    assert codes(workflow(waits="cancel-in-progress: true")) == []


# -- groups ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        # No group at all, on what people say or on a clock.
        (
            workflow(group=""),
            workflow(group="", top="concurrency: {group: a-${{ github.run_id }}, queue: max}"),
        ),
        (
            workflow(on=CLOCK.replace("0 0", "0 */2"), group="", job=""),
            workflow(on="[push, workflow_dispatch]", group=""),
        ),
        # Once a day, or with a time limit, a scheduled run does not meet the next.
        (
            workflow(on=CLOCK.replace("0 0", "*/5 *"), group="", job=""),
            workflow(on=CLOCK, group="", job=""),
        ),
        # An issue is opened once.
        (
            workflow(on="{issues: {types: [opened, labeled]}}", group=""),
            workflow(on="{issues: {types: [opened]}}", group=""),
        ),
        # A job that no conversation reaches needs none.
        (
            workflow(group="", condition=NO_BOT),
            workflow(group="", condition="github.event_name == 'workflow_dispatch'"),
        ),
    ],
)
def test_a_job_without_a_group_is_found(bad, good):
    assert Mistake.GROUP_MISSING in codes(bad)
    assert Mistake.GROUP_MISSING not in codes(good)


@pytest.mark.parametrize(
    ("waits", "harm"),
    [
        ("cancel-in-progress: true", "cancels the run"),
        ("cancel-in-progress: false", "replaces the run"),
        ("queue: max", "takes a place"),
    ],
)
def test_a_group_of_the_workflow_is_entered_before_the_bot_is_left_out(waits, harm):
    top = f'concurrency: {{group: "a-${{{{ {NUMBER} }}}}", {waits}}}'
    (finding,) = found(workflow(group="", top=top))
    assert finding.code is Mistake.GROUP_BEFORE_IF
    assert harm in finding.message
    assert finding.line == 3


def test_a_group_of_the_workflow_that_keeps_bots_apart_is_right():
    key = f"{NO_BOT} && ({NUMBER}) || github.run_id"
    top = f'concurrency: {{group: "a-${{{{ {key} }}}}", cancel-in-progress: true}}'
    assert codes(workflow(group="", top=top)) == []


def test_a_group_of_the_workflow_is_right_where_the_agent_causes_nothing_on_the_same_thing():
    top = "concurrency: {group: 'a-${{ github.event.issue.number }}', cancel-in-progress: true}"
    assert codes(workflow(on="{issues: {types: [opened]}}", group="", top=top)) == []
    assert codes(workflow(on="{issues: {types: [opened, labeled]}}", group="", top=top)) == [
        "group_before_if"
    ]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("true", ["bot_not_filtered"]),
        ("github.event_name != 'schedule'", ["bot_not_filtered"]),
        (NO_BOT, []),
        ("github.event.comment.user.type != 'Bot' && github.event.sender.type == 'User'", []),
        # These may well leave the agent out; nothing is said where that cannot be known.
        ("github.actor != 'acme-agent[bot]'", []),
        ("!endsWith(github.actor, '[bot]')", []),
        ("contains(github.event.comment.body, '/agent')", []),
        ("github.event.comment.author_association == 'MEMBER'", []),
        ("vars.ENABLED == 'yes'", []),
    ],
)
def test_a_job_that_surely_runs_for_the_agent_itself_is_found(condition, expected):
    assert codes(workflow(condition=condition)) == expected


@pytest.mark.parametrize(
    "group",
    [
        "a-${{ github.event.issue && 'issue' || 'pr' }}" + OF_NUMBER,
        "a-${{ github.event.pull_request && 'pr-7' || github.event.issue.number }}",
        "a-${{ github.event_name == 'pull_request' && github.head_ref || github.event.issue.number }}",
        "a-${{ github.event_name }}-${{ github.event.issue.number || github.event.number }}",
    ],
)
def test_a_pull_request_and_its_comments_keyed_apart_are_found(group):
    (finding,) = found(workflow(group=group))
    assert finding.code is Mistake.KEYED_APART
    assert "two runs work on it at once" in finding.message


@pytest.mark.parametrize(
    "group",
    [
        "a-${{ github.event.issue.number || github.event.number }}",
        "a-${{ format('{0}', github.event.pull_request.number || github.event.issue.number) }}",
        "${{ vars.PREFIX }}-${{ github.event.issue.number || github.event.pull_request.number }}",
        # A comment on a pull request is known by its link, so this is right as well.
        "${{ (github.event.issue.pull_request || github.event.pull_request) && 'pr' || 'x' }}" + OF_NUMBER,
        # Only a run knows; nothing is said.
        "a-${{ vars.BY_REF == 'yes' && github.ref || github.event.issue.number }}",
        "a-${{ matrix.number }}",
        "a-${{ github.event.issue.node_id || github.event.pull_request.node_id }}",
    ],
)
def test_one_key_for_a_pull_request_and_its_comments_is_right(group):
    assert [c for c in codes(workflow(group=group)) if c == Mistake.KEYED_APART] == []


def test_comments_that_the_condition_leaves_out_cannot_be_keyed_apart():
    group = "a-${{ github.event.issue && 'issue' || 'pr' }}" + OF_NUMBER
    assert codes(workflow(group=group)) == ["keyed_apart"]
    assert codes(workflow(group=group, condition=f"{NO_BOT} && !github.event.issue.pull_request")) == []


@pytest.mark.parametrize(
    "group",
    [
        "a-${{ github.run_id }}",
        "a-${{ github.event.comment.id || github.run_id }}",
        "${{ github.workflow }}-${{ github.event.issue.number || github.sha }}-${{ github.run_number }}",
    ],
)
def test_a_key_that_differs_in_every_run_is_found(group):
    assert codes(workflow(group=group)) == ["key_per_run"]


@pytest.mark.parametrize(
    "group", ["agent", "${{ github.workflow }}-${{ github.ref }}", "a-${{ github.repository }}"]
)
def test_one_key_for_all_numbers_loses_runs_unless_every_one_is_kept(group):
    assert "numbers_share_key" in codes(
        workflow(on="[issue_comment]", group=group, waits="cancel-in-progress: true")
    )
    assert "numbers_share_key" in codes(
        workflow(on="[issue_comment]", group=group, waits="cancel-in-progress: false")
    )
    assert codes(workflow(on="[issue_comment]", group=group, waits="queue: max")) == []


@pytest.mark.parametrize(
    ("matrix", "part", "expected"),
    [
        ("{who: [claude, codex]}", "matrix.who", ["key_per_matrix"]),
        ("{Who: [claude, codex]}", "matrix['who']", ["key_per_matrix"]),
        ("{include: [{who: claude}, {who: codex, more: 1}]}", "matrix.who", ["key_per_matrix"]),
        ("{who: [claude, codex], os: [x]}", "matrix.os", []),
        ("{who: [claude, codex]}", "github.repository", []),
        ("{who: [claude, claude]}", "matrix.who", []),
        # Only a run knows.
        ("{who: [claude, codex], exclude: [{who: codex}]}", "matrix.who", []),
        ("{who: '${{ fromJSON(vars.WHO) }}'}", "matrix.who", []),
        ("{who: [claude], include: [{more: 1}, {more: 2}]}", "matrix.more", []),
    ],
)
def test_the_jobs_of_a_matrix_share_the_key_of_their_number(matrix, part, expected):
    group = "a-${{ " + part + " }}-${{ " + NUMBER + " }}"
    text = workflow(job=f"timeout-minutes: 30\n            strategy: {{matrix: {matrix}}}", group=group)
    assert codes(text) == expected


def test_a_matrix_on_a_clock_may_work_on_many_things_at_once():
    job = "{timeout-minutes: 9, strategy: {matrix: {p: [a, b]}}, runs-on: x, steps: [{run: exec claude}]"
    text = f"on: {CLOCK}\njobs: {{a: {job}, concurrency: {{group: '${{{{ matrix.p }}}}', queue: max}}}}}}"
    assert codes(text) == []


@pytest.mark.parametrize(
    ("on", "part"),
    [
        ("[issues, pull_request]", "github.actor"),
        ("[issue_comment]", "github.event.sender.login"),
        ("{pull_request: {types: [opened, synchronize]}}", "github.event.pull_request.head.sha"),
        ("{issues: {types: [opened, labeled]}}", "github.event.label.name"),
        ("[issues]", "github.event.action"),
        ("{pull_request: {types: [opened, reopened]}}", "github.event.action"),
    ],
)
def test_a_key_with_a_part_that_differs_between_two_events_on_one_number_is_found(on, part):
    found_here = codes(workflow(on=on, group="agent-${{ " + NUMBER + " }}-${{ " + part + " }}"))
    assert found_here == ["key_per_run"]
    assert codes(workflow(on=on)) == []


@pytest.mark.parametrize(
    ("on", "part", "condition"),
    [
        ("{issues: {types: [labeled]}}", "github.event.action", NO_BOT),
        ("{pull_request: {types: [opened]}}", "github.event.pull_request.head.sha", NO_BOT),
        ("{issues: {types: [labeled]}}", "github.event.label.name", "github.event.label.name == 'agent'"),
        ("{issues: {types: [opened, labeled]}}", "github.event.action", "github.event.action == 'labeled'"),
        ("[issue_comment]", "github.actor", "github.actor == 'boss'"),
    ],
)
def test_a_part_of_a_key_that_cannot_differ_is_right(on, part, condition):
    group = "agent-${{ " + NUMBER + " }}-${{ " + part + " }}"
    assert codes(workflow(on=on, group=group, condition=condition)) == []


def test_scheduled_runs_that_cancel_each_other_are_found():
    on, group = "{schedule: [{cron: '0 * * * *'}], issues: {}}", "agent-${{ github.event.issue.number }}"
    but = "cancel-in-progress: \"${{ github.event_name != 'schedule' }}\""
    assert codes(workflow(on=on, group=group, waits="cancel-in-progress: true")) == ["schedule_cancelled"]
    assert codes(workflow(on=on, group=group, waits=but)) == []
    assert codes(workflow(on=on, group=group, waits="queue: max")) == []
    own = "agent-${{ github.event.issue.number || github.run_id }}"
    assert codes(workflow(on=on, group=own, waits="cancel-in-progress: true")) == []
    never = "github.event_name != 'schedule' && " + NO_BOT
    assert codes(workflow(on=on, group=group, waits="cancel-in-progress: true", condition=never)) == []


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        ("permissions: {contents: read, pull-requests: read}", []),
        ("permissions: read-all", []),
        ("permissions: {}", []),
        ("permissions: {contents: read, pull-requests: write}", []),  # a review is no new commit
        ("permissions: {contents: write}", ["group_before_if"]),
        ("permissions: write-all", ["group_before_if"]),
        ("", ["group_before_if"]),
    ],
)
def test_a_group_of_the_workflow_is_right_where_its_token_cannot_cause_the_event(permissions, expected):
    top = "concurrency: {group: 'agent-${{ " + NUMBER + " }}', cancel-in-progress: true}"
    text = workflow(
        on="[pull_request]", group="", top=top, job=f"timeout-minutes: 30\n            {permissions}"
    )
    assert codes(text) == expected


def test_keys_that_differ_only_in_case_are_found_across_files():
    job = "{runs-on: x, timeout-minutes: 5, concurrency: '%s', steps: [{run: exec claude}]}"
    agent = f"on: push\njobs: {{deploy: {job}}}"
    other = agent.replace("exec claude", "make")
    (finding,) = found(other % "Deploy-${{ github.ref }}", agent % "deploy-${{ github.ref }}")
    assert finding.code is Mistake.KEY_CASE
    assert finding.file == "w1.yml"
    assert "w0.yml:2" in finding.message
    assert codes(agent % "Deploy-a", other % "deploy-a") == ["key_case"]
    assert codes(agent % "deploy-a", agent % "deploy-b") == []
    assert codes(agent % "deploy", other % "deploy") == []  # one group on purpose
    assert codes(other % "Deploy", other % "deploy") == []  # no agent is in either


def test_one_group_that_spells_a_key_in_two_ways_is_found():
    group = "${{ github.event.issue && 'Agent' || 'agent' }}" + OF_NUMBER
    assert codes(workflow(group=group)) == ["key_case"]


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ("queue: max, cancel-in-progress: true", ["queue_with_cancel"]),
        ("queue: max, cancel-in-progress: '${{ vars.NEWEST }}'", ["queue_with_cancel"]),
        ("queue: max, cancel-in-progress: false", []),
        ("queue: single, cancel-in-progress: true", []),
    ],
)
def test_keeping_all_and_cancelling_exclude_each_other(waits, expected):
    assert codes(workflow(waits=waits)) == expected


# -- jobs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "step", "expected"),
    [
        ("", "run: exec claude -p x", ["timeout_missing"]),
        ("timeout-minutes: 30", "run: exec claude -p x", []),
        ("", "{run: exec claude -p x, timeout-minutes: 20}", []),
        ("", "{uses: anthropics/claude-code-action@v1}", ["timeout_missing"]),
    ],
)
def test_an_agent_ends_in_a_stated_time(job, step, expected):
    assert codes(workflow(job=job, step=step)) == expected


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("run: claude -p hello", ["signals_lost"]),
        ("run: exec claude -p hello", []),
        ("run: npx -y @openai/codex exec hello", ["signals_lost"]),
        ("run: exec npx -y @openai/codex exec hello", []),
        ("run: interlock hold lane -- claude -p hello", ["signals_lost"]),
        ("run: exec interlock hold lane -- claude -p hello", []),
        ("run: exec gemini -p hello | tee log", ["signals_lost"]),
        ("run: exec gemini -p hello > >(tee log)", []),
        ("run: timeout 30m copilot -p hello", ["signals_lost"]),
        ("run: 'claude --version; exec claude -p x'", []),
        ("run: 'trap clean INT TERM; claude -p hello & wait'", []),
        ("{run: claude -p hello, shell: pwsh}", []),
        ("{run: claude -p hello, shell: bash}", ["signals_lost"]),
        # Where no agent is known by name, the last program a script starts is taken for one.
        ("run: python agent.py", ["signals_lost"]),
        ("run: exec python agent.py", []),
        ("run: python -m pip install x", []),
        ("run: ./agent.sh", ["signals_lost"]),
        ("run: git push", []),
        ("{uses: acme/agent@v1}", []),
        # In another shell, or in a substitution.
        ("run: RESULT=$(claude -p x)", ["signals_lost"]),
        ("run: 'RESULT=$(exec claude -p x)'", ["signals_lost"]),
        ("run: bash -c 'claude -p x'", ["signals_lost"]),
        ("run: exec bash -c 'exec claude -p x'", []),
        ("run: exec bash -c 'claude -p x'", []),
        ('run: eval "claude -p x"', ["signals_lost"]),
        ("run: 'command -v claude; exec claude -p x'", []),
        ("run: pnpm dlx @openai/codex exec x", ["signals_lost"]),
        ("run: uv run claude -p x", ["signals_lost"]),
    ],
)
def test_signals_reach_an_agent_only_in_the_place_of_its_shell(step, expected):
    assert codes(workflow(step=step)) == expected


@pytest.mark.parametrize(
    ("script", "mend"),
    [
        ("npx -y @anthropic-ai/claude-code -p x", "write exec before it: exec npx …"),
        ("A=1 timeout 30m copilot -p x", "write exec before it: exec timeout …"),
        ("uv run claude -p x", "write exec before it: exec uv …"),
        ("claude -p x", "write exec before it: exec claude …"),
        ("OUT=$(npx -y @openai/codex exec x)", "exec npx … > FILE"),
    ],
)
def test_the_remedy_can_be_typed(script, mend):
    (finding,) = found(workflow(step=f"run: {script}"))
    assert mend in finding.mend


#: What people call their agents with, in workflows that they talk to.
NAMED = [
    "RESULT=$(claude -p x)",
    "bash -c 'claude -p x'",
    'eval "claude -p x"',
    "npm run agent",
    "yarn agent",
    "npx my-agent",
    "uv run agent.py",
    "uv run --with x python -m agent",
    "poetry run agent",
    "make agent",
    "make -C app build agent",
    "python -m agent",
    "docker run --rm acme/agent",
    "docker compose run agent",
    "node .github/scripts/run-agent.mjs --mode fix",
    "my-agent --issue 4",
    "OUT=$(my-agent)",
    "if my-agent; then echo; fi",
    "bash <<< my-agent",
]


@pytest.mark.parametrize("script", NAMED)
def test_where_people_talk_to_a_workflow_an_agent_is_known_by_the_word_in_its_name(script):
    text = f"on: issue_comment\njobs: {{a: {{runs-on: x, steps: [{{run: {script!r}}}]}}}}"
    assert {"group_missing", "timeout_missing"} <= set(codes(text))
    if "claude" not in script:
        assert codes(text.replace("issue_comment", "[push, pull_request]")) == []


@pytest.mark.parametrize(
    "script",
    [
        "npm ci && npm test && npm run lint && npm run build:prod",
        "pnpm install --frozen-lockfile; pnpm test; yarn; yarn build",
        "make; make test; make -j 4 check lint CFLAGS=-O2",
        "docker build -t x . && docker push x; docker run -d --name db postgres",
        "docker compose up -d",
        "uv sync; uv run pytest -q; uv pip install x; poetry install; poetry run mypy .",
        "python -m pip install x; python -m pytest; python --version; python -c 'print(1)'; node -e 1",
        "npx prettier --check .; npx eslint .; cargo test; go build ./...; ./gradlew build",
        'gh pr comment "$N" --body "$(cat report.md)"; git push; curl -sf https://x | jq .a',
        "N=$((N + 1)); if [[ -n $A && $B == x ]]; then echo yes; fi",
        "case $BODY in /go|/run*) echo yes ;; *) exit 1 ;; esac",
        "say() { echo $1; }; say hello; for x in a b; do say $x; done",
        "command -v my-agent || true; my-agent --version",
        "interlock ls",
        "npm start; python triage.py; cargo run; docker run acme/bot; make sync-issues; 7z x file.7z",
        "eval $(ssh-agent); bash download.sh registry/agent:1.2; goose up; copilot --server --port 8080 &",
    ],
)
def test_what_has_no_agents_name_is_none_even_where_people_talk(script):
    text = f"on: issue_comment\njobs: {{a: {{runs-on: x, steps: [{{run: {script!r}}}]}}}}"
    assert codes(text) == []


# -- workflows that call others -----------------------------------------------------------------------


CALLER = "on: issue_comment\n%s\njobs: {a: {if: \"github.event.sender.type != 'Bot'\", uses: %s}}"
LOCAL = "./.github/workflows/w1.yml"
CALLED = "on: workflow_call\njobs: {b: {runs-on: x, %s steps: [{run: %s}]}}"
GROUPED = "concurrency: {group: 'a-${{ github.event.issue.number }}', queue: max}"


@pytest.mark.parametrize(
    "uses", ["./.github/workflows/agent.yml", "acme/app/.github/workflows/claude.yml@v1"]
)
def test_a_called_workflow_elsewhere_is_known_by_its_name(uses):
    assert codes(CALLER % ("", uses)) == ["group_missing"]  # a timeout cannot stand there
    assert codes(CALLER % (GROUPED, uses)) == ["group_before_if"]
    assert codes((CALLER % ("", uses)).replace("issue_comment", "push")) == []
    assert codes(CALLER % ("", "acme/app/.github/workflows/labels.yml@v1")) == []


def test_a_called_workflow_among_the_files_is_checked_itself():
    caller = CALLER % ("", LOCAL)
    assert codes(caller, CALLED % ("", "npm test")) == []
    assert codes(caller, CALLED % ("", "exec my-agent")) == ["group_missing", "timeout_missing"]
    assert codes(caller, CALLED % (GROUPED + ", timeout-minutes: 5,", "exec my-agent")) == []
    assert codes(CALLED % ("", "my-agent")) == []  # whoever calls it is not known


def called_with(
    group: str, *, given: str = "{}", caller: str = "on: [issue_comment, pull_request]"
) -> list[str]:
    """The findings on a called workflow of this group."""
    condition = f'if: "{NO_BOT}"'
    job = f"concurrency: {{group: '{group}', cancel-in-progress: true}}, timeout-minutes: 5,"
    return codes(
        f"name: caller\n{caller}\njobs: {{a: {{{condition}, uses: {LOCAL}, with: {given}}}}}",
        CALLED % (job, "exec claude -p x"),
    )


def test_a_called_workflow_is_judged_by_the_events_of_its_caller():
    assert called_with("a-${{ github.event.issue.number || github.event.pull_request.number }}") == []
    assert "numbers_share_key" in called_with("a-${{ github.ref }}")
    assert called_with(
        "a-${{ github.event_name }}-${{ github.event.issue.number || github.event.number }}"
    ) == ["keyed_apart"]
    assert called_with("a-${{ github.run_id }}") == ["key_per_run"]
    # By nobody's events it is not judged, nor by those for which it is not called.
    assert called_with("a-${{ github.ref }}", caller="on: push") == []


def test_a_called_workflow_knows_the_inputs_that_its_caller_gives():
    number = "{n: '${{ github.event.issue.number || github.event.pull_request.number }}'}"
    assert called_with("a-${{ inputs.n }}", given=number) == []
    assert "numbers_share_key" in called_with("a-${{ inputs.n }}", given="{n: 4}")
    assert called_with("a-${{ inputs.n }}", given="{n: '${{ needs.gate.outputs.n }}'}") == []
    assert called_with("a-${{ inputs.n }}") == []  # its default is not known


def test_the_agents_own_event_reaches_a_called_workflow_only_through_its_caller():
    group = "a-${{ github.event.issue.number || github.event.pull_request.number }}"
    job = f"concurrency: {{group: '{group}', cancel-in-progress: true}}, timeout-minutes: 5,"
    called = CALLED % (job, "exec claude -p x")
    open_to_all = f"on: [issue_comment, pull_request]\njobs: {{a: {{uses: {LOCAL}}}}}"
    assert codes(open_to_all, called) == ["bot_not_filtered"]
    assert codes(open_to_all.replace("{uses", "{needs: gate, uses"), called) == []


@pytest.mark.parametrize(
    ("top", "group", "expected"),
    [
        ("agent", "agent", True),
        ("Agent", "agent", True),
        ("a-${{ github.ref }}", "a-${{ github.ref }}", True),
        ("all-${{ github.ref }}", "agent", False),
        ("a-${{ github.run_id }}", "a-${{ needs.x.outputs.n }}", False),
    ],
)
def test_a_job_in_the_group_of_its_own_workflow_is_found(top, group, expected):
    """GitHub cancels such a job: a deadlock between 'top level workflow' and the job."""
    text = f"""\
on: workflow_dispatch
concurrency: {{group: "{top}", queue: max}}
jobs:
  agent:
    runs-on: x
    timeout-minutes: 5
    concurrency:
      group: "{group}"
      queue: max
    steps: [{{run: exec claude -p x}}]
"""
    findings = [finding for finding in found(text) if finding.code is Mistake.GROUP_IN_ITSELF]
    assert [finding.line for finding in findings] == [8] * expected
    talking = found(text.replace("workflow_dispatch", "issue_comment"))
    assert any(finding.code is Mistake.GROUP_IN_ITSELF for finding in talking) is expected


def test_a_called_workflow_in_the_group_of_its_caller_is_found():
    """`github.workflow` is the caller's name in both."""
    group = "concurrency: {group: '${{ github.workflow }}-${{ github.event.issue.number }}', queue: max}"
    called = CALLED % ("timeout-minutes: 5,", "exec claude -p x")
    caller = "name: chat\n" + CALLER % (group, LOCAL)
    (finding,) = [f for f in found(caller, f"{group}\n{called}") if f.code is Mistake.GROUP_IN_ITSELF]
    assert (finding.file, finding.line) == ("w1.yml", 1)
    assert "the group in w0.yml:3, which calls it" in finding.message
    apart = group.replace("${{ github.workflow }}", "called")
    assert "group_in_itself" not in codes(caller, f"{apart}\n{called}")


def test_a_workflow_that_calls_itself_is_read_to_an_end():
    text = (
        "on: issue_comment\njobs: {a: {uses: ./.github/workflows/w0.yml}, b: {steps: [{run: exec claude}]}}"
    )
    assert codes(text) == ["group_missing", "group_missing", "timeout_missing"]


# -- where a job runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        "github.repository == 'acme/app'",
        "'acme/app' == github.repository",
        "github.repository_owner == 'acme'",
        "startsWith(github.repository, 'acme/')",
        'contains(fromJSON(\'["a/b", "acme/app"]\'), github.repository)',
        "github.event.repository.full_name == 'acme/app'",
        "github.event.repository.owner.login == 'acme'",
        "github.repository != 'acme/fork'",
    ],
)
def test_a_job_of_one_repository_is_judged_by_its_name(condition):
    assert "group_missing" in codes(workflow(group="", condition=condition))
    assert "numbers_share_key" in codes(workflow(group="all", waits="queue: single", condition=condition))


def test_a_job_that_never_runs_is_left_alone():
    assert codes(workflow(group="", job="", condition="false")) == []
    assert codes(workflow(group="", job="", condition=f"false && ({NO_BOT})")) == []
    assert codes(workflow(group="", condition="false || github.event_name != 'push'")) == ["group_missing"]


def test_what_another_job_decides_is_not_guessed():
    by_job = "needs.gate.outputs.go == 'yes' && github.event_name == 'issue_comment'"
    group = "a-${{ github.event.issue.number }}"
    assert codes(workflow(group=group, condition=by_job)) == []
    assert codes(workflow(group="a-${{ needs.gate.outputs.number }}")) == []
    assert codes(workflow(group="a-${{ needs.gate.outputs.number || github.event.issue.number }}")) == []


def test_a_workflow_that_runs_for_changes_of_itself_works_on_no_pull_request():
    on = "{schedule: [{cron: '0 * * * *'}], pull_request: {paths: ['%s']}}"
    text = workflow(on=on % ".github/workflows/agent.yml", group="all", waits="cancel-in-progress: true")
    assert codes(text) == ["schedule_cancelled"]
    assert "numbers_share_key" in codes(text.replace(".github/workflows/agent.yml", "src/**"))


def test_a_finding_about_signals_names_the_line_of_the_command():
    step = "name: x\n                run: |\n                  npm ci\n                  claude -p hello\n"
    (finding,) = found(workflow(step=step))
    assert (finding.code, finding.line) == (Mistake.SIGNALS_LOST, 15)


def test_a_job_that_only_decides_whether_the_agent_runs_needs_nothing():
    text = workflow() + "  gate:\n    runs-on: ubuntu-latest\n    steps: [{run: echo yes}]\n"
    assert codes(text) == []


@pytest.mark.parametrize(
    "uses", ["actions/labeler@v6", "acme/triage@v1", "contributor-assistant/github-action@v2"]
)
def test_workflows_without_an_agent_are_left_alone_whatever_is_wrong_with_them(uses):
    """A group that cancels others, a stranger's text in a script: bad, but no matter of agents."""
    text = f"""
        on: [issues, issue_comment]
        concurrency: {{group: all, queue: max, cancel-in-progress: true}}
        jobs:
          label:
            steps: [{{uses: {uses}}}, {{run: 'echo ${{{{ github.event.issue.title }}}}'}}]
          other: {{runs-on: x, concurrency: 'a-${{{{ ||| }}}}', uses: ./.github/workflows/labels.yml}}
    """
    assert codes(textwrap.dedent(text)) == []
    agent = textwrap.dedent(text).replace(uses, "anthropics/claude-code-action@v1")
    assert {"queue_with_cancel", "script_injection", "expression_malformed"} <= set(codes(agent))


@pytest.mark.parametrize(
    "uses",
    [
        "Anthropics/Claude-Code-Action@v1",
        "openai/codex-action@v1",
        "google-github-actions/run-gemini-cli@v0",
        "QwenLM/qwen-code-action@abc",
        "anomalyco/opencode/github@latest",
        "Factory-AI/droid-action@v3",
    ],
)
def test_an_action_that_runs_an_agent_is_known(uses):
    assert codes(workflow(group="", job="", step=f"uses: {uses}")) == ["group_missing", "timeout_missing"]
    assert codes(workflow(group="", job="", step=f"uses: {uses.replace('@', '-x@')}")) == []


def test_plain_builds_are_left_alone():
    text = """
        on: [push, pull_request]
        concurrency: {group: "ci-${{ github.ref }}", cancel-in-progress: true}
        jobs: {test: {runs-on: x, steps: [{run: python -m pytest}, {run: node build.js}]}}
    """
    assert codes(textwrap.dedent(text)) == []


# -- texts of strangers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("github.event.comment.body", "github.event.comment.body"),
        ("GitHub.Event.Issue['Title']", "github.event.issue.title"),
        ("github.head_ref", "github.head_ref"),
        ("github.event.pull_request.head.ref || github.ref", "github.event.pull_request.head.ref"),
        ("vars.ASK && github.event.review.body || ''", "github.event.review.body"),
        ("format('{0} {1}', github.actor, github.event.issue.body)", "github.event.issue.body"),
        ("join(github.event.commits.*.message, ' ')", "github.event.commits.*.message"),
        ("github.event.commits[0].author.name", "github.event.commits.*.author.name"),
        ("github.event[github.event_name].body", "github.event.*.body"),
        ("toJSON(github.event)", "github.event"),
        ("toJSON( github.event.comment )", "github.event.comment"),
        ("(contains('a', 'b') && github.head_ref)", "github.head_ref"),
    ],
)
def test_a_stranger_s_text_in_a_script_is_found(expression, text):
    (finding,) = found(workflow(step=f'run: exec claude -p "${{{{ {expression} }}}}"'))
    assert finding.code is Mistake.SCRIPT_INJECTION
    assert finding.message.startswith(f"{text} becomes part of the script")


@pytest.mark.parametrize(
    "expression",
    [
        "github.event.issue.number",
        "github.event.comment.id",
        "github.event.comment.user.login",
        "contains(github.event.comment.body, '@claude')",
        "startsWith(github.head_ref, 'agent/') && 'ours' || 'theirs'",
        "github.event.pull_request.head.ref == 'main'",
        "'main' != github.head_ref",
        "github.event.issue.body && 'some' || 'none'",
        "!github.head_ref",
        "github.event",
        "toJSON(github.event.issue.labels)",
        "'github.event.comment.body'",
        "needs.github.outputs.body",
        "github.event.comment.body |",
        "github.",
        "github.event[",
    ],
)
def test_what_strangers_cannot_write_or_only_decide_is_no_injection(expression):
    assert codes(workflow(step=f'run: exec claude -p "${{{{ {expression} }}}}"')) == []


def test_the_environment_is_the_right_place_for_a_stranger_s_text():
    env = "{BODY: '${{ github.event.comment.body }}'}"
    assert codes(workflow(step=f"{{run: 'exec claude -p \"$BODY\"', env: {env}}}")) == []


def test_an_injection_is_found_on_its_line_in_any_job():
    text = """\
        on: push
        jobs:
          build:
            runs-on: x
            steps:
              - run: |
                  make
                  echo "${{ github.event.pull_request.title }}"
          agent: {runs-on: x, timeout-minutes: 5, steps: [{run: exec claude}]}
    """
    (finding,) = found(textwrap.dedent(text))
    assert (finding.line, finding.code) == (8, Mistake.SCRIPT_INJECTION)


# -- files that are odd ------------------------------------------------------------------------------


def test_anchors_matrices_and_reusable_workflows_are_read():
    text = """
        "on":
          issue_comment: &created {types: [created]}
          pull_request_review_comment: *created
          workflow_call: {inputs: {x: {type: string}}}
        env: &env {A: &self [*self]}
        jobs:
          called:
            uses: ./.github/workflows/clean.yml
            concurrency: {group: "a-${{ inputs.x }}"}
          agent:
            if: >-
              github.event.sender.type != 'Bot'
            strategy: {matrix: {os: [a, b]}}
            runs-on: ${{ matrix.os }}
            env: *env
            timeout-minutes: ${{ fromJSON(vars.MINUTES) }}
            concurrency:
              group: ${{ matrix.os }}-${{ github.event.issue.number || github.event.pull_request.number }}
              queue: max
            steps:
              - &step {run: exec claude}
              - *step
    """
    assert codes(textwrap.dedent(text)) == ["key_per_matrix"]


@pytest.mark.parametrize("on", ["on: issue_comment", "'on': [issue_comment]", "on:\n  issue_comment:"])
def test_the_key_on_is_not_read_as_true(on):
    text = f"{on}\njobs: {{a: {{runs-on: x, timeout-minutes: 5, steps: [{{run: exec claude}}]}}}}"
    assert codes(text) == ["group_missing"]


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("on: [a\njobs: {}", 2, "YAML"),
        ("\tx: 1", 1, "YAML"),
        ("a: *b", 1, "alias"),
        ("a: 1\n---\nb: 2", 2, "document"),
        ("", 1, "no keys"),
        ("- a", 1, "no keys"),
        ("name: x", 1, "not a workflow"),
        ("on: push\njobs: []", 1, "not a workflow"),
        ("[" * 5000, 1, "YAML"),
        ("a: \x01", 1, "YAML"),
    ],
)
def test_a_malformed_file_is_one_sentence(text, line, word):
    (finding,) = found(text)
    assert finding.code is Mistake.NOT_A_WORKFLOW
    assert (finding.line, finding.message.count("\n")) == (line, 0)
    assert word in finding.message
    assert finding.message.endswith(".")


@pytest.mark.parametrize(("data", "word"), [(b"name: \xe9", "UTF-8"), (b"#" * 600_000, "524,288 bytes")])
def test_a_file_that_is_no_text_or_too_large_is_one_sentence(data, word):
    good = workflow().encode()
    (finding,) = check([("a.yml", data), ("b.yml", good)])
    assert finding.code is Mistake.NOT_A_WORKFLOW
    assert word in finding.message
    assert check([("a.yml", b"\xef\xbb\xbf" + good)]) == []


def test_a_malformed_group_is_found_and_the_rest_still_read():
    bad = workflow(group="a-${{ github.event.issue.number ||| 1 }}", job="")
    assert codes(bad) == ["timeout_missing", "expression_malformed"]


def test_odd_shapes_do_not_disturb():
    jobs = "{a: 1, b: [], c: {steps: 4}, d: {steps: [1, {run: [x]}]}}"
    text = f"on: {{issue_comment: 3}}\nconcurrency: []\njobs: {jobs}"
    assert set(codes(text)) <= {"group_missing", "timeout_missing"}


def test_every_mistake_is_found_somewhere_here():
    source = Path(__file__).read_text("utf-8").partition("def workflow(")[2]
    assert [m for m in Mistake if m.value not in source and m.name not in source] == []
