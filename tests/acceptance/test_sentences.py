"""Sentences that a person can meet on the first day say what is wrong, where, and what to do."""

import io
import os
import pty
import subprocess
import sys
from contextlib import redirect_stderr
from itertools import pairwise
from pathlib import Path

import pytest

from interlock.cli.command import ENTRIES, Group
from interlock.cli.main import main
from tests.acceptance.command import Command, CommandHere


def test_an_option_out_of_range_is_named_by_its_spelling(il: Command) -> None:
    for args in (("top", "--every", "0"), ("sweep", "--every", "0"), ("work", "--agent", "a", "--max", "0")):
        said = il(*args, *(["--", "true"] if args[0] == "work" else [])).err
        assert said.startswith(f"{args[-2]} 0 is out of range.\nUse "), said
    assert il("top", "--every", "x").err.startswith("--every 'x' is not a duration.")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("add", "a", "--run-at", "yesterday"), "--run-at 'yesterday' is not a time."),
        (("add", "a", "--claim-within", "x"), "--claim-within 'x' is not a duration."),
        (("add", "a", "--policy", "fifo"), "--policy cannot be 'fifo'."),
        (("edit", 1, "--run-at", "yesterday"), "--run-at 'yesterday' is not a time."),
        (("edit", 1), "The edit changes nothing."),
        (("events", "--after", "x"), "--after 'x' is not a whole number."),
        (("pools", "set", "gpu", "--max", "none"), "--max 'none' is not a whole number."),
        (("prune", "--older-than", "x"), "--older-than 'x' is not a duration."),
        (("ls", "--limit", "0"), "--limit 0 is out of range."),
        (("add", "--batch", "-"), "Line 1: `run_at` 'yesterday' is not a time."),
        (("add", "Fix", "it"), "interlock add does not take 'it'."),
        (("add", "a", "--agent", ""), "--agent is empty."),
        (("pause", "--project", "x"), "There is no option --project."),
        (("add", "a", "--typ", "x"), "There is no option --typ. Did you mean --type?"),
        (("next",), "--agent is missing."),
        (("cancel", 1), "--reason is missing."),
        (("cancel", 1, "--reason", " "), "--reason is missing."),
        (("edit", 1, "--lane", "a:1"), "An item cannot change its lane."),
        (("ls", "--stat", "x"), "There is no option --stat. Did you mean --status?"),
        (("msg",), "ITEM is missing."),
        (("ls", "--limit"), "--limit needs a value."),
        (("ls", "--status", "done"), "--status cannot be 'done'."),
        (("nosuch",), "There is no command nosuch."),
        (("release", "1.1.0123456789abcdef", "--until", "x"), "--until 'x' is not a time."),
        (("hold", "a:1", "--if-held", "x", "--", "true"), "--if-held cannot be 'x'."),
        (("hold", "--", "nice", "echo", "hi"), "LANE is missing."),
        (("hold", "--wait", "1s", "--", "echo", "hi"), "LANE is missing."),
        (("session", "lock", "--", "1", "true"), "NUMBER is missing."),
        (("pause", "robot", "x", "--reason", "y"), "'robot' is neither agent nor project."),
        (("stats", "--by", "x"), "--by cannot be 'x'."),
        (("completion", "tcsh"), "There is no completion for the shell 'tcsh'."),
        (("actions", "check", "nofile"), "There is no file nofile."),
    ],
)
def test_what_was_typed_is_named_as_it_was_typed(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    answer = CommandHere(tmp_path)(*args, stdin='{"title": "a", "run_at": "yesterday"}')
    assert (answer.code, answer.err.splitlines()[0]) == (2, said)


def test_a_filter_that_matches_nothing_says_so_and_names_what_was_meant(il: Command) -> None:
    il.ok("agents", "set", "coder")
    il.ok("add", "a", "--lane", "deploy:production")
    assert il("ls", "--project", "nope").out.splitlines()[0] == "No item matches."
    assert il("ls", "--agent", "codrr").err == "No agent is called 'codrr' yet; did you mean 'coder'?\n"
    lane = il("ls", "--lane", "deploy:prodction")
    assert lane.out.splitlines()[0] == "No item matches."
    assert lane.err == "No item is on lane 'deploy:prodction'; did you mean 'deploy:production'?\n"
    il.ok("cancel", 1, "--reason", "x")
    assert il("ls", "--lane", "deploy:production").err == "", "it has ended, and the lane is right"
    assert il("ls").out.splitlines()[0] == "Nothing is waiting or running."


def test_the_hint_for_a_time_of_an_edit_names_now(il: Command) -> None:
    assert il("edit", 1, "--run-at", "x").err.splitlines()[1].endswith(", +2h, +1d, or now.")
    assert il("add", "a", "--run-at", "x").err.splitlines()[1].endswith(", +2h, +1d.")


def test_several_reasons_are_told_once_each(il: Command) -> None:
    il.ok("plan", "create", "-", stdin='{"name": "p", "tasks": [{"key": "a"}], "edges": []}')
    edit = '{"operations": [{"op": "remove_task", "key": "x"}, {"op": "remove_task", "key": "y"}]}'
    first, *reasons, _ = il("plan", "edit", 1, "--base", 1, "-", stdin=edit).err.splitlines()
    assert first == "The edit was refused for 2 reasons."
    assert len(reasons) == len(set(reasons)) == 2


def test_one_mistake_about_several_items_is_told_once(il: Command) -> None:
    il.ok("add", "a")
    il.ok("add", "b")
    assert il("cancel", 1, 2, "--reason", "").err.count("--reason is missing.") == 1


def test_a_wall_that_is_cut_says_so(il: Command) -> None:
    for more in (("--for", "30d"), ("--until", "2100-01-01T00:00Z")):
        il.ok("add", "a")
        released = il("release", il.claim()["run"], *more)
        assert "due in 7 d" in released.out
        assert released.err.startswith("The wait was cut to 7 days.")
    il.ok("add", "a")
    assert il("release", il.claim()["run"], "--for", "6d").err == ""
    il.ok("add", "a")
    command = 'echo +30d > "$INTERLOCK_RETRY_AT_FILE"; exit 75'
    worked = il("work", "--agent", "coder", "--limit", "1", "--", "sh", "-c", command).out
    assert "left a time more than 7 days ahead in INTERLOCK_RETRY_AT_FILE: cut to 7 days." in worked


def test_a_text_that_is_too_large_is_not_measured_by_where_the_reading_stopped(il: Command) -> None:
    (il.directory / "large.json").write_text('"' + "x" * (3 << 20) + '"')
    said = il("add", "a", "--payload", "@large.json").err
    assert said == "The payload has more than 1,048,576 bytes.\nStore a link to it instead.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('lease_s = "long"', "lease_s in {path} cannot be 'long'."),
        ("[types.bug]\npriority = 0.5", "priority in [types.bug] of {path} cannot be 0.5."),
        ('[types.bug]\npolicy = "fifo"', "Unknown policy 'fifo' in [types.bug] of {path}."),
        ("actor = 3", "actor in {path} is not a string."),
    ],
)
def test_a_mistake_in_the_settings_names_its_file_and_table(il: Command, text: str, said: str) -> None:
    path = il.directory / ".interlock" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    assert il("ls").err.splitlines()[0] == said.format(path=path)


