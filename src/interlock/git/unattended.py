"""Git without a person: nothing that git starts to sign in may wait for somebody to answer.

`GIT_TERMINAL_PROMPT` covers git itself. The programs that it starts need settings of their own: ssh
`BatchMode`, or an askpass program that fails at once; Git Credential Manager its own variable. An askpass
program of the user's own may be a script that prints a token, so it runs, but not for long.

Not promised: that a credential helper which asks a person in a window is ended before the git command is.
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
#: For git itself; helpers read it through git.
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
    """Variables for git, given the caller's, and what git's configuration says about ssh and askpass."""
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
    """Whether a shell command is OpenSSH with options: any other program may not know ours."""
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
