"""`interlock metrics`: the store's numbers for collectors of text files."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from interlock.service import contract
from tests.acceptance.command import Command
from tests.acceptance.test_json_answers import keys


def test_it_prints_what_prometheus_reads(any_il: Command):
    any_il.ok("add", "a", "--priority", 5)
    any_il.ok("done", any_il.claim()["run"])
    answer = any_il("metrics")
    assert (answer.code, answer.err) == (0, "")
    found = {family.name: family for family in text_string_to_metric_families(answer.out)}
    (done,) = found["interlock_runs"].samples
    assert (done.labels["outcome"], done.labels["priority"], done.value) == ("succeeded", "5", 1)
    views = any_il.ok("metrics")["metrics"]
    assert {view["name"] for view in views} == found.keys()
    assert all(set(view) == keys(contract.MetricView) for view in views)
    assert set(views[0]["samples"][0]) == keys(contract.SampleView)


def test_a_file_is_replaced_as_a_whole_and_others_may_read_it(il: Command, tmp_path: Path):
    il.ok("add", "a")
    file = tmp_path / "interlock.prom"
    file.write_text("old")
    with file.open() as reader:
        assert il("metrics", "--to", str(file)).code == 0
        assert reader.read() == "old", "whoever reads now reads the old one to its end"
    assert "interlock_arrivals_total{" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.glob(".interlock-*")) == []


@pytest.mark.parametrize("place", ["missing/interlock.prom", "folder"])
def test_a_file_that_cannot_be_written_is_said_in_words_and_leaves_nothing(
    il: Command, tmp_path: Path, place: str
):
    (tmp_path / "folder").mkdir()
    answer = il("metrics", "--to", str(tmp_path / place))
    assert answer.code == 2
    assert "cannot be written" in answer.err
    assert [file.name for file in tmp_path.glob(".interlock-*")] == []


def test_without_a_store_there_is_nothing_to_count_and_none_is_made(il: Command):
    answer = il("metrics")
    assert answer.code == 0
    assert 'interlock_items{status="pending"} 0.0' in answer.out
    assert "interlock_claims_total{" not in answer.out
