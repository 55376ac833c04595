"""What `interlock up` tells people to type works as it stands."""

import sys
from pathlib import Path

import pytest

from interlock.cli.up_command import _path_words


def test_a_command_that_is_not_on_the_path_is_put_there(monkeypatch: pytest.MonkeyPatch) -> None:
    own = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", "/usr/bin")
    assert _path_words() == f"  export PATH={own}:$PATH\n"
    monkeypatch.setenv("PATH", f"/usr/bin:{own}")
    assert _path_words() == ""
