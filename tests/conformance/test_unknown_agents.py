"""Names that items give and no agent has: mistyped ones, and those of agents that have not come yet."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput
from tests.conformance.scene import Scene


def test_unknown_names_are_listed_with_how_many_items_give_them(scene: Scene) -> None:
    scene.service.set_agent("coder")
    scene.service.set_agent("zed")
    for agent in ("codr", "codr", "coder", "", "nobody"):
        scene.put(agent=agent)
    scene.put(lane="a", agent="coder")
    scene.put(lane="a", agent="liner")  # only in the line
    ended = scene.put(agent="gone")
    scene.service.cancel(ended, why="a typing error")
    found = scene.service.unknown_agents()
    assert [(each.name, each.items, each.near) for each in found] == [
        ("codr", 2, "coder"),
        ("liner", 1, None),
        ("nobody", 1, None),
    ]
    assert [each.name for each in scene.service.unknown_agents(limit=1)] == ["codr"]
    assert scene.service.next("nobody")
    assert "nobody" not in [each.name for each in scene.service.unknown_agents()], "it has claimed"
    with pytest.raises(InvalidInput):
        scene.service.unknown_agents(limit=0)


def test_known_names_do_not_hide_an_unknown_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(30):
        scene.service.set_agent(f"agent-{n:02}")
        scene.put(agent=f"agent-{n:02}")
    scene.put(agent="unknown")
    assert [each.name for each in scene.service.unknown_agents(limit=1)] == ["unknown"]
    monkeypatch.setattr("interlock.store.reads.NAMES_MAX", 10)
    assert scene.service.unknown_agents() == [], "at most so many names are visited"
