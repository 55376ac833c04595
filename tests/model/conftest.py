"""What all models have in common."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def every_claim_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of an agent that is there: a process tells the store now and then, by a clock of its own."""
    monkeypatch.setattr("interlock.service.claims.SEEN_EVERY_S", 0.0)
