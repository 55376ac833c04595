"""`interlock series` as a person or a workflow calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import interlock
from interlock.core.cures import Cure
from interlock.core.errors import NotFound
from tests.acceptance.command import Command, CommandHere
from tests.cures import performed
from tests.github.fake import FakeGitHub, Repository


@pytest.fixture
def here(tmp_path: Path, github: FakeGitHub, repo: Repository, monkeypatch: pytest.MonkeyPatch) -> Command:
    for name in ("INTERLOCK_GITHUB_TOKEN", "GITHUB_TOKEN", "INTERLOCK_GITHUB_APP_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GH_TOKEN", github.token("boss"))
    monkeypatch.setenv("GITHUB_API_URL", github.api_url)
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/app")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    for n in (1, 2, 3):
        repo.issue(f"RFC-093-{n:02}: Part {n}", by="alice")
    repo.issue("Something else", by="alice")
    return CommandHere(tmp_path, env={"INTERLOCK_SERIES_ASSIGNEE": "alice"})


def outputs(directory: Path) -> dict[str, str]:
    lines = (directory / "output").read_text().splitlines()
    (directory / "output").unlink()
    return dict(line.split("=", 1) for line in lines)


def test_acquire_answers_as_a_workflow_needs_it(here: Command, repo: Repository, tmp_path: Path) -> None:
    assert here("series", "acquire", 4).code == 0
    assert outputs(tmp_path) == {"status": "no-series", "active_issue": "", "position": "", "assign": "true"}
    assert here("series", "acquire", "#1").code == 0
    assert outputs(tmp_path) == {"status": "acquired", "active_issue": "1", "position": "", "assign": "false"}
    assert repo.numbers[1].assignees == ["alice"]
    again = here("series", "acquire", 1)
    assert again.code == 0
    assert outputs(tmp_path)["status"] == "already-active"
    waits = here("series", "acquire", 3)
    assert waits.code == 4
    assert "#3 is number 2 in the queue of RFC-093: #1 is active." in waits.out
    assert outputs(tmp_path) == {"status": "queued", "active_issue": "1", "position": "2", "assign": "false"}
    repo.numbers[2].edit(by="alice", body="Depends on #4")
    blocked = here("series", "acquire", 2)
    assert blocked.code == 4
    assert outputs(tmp_path)["status"] == "queued-dependency"
    assert repo.numbers[1].assignees == ["alice"]
    assert not repo.numbers[2].assignees


def test_who_assigns_himself_is_told_so_once(here: Command, repo: Repository, tmp_path: Path) -> None:
    assert here("series", "acquire", 1, "--no-assign").code == 0
    assert outputs(tmp_path)["assign"] == "true"
    assert not repo.numbers[1].assignees
    assert here("series", "acquire", 1, "--no-assign").code == 0
    assert outputs(tmp_path)["assign"] == "false"


def test_who_was_told_to_assign_and_died_is_replaced(here: Command, repo: Repository, tmp_path: Path) -> None:
    """Where nobody is assigned by us, the next caller is told to."""
    here.env["INTERLOCK_SERIES_ASSIGNEE"] = "none"
    here.ok("series", "acquire", 1, "--no-assign")
    repo.github.clock.advance(300)
    here.ok("series", "acquire", 1, "--no-assign")
    assert outputs(tmp_path) == {
        "status": "already-active",
        "active_issue": "1",
        "position": "",
        "assign": "false",
    }
    here.ok("series", "reconcile")
    assert here.ok("series", "status")["series"][0]["problems"] == []
    repo.github.clock.advance(301)
    here.ok("series", "reconcile")
    (problem,) = here.ok("series", "status")["series"][0]["problems"]
    assert "the caller of acquire has not assigned it" in problem
    here.ok("series", "acquire", 1, "--no-assign")
    assert outputs(tmp_path)["assign"] == "true"
    repo.numbers[1].assign("alice", by="boss")
    here.ok("series", "acquire", 1, "--no-assign")
    assert outputs(tmp_path)["assign"] == "false"


def test_another_login(here: Command, repo: Repository) -> None:
    here.ok("series", "acquire", 1, "--assign", "bob")
    assert repo.numbers[1].assignees == ["bob"]


def test_the_life_of_a_series(here: Command, repo: Repository, tmp_path: Path) -> None:
    assert "No series yet" in here("series", "status").out
    assert "There is no series RFC-777." in here("series", "status", "RFC-777").out
    here.ok("series", "reconcile", "--metrics", str(tmp_path / "assignment_mutex_metrics.json"))
    counts = json.loads((tmp_path / "assignment_mutex_metrics.json").read_text())
    assert counts["promotion_events"] == counts["series"]["RFC-093"]["promotion_events"] == 1
    assert counts["last_cycle"]["promotion_events"] == 1
    (shown,) = here.ok("series", "status", "rfc-93")["series"]
    assert (shown["active_issue"], shown["queue"], shown["state"]) == (1, [2, 3], "assigning")
    here.ok("series", "reconcile")
    text = here("series", "status").out
    assert "RFC-093  #1 assigned to alice  (enforce, prefixes apart)" in text
    assert "queue: #2, #3" in text
    assert here("series", "promote", "RFC-093").code == 4
    assert here("series", "promote", "RFC-093", "--force", "--reason", "urgent").code == 0
    assert here.ok("series", "status")["series"][0]["active_issue"] == 2
    assert not repo.numbers[1].assignees
    released = here.ok("series", "release", 2, "--reason", "not now")
    assert released["active_issue"] == 3
    here.ok("series", "rebuild", "RFC-093")
    assert here.ok("series", "status")["series"][0]["queue"] == [1, 2]
    assert here.ok("series", "metrics")["promotion_events"] == 3
    assert "all series: promotion events 3" in here("series", "metrics").out
    assert here.ok("doctor")["ok"]


@pytest.mark.parametrize("store", ["sqlite", "git"])
def test_series_from_python(
    here: Command, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_SERIES_ASSIGNEE", "alice")
    with interlock.connect(
        f"sqlite:///{tmp_path}/py.db" if store == "sqlite" else f"git+file://{repo.bare}"
    ) as il:
        assert il.service.series("acme/app") == []
        assert il.service.acquire_issue("acme/app", 2).status == "queued"
        (cycle,) = il.service.reconcile_series("acme/app", series=["rfc-93"])
        assert (cycle.active_issue, repo.numbers[1].assignees) == (1, ["alice"])
        (view,) = il.service.series("acme/app", series="RFC-093")
        assert (view.active_issue, view.queue) == (1, (2, 3))
        assert il.service.promote_series("acme/app", "RFC-093", force=True).active_issue == 2
        assert il.service.release_issue("acme/app", 2, why="not now").active_issue == 3
        assert il.service.rebuild_series("acme/app", "RFC-093").queue == (1, 2)
        assert il.service.series_metrics("acme/app")["promotion_events"] == 3


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("acquire", "x"), 2, "number"),
        (("acquire", "0"), 2, "out of range"),
        (("acquire", "99"), 1, "no issue #99"),
        (("acquire", "1", "--assign", "a", "--no-assign"), 2, "exclude each other"),
        (("acquire", "1", "--assign", "a b"), 2, "invalid character"),
        (("release", "4"), 1, "is not in a series"),
        (("promote", "RFC-7"), 1, "no open issue of RFC-007"),
        (("promote", "nothing"), 2, "Invalid series name"),
        (("status", "nothing"), 2, "Invalid series name"),
        (("reconcile", "--metrics", "/nowhere/at/all"), 2, "Cannot write"),
    ],
)
def test_mistakes_are_named(
    here: Command, repo: Repository, args: tuple[str, ...], code: int, says: str
) -> None:
    answer = here("series", *args)
    assert says in answer.err
    assert answer.code == code
    if args[0] != "reconcile":
        assert not any(issue.assignees for issue in repo.numbers.values())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("SERIES_MODE", "everything"),
        ("SERIES_PATTERN", "RFC-{series}"),
        ("SERIES_PREFIXES", "some"),
        ("SERIES_UNASSIGNED", "maybe"),
        ("SERIES_ASSIGNEE", "a b"),
        ("SERIES_EXEMPT", "a b"),
    ],
)
def test_a_setting_that_makes_no_sense_changes_nothing(
    here: Command, repo: Repository, setting: str, value: str
) -> None:
    here.env[f"INTERLOCK_{setting}"] = value
    assert here("series", "reconcile").code == 2
    assert not any(issue.assignees for issue in repo.numbers.values())


def test_a_delivery_and_a_reconcile_of_the_intake_keep_series_that_were_begun(
    here: Command, repo: Repository
) -> None:
    def ingest(issue: int, event: str) -> None:
        delivery = [
            d for d in repo.github.deliveries if d.event == "issues" and d.payload["action"] == event
        ][-1]
        assert delivery.payload["issue"]["number"] == issue
        here.ok(
            "github", "ingest", "--event", "issues", "--delivery", delivery.guid, "-", stdin=delivery.body
        )

    ingest(4, "opened")
    assert not repo.numbers[1].assignees  # nobody has asked for series here
    here.ok("series", "reconcile")
    assert repo.numbers[1].assignees == ["alice"]
    repo.numbers[1].close(by="alice")
    ingest(1, "closed")
    assert repo.numbers[2].assignees == ["alice"]
    repo.github.faults.refuse(403, "Forbidden", 10**9, on="GET /repos/acme/app/issues")
    delivery = [d for d in repo.github.deliveries if d.event == "issues"][-1]
    answer = here("github", "ingest", "--event", "issues", "--delivery", "x", "-", stdin=delivery.body)
    assert answer.code == 0, "a delivery is taken in whatever becomes of series"
    assert "Series were not reconciled: " in answer.err
    repo.github.faults.over()
    repo.numbers[2].close(by="alice")
    here.ok("github", "reconcile", "--repo", "acme/app")
    assert repo.numbers[3].assignees == ["alice"]


def test_cures_of_refusals_and_of_doctor_do_what_they_say(
    here: Command, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here.env |= {"INTERLOCK_URL": f"sqlite:///{tmp_path}/py.db", "INTERLOCK_SERIES_ASSIGNEE": "none"}
    here.ok("series", "acquire", 1, "--no-assign")
    repo.github.clock.advance(601)
    here.ok("series", "reconcile")
    (check,) = [each for each in here("--json", "doctor").json["checks"] if each["name"] == "series"]
    assert not check["ok"]
    repo.numbers[1].assign("alice", by="boss")
    with interlock.connect(here.env["INTERLOCK_URL"]) as il:
        with pytest.raises(NotFound) as refused:
            il.service.promote_series("acme/app", "RFC-777")
        (listed,) = refused.value.cures
        assert [view.series for view in performed(il.service, listed)] == ["RFC-093"]
        (again,) = check["cures"]
        (cycle,) = performed(il.service, Cure(**again))
        assert cycle.problems == ()
