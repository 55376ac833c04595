"""Why a git server, or git itself, refused a push: parsed from git's output.

Servers word the same refusal in many ways, and say little when a ref moves between advertisement and update.
So a kind is a strong hint, not a proof: a caller that must be sure reads the refs again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

LINE_MAX_CHARS = 500


class RefusalKind(StrEnum):
    """The kinds of refusal that callers handle differently."""

    #: A ref is not at its pinned id, because another push moved it.
    STALE = "stale"
    #: The branch has commits that this one lacks.
    NON_FAST_FORWARD = "non_fast_forward"
    #: The server cannot move several refs at once.
    ATOMIC_UNSUPPORTED = "atomic_unsupported"
    #: Not signed in, not allowed, or the ref is protected.
    PERMISSION = "permission"
    #: The server was unreachable, or the connection broke. The push may have arrived.
    NETWORK = "network"
    #: A hook, here or on the server, refused it.
    HOOK = "hook"
    #: The commit names commits of submodules that are on no remote.
    SUBMODULE = "submodule"
    #: Any other refusal: `detail` is git's own sentence.
    OTHER = "other"


#: Refusals that a retry cannot change.
FINAL = frozenset(
    {RefusalKind.ATOMIC_UNSUPPORTED, RefusalKind.PERMISSION, RefusalKind.HOOK, RefusalKind.SUBMODULE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefMove:
    """One ref of a remote: its expected id and its new id. None means that the ref does not exist."""

    ref: str
    old_oid: str | None
    new_oid: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRefusal:
    """Why nothing moved (for `NETWORK`, everything may have moved)."""

    kind: RefusalKind
    #: The ref that git named, if any.
    ref: str | None
    #: One line of git's output, without passwords.
    detail: str


#: Names and addresses, which may contain any word.
_QUOTED = re.compile(r"'[^'\n]*'")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s']+@")
_REASON = re.compile(r"^!\t[^\t]*?:(?P<ref>[^\t]+)\t\[(?P<what>[^\]]+)\] \((?P<reason>.*)\)$")
_SUBMODULES = re.compile(r"that can\s?not be found on any remote:\n(?P<paths>(?:[ \t]+\S.*\n)+)")

#: Words of git and its servers by the kind of refusal, in the order of matching.
_WORDS = {
    RefusalKind.ATOMIC_UNSUPPORTED: re.compile("does not support --atomic"),
    RefusalKind.STALE: re.compile(
        "stale info|cannot lock ref|but expected|incorrect old value|reference already exists"
        "|unable to resolve reference"
    ),
    RefusalKind.NON_FAST_FORWARD: re.compile(
        "fetch first|non-fast-forward|needs force|tip of your current branch is behind"
    ),
    RefusalKind.HOOK: re.compile("hook declined|pre-push hook|hook failed"),
    RefusalKind.PERMISSION: re.compile(
        "authentication failed|could not read username|could not read password|terminal prompts disabled"
        "|permission|returned error: 40[13]|access denied|access rights|not allowed|protected|prohibited"
        "|rule violation|hidden ref|deny|denied|refusing|checked out|read-only"
    ),
    RefusalKind.NETWORK: re.compile(
        "could not resolve|unable to access|unable to connect|connection|timed out|early eof|hung up"
        "|rpc failed|returned error: 5|could not read from remote|unexpected disconnect|unable to unpack"
    ),
}


def without_secrets(text: str) -> str:
    """The text without the user and password of every URL."""
    return _CREDENTIALS.sub("", text)


def printable(text: str) -> str:
    """One line of foreign text, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text.strip())[:LINE_MAX_CHARS]


def telling_line(err: str) -> str:
    """The most informative line of git's standard error."""
    lines = [printable(line) for line in without_secrets(err).splitlines() if line.strip()]
    telling = [line for line in lines if "fatal:" in line or "error:" in line]
    return (telling or lines or ["git gave no reason"])[0].rstrip(".")


def classify(out: str, err: str, *, timed_out: bool) -> PushRefusal:
    """The refusal in the output of `git push --porcelain`."""
    if timed_out:
        return PushRefusal(kind=RefusalKind.NETWORK, ref=None, detail="the server did not answer in time")
    submodules = _SUBMODULES.search(err)
    if submodules is not None:
        paths = ", ".join(line.strip() for line in submodules["paths"].splitlines())
        return PushRefusal(kind=RefusalKind.SUBMODULE, ref=None, detail=printable(paths))
    marks = [match for line in out.splitlines() if (match := _REASON.match(line))]
    # In an atomic push, refs without a fault are marked as failed too; they are sorted last.
    marks.sort(key=lambda mark: "atomic" in mark["reason"])
    for mark in marks:
        kind = _of_ref(mark["what"], mark["reason"], err)
        if kind is not None:
            ref = None if "atomic" in mark["reason"] else mark["ref"]
            said = _server_line(err) if kind in (RefusalKind.HOOK, RefusalKind.PERMISSION) else ""
            detail = f"{mark['reason']}: {said}" if said else mark["reason"]
            return PushRefusal(kind=kind, ref=ref, detail=printable(without_secrets(detail)))
    if not out.strip() and "fatal:" not in err and "error: failed to push some refs" in err:
        # No ref is named, so git did not ask the server: the clone's own hook refused.
        words = [
            line.strip().rstrip(".") for line in err.splitlines() if not line.startswith("error: failed")
        ]
        detail = next(filter(None, words), "pre-push, without a message")
        return PushRefusal(kind=RefusalKind.HOOK, ref=None, detail=printable(without_secrets(detail)))
    kind = _kind(_QUOTED.sub("", err).lower(), but=(RefusalKind.NON_FAST_FORWARD,)) or RefusalKind.OTHER
    return PushRefusal(kind=kind, ref=None, detail=telling_line(err))


def _of_ref(what: str, reason: str, err: str) -> RefusalKind | None:
    """The kind of git's reason for one ref; None if the reason is unknown."""
    said = reason.lower()
    kind = _kind(said, but=(RefusalKind.ATOMIC_UNSUPPORTED, RefusalKind.NETWORK))
    if kind is RefusalKind.HOOK and "protected" in said:
        # A forge's own checks are hooks too, but a protected branch means a missing permission.
        return RefusalKind.PERMISSION
    if kind is None and what == "remote rejected" and _WORDS[RefusalKind.STALE].search(err.lower()):
        return RefusalKind.STALE
    return kind


def _kind(text: str, *, but: tuple[RefusalKind, ...]) -> RefusalKind | None:
    return next((kind for kind, words in _WORDS.items() if kind not in but and words.search(text)), None)


def _server_line(err: str) -> str:
    """The first line from the server or its hook."""
    lines = (line.removeprefix("remote:").strip() for line in err.splitlines() if line.startswith("remote:"))
    return next((line.rstrip(".") for line in lines if line), "")
