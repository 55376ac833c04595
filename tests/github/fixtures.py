"""The fake for tests: served on real HTTP, and held against GitHub's own descriptions when the test ends."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.github import openapi
from tests.github.fake import FakeGitHub, Repository
from tests.github.openapi import NEW_VERSION
from tests.github.server import serve


@pytest.fixture
def github(tmp_path: Path) -> Iterator[FakeGitHub]:
    """A fake at `github.api_url`. A test that means to ask wrongly empties `wrong_requests`."""
    fake = FakeGitHub(tmp_path / "github")
    with serve(fake):
        yield fake
    wrong = [*fake.wrong_answers, *fake.wrong_requests]
    for delivery in fake.deliveries:
        wrong += openapi.webhooks().problems(delivery.event, delivery.payload)
    assert not wrong, "\n".join(dict.fromkeys(wrong))


@pytest.fixture
def repo(github: FakeGitHub) -> Repository:
    """`acme/app` with a webhook whose deliveries are listed: boss owns it, alice and bob may write."""
    repo = github.repository("acme/app", admin=["boss"], write=["alice", "bob"], labels=["bug"])
    repo.hook()
    return repo


class Plain(NamedTuple):
    """An answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: Any


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_options: Any) -> None:
        return None


def ask(
    github: FakeGitHub,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    version: str | None = NEW_VERSION,
    headers: dict[str, str] | None = None,
) -> Plain:
    """One request by the standard library, redirects and errors as they are."""
    sent = {"User-Agent": "test", **(headers or {})}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    if version is not None:
        sent["X-GitHub-Api-Version"] = version
    url = path if "://" in path else github.api_url + path
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers=sent)
    try:
        answer = urllib.request.build_opener(_Stay).open(request, timeout=60)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        raw = answer.read()
        plain = {name.lower(): value for name, value in answer.headers.items()}
        kind = plain.get("content-type", "")
        return Plain(answer.status, plain, json.loads(raw) if raw and "json" in kind else raw)


def key_pair() -> tuple[str, str]:
    """A private key of an app and the public half that GitHub keeps."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.private_bytes(*form).decode(), key.public_key().public_bytes(*public).decode()
