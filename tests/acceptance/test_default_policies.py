"""Default policies: by type, by the beginning of a lane and by project, applied by the service."""

from __future__ import annotations

from pathlib import Path

import pytest

import interlock
from interlock import settings
from interlock.core.errors import InvalidInput
from interlock.core.model import NewItem
from interlock.remote.requests import item_document
from interlock.service.item_fields import new_item
from tests.acceptance.command import Command
from tests.http.up import Up

SETTINGS = """
[types.pr_review]
policy = "latest"

[policies.lanes]
"issue:" = "coalesce"
"issue:acme/infra#" = "reject"

[policies.projects]
shop = "supersede"
"""


@pytest.fixture
def chosen(il: Command) -> Command:
    (il.directory / "interlock.toml").write_text(SETTINGS)
    return il


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        (("--type", "pr_review", "--lane", "issue:a#1", "--policy", "reject"), "reject"),
        (("--type", "pr_review", "--lane", "issue:a#1", "--project", "shop"), "latest"),
        (("--lane", "issue:a#1", "--project", "shop"), "coalesce"),
        (("--lane", "issue:acme/infra#1", "--project", "shop"), "reject"),
        (("--payload", '{"repository": "acme/infra", "issue_number": 4}'), "reject"),
        (("--lane", "branch:main", "--project", "shop"), "supersede"),
        (("--lane", "branch:main"), "queue"),
    ],
)
def test_the_caller_the_type_the_longest_prefix_and_the_project_choose_in_this_order(
    chosen: Command, options: tuple[str, ...], policy: str
) -> None:
    assert chosen.ok("add", "some work", *options)["item"]["policy"] == policy


def test_python_programs_have_the_same_defaults(chosen: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(chosen.directory)
    with interlock.connect(chosen.url) as il:
        for given, policy in ((None, "coalesce"), ("queue", "queue")):
            item = il.add("some work", lane="issue:a#9", policy=given).item
            assert item is not None
            assert item.policy == policy


def test_a_client_leaves_the_policy_to_its_server() -> None:
    assert "policy" not in item_document(new_item({"title": "a"}))
    assert item_document(new_item({"title": "a", "policy": "queue"}))["policy"] == "queue"
    assert item_document(NewItem(title="a"))["policy"] == "queue"


def test_add_says_why_an_arrival_did_not_coalesce_or_supersede(chosen: Command) -> None:
    chosen.ok("add", "first", "--lane", "issue:a#1", "--agent", "coder")
    said = chosen("add", "second", "--lane", "issue:a#1", "--agent", "critic").out
    assert "coalesce: no item of critic on this lane takes messages, so the new item waits" in said
    said = chosen("add", "third", "--lane", "issue:a#1", "--agent", "boss", "--policy", "supersede").out
    assert "supersede: no item of boss on this lane has this policy, so none is replaced" in said


def test_add_says_why_latest_leaves_a_run_alone(chosen: Command) -> None:
    for title in ("first", "second"):
        answer = chosen.ok("add", title, "--lane", "issue:a#1", "--agent", "coder", "--policy", "latest")
        if title == "first":
            assert answer["policy_why"] is None
            chosen.claim("coder")
    assert answer["policy_why"] == (
        "latest: item 1 is running; only items that have not started are replaced"
    )


def test_the_defaults_of_a_server_hold_for_its_clients(
    chosen: Command, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients name no policy, and have settings of their own that say otherwise."""
    up = Up(chosen.directory)
    try:
        client = Command(tmp_path_factory.mktemp("client"), up.url, {"INTERLOCK_TOKEN": up.token})
        (client.directory / "interlock.toml").write_text('[policies.lanes]\n"issue:" = "reject"\n')
        to_coder = ("--lane", "issue:a#1", "--agent", "coder")
        assert client.ok("add", "first", *to_coder)["decision"] == "admitted"
        assert client.ok("add", "again", *to_coder)["decision"] == "coalesced"
        said = client("add", "other", "--lane", "issue:a#1", "--agent", "critic").out
        assert "policy   coalesce: no item of critic on this lane takes messages" in said
        monkeypatch.chdir(client.directory)
        monkeypatch.setenv("INTERLOCK_TOKEN", up.token)
        with interlock.connect(up.url) as il:
            answer = il.add("python", lane="issue:a#1", agent="third")
        assert (answer.decision, answer.policy_why) == (
            "queued",
            "coalesce: no item of third on this lane takes messages, so the new item waits",
        )
    finally:
        up.end()


def test_a_policy_that_does_not_exist_is_refused_with_its_place(il: Command) -> None:
    (il.directory / "interlock.toml").write_text('[policies.lanes]\n"issue:" = "first"\n')
    answer = il("add", "some work")
    assert answer.code == 2
    assert "Unknown policy 'first' in [policies.lanes]" in answer.err
    (il.directory / "interlock.toml").write_text('[policies.labels]\nbug = "queue"\n')
    assert "[policies.labels]" in il("add", "some work").err


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('[policies.lanes]\n"iss ue:" = "coalesce"', "no lane begins with 'iss ue:'."),
        ('[policies.lanes]\n"-a" = "coalesce"', "no lane begins with '-a'."),
        ('[policies.projects]\n"" = "coalesce"', "no project is called ''."),
        ('[policy.lanes]\n"issue:" = "coalesce"', "unknown key 'policy'."),
    ],
)
def test_a_default_policy_that_can_never_apply_is_refused(tmp_path: Path, table: str, says: str) -> None:
    (tmp_path / "interlock.toml").write_text(table)
    with pytest.raises(InvalidInput) as refused:
        settings.load(environ={}, directory=tmp_path)
    assert refused.value.sentence.endswith(says)
    assert ("Did you mean policies?" in refused.value.hint) is table.startswith("[policy.")


def test_a_prefix_may_be_half_a_name_and_is_compared_as_lanes_are(tmp_path: Path) -> None:
    lines = ('"" = "queue"', '"team/" = "latest"', '"Issue:Acme/" = "reject"')
    (tmp_path / "interlock.toml").write_text("\n".join(("[policies.lanes]", *lines)))
    found = settings.load(environ={}, directory=tmp_path).policies.lanes
    assert found == {"": "queue", "team/": "latest", "issue:acme/": "reject"}
