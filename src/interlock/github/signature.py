"""Checks that a webhook's body was signed with our secret."""

from __future__ import annotations

import hmac

from interlock.core.errors import InvalidInput

_PREFIX = "sha256="


def sign(secret: str, body: bytes) -> str:
    """The `X-Hub-Signature-256` header for a body."""
    return _PREFIX + hmac.new(secret.encode(), body, "sha256").hexdigest()


def check(secret: str, body: bytes, header: str | None) -> None:
    """Raise unless the header is the signature of exactly these bytes. SHA-1 alone is refused."""
    if not secret:
        raise InvalidInput("No webhook secret is set.", "Set INTERLOCK_WEBHOOK_SECRET.")
    if not header or not header.startswith(_PREFIX):
        raise InvalidInput(
            "The delivery has no SHA-256 signature.", "Give the webhook a secret; SHA-1 is not accepted."
        )
    if not hmac.compare_digest(sign(secret, body).encode(), header.strip().lower().encode()):
        raise InvalidInput("Invalid signature.", "Compare the secret with that of the webhook.")
