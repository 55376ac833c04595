"""The commands of a shell script, found without running it."""

import pytest

from interlock.actions.shellscript import commands


def programs(script: str) -> list[str]:
    return [" ".join(c.program) for c in commands(script) if c.program]


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("a && b; c | d & e || f", ["a", "b", "c", "d", "e", "f"]),
        ("a \\\n  --flag\nb", ["a --flag", "b"]),
        ("echo 'a; git push' \"b; git push\" # git push\nc", ["echo a; git push b; git push", "c"]),
        ("cat <<'EOF'\ngit push\nEOF\na", ["cat", "a"]),
        ("cat <<-EOF\n\tgit push\n\tEOF\na", ["cat", "a"]),
        ("cat <<< text > out 2>&1", ["cat"]),
        ("x=$(git push)", ["git push"]),
        ('echo "$(git push)"', ["echo $(git push)", "git push"]),
        ("echo `git push`", ["echo ", "git push"]),
        ("bash -c 'a; b'", ["bash -c a; b", "a", "b"]),
        ("sh -euc 'a'", ["sh -euc a", "a"]),
        ("if a; then b; else c; fi", ["a", "b", "c", "fi"]),
        ("for x in 1; do a; done", ["for x in 1", "a", "done"]),
        ("(cd x && a)", ["cd x", "a"]),
        ("A=1 B=2 env -u C D=3 a b", ["a b"]),
        ("timeout -k 5 30m a", ["a"]),
        ("sudo -u x nice -n 5 a", ["a"]),
        ("npx -y @openai/codex exec", ["@openai/codex exec"]),
        ("a ${x:-b c} d", ["a ${x:-b c} d"]),
        ("a 'open", ["a open"]),
        ("a $(open", ["a $(open", "open"]),
        ("", []),
        (") ; a", ["a"]),
        ("time -p a", ["a"]),
        ("setsid -w a", ["a"]),
        ("command -v a", ["command -v a"]),
        ("eval 'a; b'", ["eval a; b", "a", "b"]),
        ("bash <<EOF\na\nb\nEOF\nc", ["bash", "a", "b", "c"]),
        ("cat <<EOF\na\nEOF\nbash x", ["cat", "bash x"]),
        ("bash <<< a", ["bash", "a"]),
        ("case $x in a|b) c ;; *) d ;; esac; e", ["case $x in a", "c", "d", "esac", "e"]),
        ("case $x in\n  a)\n    b\n    ;;\nesac", ["case $x in", "b", "esac"]),
        ("n=$((n+1)); ((n > 3)) && a", ["a"]),
    ],
)
def test_commands_are_found_where_the_shell_would_start_them(script, found):
    assert programs(script) == found


@pytest.mark.parametrize(
    ("script", "execs"),
    [
        ("exec a", True),
        ("A=1 exec env B=2 a", True),
        ("exec a > >(tee log) 2>&1", True),
        ("a", False),
        ("exec a | tee log", False),
        ("b | exec a", False),
        ("exec a &", False),
        ("x=$(exec a)", False),
        ("exec bash -c 'exec a'", True),
        ("exec bash -c 'exec env a'", True),
        ("exec bash -c a", True),  # a shell makes way for the only command that it was given
        ("exec bash -c 'b; a'", False),
        ("bash -c 'exec a'", False),
        ("eval 'exec a'", True),
        ("eval a", False),
    ],
)
def test_only_a_command_in_the_place_of_its_shell_gets_signals(script, execs):
    (command,) = [c for c in commands(script) if c.program[:1] == ["a"]]
    assert command.execs is execs


def test_lines_are_counted_through_continuations_and_here_documents():
    script = "a \\\n b\n\ncat <<EOF\nx\ny\nEOF\nc\n"
    assert [(c.program[0], c.line) for c in commands(script)] == [("a", 0), ("cat", 3), ("c", 7)]


def test_an_inner_command_has_the_line_of_the_outer_one():
    script = "b\nx=$(\n  a\n)\nbash -c '\n\n c'\nbash <<EOF\nd\nEOF\n"
    lines = {c.program[0]: c.line for c in commands(script) if c.inner}
    assert lines == {"a": 1, "c": 4, "d": 7}


def test_the_word_that_starts_a_command_is_that_of_its_wrapper():
    (plain, wrapped) = commands("FOO=1 exec a b\nexec npx -y a")
    assert (plain.starter, wrapped.starter) == ("a", "npx")


def test_what_is_nested_too_deeply_is_read_as_if_it_were_not_nested():
    script = "$(" * 500 + "a" + ")" * 500
    assert "a" in programs(script)
