"""External runs on lanes in git: the scenarios of the databases, and what only git has."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.errors import InvalidInput, LeaseLost, UnreadableState
from interlock.gitlanes import documents, lane
from interlock.process.workplace import ActionsRun
from interlock.service.contract import LeaseView
from tests.conformance.git.conftest import GitScene, OpenClone
from tests.conformance.scene import LANE
from tests.conformance.test_external import (
    YEAR_S,
    outside,
    test_a_cancel_request_revokes_it_when_the_grace_is_over,
    test_a_failure_that_was_seen_is_tried_again_after_its_back_off,
    test_a_newer_arrival_supersedes_it_after_the_grace,
    test_a_renewal_learns_of_messages_and_gives_no_lease,
    test_a_run_under_a_lease_is_ended_by_its_handle_alone,
    test_a_timeout_of_the_item_ends_it_and_nothing_before,
    test_an_end_that_was_seen_too_late_changes_nothing,
    test_an_external_claim_has_neither_lease_nor_worker,
    test_another_process_sees_and_ends_it,
    test_messages_that_nobody_read_become_a_follow_up,
    test_under_a_cancel_request_a_seen_release_ends_the_item,
    test_whoever_sees_its_end_writes_it_by_the_number_of_the_run,
)

__all__ = [
    "test_a_cancel_request_revokes_it_when_the_grace_is_over",
    "test_a_failure_that_was_seen_is_tried_again_after_its_back_off",
    "test_a_newer_arrival_supersedes_it_after_the_grace",
    "test_a_renewal_learns_of_messages_and_gives_no_lease",
    "test_a_run_under_a_lease_is_ended_by_its_handle_alone",
    "test_a_timeout_of_the_item_ends_it_and_nothing_before",
    "test_an_end_that_was_seen_too_late_changes_nothing",
    "test_an_external_claim_has_neither_lease_nor_worker",
    "test_another_process_sees_and_ends_it",
    "test_messages_that_nobody_read_become_a_follow_up",
    "test_under_a_cancel_request_a_seen_release_ends_the_item",
    "test_whoever_sees_its_end_writes_it_by_the_number_of_the_run",
]

ENDED = ActionsRun(repository="acme/app", run=4711, attempt=1)


def test_neither_time_nor_the_end_of_a_workflow_run_ends_it(scene: GitScene) -> None:
    """Taken out: in `_begin`, the workflow run that an external run does not name; or its missing lease."""
    scene.service._actions, scene.service._has_ended = ENDED, lambda run: run == ENDED
    lease = outside(scene)
    assert (lease.expires_at, lease.lease_s, lease.renew_within_s) == (None, None, None)
    second = scene.put(lane=LANE)
    scene.pass_s(YEAR_S)
    assert scene.idle("copilot")
    assert (scene.owner(), scene.line()) == (lease.item.id, [second])
    scene.pass_s(YEAR_S)
    assert scene.done(lease).promoted == (second,)


def test_it_is_said_everywhere_that_a_run_is_external(scene: GitScene) -> None:
    lease = outside(scene)
    held = scene.service.lanes()[0].holder
    assert (held.external, held.expires_at, held.run) == (True, None, lease.fence)
    assert [i.id for i in scene.service.external()] == [lease.item.id]
    assert "without a deadline" in scene.service.why(lease.item.id).why
    behind = scene.service.why(scene.put(lane=LANE)).why
    assert f"held by external run {lease.fence} of copilot" in behind
    assert "which no deadline ends" in behind
    said = next(check for check in scene.service.doctor() if check.name == "external_runs")
    assert f"run {lease.fence} of copilot (item {lease.item.id})" in said.detail


def test_an_operator_ends_it_by_force_at_once(scene: GitScene) -> None:
    lease, second = outside(scene), scene.put(lane=LANE)
    scene.service.cancel(lease.item.id, why="nobody is there", by="ann", force=True)
    assert scene.item(lease.item.id).status == "cancelled"
    assert scene.item(second).status == "pending"
    assert scene.done(lease).refusal is not None
    with pytest.raises(LeaseLost, match="which is cancelled"):
        scene.service.end_external(lease.item.id, lease.fence, "done", why="merged")


def test_of_two_who_saw_its_end_one_writes_it_and_the_other_learns_that(
    scene: GitScene, open_service: OpenClone
) -> None:
    """Both decide on the same commit. The second push is refused by the server and decided again."""
    lease, second = outside(scene), scene.put(lane=LANE)
    slow, quick = open_service(), open_service()

    def meanwhile(*args: Any) -> Any:
        slow.remote.repository.push = push  # type: ignore[method-assign]
        quick.end_external(lease.item.id, lease.fence, "done", why="merged")
        return push(*args)

    push, slow.remote.repository.push = slow.remote.repository.push, meanwhile  # type: ignore[method-assign, assignment]
    with pytest.raises(LeaseLost, match="which is completed"):
        slow.end_external(lease.item.id, lease.fence, "cancel", why="unassigned")
    assert scene.item(lease.item.id).status == "completed"
    assert scene.owner() == second


def test_an_older_interlock_takes_the_lane_for_held(scene: GitScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken out: the format of a document with an external run, which an older one would call damaged."""
    outside(scene)
    for module in (documents, lane):
        monkeypatch.setattr(module, "FORMAT", 1)
    with pytest.raises(UnreadableState, match="format 2, which is newer than this"):
        scene.put(lane=LANE)
    assert scene.idle("copilot")
    with pytest.raises(InvalidInput, match="a newer Interlock"):
        scene.service.mend(LANE, why="it looks broken")
    monkeypatch.undo()
    assert scene.owner() is not None


def _halved(run: dict[str, Any]) -> None:
    run["run_lease_s"] = 900.0


def _in_a_workflow(run: dict[str, Any]) -> None:
    run["actions"] = ENDED._asdict()


def _ordinary(run: dict[str, Any]) -> None:
    until = run["run_started_us"]
    run.update(run_lease_s=900.0, lease_until_us=until, due_us=until)


@pytest.mark.parametrize("change", [_halved, _in_a_workflow, _ordinary], ids=lambda f: f.__name__.strip("_"))
def test_a_run_that_is_only_half_external_is_no_document_of_ours(scene: GitScene, change: Any) -> None:
    lease: LeaseView = outside(scene)
    ref_id = scene.service.remote.find(lease.item.id)
    document = documents.owner_document(LANE, scene.service.remote.read(ref_id).owner, ())
    assert documents.read_owner(ref_id, document)
    change(document["run"])
    with pytest.raises(UnreadableState):
        documents.read_owner(ref_id, document)
