"""The picture of the demo in the README. That the demo shows it is looked at where the demo is run, in
`tests/integration/test_demo.py`."""

import pytest

from tests.docs.picture import PICTURE, not_shown


def test_the_readme_has_a_picture_of_the_demo():
    assert len(PICTURE.splitlines()) > 10
    assert not_shown(PICTURE) == []


@pytest.mark.parametrize("word", ["PASS", "superseded", "refused"])
def test_a_line_that_the_demo_does_not_show_is_noticed(word: str):
    assert not_shown(PICTURE.replace(word, "gone")) != []
