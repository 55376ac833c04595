"""Modes of lanes in git: the scenarios of the databases, and what only git has."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput, UnreadableState
from interlock.gitlanes.modes import MODES
from tests.conformance import test_modes
from tests.conformance.git.conftest import GitScene, OpenClone
from tests.conformance.git.test_git_keeps_the_rules import scenarios
from tests.conformance.scene import LANE
from tests.conformance.test_modes import TestObserve, enforce, observe
from tests.git_fixtures import git

__all__ = ["TestObserve"]

TestSwitch = scenarios(test_modes.TestSwitch)


def test_every_clone_reads_the_modes_with_the_lane(scene: GitScene, open_service: OpenClone) -> None:
    observe(scene)
    other = open_service()
    assert [(r.scope, r.value, r.mode) for r in other.modes()] == [("lane", "issue:", "observe")]
    first = open_service().add([scene.new(lane=LANE), scene.new(lane=LANE)])
    assert [a.decision for a in first] == ["observed", "observed"]
    assert scene.service.lanes()[0].mode == "observe"
    counted = other.at_once().counts(LANE)
    assert counted == {"conflicts": 0, "retries": 0, "would_be_admitted": 1, "would_be_queued": 1}
    assert len(other.next("coder", limit=9)) == 2
    enforce(scene)
    assert other.add([scene.new(lane=LANE)])[0].decision == "queued"
    assert other.modes()[0].mode == "enforce"


def test_two_who_set_modes_at_once_both_succeed(scene: GitScene, open_service: OpenClone) -> None:
    """Taken out: the pin of the modes' ref."""
    slow, quick = open_service(), open_service()
    repository, push = slow.remote.repository, slow.remote.repository.push

    def meanwhile(*args: object) -> object:
        repository.push = push  # type: ignore[method-assign]
        quick.set_mode(scope="project", value="web", mode="observe")
        return push(*args)  # type: ignore[arg-type]

    repository.push = meanwhile  # type: ignore[method-assign, assignment]
    slow.set_mode(scope="lane", value="issue:", mode="observe", by="ann")
    assert [(r.scope, r.value) for r in scene.service.modes()] == [("lane", "issue:"), ("project", "web")]
    bare = slow.remote.url.removeprefix("file://")
    assert git(bare, "log", "-1", "--format=%s", MODES) == "lane issue:: observe by ann"  # type: ignore[arg-type]


def test_modes_that_cannot_be_read_enforce_every_lane(scene: GitScene) -> None:
    observe(scene)
    bare = scene.service.remote.url.removeprefix("file://")
    tree = git(bare, "hash-object", "-t", "tree", "-w", "/dev/null")
    git(bare, "update-ref", MODES, git(bare, "commit-tree", tree, "-m", "by hand"))
    assert scene.add(lane=LANE).decision == "admitted"
    for look in (scene.service.modes, lambda: enforce(scene)):
        with pytest.raises(UnreadableState, match="Every lane is enforced"):
            look()
    check = next(c for c in scene.service.doctor() if c.name == "modes can be read")
    assert (check.ok, "delete the ref" in check.mend) == (False, True)
    git(bare, "update-ref", "-d", MODES)
    assert scene.service.modes() == []


def test_off_needs_a_database(scene: GitScene) -> None:
    with pytest.raises(InvalidInput, match="needs a database"):
        scene.service.set_mode(scope="lane", value="issue:", mode="off")
    assert scene.service.modes() == []
