"""Git without prompts: no sign-in program that git starts may wait for a person.

`GIT_TERMINAL_PROMPT` covers git itself. The programs that it starts need their own settings. ssh needs
`BatchMode`, or an askpass program that fails at once; Git Credential Manager needs its own variable. The
user's askpass program may be a script that prints a token, so it runs, but only for a limited time.

Not promised: that a credential helper that asks a person in a window is ended before the git command ends.
"""

from __future__ import annotations

import atexit
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

#: A script answers within this time; a person does not.
ASKPASS_S = 10.0
#: Options for git itself; helpers read the setting through git.
CONFIGURATION = ("-c", "credential.interactive=false")

_BATCH = "-oBatchMode=yes"
_LIMITED = f"""
import os, signal, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
try:
    sys.exit(process.wait({ASKPASS_S}))
except subprocess.TimeoutExpired:
    os.killpg(process.pid, signal.SIGKILL)
    sys.exit(f"error: {{sys.argv[1]}} gave no answer in {ASKPASS_S:g} s")
"""


def variables(environ: Mapping[str, str], ssh_command: str, askpass: str) -> dict[str, str]:
    """Variables for git, from the caller's variables and the ssh and askpass settings of git."""
    chosen = {
        "GCM_INTERACTIVE": "never",
        "SSH_ASKPASS": "false",
        "SSH_ASKPASS_REQUIRE": "force",
    }
    asks = environ.get("GIT_ASKPASS") or askpass
    if asks:
        chosen["GIT_ASKPASS"] = _limited(asks)
    own = environ.get("GIT_SSH_COMMAND") or ssh_command
    if _is_ssh(own) or not (own or environ.get("GIT_SSH")):
        chosen["GIT_SSH_COMMAND"] = f"{own or 'ssh'} {_BATCH}"
    return chosen


def _is_ssh(command: str) -> bool:
    """Whether a shell command is OpenSSH with options. Other programs may not know our options."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return bool(words) and Path(words[0]).stem == "ssh"


@cache
def _limited(program: str) -> str:
    """The path of a script that runs an askpass program for a limited time."""
    directory = tempfile.mkdtemp(prefix="interlock-askpass-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = Path(directory) / "askpass"
    words = (sys.executable, "-P", "-c", _LIMITED, program)
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)
    return str(path)
