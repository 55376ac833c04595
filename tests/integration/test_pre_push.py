"""The `pre-push` hook is there or it is not: an installation that fails leaves what was there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from interlock.core.errors import GitFailed
from interlock.git.plumbing import GitRepository
from interlock.push import pre_push
from tests.git_fixtures import git


def test_a_full_disk_leaves_the_former_hook_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "--quiet")
    hook = tmp_path / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 7\n")
    before = sorted(hook.parent.iterdir())

    def full() -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pre_push, "_script", full)
    with pytest.raises(GitFailed, match="No space left"):
        pre_push.install(GitRepository(tmp_path))
    assert sorted(hook.parent.iterdir()) == before
    assert hook.read_text() == "#!/bin/sh\nexit 7\n"
