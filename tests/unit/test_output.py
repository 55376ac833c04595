"""What `--json` prints is JSON, also of what was kept before such numbers were refused."""

import json

import pytest

from interlock.cli.output import Output


def test_a_number_that_json_has_not_is_printed_as_null(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=True).print_json({"a": [float("inf"), {"b": float("nan")}], "c": 1.5})
    assert json.loads(capsys.readouterr().out) == {"a": [None, {"b": None}], "c": 1.5}
