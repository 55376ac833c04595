"""Limits and alphabets: what is refused before it can become a row, a path or a ref."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core import names
from interlock.core.errors import Exit, InvalidInput, TooLarge

ALPHABET = string.ascii_letters + string.digits + "_@#+=:./[]-"


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "a",
            "issue:acme/app#42",
            "series:acme/app/RFC-093",
            "copilot-swe-agent[bot]",
            "branch:feature/x_y",
            "v1.2.3",
            "a" * 200,
        ],
    )
    def test_a_lawful_name_is_returned_as_it_is(self, name: str) -> None:
        assert names.check_name("lane", name) == name

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "..",
            "../etc/passwd",
            "a/../b",
            "a..b",
            ".hidden",
            "a/.hidden",
            "a.",
            "a./b",
            "/absolute",
            "a//b",
            "a/",
            "-option",
            "x.lock",
            "x.lock/y",
            "with space",
            "back\\slash",
            "tab\tbed",
            "line\nbreak",
            "nul\x00",
            "ümlaut",
            "\uff41",
            "\u202eabc",
            "emoji🔒",
            "percent%2e",
            "question?",
            "star*",
            "tilde~1",
            "caret^",
            "brace@{1}",
            "\ud800",
        ],
    )
    def test_what_could_be_a_path_an_option_a_ref_or_a_riddle_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            names.check_name("lane", name)
        assert "lane" in refused.value.sentence
        assert refused.value.exit_code is Exit.USAGE

    def test_two_hundred_characters_are_the_limit(self) -> None:
        with pytest.raises(TooLarge, match="has 201 characters"):
            names.check_name("type", "a" * 201)

    @given(st.text(max_size=40))
    def test_a_name_that_passes_is_within_the_alphabet_and_safe_below_a_directory(self, name: str) -> None:
        try:
            names.check_name("lane", name)
        except InvalidInput:
            return
        assert set(name) <= set(ALPHABET)
        assert ".." not in name
        assert not name.startswith(("/", "-", "."))
        assert not name.endswith(("/", ".", ".lock"))

    @given(st.text(ALPHABET, min_size=1, max_size=20).filter(lambda t: t[0].isalnum() and t[-1].isalnum()))
    def test_letters_and_digits_joined_by_the_alphabet_pass(self, name: str) -> None:
        if all(part and part[0] != "." and part[-1] != "." for part in name.split("/")) and not (
            ".." in name or ".lock" in name
        ):
            assert names.check_name("key", name) == name

    def test_an_agents_name_is_compared_trimmed_and_in_lower_case(self) -> None:
        assert names.agent_key("  Coder\n") == "coder"
        assert names.agent_key("") == names.agent_key(" \t ") == ""

    def test_an_agents_name_with_other_letters_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="agent name"):
            names.agent_key("İstanbul")

    def test_issue_lanes_are_compared_without_case_as_github_does_and_others_with(self) -> None:
        assert names.lane_key("Issue:Acme/App#42") == "issue:acme/app#42"
        assert names.lane_key("branch:Feature") == "branch:Feature"


class TestLaneOfPayload:
    @pytest.mark.parametrize(
        "payload",
        [
            {"repository": "acme/app", "number": 42},
            {"repo": "acme/app", "number": 42},
            {"repository": {"full_name": "acme/app"}, "issue": {"number": 42}},
            {"repository": {"full_name": "Acme/App"}, "pull_request": {"number": 42}},
            {"repository": "acme/app", "issue_number": 42},
            {"repository": "acme/app", "pr_number": "42"},
            {"repository": "ACME/app", "issue": 42},
            {"repository": "acme/app", "number": None, "issue": {"number": 42}},
            {"repository": "acme/app", "issue": {"title": "no number"}, "pull_request": {"number": 42}},
            {"repository": "acme/app", "number": "0042"},
        ],
    )
    def test_a_repository_and_a_number_give_one_lane_for_issues_and_pull_requests(
        self, payload: dict[str, object]
    ) -> None:
        assert names.lane_of_payload(payload) == "issue:acme/app#42"

    @pytest.mark.parametrize(
        "payload",
        [
            {},
            {"repository": "acme/app"},
            {"number": 42},
            {"repository": {"name": "app"}, "number": 42},
            {"repository": "acme/app", "number": True},
            {"repository": "acme/app", "number": 4.2},
            {"repository": "acme/app", "number": "forty-two"},
            {"repository": "acme/app", "number": "\uff14\uff12"},
            {"repository": ["acme/app"], "number": 42},
            {"repository": None, "number": 42},
            {"repository": "acme/app", "number": 0},
            {"repository": "acme/app", "number": -1},
            {"repository": "acme/app", "issue": {"number": -1}},
        ],
    )
    def test_what_names_no_issue_gives_no_lane(self, payload: dict[str, object]) -> None:
        assert names.lane_of_payload(payload) is None

    @pytest.mark.parametrize("repository", ["../../etc", "acme app", "acme//app"])
    def test_a_repository_that_could_not_be_a_name_is_refused_and_makes_no_lane(
        self, repository: str
    ) -> None:
        with pytest.raises(InvalidInput):
            names.lane_of_payload({"repository": repository, "number": 1})

    @pytest.mark.parametrize(
        ("payload", "lane"),
        [
            ({"issueId": "PAP-39"}, "issue:pap-39"),
            ({"issueId": "PAP-39", "repository": "acme/app"}, "issue:pap-39"),
            ({"issueId": " 7 ", "pull_request_number": 9}, "issue:7"),
            ({"pull_request_number": 7}, "issue:7"),
            ({"pull_request_number": "7", "repository": "acme/app"}, "issue:acme/app#7"),
            ({"pull_request_number": 7, "number": 8, "repo": "acme/app"}, "issue:acme/app#7"),
            ({"issueId": None, "number": 8, "repo": "acme/app"}, "issue:acme/app#8"),
            ({"issueId": "", "pull_request_number": 7}, "issue:7"),
            ({"object_attributes": {"iid": 7}, "project": {"path_with_namespace": "a/b"}}, "issue:a/b#7"),
            ({"pull_request_number": 7, "project": {"path_with_namespace": 3}}, "issue:7"),
            ({"issueId": 0}, None),
            ({"issueId": ["PAP-39"]}, None),
            ({"object_attributes": 7}, None),
            ({"number": 8}, None),
        ],
    )
    def test_settings_name_other_fields_and_their_lane_needs_no_repository(
        self, payload: dict[str, object], lane: str | None
    ) -> None:
        fields = names.LaneFields(
            issue=("issueId", "pull_request_number", "object_attributes.iid"),
            repository=("project.path_with_namespace",),
        )
        assert names.lane_of_payload(payload, fields) == lane

    def test_a_key_that_could_not_be_a_name_is_refused(self) -> None:
        with pytest.raises(InvalidInput):
            names.lane_of_payload({"issueId": "two words"}, names.LaneFields(issue=("issueId",)))

    @pytest.mark.parametrize("digits", [19, 5_000])
    def test_digits_beyond_all_numbers_name_no_issue(self, digits: int) -> None:
        assert names.lane_of_payload({"repository": "acme/app", "number": "9" * digits}) is None


class TestTexts:
    def test_a_text_of_exactly_one_mebibyte_passes_and_one_byte_more_does_not(self) -> None:
        names.check_text("message", "x" * (1 << 20))
        with pytest.raises(TooLarge, match="1,048,577 bytes"):
            names.check_text("message", "x" * ((1 << 20) + 1))

    def test_the_limit_counts_bytes_and_not_characters(self) -> None:
        names.check_text("message", "ü" * (1 << 19))
        with pytest.raises(TooLarge):
            names.check_text("message", "ü" * ((1 << 19) + 1))

    def test_a_nul_that_postgresql_cannot_keep_is_refused_everywhere(self) -> None:
        with pytest.raises(InvalidInput, match="NUL"):
            names.check_text("message", "a\x00b")

    def test_half_a_surrogate_pair_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="not valid Unicode"):
            names.check_text("message", "a\ud83d")

    @given(st.text(max_size=100))
    def test_a_text_that_passes_survives_the_way_to_a_database_and_back(self, text: str) -> None:
        try:
            names.check_text("message", text)
        except InvalidInput:
            assert "\x00" in text
        else:
            assert text.encode().decode() == text


class TestTitles:
    def test_a_title_of_one_line_passes(self) -> None:
        assert names.check_title("Fix the login: 修复 🔒") == "Fix the login: 修复 🔒"

    @pytest.mark.parametrize("title", ["", "   ", "two\nlines", "tab\there", "bell\x07", "del\x7f", "\ud800"])
    def test_an_empty_or_broken_one_is_refused(self, title: str) -> None:
        with pytest.raises(InvalidInput):
            names.check_title(title)

    def test_five_hundred_characters_are_the_limit(self) -> None:
        names.check_title("x" * 500)
        with pytest.raises(TooLarge, match="501 characters"):
            names.check_title("x" * 501)

    @pytest.mark.parametrize("name", ["", "two\nlines", "nul\x00", "x" * 501])
    def test_the_name_of_a_plan_has_the_same_rules_and_is_not_called_a_title(self, name: str) -> None:
        with pytest.raises(InvalidInput, match="The name of the plan"):
            names.check_plan_name(name)


class TestPayloads:
    def test_an_object_is_parsed(self) -> None:
        assert names.check_payload('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}

    @pytest.mark.parametrize(
        "text", ["", "{", "[1]", '"text"', "null", "1", "{'a': 1}", '{"a": NaN}', '{"a": Infinity}', "{} {}"]
    )
    def test_what_is_not_one_json_object_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput, match="payload is not"):
            names.check_payload(text)

    def test_nesting_without_end_is_refused_and_does_not_break_the_interpreter(self) -> None:
        with pytest.raises(InvalidInput):
            names.check_payload('{"a":' * 200_000)

    def test_a_number_with_too_many_digits_is_refused(self) -> None:
        with pytest.raises(InvalidInput):
            names.check_payload('{"number": ' + "9" * 5_000 + "}")

    def test_one_mebibyte_is_the_limit(self) -> None:
        fits = json.dumps({"a": "x" * ((1 << 20) - 9)})
        assert len(fits) == 1 << 20
        names.check_payload(fits)
        with pytest.raises(TooLarge):
            names.check_payload(json.dumps({"a": "x" * ((1 << 20) - 8)}))


class TestNumbers:
    @pytest.mark.parametrize("value", [0, 1, 0.5])
    def test_the_bounds_are_within(self, value: float) -> None:
        names.check_number("priority", value, 0, 1)

    @pytest.mark.parametrize("value", [-0.001, 1.001, float("inf"), float("-inf"), float("nan")])
    def test_what_is_beyond_or_not_a_number_is_refused(self, value: float) -> None:
        with pytest.raises(InvalidInput, match=r"priority .* is out of range"):
            names.check_number("priority", value, 0, 1)

    @pytest.mark.parametrize(
        ("value", "low", "high", "said"),
        [
            (0.5, 1, 366 * 24 * 3600, "The window 0.5 is out of range. Use 1 to 31,622,400."),
            (40_000_000.0, 1.0, 2_592_000.0, "The window 40,000,000 is out of range. Use 1 to 2,592,000."),
            (1_234_567.5, 0.1, 3_600, "The window 1,234,567.5 is out of range. Use 0.1 to 3,600."),
            (-1001, -1000, 1000, "The window -1,001 is out of range. Use -1,000 to 1,000."),
            (10**400, 1, 2**31 - 1, "The window 1e+300 is out of range. Use 1 to 2,147,483,647."),
        ],
    )
    def test_numbers_are_written_as_people_write_them(
        self, value: float, low: float, high: float, said: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            names.check_number("window", value, low, high)
        assert str(refused.value) == said


class TestSafeNames:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("host-1.example.com", "host-1.example.com"),
            ("Ann B. Cö", "Ann-B.-C"),
            ("-rf", "rf"),
            ("../../etc", "etc"),
            ("a..b", "a.b"),
            ("x.lock", "x"),
            ("日本", "unnamed"),
            ("", "unnamed"),
            ("None", "unnamed"),  # which means any agent
        ],
    )
    def test_a_name_that_nobody_chose_is_made_lawful(self, text: str, name: str) -> None:
        assert names.safe_name(text) == name

    @given(st.text())
    def test_whatever_the_text_the_name_is_lawful(self, text: str) -> None:
        assert names.check_name("name", names.safe_name(text))
        assert names.agent_key(names.safe_name(text).lower())
