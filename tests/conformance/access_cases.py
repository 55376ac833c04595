"""Every statement on tokens and answered requests, for the tests of costs."""

from __future__ import annotations

from interlock.core.model import NewItem
from interlock.service.local import LocalService
from interlock.store.access import RepeatableRequest


def use_access(service: LocalService) -> None:
    """A token is made, used and revoked; a request is carried out once."""
    made = service.create_token("laptop", scope="agent:coder", expires_s=3600)
    assert made.token is not None
    assert service.has_tokens()
    assert service.bearer(made.token)[0].id == made.id
    assert service.tokens()
    assert service.live_tokens([made.id, "unknown"]) == {made.id}
    assert service.revoke_token(made.id).revoked_at is not None
    assert service.live_tokens([made.id]) == set()
    request = RepeatableRequest("new", "asked")
    assert service.answered(request) is None
    added = service.answering(request).add([NewItem(title="asked for", agent="asker", type="own")])
    assert added[0].item is not None
    assert service.answered(request)[0]["item"]["id"] == added[0].item.id
    claim = RepeatableRequest("claim", "asked")
    (lease,) = service.answering(claim).next("asker", types=["own"])
    (again,) = service.claimed(service.answered(claim)["claimed"])
    assert again.run == lease.run
    service.forget_requests()
