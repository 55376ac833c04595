"""Tokens: a person revokes one by the name that it was given, or by its id."""

import pytest

from interlock.core.errors import InvalidInput, NotFound
from tests.conformance.scene import Scene


def test_a_token_is_revoked_by_its_id_or_its_name(scene: Scene) -> None:
    """Taken out: the look at names. `token ls` showed a name, and `token revoke` did not know it."""
    service = scene.service
    by_id, by_name = service.create_token("laptop", scope="read"), service.create_token("ci", scope="admin")
    assert service.revoke_token(by_id.id).name == "laptop"
    gone = service.revoke_token("ci")
    assert (gone.id, gone.revoked_at is not None) == (by_name.id, True)
    assert service.revoke_token("ci").revoked_at == gone.revoked_at, "a second time changes nothing"
    with pytest.raises(NotFound, match="There is no token 'other'"):
        service.revoke_token("other")


def test_of_several_tokens_with_one_name_the_valid_one_is_meant(scene: Scene) -> None:
    service = scene.service
    service.revoke_token(service.create_token("ci", scope="read").id)
    second = service.create_token("ci", scope="read")
    assert service.revoke_token("ci").id == second.id
    twins = [service.create_token("ci", scope="read").id for _ in range(2)]
    with pytest.raises(InvalidInput, match="2 tokens are called 'ci'") as refused:
        service.revoke_token("ci")
    assert {each.arguments["token"] for each in refused.value.cures} == set(twins)
