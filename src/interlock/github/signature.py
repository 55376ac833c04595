"""Whether a webhook's body was signed with our secret."""

from __future__ import annotations

import hmac

from interlock.core.errors import InvalidInput

_PREFIX = "sha256="


def sign(secret: str, body: bytes) -> str:
    """The header `X-Hub-Signature-256` of a body."""
    return _PREFIX + hmac.new(secret.encode(), body, "sha256").hexdigest()


def check(secret: str, body: bytes, header: str | None) -> None:
    """Raise unless the header is the signature of exactly these bytes. SHA-1 alone is refused."""
    if not secret:
        raise InvalidInput("There is no webhook secret.", "Set INTERLOCK_WEBHOOK_SECRET.")
    if not header or not header.startswith(_PREFIX):
        raise InvalidInput(
            "The delivery has no signature with SHA-256.", "Give the webhook a secret; SHA-1 is not accepted."
        )
    if not hmac.compare_digest(sign(secret, body).encode(), header.strip().lower().encode()):
        raise InvalidInput(
            "The signature does not belong to this body.", "Is the secret the one that the webhook has?"
        )
