"""`interlock prove` through a server: a project of its own, and nobody else's work is touched."""

from __future__ import annotations

import json

import pytest

from interlock import prove as proof
from interlock.core.model import NewItem
from interlock.service.contract import ItemFilter
from tests.http.serving import Serving


@pytest.mark.slow
def test_through_a_server_other_projects_are_not_touched(
    serving: Serving, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_TOKEN", serving.token())
    service = serving.server.service
    others = [service.add([NewItem(title="ours", project="ours", type="prove")])[0].item for _ in range(3)]
    before = {item.id: item.status for item in others if item is not None}

    code = proof.prove(
        url=serving.url,
        seconds=5.0,
        seed=2,
        broken=None,
        restart=None,
        html=None,
        evidence=None,
        as_json=True,
        color=False,
        racers=8,
    )

    found = json.loads(capsys.readouterr().out)
    assert found["findings"] == []
    assert code == 0
    assert found["store"] == "server"
    assert found["zombies_refused"] >= 2
    assert {i.id: i.status for i in service.items(ItemFilter(all=True, project="ours"))} == before
    left = service.items(ItemFilter(limit=1_000))
    assert [item.project for item in left] == ["ours"] * 3, "the proof has left unfinished items"
    assert [agent.name for agent in service.agents()] == []
    assert "remain on the server until `interlock prune` deletes them there" in found["remains"]
