"""Remotes whose address is a path relative to the clone, for git that runs elsewhere.

Git resolves a relative path from the top of its current working tree, and a worktree is somewhere else. So
git gets `url.<absolute path>.insteadOf=<configured path>` by variables, only for a run. The configuration of
the clone is unchanged, and its own `insteadOf` rules still apply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from interlock.core.errors import GitFailed
from interlock.git.plumbing import GitRepository

#: The first version of git that reads settings from `GIT_CONFIG_COUNT`.
_VARIABLES_FROM = (2, 31)


def absolute_addresses(repository: GitRepository) -> dict[tuple[str, str], str]:
    """The absolute path for each relative address, by the kind of git rule and the configured address.

    Git compares prefixes of addresses: one rule for `../a` also works for `../a/b`.
    """
    rules: dict[tuple[str, str], str] = {}
    top = repository.run("rev-parse", "--show-toplevel").out.rstrip("\n") or repository.directory
    for name in repository.text("remote").splitlines():
        urls, push_urls = (_configured(repository, f"remote.{name}.{key}") for key in ("url", "pushurl"))
        fetched = _used(repository, name)
        pushed = _used(repository, name, "--push")
        found = [("insteadOf", *pair) for pair in zip(urls, fetched, strict=False)]
        if push_urls:
            found += [("insteadOf", *pair) for pair in zip(push_urls, pushed, strict=False)]
        elif pushed != fetched:  # a rule of the user for pushes only
            found += [("pushInsteadOf", *pair) for pair in zip(urls, pushed, strict=False)]
        rules |= {(kind, url): str(Path(top, path).resolve()) for kind, url, path in found if _relative(path)}
    return rules


def variables(rules: Mapping[tuple[str, str], str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that let git find these absolute paths in any directory."""
    if not rules:
        return {}
    first = int(environ.get("GIT_CONFIG_COUNT") or 0)
    found = {"GIT_CONFIG_COUNT": str(first + len(rules))}
    for n, ((kind, address), path) in enumerate(rules.items(), first):
        found[f"GIT_CONFIG_KEY_{n}"], found[f"GIT_CONFIG_VALUE_{n}"] = f"url.{path}.{kind}", address
    return found


def effective(repository: GitRepository, address: str) -> str:
    """The address that git uses for this one, after its rules (`url.<base>.insteadOf`) and remote names."""
    return repository.run("ls-remote", "--get-url", "--", address).out.rstrip("\n")


def check_relative(repository: GitRepository) -> None:
    """Raise if a remote has a relative address and this git is too old to override it for a worktree."""
    version = re.search(r"(\d+)\.(\d+)", repository.text("version"))
    if version is None or (int(version[1]), int(version[2])) >= _VARIABLES_FROM:
        return
    for _, address in absolute_addresses(repository):
        raise GitFailed(
            f"A remote has the relative address {address!r}, which a worktree with this git cannot use.",
            "Give it an absolute path with git remote set-url, or install git 2.31 or later.",
        )


def _configured(repository: GitRepository, name: str) -> list[str]:
    return repository.run("config", "--get-all", name).out.splitlines()


def _used(repository: GitRepository, name: str, *options: str) -> list[str]:
    """The addresses of a remote after git's own rules."""
    return repository.run("remote", "get-url", "--all", *options, name).out.splitlines()


def _relative(address: str) -> bool:
    """Whether an address is a relative path for git: no host, no scheme, no home directory."""
    before_slash, slash, _ = address.partition("/")
    local = ":" not in (before_slash if slash else address)
    return local and address not in ("", ".") and not address.startswith(("/", "~"))