def test_a_server_that_does_not_know_the_role_is_not_said_to_be_down(pg_empty18: str, tmp_path: Path) -> None:
    scheme, _, rest = pg_empty18.partition("://")
    nobody = f"{scheme}://nobody_at_all@{rest.partition('@')[2]}"
    nowhere = (
        f"{pg_empty18.partition('?')[0].rpartition('/')[0]}/no_such_database?{pg_empty18.partition('?')[2]}"
    )
    for url in (nobody, nowhere):
        said = CommandHere(tmp_path, url)("ls").err
        assert "does not exist" in said
        assert said.endswith(
            "The server is up: check the role, the password and the database in INTERLOCK_URL.\n"
        )


def test_help_is_wrapped_once_and_shows_no_python_type(tmp_path: Path) -> None:
    """Where a line of prose ends, the next word would not have fitted."""
    here = CommandHere(tmp_path)
    for name, entry in ENTRIES.items():
        found = entry.load()
        below = found.commands if isinstance(found, Group) else ()
        for args in ((name,), *((name, command) for command in below)):
            shown = here(*args, "--help", env={"COLUMNS": "80"}).out
            assert "<" not in shown, shown
            prose = [line.strip() for line in shown.partition("Usage:")[2].partition("╭")[0].splitlines()[1:]]
            for line, following in pairwise(prose):
                if line and following:
                    assert len(f" {line} {following.split()[0]} ") > 80, (args, line)


@pytest.mark.parametrize(("group", "expected"), [(None, "True"), (0, "False")])
def test_a_worker_draws_only_on_a_terminal_whose_foreground_it_is_in(
    group: int | None, expected: str, tmp_path: Path
) -> None:
    """A shell's `&` gives it a group of its own: then it prints lines, and the prompt stays readable."""
    asked = (
        "import sys; from interlock.cli.views.status_screen import _in_foreground;"
        f" open({str(tmp_path / 'said')!r}, 'w').write(str(_in_foreground()))"
    )
    pid, master = pty.fork()
    if pid == 0:
        more = {} if group is None else {"process_group": group}
        os._exit(subprocess.run([sys.executable, "-c", asked], check=False, **more).returncode)  # type: ignore[call-overload]
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(master)
    assert (tmp_path / "said").read_text() == expected


def test_an_agent_set_by_a_misspelled_name_is_said_to_be_new(tmp_path: Path) -> None:
    il = CommandHere(tmp_path)
    il.ok("agents", "set", "reviewer")
    assert il("agents", "set", "reviewer", "--max", 2).err == ""
    said = "Created a new agent, revewer. If you meant reviewer, remove it: interlock agents remove revewer\n"
    assert il("agents", "set", "revewer").err == said


