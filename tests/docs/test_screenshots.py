"""The pictures of the dashboard: each is shown on a page, is taken by a command, and is small."""

from __future__ import annotations

import re

import pytest

from docs.screenshots import FOLDER, SHOTS, SIZE_MAX_BYTES
from tests.docs.pages import WRITTEN

PICTURES = sorted(FOLDER.glob("*"))


def test_each_picture_is_taken_by_the_command() -> None:
    assert [picture.name for picture in PICTURES] == sorted(f"{name}.png" for name in SHOTS)


@pytest.mark.parametrize("name", SHOTS)
def test_each_picture_is_small_and_shown_with_a_description(name: str) -> None:
    picture = (FOLDER / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    assert len(picture) <= SIZE_MAX_BYTES
    shown = [
        text
        for page in WRITTEN
        for text in re.findall(rf"!\[(.+)\]\(\S*images/{name}\.png\)", page.read_text())
    ]
    assert shown, "no page shows it"
    assert all(len(text) > 15 for text in shown)
