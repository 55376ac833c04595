"""Which tool calls of an agent put something before others."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.hook.tool_calls import COMMAND_MAX_CHARS, publishes
from tests.hook_spellings import rows

TOOLS = {kind: names for kind, names in rows("Seen").items() if kind in ("read", "write")}
SEEN = [script for kind, scripts in rows("Seen").items() if kind not in TOOLS for script in scripts]
LEFT_ALONE = [script for scripts in rows("Left alone").values() for script in scripts]
NOT_SEEN = [script for scripts in rows("Not seen").values() for script in scripts]


def of_script(script: object) -> str:
    return publishes("Bash", {"command": script})


def test_the_page_has_the_spellings():
    assert len(SEEN) > 100
    assert len(LEFT_ALONE) > 40
    assert len(NOT_SEEN) > 10


@pytest.mark.parametrize("script", SEEN)
def test_a_spelling_that_the_page_calls_seen_is_seen(script):
    assert of_script(script)


@pytest.mark.parametrize("script", LEFT_ALONE)
def test_a_spelling_that_the_page_calls_left_alone_is_not_taken_for_publishing(script):
    assert of_script(script) == ""


@pytest.mark.parametrize("script", NOT_SEEN)
def test_the_page_owns_up_to_what_is_not_seen(script):
    """If one is seen one day, move it to the other table."""
    assert of_script(script) == ""


@pytest.mark.parametrize("server", ["github", "GitHub", "plugin_github_github", "github_file_ops"])
def test_tools_of_github_are_told_apart_by_their_names(server):
    for name in TOOLS["write"]:
        assert publishes(f"mcp__{server}__{name}", {}) == name
    for name in TOOLS["read"]:
        assert publishes(f"mcp__{server}__{name}", {}) == ""


def test_other_tools_do_not_publish():
    assert publishes("mcp__docs__create_page", {}) == ""
    assert publishes("mcp__", {}) == ""
    assert publishes("Write", {"file_path": "run.sh", "content": "git push"}) == ""
    assert publishes("Bash", {}) == ""
    assert of_script(7) == ""


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("git push", "git push"),
        ("git lfs push origin", "git lfs push"),
        ("gh -R a/b pr merge 7", "gh pr merge"),
        ("gh label clone a/b", "gh label clone"),
        ("gh api -iXPATCH repos/acme/app/issues/7", "gh api"),
        ("gh api graphql -F query=@query.graphql", "gh api"),
        ("jj git push", "jj git push"),
        ("$GIT push", "a push"),
        ("/usr/lib/git-core/git-push origin", "git-push"),
        ("git push\r\nls\r\n", "git push"),
        ("cat <<EOF\r\nit's\r\nEOF\r\ngit push\r\n", "git push"),
        ("echo 'schön 🎉' && git push", "git push"),
        (["bash", "-lc", "git push"], "git push"),
    ],
)
def test_the_answer_names_the_command(script, found):
    assert of_script(script) == found


def test_a_command_too_long_to_be_read_counts_if_it_names_a_program_that_publishes():
    text = "cat <<EOF\n" + "x" * COMMAND_MAX_CHARS + "\nEOF\n"
    assert of_script(text) == ""
    assert "too long" in of_script(text + "git push")


_TOKENS = """
    git push gh api | && || ; & ( ) { } (( )) $( ` ' " <<EOF <<'EOF' <<- <<< EOF <( > < $(( ${ if then fi for
    in do done case esac ;; a) # ! [[ ]] = a=( \\ function f() $' $" @( 2>&1 &> * bash -c eval echo xargs env
    -S sudo x $x é 🎉 --
"""
_PIECES = _TOKENS.split()
_PIECES += [" ", "\n", "\r\n", "\t", "\0", "\\\n", "\nEOF\n"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=120), st.sampled_from(["", " "]))
def test_every_text_is_answered(pieces, blank):
    script = blank.join(pieces)
    assert isinstance(of_script(script), str)
    assert isinstance(publishes(script, {"command": [script, script]}), str)


@pytest.mark.parametrize(
    "piece", ["$(", "((", "<(", "`", "a=(", "{ ", "eval ", "time ", "bash -c '", "echo|bash|"]
)
def test_nesting_without_end_ends(piece):
    """What is nested deeper than in any real script is read as if it were not nested."""
    assert of_script(piece * (COMMAND_MAX_CHARS // len(piece) // 8)) == ""
