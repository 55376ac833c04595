"""Which commands of an agent put something before others."""

import pytest

from interlock.hook.tool_calls import publishes


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("gh api -XPOST repos/acme/app/issues", "gh api"),
        ("gh api -iXPATCH repos/acme/app/issues/7", "gh api"),
        ("gh api -X=DELETE repos/acme/app", "gh api"),
        ("gh api --method=POST repos/acme/app/issues", "gh api"),
        ("gh api repos/acme/app/issues -ftitle=x", "gh api"),
        ("gh api repos/acme/app/issues --input=body.json", "gh api"),
        ("time -p git push", "git push"),
        ("time git push", "git push"),
        ("/usr/bin/time -f %e git push", "git push"),
        ("setsid -w git push", "git push"),
        ("echo main | xargs -n 1 git push origin", "git push"),
        ("bash <<EOF\ncd app\ngit push\nEOF", "git push"),
        ("sudo -u x bash -x <<-'EOF'\n\tgit push\n\tEOF\n", "git push"),
        ("bash -s -- one <<EOF\ngit push\nEOF", "git push"),
        ("cat <<EOF | sh -eu -o pipefail\ngit push\nEOF", "git push"),
        ("bash <<< 'git push'", "git push"),
        ('eval "git push"', "git push"),
        ("eval git push origin", "git push"),
        ("eval \"bash -c 'git push'\"", "git push"),
        ('echo "`git push`"', "git push"),
        ("case $x in a|b) git push ;; esac", "git push"),
        ("((a); git push)", "git push"),
    ],
)
def test_a_push_is_seen_however_it_is_started(script, found):
    assert publishes("Bash", {"command": script}) == found


@pytest.mark.parametrize(
    "script",
    [
        "gh api -XGET search/issues -f q=x",
        "gh api --method=GET search/issues -f q=x",
        "gh api -H 'Accept: x' repos/acme/app",
        "time -p git status",
        "command -v git push",
        "cat <<EOF\ngit push\nEOF",
        "cat > run.sh <<EOF\ngit push\nEOF\nbash -n run.sh",
        "bash run.sh <<EOF\ngit push\nEOF",
        "cat <<EOF\ngit push\nEOF\nbash",
        "cat <<< 'git push'",
        "eval 'echo git push'",
        "case $x in 'git push') echo no ;; esac",
    ],
)
def test_text_that_only_mentions_a_push_does_not_publish(script):
    assert publishes("Bash", {"command": script}) == ""
