"""After a restore no fence may be given out twice."""

from tests.acceptance.command import Command


def test_after_a_restore_the_next_run_is_above_every_number_given_out_since_the_backup(any_il: Command):
    any_il.ok("add", "a")
    before = any_il.claim()["fence"]
    skipped = any_il.ok("migrate", "--after-restore")["last_run"]
    any_il.ok("add", "b")
    assert any_il.claim()["fence"] > skipped >= before + 1_000_000
    assert any_il("--json", "migrate", "--after-restore", "--check").error["code"] == "invalid_input"
