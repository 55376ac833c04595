"""The acceptance list of the assignment mutex, line by line, each by the test that keeps it.

The lines are the goals, risks, test plan and criteria of the mechanism; what is different on purpose
is in docs/explanation/five-mechanisms.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from interlock.core.series.document import LABEL
from interlock.core.series.snapshot import RolloutStage
from tests.github.fake import FakeGitHub, Repository
from tests.github.series_desk import BOT, SeriesDesk


@pytest.fixture
def desk(github: FakeGitHub, repo: Repository, tmp_path: Path) -> Iterator[SeriesDesk]:
    desk = SeriesDesk(github, repo, f"sqlite:///{tmp_path}/store.db", directory=tmp_path)
    yield desk
    desk.close()


#: Each line of the list, and the test that keeps it.
LINES = {
    "a single active assigned issue for each series": "test_series_stories:"
    "test_after_one_reconcile_a_series_is_what_the_model_says",
    "concurrent assignments do not conflict": "test_series_at_once:test_threads",
    "zero double assignments in 100 simulated concurrent attempts": "test_series_at_once:test_threads",
    "two concurrent attempts by threads or by processes: one succeeds": "test_series_at_once:test_processes",
    "clear queueing of the next candidates": "test_series:"
    "test_the_first_is_assigned_and_the_others_wait_in_order",
    "the active issue reflects reality within one cycle": "test_series_stories:"
    "test_after_one_reconcile_a_series_is_what_the_model_says",
    "a merged pull request promotes the head of the queue": "test_series:"
    "test_a_merged_pull_request_promotes_the_next_one",
    "an abandoned issue is let go and the next promoted": "test_series:test_a_closed_one_is_abandoned",
    "the state document has its fields": "test_state_issue:test_it_shows_what_the_seed_wants",
    "a corrupt document is rebuilt": "test_state_issue:"
    "test_what_is_broken_is_written_anew_and_decides_nothing",
    "a deleted tracking issue is made again": "test_state_issue:test_a_deleted_a_closed_and_a_doubled_one",
    "the version is validated": "test_state_issue:test_an_unknown_version_is_refused_and_not_overwritten",
    "an active issue makes a second wish a no-op": "test_series_commands:"
    "test_acquire_answers_as_a_workflow_needs_it",
    "the workflow acquires before it assigns, and aborts": "tests.acceptance.test_series_init:"
    "test_what_starts_them_and_what_they_may",
    "metrics as a JSON artifact": "test_series_commands:test_the_life_of_a_series",
    "a comment summarises each promotion": "test_series:"
    "test_each_promotion_is_told_once_where_the_rollout_says_so",
    "phase 1: the tracking issue and metrics, read-only": "test_series_acceptance:test_phase_1_only_looks",
    "phase 2: a single assignment is enforced": "test_series:"
    "test_who_is_assigned_beside_the_active_one_is_unassigned_and_counted",
    "phase 3: promotions post status comments": "test_series:"
    "test_each_promotion_is_told_once_where_the_rollout_says_so",
    "unassigned issues are appended once": "test_series_acceptance:test_issues_are_appended_once",
    "an issue that is converted, transferred or deleted leaves at once": "test_series:TestWhoLeaves",
    "every store, with crashes between any two requests": "test_series_stories:"
    "test_after_one_reconcile_a_series_is_what_the_model_says",
    "a place that is given back has an event of its own": "test_series:TestDependencies",
    "through a server": "test_series_served:test_the_life_of_a_series",
    "from Python": "test_series_commands:test_series_from_python",
    "order by micro number": "test_series:test_the_first_is_assigned_and_the_others_wait_in_order",
}


@pytest.mark.parametrize("line", LINES)
def test_each_line_has_its_test(line: str) -> None:
    module, _, name = LINES[line].partition(":")
    found = import_module(module if "." in module else f"tests.github.{module}")
    assert callable(getattr(found, name)), line


def test_phase_1_only_looks(desk: SeriesDesk) -> None:
    desk.mode(RolloutStage.OBSERVE)
    issues = [desk.issue(n) for n in (1, 2)]
    desk.reconcile()
    desk.reconcile()
    assert not any(issue.assignees or issue.comments or issue.labels for issue in issues)
    assert desk.state().labels == [LABEL]
    assert desk.service.gates() == []
    written = [line for line in desk.github.requests if line[0] != "GET"]
    assert len(written) == 1  # the state issue was made


def test_issues_are_appended_once(desk: SeriesDesk) -> None:
    first = desk.issue(1)
    desk.reconcile()
    later = [desk.issue(n) for n in (3, 2)]
    for _ in range(3):
        desk.reconcile()
    assert desk.view().active_issue == first.number
    assert desk.view().queue == (later[1].number, later[0].number)
    text = (desk.state().body or "").split("```json\n")[1].split("```")[0]
    assert json.loads(text)["queue"] == [later[1].number, later[0].number]
    assert desk.assigned() == {first.number: [BOT]}
