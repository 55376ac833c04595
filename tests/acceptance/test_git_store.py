"""The command on lanes in git: what it shows, what it refuses, and what it leaves alone."""

import sys
from pathlib import Path

import pytest

from interlock.core.model import NewItem
from interlock.git.plumbing import lane_ref_id
from interlock.gitlanes.service import GitLanes
from tests.acceptance.command import PROGRAM, Command
from tests.faults.processes import wait_until
from tests.git_fixtures import bare_repository, clone, commit, git, git_identity

__all__ = ["bare_repository", "git_identity"]

LANE = "deploy:production"


@pytest.fixture
def il(tmp_path: Path, bare_repository: Path) -> Command:
    """The command in an empty directory, on lanes in the test's repository."""
    directory = tmp_path / "work"
    directory.mkdir()
    return Command(directory, url=f"git+file://{bare_repository}")


def shown(il: Command, *, by: str) -> str:
    """What `lanes` prints while somebody holds a lane."""
    command = 'env -u INTERLOCK_RUN "$0" -m interlock lanes'
    answer = il("hold", LANE, "--agent", by, "--", "sh", "-c", command, sys.executable)
    assert answer.code == 0, answer
    return answer.out


def test_lanes_shows_who_holds_what_since_when_until_when_and_the_line(il: Command):
    header, line = shown(il, by="ann").splitlines()
    assert header.split() == ["LANE", "HELD", "BY", "SINCE", "LEASE", "LINE"]
    assert line.split()[:4] == [LANE, "ann,", "run", "1"]
    assert "in 15 min" in line
    assert line.endswith(" 0")
    assert il.ok("lanes") == {"lanes": []}


def test_commands_that_need_a_database_exit_2_and_name_one(il: Command):
    for args in (
        ["add", "work", "--lane", LANE],
        ["next", "--agent", "coder"],
        ["ls"],
        ["migrate"],
        ["lanes", "mode", "off", "--prefix", "issue:"],
        ["sweep", "--once"],
        ["agents"],
    ):
        answer = il("--json", *args)
        assert answer.code == 2, answer
        assert "git store" in answer.error["message"]
        assert "postgresql://" in answer.error["hint"]


def test_an_end_takes_no_next_item_in_git(il: Command, bare_repository: Path, tmp_path: Path):
    lanes = GitLanes(bare_repository.as_uri(), tmp_path / "other")
    item = lanes.add([NewItem(title="work", lane=LANE)])[0].arrival
    (lease,) = lanes.next("coder", item=item)
    answer = il("--json", "done", lease.run, "--next")
    assert answer.code == 2, answer
    assert "`done` with `next`" in answer.error["message"]
    assert il("--json", "done", lease.run).code == 0


def test_modes_are_set_and_listed_in_git(il: Command):
    assert il("lanes", "mode", "observe", "--prefix", "deploy:").code == 0
    assert il.ok("lanes", "mode")["modes"] == [{"scope": "lane", "value": "deploy:", "mode": "observe"}]
    both = f"{' '.join(PROGRAM)} hold {LANE} --if-held fail -- echo side by side"
    answer = il("hold", LANE, "--", "sh", "-c", f"env -u INTERLOCK_RUN -u INTERLOCK_LANE {both}")
    assert (answer.code, answer.out) == (0, "side by side\n"), answer
    assert il("lanes", "mode", "enforce", "--prefix", "deploy:").code == 0
    assert il("hold", LANE, "--", "sh", "-c", f"env -u INTERLOCK_RUN -u INTERLOCK_LANE {both}").code == 4


def test_an_external_run_is_ended_by_force(il: Command, bare_repository: Path, tmp_path: Path):
    lanes = GitLanes(bare_repository.as_uri(), tmp_path / "other")
    item = lanes.add([NewItem(title="assigned", lane=LANE, agent="copilot")])[0].arrival
    assert lanes.next("copilot", item=item, external=True)
    assert "external" in il("lanes").out
    assert il("cancel", str(item), "--force").code == 2, "it needs a reason"
    answer = il("cancel", str(item), "--force", "--reason", "nobody is there")
    assert (answer.code, il.ok("lanes")) == (0, {"lanes": []}), answer


