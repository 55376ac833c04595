"""The dashboard of `interlock up`, as a process: what its server wires by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.dashboard.pages import ROUTES
from tests.dashboard.client import Visitor
from tests.http.up import Up


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    started = Up(Path(tmp_path_factory.mktemp("up")))
    yield started
    started.end()


@pytest.fixture(scope="module")
def visitor(up: Up) -> Visitor:
    visitor = Visitor(up.url)
    visitor.sign_in(up.token)
    return visitor


@pytest.mark.parametrize("path", [path for path in ROUTES if "{" not in path and path != "/lane"])
def test_every_page_answers_on_an_empty_store(visitor: Visitor, path: str) -> None:
    """Without the repositories of `open_periodic_jobs` there are no series without a name."""
    seen = visitor.get(path)
    assert seen.status == 200, seen.words
    assert "Not done" not in seen.words


def test_without_series_the_api_and_the_page_say_so(up: Up, visitor: Visitor) -> None:
    client = up.client()
    try:
        assert client.series() == []
    finally:
        client.close()
    assert "There are no series." in visitor.get("/series").words


def test_a_page_about_what_is_not_there_says_so(visitor: Visitor) -> None:
    for path in ("/items/1", "/plans/1"):
        seen = visitor.get(path)
        assert seen.status == 404
        assert "There is no" in seen.words
