"""Git as plumbing: the only module that runs git.

A `GitRepository` is a working tree or a bare repository on this machine. Refs on a remote move only by
compare-and-swap: a `RefMove` names the expected commit of the ref, and the git server refuses the whole push
if the ref has another. State is JSON in a commit message, one commit for each change, so that `git log` is
the history.

Not promised: that a push that ended in `RefusalKind.NETWORK` did not arrive. Read the refs again.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from interlock.core.errors import (
    GitFailed,
    GitMissing,
    InvalidInput,
    NoRemote,
    NoRepository,
    RemoteUnavailable,
    TooLarge,
    UnreadableState,
)
from interlock.core.names import lane_key
from interlock.git import prompts
from interlock.git.refusals import PushRefusal, RefMove, classify, telling_line, without_secrets

#: The timeout for local commands, and for commands that talk to a remote.
LOCAL_TIMEOUT_S = 60.0
REMOTE_TIMEOUT_S = 120.0
#: How long after SIGTERM git is killed.
END_WITHIN_S = 2.0
OUTPUT_MAX_BYTES = 32 << 20
#: The limit for lists of all files of a commit.
LISTING_MAX_BYTES = 1 << 30
#: How often to retry a fetch while another process locks the clone, and the pause between tries.
FETCH_TRIES, FETCH_PAUSE_S = 8, 0.25
STATE_MAX_BYTES = 16 << 20
OLDEST_GIT = "2.30"

#: Settings that override the user's, because they must not affect our pushes.
_PUSH_SETTINGS = (
    *("push.followTags=false", "push.gpgSign=false", "push.negotiate=false"),
    *("color.push=false", "color.transport=false", "color.remote=false", "color.advice=false"),
)
#: Git's messages for two sides with different object hashes; the last is for an empty remote.
_OTHER_FORMAT = (
    "mismatched algorithms",
    "does not support this repository's hash algorithm",
    "unexpected capabilities^{}",
)
_USAGE_ERROR = 129
_OID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?", re.ASCII)
_NONCE_KEY = "Interlock-Nonce"
#: A shallow clone locks its fetches. Git also creates a worktree in several steps, which fetches can see.
_OTHER_AT_WORK = re.compile(
    r"Unable to create '[^'\n]*\.lock': File exists|bad object worktrees/"
    r"|cannot lock ref '[^'\n]*': (?:is at \w+ but expected|reference already exists)"
)
#: Variables of the caller that would redirect git to another repository.
STRAY_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
)
#: Settings for work that must be kept unchanged. They override the user's and the agent's: no program is
#: run, refs wait for locks, and written data survives a power failure.
_OWN_SETTINGS = {
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.hooksPath": os.devnull,
    "core.protectNTFS": "true",  # names that it refuses could not be checked out again
    "core.safecrlf": "false",
    "core.filesRefLockTimeout": "10000",
    "core.packedRefsTimeout": "10000",
    "core.fsync": "all",
    "fastimport.unpackLimit": "0",
    "submodule.recurse": "false",
}
#: The author of commits that hold state, so that the user needs no configured name.
_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Interlock"), ("EMAIL", "interlock@localhost"))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GitResult:
    """The exit code and output of a git command."""

    code: int
    out: str
    err: str
    timed_out: bool = False
    #: The output as bytes: file names have no encoding.
    data: bytes = b""

    @property
    def complaint(self) -> str:
        """The most informative line of standard error, without passwords."""
        return telling_line(self.err)


class GitRepository:
    """One git repository on this machine.

    Every call starts a process with an argument list, a timeout and bounded output. It never asks for a
    password. It stays in the caller's process group, so that a signal that ends the caller ends git too.
    """

    def __init__(
        self, directory: Path, *, environ: Mapping[str, str] | None = None, options: Sequence[str] = ()
    ) -> None:
        self.directory = directory
        #: Variables and options that every command gets.
        self._environ = environ or {}
        self._options = tuple(options)

    @classmethod
    def containing(cls, directory: Path) -> GitRepository:
        """The repository that `directory` belongs to; raises if there is none."""
        repository = cls(directory)
        repository.text("rev-parse", "--git-dir")
        return repository

    @classmethod
    def at(cls, git_dir: Path, work_tree: Path | None = None) -> GitRepository:
        """The repository at `git_dir`, with our settings: git does not search parent directories for
        another."""
        options = [f"--git-dir={git_dir}", *([f"--work-tree={work_tree}"] if work_tree else [])]
        for name, value in _OWN_SETTINGS.items():
            options += ["-c", f"{name}={value}"]
        environ = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0"}
        return cls(work_tree or git_dir, environ=environ, options=options)

    @classmethod
    def make_bare(cls, directory: Path) -> GitRepository:
        """A bare repository at `directory`, created if missing."""
        directory.mkdir(parents=True, exist_ok=True)
        repository = cls(directory)
        repository.text("-c", "init.templateDir=", "init", "--quiet", "--bare")
        return repository

    def run(
        self,
        *args: str,
        stdin: str | bytes | IO[bytes] = "",
        timeout_s: float = LOCAL_TIMEOUT_S,
        environ: Mapping[str, str] | None = None,
        output_max_bytes: int = OUTPUT_MAX_BYTES,
    ) -> GitResult:
        """Run git and return its output, with any exit code. A file as `stdin` is read from its start."""
        # Files instead of pipes: a helper that outlives git (a credential cache) would keep a pipe open.
        new_file = tempfile.TemporaryFile
        with new_file() as own, new_file() as out, new_file() as err:
            given: IO[bytes] = own
            if isinstance(stdin, str | bytes):
                own.write(stdin.encode() if isinstance(stdin, str) else stdin)
            else:
                given = stdin
            given.seek(0)
            try:
                process = subprocess.Popen(
                    ["git", *self._options, *args],
                    cwd=self.directory,
                    env=_environment({**self._environ, **(environ or {})}),
                    stdin=given,
                    stdout=out,
                    stderr=err,
                )
            except FileNotFoundError:
                raise _cannot_start(self.directory) from None
            except (OSError, ValueError) as error:
                raise GitFailed(f"git cannot be started: {error}.", "Check the program and names.") from None
            timed_out = _wait(process, timeout_s)
            data = _bounded(out, output_max_bytes)
            return GitResult(
                code=process.returncode,
                out=data.decode(errors="replace"),
                err=_bounded(err, OUTPUT_MAX_BYTES).decode(errors="replace"),
                timed_out=timed_out,
                data=data,
            )

    def text(self, *args: str, stdin: str = "", timeout_s: float = LOCAL_TIMEOUT_S) -> str:
        """The output of a command, without the last line break; raises if it fails."""
        answer = self.run(*args, stdin=stdin, timeout_s=timeout_s)
        if answer.code:
            raise _failure(_subcommand(args), answer)
        return answer.out.removesuffix("\n")

    # -- remotes

    def ls_remote(self, remote: str, *patterns: str) -> dict[str, str]:
        """Refs of a remote and their ids. A pattern is a whole ref, or ends in `/*`."""
        answer = self._ask("ls-remote", "--quiet", "--", check_remote(remote), *patterns)
        if answer.code:
            raise self._remote_failure(remote, answer)
        pairs = (line.split("\t", 1) for line in answer.out.splitlines() if "\t" in line)
        return {ref: oid for oid, ref in pairs}

    def fetch(self, remote: str, *refspecs: str, timeout_s: float | None = None) -> None:
        """Fetch refs. It writes only the refs in the refspecs: no FETCH_HEAD, and no tracking branch, which
        two worktrees of one clone would both write."""
        options = ("--quiet", "--no-tags", "--refmap=", "--no-write-fetch-head", "--no-recurse-submodules")
        for tries_left in reversed(range(FETCH_TRIES)):
            answer = self._ask(
                *("fetch", *options, "--no-auto-gc", "--", check_remote(remote), *refspecs),
                timeout_s=timeout_s,
            )
            if not answer.code:
                return
            if not _OTHER_AT_WORK.search(answer.err) or not tries_left:
                raise self._remote_failure(remote, answer)
            time.sleep(FETCH_PAUSE_S)

    def push(
        self,
        remote: str,
        moves: Sequence[RefMove],
        *,
        atomic: bool = True,
        hooks: bool = False,
        environ: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> PushRefusal | None:
        """Move refs of a remote, each only from the id it is pinned to; None if all have moved.

        A pinned ref may move to any commit: a caller that needs a fast-forward checks that first. With
        `hooks` the user's `pre-push` hook runs; state is pushed without it. Submodules are never pushed:
        no fence protects them. If the user has configured git to push or check them, git checks them.
        """
        args = [word for setting in _PUSH_SETTINGS for word in ("-c", setting)]
        if re.fullmatch(r"[\w.-]+", remote):  # a remote's name; for others `git push` takes no refspec
            args += ["-c", f"remote.{remote}.mirror=false"]
        args += [] if hooks else ["-c", "push.pushOption="]
        args += ["push", "--porcelain", *(["--atomic"] if atomic else [])]
        args += [f"--recurse-submodules={self._submodule_option if hooks else 'no'}"]
        args += [] if hooks else ["--no-verify"]
        args += [f"--force-with-lease={move.ref}:{move.old_oid or ''}" for move in moves]
        refspecs = [f"{move.new_oid or ''}:{move.ref}" for move in moves]
        answer = self._ask(
            *(*args, "--", check_remote(remote), *refspecs), timeout_s=timeout_s, environ=environ
        )
        if not answer.code:
            return None
        self._raise_if_unusable(remote, answer)
        return classify(answer.out, answer.err, timed_out=answer.timed_out)

    def _ask(
        self, *args: str, timeout_s: float | None = None, environ: Mapping[str, str] | None = None
    ) -> GitResult:
        """Run a command that talks to a remote, without prompts."""
        return self.run(
            *(*prompts.CONFIGURATION, *args),
            timeout_s=timeout_s or REMOTE_TIMEOUT_S,
            environ={**self._sign_in, **(environ or {})},
        )

    def push_address(self, address: str) -> str:
        """The address that git pushes to for this one: a push must read where it writes."""
        other = [
            (beginning, name.removeprefix("url.").removesuffix(".pushinsteadof"))
            for name, beginning in self._chosen
            if name.startswith("url.") and address.startswith(beginning)
        ]
        beginning, instead = max(other, key=lambda pair: len(pair[0]), default=("", ""))
        return instead + address.removeprefix(beginning)

    @cached_property
    def _chosen(self) -> list[tuple[str, str]]:
        """The user's settings for connecting to remotes."""
        return self._settings(r"(core\.(sshcommand|askpass)|url\..*\.pushinsteadof)")

    @cached_property
    def _sign_in(self) -> dict[str, str]:
        chosen = dict(self._chosen)
        return prompts.variables(
            {**os.environ, **self._environ}, chosen.get("core.sshcommand", ""), chosen.get("core.askpass", "")
        )

    @property
    def _submodule_option(self) -> str:
        """The submodule option of a push."""
        chosen = dict(self._settings(r"(push\.recursesubmodules|submodule\.recurse)"))
        value = chosen.get("push.recursesubmodules", chosen.get("submodule.recurse", "no"))
        return "no" if value.lower() in ("no", "false", "0", "off") else "check"

    def _settings(self, pattern: str) -> list[tuple[str, str]]:
        """Git's configuration: names, with the first and last part in lower case, and values."""
        found = self.run("config", "--null", "--get-regexp", f"^{pattern}$").out
        entries = (entry.partition("\n") for entry in found.split("\0") if entry)
        return [(name, value) for name, _, value in entries]

    def _remote_failure(self, remote: str, answer: GitResult) -> GitFailed:
        self._raise_if_unusable(remote, answer)
        if answer.code == _USAGE_ERROR or "couldn't find remote ref" in answer.err:
            return _failure("fetch", answer)
        why = "it did not answer in time" if answer.timed_out else answer.complaint
        return RemoteUnavailable(
            f"The remote {without_secrets(remote)!r} cannot be read: {why}.",
            "Check the network and your access with git ls-remote.",
        )

    def _raise_if_unusable(self, remote: str, answer: GitResult) -> None:
        """Raise if the remote does not exist, if no repository is at its address or here, or if its hash
        differs."""
        if "not a git repository (or any" in answer.err:
            raise _failure("", answer)
        if any(words in answer.err for words in _OTHER_FORMAT):
            here = self.text("rev-parse", "--show-object-format")
            raise GitFailed(
                f"The remote {without_secrets(remote)!r} has another object format than this"
                f" repository, which uses {here}.",
                "Use a remote and a repository of the same object format (git init --object-format).",
            )
        if "does not appear to be a git repository" not in answer.err and "No such remote" not in answer.err:
            return
        name = without_secrets(remote)
        configured = self.run("config", "--get", f"remote.{remote}.url")
        if configured.code:
            raise NoRemote(
                f"There is no remote {name!r}.",
                "See git remote -v, or add one with git remote add origin URL.",
            )
        raise RemoteUnavailable(
            f"There is no repository at the remote {name!r}: {without_secrets(configured.out.strip())}.",
            f"Check the address; git remote set-url {name} URL changes it.",
        )

    # -- state

    def commit_json(
        self,
        document: Mapping[str, Any],
        *,
        subject: str,
        parents: Sequence[str] = (),
        tree: str | None = None,
    ) -> str:
        """The id of a new commit with `document` and the files of `tree`, different at each call.

        If it were the same, two clones that push it to a new ref would both succeed.
        """
        body = json.dumps(document, indent=1, sort_keys=True)
        message = f"{subject}\n\n{body}\n\n{_NONCE_KEY}: {secrets.token_hex(16)}\n"
        if len(message) > STATE_MAX_BYTES:
            raise TooLarge(f"The state has {len(message):,} bytes.", f"The limit is {STATE_MAX_BYTES:,}.")
        args = ["-c", "i18n.commitEncoding=UTF-8", "commit-tree", check_oid(tree or self._empty_tree)]
        for parent in parents:
            args += ["-p", check_oid(parent)]
        answer = self.run(*args, stdin=message, environ=_IDENTITY)
        if answer.code:
            raise _failure("commit-tree", answer)
        return answer.out.strip()

    def read_json(self, oid: str) -> dict[str, Any]:
        """The document of a commit (fetch it first). Raises `UnreadableState` if it has none."""
        answer = self.run("cat-file", "commit", check_oid(oid))
        if answer.code:
            raise UnreadableState(
                f"The commit {oid[:12]} cannot be read: {answer.complaint}.",
                "Fetch again; if that does not help, the ref was changed by hand.",
            )
        document = message_document(answer.out.partition("\n\n")[2])
        if document is None:
            raise UnreadableState(
                f"The commit {oid[:12]} has no state of Interlock.",
                "Something else changed the ref; see `git log` of it.",
            )
        return document

    def has(self, oid: str) -> bool:
        """Whether this commit is in the repository."""
        return self.run("cat-file", "-e", f"{check_oid(oid)}^{{commit}}").code == 0

    def is_ancestor(self, oid: str, of: str) -> bool:
        """Whether one commit has another in its history; False if either is missing."""
        return self.run("merge-base", "--is-ancestor", check_oid(oid), check_oid(of)).code == 0

    @cached_property
    def _empty_tree(self) -> str:
        # It is written, because its id depends on the repository's hash and not every git has it built in.
        return self.text("hash-object", "-t", "tree", "-w", "--stdin")