def test_a_store_in_git_lets_an_item_wait_at_a_wall_but_no_agent(il: Command):
    release = '"$0" -m interlock release --for 2h'
    script = f"{release} --whole-agent; echo $?; {release}; echo $?"
    answer = il("hold", LANE, "--agent", "ann", "--", "sh", "-c", script, sys.executable)
    assert [line for line in answer.out.splitlines() if line.isdigit()] == ["2", "0"], answer
    assert "has no agents" in answer.err
    assert "only the item waits" in answer.err


@pytest.mark.parametrize("url", ["git+file://relative/path", "git+https://", "git+file:///", "git+ssh://"])
def test_a_url_that_names_no_repository_is_2(il: Command, url: str):
    answer = il("--json", "--url", url, "lanes")
    assert (answer.code, answer.error["code"]) == (2, "invalid_input")
    assert "git+" in answer.error["hint"]


def test_a_repository_that_is_not_there_is_named(il: Command, tmp_path: Path):
    answer = il("--json", "--url", f"git+file://{tmp_path}/nowhere.git", "lanes")
    assert answer.code == 1
    assert "nowhere.git" in answer.error["message"]
    assert "INTERLOCK_URL" in answer.error["hint"]


def test_an_unreadable_lane_is_held_and_mended_from_the_command_line(il: Command, bare_repository: Path):
    shown(il, by="ann")
    owner = git(bare_repository, "for-each-ref", "--format=%(refname)", "refs/interlock/owner")
    git(bare_repository, "update-ref", owner, git(bare_repository, "rev-parse", "main"))
    answer = il("--json", "hold", LANE, "--if-held", "fail", "--", "true")
    assert (answer.code, answer.error["code"]) == (4, "unreadable_state")
    assert f"interlock lanes mend {LANE} --reason" in answer.error["hint"]
    assert "unreadable, counts as held" in il("lanes").out
    (lane,) = il.ok("lanes")["lanes"]
    assert "cannot be read" in lane["unreadable"]
    assert il("lanes", "mend", LANE).code == 2
    mended = il("lanes", "mend", LANE, "--reason", "pushed by hand")
    assert (mended.code, mended.out) == (0, f"The lane {LANE} is repaired; 0 wait for it.\n")
    assert "mended by alice: pushed by hand" in git(bare_repository, "log", "-1", "--format=%s", owner)
    assert il("hold", LANE, "--", "true").code == 0


def test_a_holder_mends_its_own_lane_from_the_command_line_or_has_lost_it(
    il: Command, bare_repository: Path, tmp_path: Path
):
    """With the refs' history the end is accepted, without it nothing proves who holds the lane."""
    owner, queue = (f"refs/interlock/{kind}/{lane_ref_id(LANE)}" for kind in ("owner", "queue"))
    junk = "git commit-tree -m junk $(git hash-object -t tree -w /dev/null)"
    end = f"{' '.join(PROGRAM)} done $INTERLOCK_RUN; echo $? > {tmp_path / 'code'}"
    for parent, code in ((True, 0), (False, 5)):
        moves = [
            f"git update-ref {ref} $({junk} {f'-p $(git rev-parse {ref})' if parent else ''})"
            for ref in (owner, queue)
        ]
        script = f"(cd {bare_repository} && {' && '.join(moves)}) && {end}"
        il("hold", LANE, "--", "sh", "-c", script)
        assert (tmp_path / "code").read_text().strip() == str(code)
    assert il.ok("lanes")["lanes"][0]["unreadable"], "the lane of a lost run stays held"


def test_the_doctor_checks_lanes_in_git(il: Command, bare_repository: Path):
    shown(il, by="ann")
    answer = il("--json", "doctor")
    assert answer.code == 0, answer
    assert [check["name"] for check in answer.json["checks"]][:2] == ["lanes can be read", "chains are cut"]
    owner = f"refs/interlock/owner/{lane_ref_id(LANE)}"
    git(bare_repository, "update-ref", owner, git(bare_repository, "rev-parse", "main"))
    answer = il("--json", "doctor")
    assert (answer.code, answer.json["checks"][0]["ok"]) == (1, False)
    assert "interlock lanes mend" in answer.json["checks"][0]["mend"]


