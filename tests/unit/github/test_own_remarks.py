"""Which remarks are Interlock's own, by the token that it writes with."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.github.client import GitHub
from interlock.github.lookup import Reader
from interlock.github.remarks import Remark
from interlock.github.tokens import AppToken, GitHubToken, PlainToken


def remark(author: str, *, bot: bool) -> Remark:
    return Remark(kind="issue_comment", id=1, number=1, author=author, bot=bot, text="hello", url="")


def own(token: GitHubToken, author: str, *, bot: bool = True, app: dict[str, Any] | None = None) -> set[str]:
    with GitHub(token) as github:
        return set(Reader(github).own(remark(author, bot=bot), {"performed_via_github_app": app}))


@pytest.fixture
def app() -> AppToken:
    return AppToken(app_id="77", installation_id="5", private_key="", clock=lambda: 0.0)


def test_an_apps_remarks_are_those_of_its_bot(app: AppToken) -> None:
    ours = {"id": 77, "client_id": "Iv1.abc"}
    assert own(app, "helper[bot]", app=ours) == {"helper[bot]"}
    assert own(app, "alice", bot=False, app=ours) == set(), "a person who wrote by way of the app"
    assert own(app, "other[bot]", app={"id": 78, "client_id": "Iv1.def"}) == set()
    assert own(app, "other[bot]") == set()
    by_client_id = AppToken(app_id="Iv1.abc", installation_id="5", private_key="", clock=lambda: 0.0)
    assert own(by_client_id, "helper[bot]", app=ours) == {"helper[bot]"}


def test_in_actions_they_are_those_of_the_actions_bot() -> None:
    assert own(PlainToken("x", kind="actions"), "alice", bot=False) == {"github-actions[bot]"}
