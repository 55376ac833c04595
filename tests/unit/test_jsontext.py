"""JSON that others wrote: what is taken can be kept and printed again; all else is refused as one thing."""

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.jsontext import DEPTH_MAX, parse
from interlock.core.names import check_payload
from interlock.core.validation import check_report

#: What the library takes, or fails on in its own way.
NO_JSON = [
    '{"a": 1e999}',
    '{"a": -1e999}',
    '{"a": NaN}',
    '{"a": -Infinity}',
    '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"a": ' + '{"a": ' * DEPTH_MAX + "1" + "}" * DEPTH_MAX + "}",
    '{"a": ' + "9" * 5_000 + "}",
    '{"a": 1, "a": 1}',
    '{"a": {"b": [{"c": 1, "c": 2}]}}',
    '{"a": 1, "\\u0061": 2}',
    "{",
    "",
]


@pytest.mark.parametrize("text", NO_JSON, ids=lambda text: text[:12])
def test_what_cannot_be_written_again_is_refused_everywhere(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)
    with pytest.raises(ValueError, match=r"."):
        parse(text.encode())
    with pytest.raises(InvalidInput, match="payload is not valid JSON"):
        check_payload(text)
    with pytest.raises(InvalidInput, match="result is not valid JSON"):
        check_report(0, text, None, True)


def test_a_key_that_comes_twice_is_named() -> None:
    with pytest.raises(ValueError, match="the key 'b' is duplicated"):
        parse('{"a": [{"a": 1, "b": 1, "c": 1, "b": 1}]}')
    assert parse('{"a": {"a": 1}, "b": {"a": 1}}') == {"a": {"a": 1}, "b": {"a": 1}}


def test_what_is_not_utf_8_is_no_json() -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(b'"\xff"')
    with pytest.raises(ValueError, match=r"."):
        parse('{"a": 1}'.encode("utf-16"))


def test_numbers_keep_their_value() -> None:
    assert parse("[1, -0.5, 1e300, 12345678901234567890]") == [1, -0.5, 1e300, 12345678901234567890]


def test_depth_is_that_of_the_deepest_place_not_the_number_of_brackets() -> None:
    deepest = "[" * DEPTH_MAX + "1" + "]" * DEPTH_MAX
    assert parse(deepest) is not None
    assert len(parse("[" + ",".join(["[{}]"] * 1_000) + "]")) == 1_000
    assert parse('"' + "[" * 1_000 + '"') == "[" * 1_000
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        parse(f"[{deepest}]")