def test_a_database_has_nothing_to_mend(tmp_path: Path):
    answer = Command(tmp_path)("--json", "lanes", "mend", LANE, "--reason", "to be sure")
    assert (answer.code, answer.error["hint"]) == (2, "`interlock doctor` checks a database.")


def test_a_clone_shallow_and_detached_is_left_as_it_is(il: Command, bare_repository: Path, tmp_path: Path):
    work = clone(bare_repository.as_uri(), tmp_path / "clone", "--depth=1")
    git(work, "checkout", "--quiet", "--detach")
    before = git(work, "for-each-ref"), git(work, "status", "--porcelain"), git(work, "rev-parse", "HEAD")
    il.directory = work
    assert il("hold", LANE, "--", "true").code == 0
    assert (
        git(work, "for-each-ref"),
        git(work, "status", "--porcelain"),
        git(work, "rev-parse", "HEAD"),
    ) == before
    assert sorted(path.name for path in work.iterdir()) == [".git", "README"]


def test_credentials_in_the_clones_configuration_reach_the_remote(
    il: Command, bare_repository: Path, tmp_path: Path
):
    """As a token that `actions/checkout` left there. None of it is written into Interlock's own files."""
    work = tmp_path / "clone"
    work.mkdir()
    git(work, "init", "--quiet")
    git(work, "config", f"url.{bare_repository.as_uri()}.insteadOf", "https://git.example.com/app.git")
    il.directory, il.url = work, "git+https://git.example.com/app.git"
    assert il.ok("lanes") == {"lanes": []}
    private = next((work / ".git" / "interlock" / "git").iterdir())
    assert "insteadOf" not in (private / "cache.git" / "config").read_text()


def test_a_run_in_a_workflow_names_the_run_and_its_attempt(il: Command, bare_repository: Path):
    il.env = {"GITHUB_REPOSITORY": "acme/app", "GITHUB_RUN_ID": "4711", "GITHUB_RUN_ATTEMPT": "2"}
    shown(il, by="ann")
    log = git(bare_repository, "log", "--format=%b", "--glob=refs/interlock/owner")
    assert '"attempt": 2,' in log
    assert '"run": 4711' in log


def test_a_holder_killed_is_followed_by_whoever_waits_and_cannot_push_any_more(
    il: Command, bare_repository: Path, tmp_path: Path
):
    """`hold` and `push` on lanes in git, as typed: the git server refuses the dead holder's push."""
    work = clone(bare_repository.as_uri(), tmp_path / "clone")
    il.env = {"INTERLOCK_POLL_S": "0.1"}
    short = {"INTERLOCK_GIT_LEASE_MIN_S": "4", "INTERLOCK_LEASE_S": "4"}
    holder = Command(work, url=il.url, env=short)
    told = tmp_path / "told"
    tell = f'echo "$INTERLOCK_RUN" >{told}.new; mv {told}.new {told}; exec sleep 99'
    process = holder.start("hold", LANE, "--", "sh", "-c", tell)
    wait_until(told.exists, "the lane is held")
    handle = told.read_text().strip()
    commit(work, {"README": "mine\n"}, "mine")
    assert holder("push", env={"INTERLOCK_RUN": handle}).code == 0
    process.kill()
    process.communicate()
    heir = il("hold", LANE, "--", "sh", "-c", "echo $INTERLOCK_FENCE")
    assert (heir.code, heir.out) == (0, "2\n")
    commit(work, {"README": "late\n"}, "late")
    late = holder("--json", "push", env={"INTERLOCK_RUN": handle})
    assert (late.code, late.error["code"]) == (5, "lease_lost")
    assert git(bare_repository, "log", "-1", "--format=%s", "main") == "mine"
