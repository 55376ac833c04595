"""What the tests of this folder can use."""

from tests.git_fixtures import git_identity
from tests.github.fixtures import github, repo

__all__ = ["git_identity", "github", "repo"]
