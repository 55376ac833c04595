"""Settings: where they come from, which wins, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import settings
from interlock.core.errors import InvalidInput
from tests.acceptance.command import Command


def load(directory: Path, **environ: str) -> settings.Settings:
    return settings.load(environ=environ, directory=directory)


def write(directory: Path, text: str) -> None:
    (directory / ".interlock").mkdir(exist_ok=True)
    (directory / ".interlock" / "config.toml").write_text(text)


def test_defaults_are_those_of_the_table(tmp_path: Path):
    found = load(tmp_path)
    for setting in settings.SETTINGS:
        if setting.default is not None:
            assert getattr(found, setting.name) == setting.default
    assert found.url == "sqlite:///.interlock/interlock.db"
    assert (found.root, dict(found.types)) == (tmp_path, {})


def test_every_setting_is_described_and_has_its_variable():
    names = [setting.name for setting in (*settings.SETTINGS, *settings.TYPE_SETTINGS)]
    assert all(setting.description.endswith(".") for setting in (*settings.SETTINGS, *settings.TYPE_SETTINGS))
    assert settings.SETTINGS[0].env == "INTERLOCK_URL"
    assert set(settings.Settings.PARTS) - {
        "root",
        "home",
        "former",
        "types",
        "policies",
        "withheld",
        "outage",
    } == {s.name for s in settings.SETTINGS}
    assert set(settings.TypeDefaults.PARTS) == {s.name for s in settings.TYPE_SETTINGS}
    assert len(names) == len(settings.SETTINGS) + len(settings.TYPE_SETTINGS)


def test_the_environment_wins_over_the_file_and_an_option_over_both(tmp_path: Path):
    write(tmp_path, 'url = "sqlite:///file.db"\nlease_s = 30\npoll_s = 0.5\n')
    found = load(tmp_path, INTERLOCK_LEASE_S="45", INTERLOCK_ACTOR="bob")
    assert (found.url, found.lease_s, found.poll_s, found.actor) == ("sqlite:///file.db", 45.0, 0.5, "bob")
    assert found.timing.lease_s == 45.0
    assert (
        settings.load(url="sqlite:///option.db", environ={}, directory=tmp_path).url == "sqlite:///option.db"
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("colour = 1", "colour"),
        ("lease_s = 'long'", "lease_s"),
        ("lease_s = true", "lease_s"),
        ("lease_s = nan", "lease_s"),
        ("url = 5", "url"),
        ("cancel_grace_s = 9.9", "cancel_grace_s"),
        ("back_off_first_s = 20\nback_off_max_s = 10", "back_off_max_s"),
        ("lease_s = ", "TOML"),
        ("types = 3", "types"),
        ("[types.t]\nspeed = 3", "speed"),
        ("[types.t]\nmax_attempts = 1.5", "max_attempts"),
        ("[types.t]\npolicy = 'nope'", "nope"),
        ("[types.'a b']\npriority = 1", "a b"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, text: str, word: str):
    write(tmp_path, text)
    with pytest.raises(InvalidInput) as refused:
        load(tmp_path)
    assert word in refused.value.sentence
    assert refused.value.hint


@pytest.mark.parametrize("name", [s.env for s in settings.SETTINGS if s.kind is float])
def test_a_variable_that_is_no_number_is_named(tmp_path: Path, name: str):
    with pytest.raises(InvalidInput, match=name):
        load(tmp_path, **{name: "soon"})


def test_types_give_defaults_that_options_override(il: Command):
    write(il.directory, '[types.review]\nlease_s = 120\npriority = 7\nmax_attempts = 1\npolicy = "latest"\n')
    item = il.ok("add", "a", "--type", "review")["item"]
    assert (item["lease_s"], item["priority"], item["max_attempts"], item["policy"]) == (
        120.0,
        7,
        1,
        "latest",
    )
    assert il.ok("add", "b", "--type", "review", "--priority", 2)["item"]["priority"] == 2
    assert il.ok("add", "c")["item"]["priority"] == 0


def test_a_bad_file_is_one_sentence_at_the_command(il: Command):
    write(il.directory, "colour = 1")
    answer = il("--json", "ls")
    assert (answer.code, answer.error["code"]) == (2, "invalid_input")


def test_doctor_names_variables_that_nothing_reads(il: Command):
    answer = il("--json", "doctor", env={"INTERLOCK_LEASES": "5"})
    assert answer.code == 1
    assert [c["name"] for c in answer.json["checks"] if not c["ok"]] == ["environment"]
    said = il("doctor", env={"INTERLOCK_LEASES": "5"})
    assert "INTERLOCK_LEASES" in said.out


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///x.db", "{root}/x.db"),
        ("sqlite:///sub/x.db", "{root}/sub/x.db"),
        ("sqlite:////abs/x.db", "/abs/x.db"),
        ("sqlite://{root}/sub/x.db", "{root}/sub/x.db"),
        ("sqlite:////c#/what?/x.db", "/c#/what?/x.db"),
    ],
)
def test_sqlite_urls_name_files(tmp_path: Path, url: str, path: str):
    (tmp_path / "sub").mkdir()
    found = settings.sqlite_path(url.format(root=tmp_path), tmp_path)
    assert str(found).replace("//", "/") == path.format(root=tmp_path)


# -- lanes of payloads --------------------------------------------------------------------------------


def test_the_settings_name_the_fields_of_a_payload_that_give_a_lane(any_il: Command):
    any_il.env["INTERLOCK_LANE_FIELDS"] = "issueId, pull_request_number"
    wake = ("--agent", "coder", "--policy", "coalesce", "--payload")
    first = any_il.ok("add", "Wake", *wake, '{"issueId": "PAP-39"}')["item"]
    again = any_il.ok("add", "Wake again", *wake, '{"issueId": "pap-39", "comment": 2}')
    assert (first["lane"], again["decision"]) == ("issue:pap-39", "coalesced")
    review = any_il.ok("add", "Review", "--payload", '{"pull_request_number": 7, "repository": "acme/app"}')
    assert review["item"]["lane"] == "issue:acme/app#7"
    alone = any_il.ok("add", "Review", "--payload", '{"pull_request_number": 7}')["item"]["lane"]
    assert alone == "issue:7"
    chosen = any_il.ok("add", "x", "--lane", "deploy", "--payload", '{"issueId": "PAP-39"}')["item"]["lane"]
    assert chosen == "deploy"
    assert any_il.ok("add", "x", "--no-lane", "--payload", '{"issueId": "PAP-39"}')["item"]["lane"] is None
    assert (
        any_il("add", "x", "--payload", '{"issueId": "two words"}', "--json").error["code"] == "invalid_input"
    )
    plan: dict[str, Any] = {
        "name": "p",
        "tasks": [{"key": "a", "payload": {"issueId": "PAP-40"}}, {"key": "b"}],
    }
    any_il.ok("plan", "create", "-", stdin=json.dumps(plan))
    assert any_il.ok("ls", "--lane", "issue:PAP-40")["items"][0]["status"] == "pending"
    plan["tasks"] = [{"key": "a", "payload": {"issueId": "two words"}}]
    refused = any_il("plan", "create", "-", "--json", stdin=json.dumps(plan))
    assert "tasks[0].payload" in refused.out


def test_a_python_program_and_a_file_name_them_too(il: Command, monkeypatch: pytest.MonkeyPatch):
    fields = 'lane_fields = "object_attributes.iid"\nlane_repository_fields = "project.path_with_namespace"\n'
    write(il.directory, fields)
    monkeypatch.chdir(il.directory)
    payload = {"project": {"path_with_namespace": "acme/app"}, "object_attributes": {"iid": 7}}
    with interlock.connect() as connection:
        item = connection.add("Review", payload=payload).item
        assert item is not None
        assert item.lane == "issue:acme/app#7"