def test_agents_show_when_their_items_may_be_overtaken_if_that_was_set(tmp_path: Path) -> None:
    il = CommandHere(tmp_path)
    assert "overtaken" not in il("agents", "set", "coder").out
    five = "reviewer may be overtaken: after 5 min without a claim"
    assert il("agents", "set", "reviewer", "--overtake-after", "5m").out.splitlines()[-1] == five
    il.ok("agents", "set", "night", "--overtake-after", 0)
    assert il("agents").out.splitlines()[-2:] == ["night may be overtaken: never", five]
    assert "0 means never." in il("agents", "set", "night", "--overtake-after", "never").err


def test_only_a_known_agent_or_project_is_resumed(tmp_path: Path) -> None:
    il = CommandHere(tmp_path)
    for words in (("agent", "nosuch"), ("project", "nosuch")):
        refused = il("--json", "resume", *words).error
        assert refused["code"] == "not_found"
        assert "--create" not in refused["hint"]
    assert il("resume", "agent", "nosuch", "--create").code == 2
    assert il.ok("agents")["agents"] == []


def test_a_second_revocation_says_that_it_changed_nothing(tmp_path: Path) -> None:
    il = CommandHere(tmp_path)
    il.ok("token", "create", "laptop", "--scope", "read")
    assert il("token", "revoke", "laptop").out.endswith(" (laptop) is revoked.\n")
    assert il("token", "revoke", "laptop").out.endswith(" (laptop) was already revoked.\n")


def test_a_sweeper_says_that_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("interlock.cli.store_commands.time.sleep", interrupted)
    for more, said in (([], "Sweeping every 2 s; stop with Ctrl-C.\n"), (["--once"], "")):
        with redirect_stderr(io.StringIO()) as screen:
            main(["sweep", "--every", "2s", *more])
        assert screen.getvalue().startswith(said)
        assert ("Sweeping" in screen.getvalue()) is bool(said)


def test_a_worker_says_which_command_it_runs(il: Command) -> None:
    command = ("sh", "-c", "exit 0", "x" * 100)
    said = il("work", "--agent", "coder", "--exit-when-idle", "--", *command).out.splitlines()[0]
    assert "in 1 slot: sh -c 'exit 0' xxx" in said
    assert said.endswith("x…")


def test_why_names_the_error_of_a_failed_run_and_its_log(il: Command) -> None:
    il.ok("add", "a", "--max-attempts", 2)
    il("work", "--agent", "coder", "--exit-when-idle", "--", "sh", "-c", "echo no such thing >&2; exit 127")
    first, *rest = il("why", 1).out.splitlines()
    assert first == "Item 1 is in back-off after a failed attempt."
    assert rest[0].startswith("  error ")
    assert "127" in rest[0]
    assert rest[-1].endswith("(interlock log 1)")
    assert "no such thing" not in il("--json", "why", 1).out


def test_why_ends_a_question_with_its_own_mark(il: Command) -> None:
    il.ok("add", "a")
    run = il.ok("next", "--agent", "coder")["leases"][0]["run"]
    il.ok("ask", run, "Which colour?")
    assert il("why", 1).out.splitlines()[0].endswith(": Which colour?")
    assert "colour? It" in il.ok("why", 1)["why"]


def test_why_gives_each_clause_a_line_and_show_only_the_state(il: Command) -> None:
    for agent in ("coder", "reviewer"):
        il.ok("add", "a", "--lane", "x:1", "--agent", agent)
    run = il.ok("next", "--agent", "coder")["leases"][0]["run"]
    il.ok("cancel", 1, "--reason", "wrong; too late")
    state, onward = il("why", 1).out.splitlines()
    assert state.endswith("was asked to stop (wrong; too late).")
    assert onward.startswith("  next  its grace ends")
    shown = il("show", 1).out
    assert "was asked to stop (wrong; too late)\n" in shown
    assert "its grace ends" not in shown
    assert "(run 1 of coder) and was asked to stop" in state
    assert "  decision=admitted" in shown
    assert il("block", 1, "--by", "acme/app#3", "--reason", "r").out.endswith(" Running work continues.\n")
    assert il("done", run).code == 0


def test_a_handle_that_is_missing_or_wrong_has_one_hint(il: Command) -> None:
    for args in ((), ("1",)):
        assert "Use the handle that `next` returned" in il("done", *args).err


def test_a_number_that_is_a_plan_is_named_as_one(il: Command) -> None:
    refused = il("plan", "create", "-", stdin="name: x\ntasks: {build: {title: Build}}")
    assert "Write each task as `- {key: build, title: Build}`." in refused.err
    il.ok("plan", "create", "-", stdin="name: x\ntasks: [{key: build}]")
    assert il("why", 1).err.splitlines() == ["1 is a plan.", "`interlock plan show 1` shows it."]
