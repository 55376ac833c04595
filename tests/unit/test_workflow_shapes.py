"""Workflows of the shapes people really write, and texts of no shape at all."""

import textwrap
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.actions.expressions import MalformedExpression, Undecided, parse
from interlock.actions.findings import Mistake
from interlock.actions.lint import check
from interlock.actions.shellscript import commands

#: An action that answers whoever mentions it, as its makers' example has it.
MENTIONED = """
name: Mention
on:
  issue_comment: {types: [created]}
  pull_request_review_comment: {types: [created]}
  issues: {types: [opened, assigned]}
  pull_request_review: {types: [submitted]}
jobs:
  answer:
    if: |
      (github.event_name == 'issue_comment' && contains(github.event.comment.body, '@bot')) ||
      (github.event_name == 'pull_request_review' && contains(github.event.review.body, '@bot')) ||
      (github.event_name == 'issues' && (contains(github.event.issue.body, '@bot')))
    runs-on: ubuntu-latest
    permissions: {contents: read, id-token: write}
    steps:
      - uses: actions/checkout@v6
        with: {fetch-depth: 1}
      - uses: anthropics/claude-code-action@v1
        with: {prompt: hello}
"""

#: The whole state machine in one group, issues and pull requests apart, scheduled runs beside them.
APART = """
name: Claw
on:
  issues: {types: [opened]}
  issue_comment: {types: [created]}
  pull_request: {types: [opened, synchronize]}
  schedule: [{cron: "0 9 * * *"}]
  workflow_dispatch:
jobs:
  run-agent:
    if: >-
      github.event_name != 'issue_comment' || !endsWith(github.event.comment.user.login, '[bot]')
    runs-on: ubuntu-latest
    timeout-minutes: 30
    concurrency:
      group: >-
        claw-${{
          github.event_name == 'issues' && format('issue-{0}', github.event.issue.number) ||
          github.event_name == 'issue_comment' && format('issue-{0}', github.event.issue.number) ||
          github.event_name == 'pull_request' && format('pr-{0}', github.event.pull_request.number) ||
          github.event_name == 'schedule' && 'schedule' || format('other-{0}', github.run_id)
        }}
      cancel-in-progress: true
    steps:
      - uses: oven-sh/setup-bun@v2
      - run: |
          bun install --frozen-lockfile
          bun run lifecycle/agent.ts
"""

#: What is copied from builds: keyed by branch, which for comments is always the default branch.
BY_BRANCH = """
name: Triage
on: [issues, issue_comment]
concurrency:
  group: ${{ github.workflow }}-${{ github.head_ref || github.ref }}
  cancel-in-progress: ${{ github.event_name == 'issue_comment' }}
jobs:
  triage:
    runs-on: [self-hosted, linux]
    timeout-minutes: 10
    steps:
      - run: npx --yes @google/gemini-cli -p "Triage" | tee triage.log
"""

#: A gate decides, a matrix works, another workflow cleans up.
SEVERAL_JOBS = """
name: Fleet
on:
  issue_comment:
  pull_request_target: {types: [labeled]}
  workflow_call:
    inputs: {number: {type: number, required: true}}
defaults: {run: {shell: bash}}
jobs:
  gate:
    runs-on: ubuntu-latest
    outputs: {go: "${{ steps.x.outputs.go }}"}
    steps: [{id: x, run: echo go=yes >> $GITHUB_OUTPUT}]
  fix:
    needs: gate
    if: needs.gate.outputs.go == 'yes' && github.event.sender.type != 'Bot'
    strategy: {matrix: {agent: [claude, codex]}}
    runs-on: ubuntu-latest
    timeout-minutes: 45
    concurrency:
      group: >-
        fix-${{ matrix.agent }}-${{
          inputs.number || github.event.issue.number || github.event.pull_request.number }}
      queue: max
    steps:
      - run: |
          set -euo pipefail
          cat > prompt.txt <<'EOF'
          Do what #${{ github.event.issue.number || 0 }} asks; claude -p is for people.
          EOF
          exec ${{ matrix.agent }} exec "$(cat prompt.txt)"
  clean:
    needs: fix
    if: always()
    uses: ./.github/workflows/clean.yml
    secrets: inherit
"""

#: What the last one calls.
CLEAN = "on: workflow_call\njobs: {clean: {runs-on: x, steps: [{run: 'rm -rf out; npm run clean'}]}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MENTIONED, {Mistake.GROUP_MISSING, Mistake.TIMEOUT_MISSING}),
        (
            APART,
            {
                Mistake.BOT_NOT_FILTERED,
                Mistake.KEYED_APART,
                Mistake.SCHEDULE_CANCELLED,
                Mistake.SIGNALS_LOST,
            },
        ),
        (BY_BRANCH, {Mistake.GROUP_BEFORE_IF, Mistake.NUMBERS_SHARE_KEY, Mistake.SIGNALS_LOST}),
        (SEVERAL_JOBS, {Mistake.KEY_PER_MATRIX}),
    ],
    ids=["mentioned", "apart", "by-branch", "several-jobs"],
)
def test_workflows_as_people_write_them(text, expected):
    files = [("w.yml", text.encode()), ("clean.yml", CLEAN.encode())]
    assert {finding.code for finding in check(files)} == expected


PIECES = st.sampled_from(
    [
        "github",
        ".",
        "event",
        "[",
        "]",
        "(",
        ")",
        "'",
        "&&",
        "||",
        "==",
        "!",
        "format",
        "{0}",
        ",",
        "1",
        " ",
        "*",
        "null",
    ]
)
LINES = st.sampled_from(
    textwrap.dedent(
        """\
        on: [issues, pull_request]
        on:
          issue_comment:
        concurrency: ${{ github.ref }}
        concurrency:
          group: a-${{ github.event.issue.number
          cancel-in-progress: true
          queue: max
        jobs:
          a: &a
            if: ${{ github.actor }}
            steps:
              - run: |
                  claude -p "$(cat <<EOF
              - *a
          b: *a
            <<: *a
        """
    ).splitlines()
)
SHELL = st.sampled_from(
    [
        "git",
        " ",
        "push",
        "\n",
        "'",
        '"',
        "$(",
        ")",
        "`",
        "\\",
        "<<EOF",
        "|",
        "&&",
        ";",
        "#",
        "{",
        "}",
        "${",
        "(",
        ">",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_an_expression_is_understood_or_refused(text):
    with suppress(MalformedExpression, Undecided):
        parse(text)({"github": {"event": {}}})


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.lists(LINES, max_size=20).map("\n".join), st.text(max_size=200)))
def test_any_text_is_checked_and_every_finding_has_a_line(text):
    for finding in check([("w.yml", text.encode("utf-8", "surrogatepass"))]):
        assert finding.message.endswith(".")
        assert finding.line >= 1


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.lists(SHELL, max_size=40).map("".join), st.text(max_size=100)))
def test_any_script_is_read_to_its_end(text):
    for command in commands(text):
        assert command.program is not None
        assert command.line <= text.count("\n")
