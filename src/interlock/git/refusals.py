"""Why a git server, or git itself, refused a push: parsed from what git printed.

Servers use many words for the same thing, and few when a ref moves between advertisement and update. So a
kind is a strong hint, not a proof: a caller that must be sure looks at the refs again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

LINE_MAX_CHARS = 500


class RefusalKind(StrEnum):
    """The kinds of refusal that callers handle differently."""

    #: A ref is not at its pinned id: somebody moved it.
    STALE = "stale"
    #: The branch has commits that this one lacks.
    NON_FAST_FORWARD = "non_fast_forward"
    #: The server cannot move several refs at once.
    ATOMIC_UNSUPPORTED = "atomic_unsupported"
    #: Not signed in, not allowed, or the ref is protected.
    PERMISSION = "permission"
    #: The server was not reached, or the connection broke: the push may have arrived.
    NETWORK = "network"
    #: A hook, here or on the server, refused it.
    HOOK = "hook"
    #: Anything else: `detail` is git's own sentence.
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefMove:
    """One ref of a remote: the id it must have now, and its new id; None means "does not exist"."""

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

_STALE = (
    "stale info",
    "cannot lock ref",
    "but expected",
    "incorrect old value",
    "reference already exists",
    "unable to resolve reference",
)
_BEHIND = ("fetch first", "non-fast-forward", "needs force", "tip of your current branch is behind")
_HOOK = ("hook declined", "pre-push hook", "hook failed")
_DENIED = (
    "authentication failed",
    "could not read username",
    "could not read password",
    "terminal prompts disabled",
    "permission",
    "returned error: 401",
    "returned error: 403",
    "access denied",
    "access rights",
    "not allowed",
    "protected",
    "prohibited",
    "rule violation",
    "hidden ref",
    "deny",
    "denied",
    "refusing",
    "checked out",
    "read-only",
)
_NETWORK = (
    "could not resolve",
    "unable to access",
    "unable to connect",
    "connection",
    "timed out",
    "early eof",
    "hung up",
    "rpc failed",
    "returned error: 5",
    "could not read from remote",
    "unexpected disconnect",
    "unable to unpack",
)
_NO_ATOMIC = ("does not support --atomic",)


def without_secrets(text: str) -> str:
    """The text without the user and password of every URL."""
    return _CREDENTIALS.sub("", text)


def printable(text: str) -> str:
    """One line of foreign text, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text.strip())[:LINE_MAX_CHARS]


def telling_line(err: str) -> str:
    """The most telling line of git's standard error."""
    lines = [printable(line) for line in without_secrets(err).splitlines() if line.strip()]
    telling = [line for line in lines if "fatal:" in line or "error:" in line]
    return (telling or lines or ["git gave no reason"])[0].rstrip(".")


def classify(out: str, err: str, *, timed_out: bool) -> PushRefusal:
    """The refusal behind what `git push --porcelain` printed."""
    if timed_out:
        return PushRefusal(kind=RefusalKind.NETWORK, ref=None, detail="the server did not answer in time")
    marks = [match for line in out.splitlines() if (match := _REASON.match(line))]
    # In an atomic push, refs that were not at fault are marked as failed too; they come last.
    marks.sort(key=lambda mark: "atomic" in mark["reason"])
    for mark in marks:
        kind = _of_ref(mark["what"], mark["reason"], err)
        if kind is not None:
            ref = None if "atomic" in mark["reason"] else mark["ref"]
            said = _server_line(err) if kind in (RefusalKind.HOOK, RefusalKind.PERMISSION) else ""
            detail = f"{mark['reason']}: {said}" if said else mark["reason"]
            return PushRefusal(kind=kind, ref=ref, detail=printable(without_secrets(detail)))
    if not out.strip() and "fatal:" not in err and "error: failed to push some refs" in err:
        # No ref is named, so git did not ask the server: the clone's own hook refused, in its own words.
        words = [
            line.strip().rstrip(".") for line in err.splitlines() if not line.startswith("error: failed")
        ]
        detail = next(filter(None, words), "pre-push, without a message")
        return PushRefusal(kind=RefusalKind.HOOK, ref=None, detail=printable(without_secrets(detail)))
    return PushRefusal(kind=_of_all(_QUOTED.sub("", err).lower()), ref=None, detail=telling_line(err))


def _of_ref(what: str, reason: str, err: str) -> RefusalKind | None:
    said = reason.lower()
    if _any(_STALE, said):
        return RefusalKind.STALE
    if _any(_BEHIND, said):
        return RefusalKind.NON_FAST_FORWARD
    if _any(_HOOK, said):
        # A forge's own checks are hooks too; but a protected branch means a missing permission.
        return RefusalKind.PERMISSION if "protected" in said else RefusalKind.HOOK
    if _any(_DENIED, said):
        return RefusalKind.PERMISSION
    if what == "remote rejected" and _any(_STALE, err.lower()):
        return RefusalKind.STALE
    return None


def _of_all(err: str) -> RefusalKind:
    for kind, words in (
        (RefusalKind.ATOMIC_UNSUPPORTED, _NO_ATOMIC),
        (RefusalKind.STALE, _STALE),
        (RefusalKind.HOOK, _HOOK),
        (RefusalKind.PERMISSION, _DENIED),
        (RefusalKind.NETWORK, _NETWORK),
    ):
        if _any(words, err):
            return kind
    return RefusalKind.OTHER


def _server_line(err: str) -> str:
    """The first line from the server or its hook."""
    lines = (line.removeprefix("remote:").strip() for line in err.splitlines() if line.startswith("remote:"))
    return next((line.rstrip(".") for line in lines if line), "")


def _any(words: tuple[str, ...], text: str) -> bool:
    return any(word in text for word in words)
