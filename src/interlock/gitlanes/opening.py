"""Opens the lanes on the git remote that the settings name."""

from __future__ import annotations

from collections.abc import Callable

from interlock.core.errors import InvalidInput
from interlock.gitlanes.lane import HasEnded
from interlock.gitlanes.service import GitLanes
from interlock.process.reaction import PostedReaction
from interlock.process.workplace import ActionsRun
from interlock.settings import Settings, places
from interlock.store.opening import make_directory


def open_git(
    settings: Settings,
    *,
    actions: ActionsRun | None,
    has_ended: HasEnded,
    reaction: Callable[[], PostedReaction | None] = lambda: None,
) -> GitLanes:
    """The lanes on a git remote. A copy of them is kept beside the clone.

    `has_ended` tells whether the workflow run that holds a lane has ended. `reaction` tells which reaction a
    run of this process shows on GitHub.
    """
    settings.check_store()
    directory = places.inside(settings.root, settings.home / "git")
    make_directory(
        settings.home,
        settings.home,
        "A copy of the lanes is kept there; make it writable, or work in another clone.",
    )
    return GitLanes(
        _remote(settings.url),
        directory,
        timing=settings.timing,
        lease_min_s=settings.git_lease_min_s,
        poll_s=settings.poll_s,
        actions=actions,
        has_ended=has_ended,
        reaction=reaction,
    )


def _remote(url: str) -> str:
    """The remote's URL for git."""
    remote = url[len("git+") :]
    place = remote.partition("://")[2]
    if not place.strip("/") or (remote.startswith("file:") and not place.startswith("/")):
        raise InvalidInput(
            "The store's URL does not name a repository.",
            "Use git+https://host/name.git, or git+file:///absolute/path.git.",
        )
    return remote
