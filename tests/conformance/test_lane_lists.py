"""Lists of lanes: page by page, by number, and since when an item waits; blocks and gates of one lane."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput
from interlock.store.port import LANES_MAX
from tests.conformance.scene import Scene


def names(scene: Scene, **wanted: object) -> list[str]:
    return [view.lane for view in scene.service.lanes(**wanted)]  # type: ignore[arg-type]


def test_lanes_are_listed_page_by_page(scene: Scene) -> None:
    lanes = [f"issue:acme/app#{n}" for n in (1, 10, 2)] + ["pr:acme/app#1", "release"]
    for lane in reversed(lanes):
        scene.put(lane=lane)
    assert names(scene, limit=2) == lanes[:2]
    assert names(scene, after=lanes[1], limit=2) == lanes[2:4]
    assert names(scene, after=lanes[3], limit=2) == lanes[4:]
    assert names(scene, after=lanes[4]) == []
    assert names(scene, prefix="issue:ACME", after=lanes[0]) == lanes[1:3]
    assert names(scene, prefix="pr:", after="issue:acme/app#2") == lanes[3:4], "a page before the prefix"
    assert names(scene, prefix="issue:", after="pr:") == []


def test_lanes_of_a_number_are_found_in_all_repositories(scene: Scene) -> None:
    found = ["issue:acme/app#42", "issue:acme/lib#42", "pr:acme/app#42", "pr:acme/zoo#42"]
    others = ["42", "issue:acme/app#4", "issue:acme/app#420", "issue:acme/app#5", "issue:acme/lib#420"]
    others += ["issue:acme/mid#7", "issue:acme/app42", "pr:acme/app#41", "pr:acme/none", "series:acme/42"]
    for lane in (*others, *found):
        scene.put(lane=lane)
    scene.put(lane="issue:acme/lib#42")  # a line does not name the lane twice
    assert names(scene, number=42) == ["42", *found]
    assert names(scene, number=42, prefix="issue:") == found[:2]
    assert names(scene, number=42, after=found[0], limit=2) == found[1:3]
    assert names(scene, number=420) == ["issue:acme/app#420", "issue:acme/lib#420"]
    assert names(scene, number=9) == []
    with pytest.raises(InvalidInput):
        scene.service.lanes(number=-1)


def test_a_search_for_a_number_visits_each_repository_twice(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LANES_MAX > 6
    monkeypatch.setattr("interlock.store.reads.LANES_MAX", 6)
    for n in range(20):
        scene.put(lane=f"issue:acme/app#{n}")
        scene.put(lane=f"issue:acme/lib#{n}")
    scene.put(lane="pr:acme/app#7")
    assert names(scene, number=7) == ["issue:acme/app#7", "issue:acme/lib#7", "pr:acme/app#7"]


def test_the_oldest_of_a_line_is_named_and_not_the_first(scene: Scene) -> None:
    scene.put(lane="a")
    assert scene.service.lanes()[0].waiting_since is None
    oldest = scene.put(lane="a", position=9)
    scene.clock.advance(60)
    first = scene.put(lane="a", position=1)
    (lane,) = scene.service.lanes()
    assert lane.line == (first, oldest)
    assert lane.waiting_since == scene.service.show(oldest).item.created_at


def test_blocks_of_one_lane_are_listed(scene: Scene) -> None:
    item = scene.put(lane="a")
    scene.service.block(lane="a", blocker="acme/app#3", why="first things first")
    scene.service.block(lane="b", blocker="acme/app#3", why="elsewhere")
    scene.service.block(item=item, blocker="acme/app#4", why="the item alone")
    assert [(b.lane, b.item, b.reason) for b in scene.service.blocks(lane="a")] == [
        ("a", None, "first things first")
    ]
    assert len(scene.service.blocks()) == 3
    assert scene.service.blocks(lane="c") == []


def test_the_gate_of_one_lane_is_listed(scene: Scene) -> None:
    series = "series:acme/app/RFC-1"
    for n, of in ((1, series), (2, series), (3, "series:x")):
        scene.service.set_gate(f"issue:acme/app#{n}", series=of, open=False, why="its turn comes later")
    found = scene.service.gates(lane="issue:ACME/app#2")
    assert [(gate.lane, gate.series, gate.open) for gate in found] == [("issue:acme/app#2", series, False)]
    assert len(scene.service.gates(series=series)) == 2
    assert scene.service.gates(lane="issue:acme/app#2", series="series:x") == []
    assert scene.service.gates(lane="issue:acme/app#9") == []
