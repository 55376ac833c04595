"""The identity of requests: a user, a job of Actions, or an installation of an app.

No `repr` and no error message contains a secret.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

from interlock.core.errors import InvalidInput

#: GitHub accepts an app's signature for up to ten minutes, and refuses an issue time in the future.
_SIGNED_FOR_S = 540
_BACKDATED_S = 60
#: How long before its expiry an installation token is replaced.
_RENEWED_BEFORE_S = 300

#: The variables that may hold a ready token.
_PLAIN = ("INTERLOCK_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN")

#: Requests an installation token with the app's signature: (path, signature) → answer.
AskForToken = Callable[[str, str], Mapping[str, object]]


class GitHubToken(Protocol):
    """The credentials of requests."""

    @property
    def kind(self) -> str:
        """`user`, `actions` or `app`."""

    @property
    def identity(self) -> str:
        """An id of the account, without a secret: the key of cached answers."""

    @property
    def account(self) -> str:
        """The app's number or client id; empty for others."""

    def text(self, ask: AskForToken) -> str:
        """The current secret; an app requests a new one when needed."""

    def forget(self) -> bool:
        """Forget a secret that GitHub refused. Gives whether another one may be available."""

    def concealed(self, text: str) -> str:
        """The text without the secret."""


class PlainToken:
    """A token from the environment: a user's, or GITHUB_TOKEN of a job."""

    account = ""

    def __init__(self, secret: str, *, kind: str = "user") -> None:
        self._secret, self.kind = _printable(secret, "token"), kind
        self.identity = f"{kind} {hashlib.sha256(secret.encode()).hexdigest()[:16]}"

    def __repr__(self) -> str:
        return f"PlainToken(kind={self.kind!r})"

    def text(self, _ask: AskForToken) -> str:
        return self._secret

    def forget(self) -> bool:
        return False

    def concealed(self, text: str) -> str:
        return text.replace(self._secret, "***")


class AppToken:
    """An app: it signs with its key, and gets an installation token that is valid for an hour."""

    kind = "app"

    def __init__(
        self, *, app_id: str, installation_id: str, private_key: str, clock: Callable[[], float]
    ) -> None:
        if not installation_id.isdecimal():
            raise InvalidInput(
                "The app's installation id is not a number.",
                "It is the last part of the installation's URL in GitHub's settings.",
            )
        self.account, self._installation_id = _printable(app_id, "app id"), installation_id
        self._private_key, self._clock = private_key, clock
        self._lock = threading.Lock()
        self._secret: str | None = None
        self._ends_at = 0.0
        self.identity = f"installation {installation_id}"

    def __repr__(self) -> str:
        return f"AppToken(app={self.account!r}, installation={self._installation_id!r})"

    def text(self, ask: AskForToken) -> str:
        with self._lock:
            if self._secret is None or self._clock() >= self._ends_at - _RENEWED_BEFORE_S:
                path = f"/app/installations/{self._installation_id}/access_tokens"
                answer = ask(path, self._signed())
                self._secret = str(answer["token"])
                self._ends_at = datetime.fromisoformat(str(answer["expires_at"])).timestamp()
            return self._secret

    def forget(self) -> bool:
        with self._lock:
            had, self._secret = self._secret is not None, None
            return had

    def concealed(self, text: str) -> str:
        return text.replace(self._secret, "***") if self._secret else text

    def _signed(self) -> str:
        import jwt  # noqa: PLC0415  (only apps need cryptography)

        issued_at = int(self._clock()) - _BACKDATED_S
        claims = {"iat": issued_at, "exp": issued_at + _SIGNED_FOR_S, "iss": self.account}
        try:
            return jwt.encode(claims, self._private_key, algorithm="RS256")
        except (ValueError, TypeError, jwt.PyJWTError):
            raise InvalidInput(
                "The app's private key cannot be read.",
                "It is the text of the .pem file that GitHub gave you, with its first and last line.",
            ) from None


def is_given(environ: Mapping[str, str]) -> bool:
    """Whether the environment names a token, valid or not."""
    return any(environ.get(name, "").strip() for name in ("INTERLOCK_GITHUB_APP_ID", *_PLAIN))


def from_environment(environ: Mapping[str, str], *, clock: Callable[[], float]) -> GitHubToken | None:
    """The token in the environment: an app's, a user's, or the job's. None without one.

    A private key is read from the environment, or from a file named there, never from a repository's
    settings.
    """
    app_id, key = environ.get("INTERLOCK_GITHUB_APP_ID"), environ.get("INTERLOCK_GITHUB_APP_KEY")
    if app_id:
        file = environ.get("INTERLOCK_GITHUB_APP_KEY_FILE")
        if not key and file:
            key = _read(Path(file))
        installation = environ.get("INTERLOCK_GITHUB_APP_INSTALLATION")
        if not key or not installation:
            raise InvalidInput(
                "An app needs its private key and its installation id.",
                "Set INTERLOCK_GITHUB_APP_KEY_FILE and INTERLOCK_GITHUB_APP_INSTALLATION.",
            )
        return AppToken(app_id=app_id, installation_id=installation, private_key=key, clock=clock)
    for name in _PLAIN:
        if secret := environ.get(name, "").strip():
            of_a_job = name == "GITHUB_TOKEN" and environ.get("GITHUB_ACTIONS") == "true"
            return PlainToken(secret, kind="actions" if of_a_job else "user")
    return None


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInput(
            f"The app's private key cannot be read from {file}: {reason}.",
            "INTERLOCK_GITHUB_APP_KEY_FILE names the .pem file.",
        ) from None


def _printable(text: str, what: str) -> str:
    """A header cannot carry spaces, line ends or other alphabets. The error does not quote the text."""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidInput(
            f"The {what} for GitHub is empty or has invalid characters.",
            "Check for a line break or quotation mark that was copied with it.",
        )
    return text
