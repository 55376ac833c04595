"""An arrival is checked once, in the core, by whichever door it comes: before it joins a transaction."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from interlock import app, settings
from interlock.core import validation
from interlock.core.model import CheckedItem, NewItem, Policy
from interlock.core.policies import Policies
from interlock.service.local import LocalService
from interlock.service.operations import ROOT
from tests.acceptance.command import CommandHere
from tests.http.requests import ask
from tests.http.serving import Serving

LANE = "issue:acme/app#1"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The titles of all arrivals that were checked."""
    real, titles = validation.checked, list[str]()

    def counted(new: NewItem) -> CheckedItem:
        titles.append(new.title)
        return real(new)

    monkeypatch.setattr(validation, "checked", counted)
    return titles


def by_python(serving: Serving, _: Path) -> None:
    serving.server.service.add([NewItem(title="x", lane=LANE)])


def by_client(serving: Serving, _: Path) -> None:
    serving.client().add([NewItem(title="x", lane=LANE)])


def by_operator(serving: Serving, _: Path) -> None:
    body = {"items": [{"title": "x", "lane": LANE}]}
    assert ask(serving.url, "POST", f"{ROOT}/items", body, token=serving.token("admin")).status == 200


def by_agent(serving: Serving, _: Path) -> None:
    """With default policies, which say whether an agent may add this item."""
    serving.serve(
        LocalService(serving.server.service.store, policies=Policies(lanes={"issue:": Policy.QUEUE}))
    )
    body = {"items": [{"title": "x", "lane": LANE, "agent": "other"}]}
    assert ask(serving.url, "POST", f"{ROOT}/items", body, token=serving.token("agent:coder")).status == 200


def by_command(_: Serving, tmp_path: Path) -> None:
    CommandHere(tmp_path).ok("add", "x", "--lane", LANE)


def by_git(_: Serving, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "lanes.git")], check=True)
    chosen = settings.load(url=f"git+file://{tmp_path}/lanes.git", environ={}, directory=tmp_path)
    with closing(app.open_lanes(chosen)) as lanes:
        lanes.add([NewItem(title="x", lane=LANE)])


@pytest.mark.parametrize("door", [by_python, by_client, by_operator, by_agent, by_command, by_git])
def test_an_arrival_is_checked_once(
    serving: Serving, tmp_path: Path, seen: list[str], door: Callable[[Serving, Path], None]
) -> None:
    """Taken out: the look for `CheckedItem` in `checked_arrivals`; that of an agent is checked twice."""
    door(serving, tmp_path)
    assert seen == ["x"]


def test_a_checked_arrival_is_in_normal_form() -> None:
    (new,) = validation.checked_arrivals([NewItem(title="x", lane="Issue:Acme/App#1", agent=" Coder ")])
    assert (new.lane, new.agent) == (LANE, "coder")
    assert validation.checked_arrivals([new])[0] is new