def message_document(message: str) -> dict[str, Any] | None:
    """The document in a commit message made by `GitRepository.commit_json`, if there is one."""
    try:
        # Subject, document, trailer: none of them contains an empty line.
        document = json.loads(message.split("\n\n")[1])
    except (IndexError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def access_of(directory: Path) -> dict[str, str]:
    """The remote settings of the clone around `directory`, as variables for git in another repository.

    CI systems keep a token in the configuration of the clone; it is not written anywhere. Empty without a
    clone. Git itself reads the configuration of the user and the machine.
    """
    asked = ("--local", "--includes", "--null", "--get-regexp", r"^(http|credential|url|core\.sshcommand)\b")
    answer = GitRepository(directory).run("config", *asked)
    pairs = [entry.partition("\n")[::2] for entry in answer.out.split("\0") if entry]  # empty if it failed
    first = os.environ.get("GIT_CONFIG_COUNT", "0")
    start = int(first) if first.isdecimal() else 0
    environ = {"GIT_CONFIG_COUNT": str(start + len(pairs))} if pairs else {}
    for nth, (key, value) in enumerate(pairs, start):
        environ |= {f"GIT_CONFIG_KEY_{nth}": key, f"GIT_CONFIG_VALUE_{nth}": value}
    return environ


def lane_ref_id(lane: str) -> str:
    """A lane's name as one part of a ref or path: readable, lower case, and unique."""
    key = lane_key(lane)
    slug = re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")[:40].strip("-")
    return f"{slug or 'lane'}-{sha256(key.encode()).hexdigest()[:20]}"


def check_oid(text: str) -> str:
    """Check an object's full id, in git's notation."""
    if not _OID.fullmatch(text):
        raise InvalidInput(f"{text[:80]!r} is not the id of a git object.", "Use the full id.")
    return text


def check_remote(text: str) -> str:
    """Check that a remote's name, URL or path cannot be mistaken for an option."""
    if not text or text.startswith("-") or not text.isprintable() or len(text) > 4_096:
        raise InvalidInput(f"{text[:80]!r} is not a remote.", "Use a name such as origin, a URL or a path.")
    return text


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name not in STRAY_VARIABLES}
    # English messages, because we parse them. No prompts, because there may be no person to answer.
    environ |= {"LC_ALL": "C", "LANGUAGE": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true"}
    return {**environ, **extra}


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait until git ends. Terminate it after the timeout (True), or if the caller is interrupted."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return True
    except BaseException:
        _end(process)
        raise
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # git removes its lock files and ends its own helpers on SIGTERM
    try:
        process.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _bounded(file: IO[bytes], max_bytes: int) -> bytes:
    # `pread` does not move the offset: a child process of git that is still ending writes there.
    data = os.pread(file.fileno(), max_bytes + 1, 0)
    if len(data) > max_bytes:
        raise TooLarge("The output of git is too large.", f"The limit is {max_bytes:,} bytes.")
    return data


def _cannot_start(directory: Path) -> GitFailed:
    if not directory.is_dir():
        return NoRepository(f"The directory {directory} does not exist.", "Go to a git repository.")
    return GitMissing("git is not installed, or not on PATH.", f"Install git {OLDEST_GIT} or later.")


def _subcommand(args: Sequence[str]) -> str:
    """The git subcommand in these arguments, after any `-c` options."""
    while len(args) > 2 and args[0] == "-c":
        args = args[2:]
    return args[0]


def _failure(command: str, answer: GitResult) -> GitFailed:
    if answer.timed_out:
        return GitFailed(f"git {command} did not end in time.", "Try again; check whether the disk is slow.")
    if "not a git repository" in answer.err:
        return NoRepository("This is not a git repository.", "Go to a clone of the repository first.")
    if answer.code == _USAGE_ERROR:
        return GitFailed(
            f"This git does not know an option that Interlock uses: {answer.complaint}.",
            f"Interlock needs git {OLDEST_GIT} or later; see git --version.",
        )
    full = "No space left" in answer.err or "quota exceeded" in answer.err
    hint = "Free some space, then try again." if full else ""
    return GitFailed(f"git {command} failed: {answer.complaint}.", hint)
