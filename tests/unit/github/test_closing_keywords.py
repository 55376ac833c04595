"""Which issues a pull request closes, by GitHub's own words."""

from __future__ import annotations

import pytest

from interlock.github.closing_keywords import closes


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Fixes #42", {42}),
        ("closes: #1, resolves #2 and fixed #3", {1, 2, 3}),
        ("Closes acme/App#7", {7}),
        ("resolve https://github.com/acme/app/issues/8.", {8}),
        ("fixes other/app#7", set()),
        ("closes https://github.com/other/app/issues/8", set()),
        ("see #42", set()),
        ("prefixes #42", set()),
        ("Fixes#42", set()),
        ("Fixes #42a", set()),
        ("`Fixes #42`", set()),
        ("> Fixes #42", set()),
        ("Fixes\n#42", {42}),
    ],
)
def test_closes(text: str, numbers: set[int]) -> None:
    assert closes(text, "acme/app") == numbers
