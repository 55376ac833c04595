"""Lanes in git: what is kept where, what breaks them and what does not, and what a reader sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.core.errors import (
    InterlockError,
    InvalidInput,
    ItemEnded,
    LeaseLost,
    NotFound,
    PushFailed,
    RemoteUnavailable,
    TooLarge,
    UnreadableState,
)
from interlock.core.model import NewItem, Policy, Sender
from interlock.git.plumbing import GitRepository
from interlock.gitlanes.first_seen import FirstSeen
from interlock.gitlanes.remote import BACK_OFF_MAX_S, BACK_OFF_MIN_S, back_off_s
from interlock.gitlanes.service import GitLanes
from interlock.process.workplace import ActionsRun
from interlock.service.contract import LeaseView, Report
from tests.clock import Clock
from tests.conformance.test_wrong_types import WRONG, fits
from tests.faults.gitlanes import LANE, OWNER, QUEUE, acquire, assert_one_owner_at_a_time, chain, whole_chain
from tests.git_fixtures import bare_repository, clone, git, git_identity, write_hook

__all__ = ["bare_repository", "git_identity"]

OTHER_LANE = "issue:acme/app#43"


@pytest.fixture
def open_lanes(bare_repository: Path, tmp_path: Path) -> Callable[..., GitLanes]:
    """Lanes of the test's repository, from a machine of the given name."""

    def open_one(machine: str = "here", **options: Any) -> GitLanes:
        return GitLanes(bare_repository.as_uri(), tmp_path / machine, **options)

    return open_one


Open = Callable[..., GitLanes]


def held(lanes: GitLanes, **options: Any) -> LeaseView:
    lease = acquire(lanes, "coder", **options)
    assert lease is not None
    return lease


def put(bare: Path, ref: str, document: object, *, subject: str = "by hand") -> None:
    """Move a ref to a commit that somebody made by hand."""
    old = git(bare, "rev-parse", "--verify", "--quiet", ref, check=False)
    tree = git(bare, "hash-object", "-t", "tree", "-w", "/dev/null")
    text = document if isinstance(document, str) else json.dumps(document, indent=1)
    parents = ["-p", old] if old else []
    new = git(bare, "commit-tree", tree, *parents, "-m", subject, "-m", text, "-m", "Interlock-Nonce: 0")
    git(bare, "update-ref", ref, new)


class TestRefs:
    def test_an_arrival_moves_only_the_queue_and_a_handover_moves_both(
        self, open_lanes: Open, bare_repository: Path
    ) -> None:
        lanes = open_lanes()

        def tips() -> list[str]:
            return [git(bare_repository, "rev-parse", ref) for ref in (OWNER, QUEUE)]

        lease = held(lanes)
        owner, queue = tips()
        lanes.add([NewItem(title="second", lane=LANE)])
        assert tips()[0] == owner
        assert tips()[1] != queue
        owner, queue = tips()
        lanes.done([Report(run=lease.run)])
        assert owner not in tips()
        assert queue not in tips()

    def test_two_lanes_share_no_ref(self, open_lanes: Open, bare_repository: Path) -> None:
        lanes = open_lanes()
        first, second = held(lanes), held(lanes, lane=OTHER_LANE)
        owner = git(bare_repository, "rev-parse", OWNER)
        lanes.add([NewItem(title="third", lane=OTHER_LANE)])
        lanes.done([Report(run=second.run)])
        assert git(bare_repository, "rev-parse", OWNER) == owner
        assert (first.fence, second.fence) == (1, 1)
        assert [view.lane for view in lanes.lanes()] == [LANE, OTHER_LANE]
        assert [view.lane for view in lanes.lanes(prefix="issue:")] == [OTHER_LANE]

    def test_git_log_of_a_lane_reads_as_its_history(self, open_lanes: Open, bare_repository: Path) -> None:
        lanes = open_lanes()
        lease = held(lanes)
        waiting = lanes.add([NewItem(title="next", lane=LANE, agent="cto")])[0].arrival
        lanes.done([Report(run=lease.run)])
        assert git(bare_repository, "log", "--reverse", "--format=%s", QUEUE).splitlines() == [
            f"item {lease.item.id} admitted (lane_free)",
            f"run 1 of coder holds the lane for item {lease.item.id} (work)",
            f"item {waiting} queued (lane_queued)",
            f"run 1 of coder succeeded; item {waiting} is next (issue_execution_promoted)",
        ]
        last = chain(bare_repository, OWNER)[-1]
        assert (last["lane"], last["last_run"], last["run"]) == (LANE, 1, None)

    def test_the_handle_is_not_in_the_repository(self, open_lanes: Open, bare_repository: Path) -> None:
        lanes = open_lanes()
        lease = held(lanes)
        lanes.renew([Report(run=lease.run)])
        secret = lease.run.rpartition(".")[2]
        assert secret not in git(bare_repository, "log", "--all", "--format=%B")

    def test_nobody_finishes_a_run_by_guessing(self, open_lanes: Open) -> None:
        lease = held(open_lanes())
        guess = lease.run.rpartition(".")[0] + "." + "0" * 16
        other = open_lanes("elsewhere")
        nowhere = f"1.{1 << 62}.{'0' * 16}"
        for write in (other.renew, other.done, other.release):
            for foreign in (guess, nowhere):
                (view,) = write([Report(run=foreign)])
                assert view.refusal is not None
                assert (view.refusal.code, view.item) == ("lease_lost", None)
        for foreign in (guess, nowhere):
            with pytest.raises(LeaseLost, match="no run 1 with this handle"):
                other.new_owner_commit(foreign)
        assert other.done([Report(run=lease.run)])[0].status == "succeeded"

    def test_a_clone_is_not_touched_and_may_be_shallow(
        self, open_lanes: Open, bare_repository: Path, tmp_path: Path
    ) -> None:
        shallow = clone(bare_repository.as_uri(), tmp_path / "shallow", "--depth=1")
        before = git(shallow, "for-each-ref"), git(shallow, "status", "--porcelain", "--ignored")
        lanes = GitLanes(bare_repository.as_uri(), shallow / ".git" / "interlock")
        lease = held(lanes)
        lanes.done([Report(run=lease.run)])
        assert (git(shallow, "for-each-ref"), git(shallow, "status", "--porcelain", "--ignored")) == before

    def test_a_lane_whose_two_refs_were_deleted_is_free(
        self, open_lanes: Open, bare_repository: Path
    ) -> None:
        """Whoever may delete both refs may do anything. Its run is refused all the same."""
        lanes = open_lanes()
        lease = held(lanes)
        for ref in (OWNER, QUEUE):
            git(bare_repository, "update-ref", "-d", ref)
        again = held(lanes)
        assert again.fence == lease.fence
        (view,) = lanes.renew([Report(run=lease.run)])
        assert view.refusal is not None
        assert view.refusal.code == "lease_lost"


def _garbage(bare: Path) -> None:
    put(bare, OWNER, "not JSON at all")


def _of_another(bare: Path) -> None:
    put(bare, OWNER, chain(bare, OWNER)[-1] | {"lane": OTHER_LANE})


def _of_a_path(bare: Path) -> None:
    put(bare, OWNER, chain(bare, OWNER)[-1] | {"lane": "../../etc"})


def _of_no_agent(bare: Path) -> None:
    owner = chain(bare, OWNER)[-1]
    put(bare, OWNER, owner | {"run": owner["run"] | {"run_agent": "\x1b[2J"}})


def _freed_by_hand(bare: Path) -> None:
    put(bare, OWNER, chain(bare, OWNER)[-1] | {"run": None})


def _rolled_back(bare: Path) -> None:
    git(bare, "update-ref", OWNER, f"{OWNER}~1")


def _no_commit(bare: Path) -> None:
    git(bare, "update-ref", OWNER, git(bare, "hash-object", "-w", "/dev/null"))


def _no_owner(bare: Path) -> None:
    git(bare, "update-ref", "-d", OWNER)


def _no_queue(bare: Path) -> None:
    git(bare, "update-ref", "-d", QUEUE)


def _empty_queue(bare: Path) -> None:
    put(bare, QUEUE, chain(bare, QUEUE)[-1] | {"items": []})


def _two_owners(bare: Path) -> None:
    queue = chain(bare, QUEUE)[-1]
    put(bare, QUEUE, queue | {"items": [i | {"status": "pending"} for i in queue["items"]]})


def _unknown_field(bare: Path) -> None:
    queue = chain(bare, QUEUE)[-1]
    put(bare, QUEUE, queue | {"items": [i | {"colour": "red"} for i in queue["items"]]})


def _wrong_type(bare: Path) -> None:
    queue = chain(bare, QUEUE)[-1]
    put(bare, QUEUE, queue | {"items": [i | {"ticket": "1"} for i in queue["items"]]})


def _a_list(bare: Path) -> None:
    put(bare, QUEUE, "[]")


DAMAGES = [
    *(_garbage, _of_another, _of_a_path, _of_no_agent, _freed_by_hand, _rolled_back, _no_commit, _no_owner),
    *(_no_queue, _empty_queue, _two_owners, _unknown_field, _wrong_type, _a_list),
]


class TestDamage:
    @pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__.strip("_"))
    def test_an_unreadable_lane_counts_as_held_until_an_operator_mends_it(
        self, open_lanes: Open, bare_repository: Path, damage: Callable[[Path], None]
    ) -> None:
        lanes = open_lanes(pause=lambda _: None)
        lease = held(lanes)
        waiting = lanes.add([NewItem(title="waiting", lane=LANE, agent="cto", claim_within_s=1.0)])[0].arrival
        damage(bare_repository)
        other = open_lanes("elsewhere", pause=lambda _: None)
        for policy in (Policy.QUEUE, Policy.REJECT):
            with pytest.raises(UnreadableState, match="It counts as held"):
                other.add([NewItem(title="new", lane=LANE, agent="coder", policy=policy)])
        assert other.next("cto") == other.next("coder") == []
        with pytest.raises(UnreadableState):
            other.next("cto", item=waiting)
        (view,) = other.lanes()
        assert view.unreadable is not None
        assert view.lane == LANE, "the other half still tells the name"
        assert "cannot be read" in view.unreadable

        mended = other.mend(LANE, why="somebody pushed by hand", by="ann")
        assert (mended.lane, mended.unreadable) == (LANE, None)
        assert lanes.renew([Report(run=lease.run)])[0].status == "refused"
        assert "mended by ann: somebody pushed by hand" in git(
            bare_repository, "log", "-1", "--format=%s", OWNER
        )
        if damage is not _no_queue:
            assert [mended.holder and mended.holder.item, *mended.line] == [lease.item.id, waiting]
        other.add([NewItem(title="new", lane=LANE, agent="dev")])
        claimed = other.next("coder") or other.next("dev")
        assert claimed[0].fence > lease.fence

    @pytest.mark.parametrize(
        ("damage", "write"),
        [
            *((damage, "done") for damage in DAMAGES),
            *(
                (damage, write)
                for damage in (_garbage, _no_owner, _empty_queue)
                for write in ("renew", "touch")
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else value.__name__.strip("_"),
    )
    def test_the_holders_own_writes_mend_the_lane_under_its_pin(
        self, open_lanes: Open, bare_repository: Path, damage: Callable[[Path], None], write: str
    ) -> None:
        """A queue that is gone with its history cannot be mended: the line is lost, and so is the lease."""
        lanes = open_lanes(pause=lambda _: None)
        lease = held(lanes)
        other = open_lanes("elsewhere", pause=lambda _: None)
        waiting = other.add([NewItem(title="waiting", lane=LANE, agent="cto", message="hello")])[0].arrival
        damage(bare_repository)
        before = [git(bare_repository, "rev-parse", "--quiet", ref, check=False) for ref in (OWNER, QUEUE)]
        if damage is _no_queue:
            assert lanes.renew([Report(run=lease.run)])[0].refusal is not None
            with pytest.raises(LeaseLost):
                lanes.new_owner_commit(lease.run)
            return
        if write == "touch":
            move = lanes.new_owner_commit(lease.run)
            assert GitRepository(lanes.remote.repository.directory).push(str(bare_repository), [move]) is None
        else:
            assert getattr(lanes, write)([Report(run=lease.run)])[0].refusal is None
        if damage in (_garbage, _empty_queue, _freed_by_hand):
            for ref, tip in zip((OWNER, QUEUE), before, strict=True):
                git(bare_repository, "merge-base", "--is-ancestor", tip, ref)  # the damage stays there
        if write != "done":
            assert other.lanes()[0].holder.run == lease.fence  # type: ignore[union-attr]
            assert lanes.done([Report(run=lease.run)])[0].status == "succeeded"
        (heir,) = other.next("cto", item=waiting)
        assert (heir.fence, [m.text for m in heir.messages]) == (lease.fence + 1, ["hello"])
        assert "mended" in git(bare_repository, "log", "--format=%B", OWNER)

    @pytest.mark.parametrize("with_history", [True, False])
    def test_a_zombie_mends_nothing(
        self, open_lanes: Open, bare_repository: Path, with_history: bool
    ) -> None:
        """The lane went on without it before somebody broke it. Taken out: in `held_state`, the search for a
        later run."""
        zombie, other = (open_lanes(name, pause=lambda _: None) for name in ("here", "elsewhere"))
        lease = held(zombie)
        stale = {ref: git(bare_repository, "rev-parse", ref) for ref in (OWNER, QUEUE)}
        zombie.new_owner_commit(lease.run)
        other.cancel(lease.item.id, why="it does not answer", force=True)
        heir = held(other)
        good = {ref: git(bare_repository, "rev-parse", ref) for ref in (OWNER, QUEUE)}
        breaks: list[dict[str, str | None]] = [
            {OWNER: None, QUEUE: good[QUEUE]},
            {OWNER: good[OWNER], QUEUE: None},
            {OWNER: None, QUEUE: None},
            {OWNER: stale[OWNER], QUEUE: good[QUEUE]},
            {OWNER: good[OWNER], QUEUE: stale[QUEUE]},
            {OWNER: stale[OWNER], QUEUE: None},
        ]
        for broken in breaks:
            for ref, oid in broken.items():
                git(bare_repository, "update-ref", "-d", ref)
                if oid is not None or with_history:
                    git(bare_repository, "update-ref", ref, oid or good[ref])
                if oid is None:
                    put(bare_repository, ref, "junk")
            assert zombie.renew([Report(run=lease.run)])[0].refusal is not None, broken
            with pytest.raises(LeaseLost):
                zombie.new_owner_commit(lease.run)
        for ref, oid in good.items():
            git(bare_repository, "update-ref", ref, oid)
        assert other.done([Report(run=heir.run)])[0].status == "succeeded"

    def test_a_lane_that_can_be_read_is_not_mended(self, open_lanes: Open) -> None:
        lanes = open_lanes()
        held(lanes)
        with pytest.raises(InvalidInput, match="nothing to repair"):
            lanes.mend(LANE, why="to be sure")

    def test_a_lane_of_a_newer_interlock_is_held_and_not_mended(
        self, open_lanes: Open, bare_repository: Path
    ) -> None:
        lanes = open_lanes(pause=lambda _: None)
        held(lanes)
        put(bare_repository, OWNER, chain(bare_repository, OWNER)[-1] | {"format": 3})
        with pytest.raises(UnreadableState, match="newer"):
            acquire(lanes, "cto")
        with pytest.raises(InvalidInput, match="a newer Interlock"):
            lanes.mend(LANE, why="to be sure")

    def test_a_mended_lane_without_history_uses_run_numbers_above_all_former_ones(
        self, open_lanes: Open, bare_repository: Path
    ) -> None:
        lanes = open_lanes(pause=lambda _: None)
        lease = held(lanes)
        for ref in (OWNER, QUEUE):
            git(bare_repository, "update-ref", "-d", ref)
            put(bare_repository, ref, "gone")
        lanes.mend(LANE, why="force-pushed")
        assert held(lanes).fence > 1_000_000_000 > lease.fence


class TestCuts:
    """A new owner begins new chains once the old ones are long; a ref of its own keeps those."""

    def holds(self, lanes: GitLanes, count: int) -> None:
        for _ in range(count):
            assert lanes.done([Report(run=held(lanes).run)])[0].status == "succeeded"

    def test_the_chains_stay_short_and_nothing_of_them_is_lost(
        self, open_lanes: Open, bare_repository: Path
    ) -> None:
        lanes = open_lanes(cut_beyond=12)
        self.holds(lanes, 7)
        assert len(chain(bare_repository, OWNER)) + len(chain(bare_repository, QUEUE)) <= 12 + 5
        assert assert_one_owner_at_a_time(bare_repository) == [*range(1, 8)]
        assert len(whole_chain(bare_repository, QUEUE)) == 3 * 7
        lines = [line for document in whole_chain(bare_repository, OWNER) for line in document["happened"]]
        cut = next(line for line in lines if "earlier commits are in" in line)
        assert git(bare_repository, "rev-parse", "--verify", cut.rpartition(" ")[2])
        assert all(check.ok for check in lanes.doctor())
        elsewhere = open_lanes("elsewhere")
        assert held(elsewhere).fence == 8
        assert "history" not in git(elsewhere.remote.repository.directory, "for-each-ref")

    def test_only_a_new_owner_cuts(self, open_lanes: Open, bare_repository: Path) -> None:
        """Anybody else would move the owner's ref, and break the pin of the holder's push."""
        lanes = open_lanes(cut_beyond=12)
        lease = held(lanes)
        move = lanes.new_owner_commit(lease.run)
        elsewhere = open_lanes("elsewhere", cut_beyond=12)
        for n in range(10):
            elsewhere.msg(lease.item.id, f"message {n}")
        assert GitRepository(lanes.remote.repository.directory).push(bare_repository.as_uri(), [move]) is None
        lanes.done([Report(run=lease.run, seen=10)])
        assert "history" not in git(bare_repository, "for-each-ref")
        held(lanes)
        assert len(chain(bare_repository, QUEUE)) == 1

    def test_where_the_server_refuses_the_chains_stay_and_the_doctor_says_so(
        self, open_lanes: Open, bare_repository: Path
    ) -> None:
        """It is asked again once the chains have grown by as much."""
        tried = bare_repository / "tried"
        guard = f'case "$1" in */history/*) echo x >> {tried}; echo no history here >&2; exit 1;; esac'
        write_hook(bare_repository, "update", f"#!/bin/sh\n{guard}\n")
        lanes = open_lanes(cut_beyond=10, pause=pytest.fail)
        self.holds(lanes, 6)
        assert len(chain(bare_repository, QUEUE)) == 3 * 6
        assert len(tried.read_text().split()) == 2
        read, cut, *_ = open_lanes("elsewhere").doctor()
        assert (read.ok, cut.ok) == (True, False)
        assert "hook declined: no history here" in cut.detail
        assert "refs/interlock/history/*" in cut.mend
        write_hook(bare_repository, "update", "#!/bin/sh\n")
        self.holds(lanes, 3)
        assert all(check.ok for check in lanes.doctor())
        assert assert_one_owner_at_a_time(bare_repository) == [*range(1, 10)]

    def test_a_lane_that_was_deleted_and_counts_from_1_again_is_cut_again(
        self, open_lanes: Open, bare_repository: Path
    ) -> None:
        lanes = open_lanes(cut_beyond=8)
        for _ in range(2):
            self.holds(lanes, 3)
            for ref in (OWNER, QUEUE):
                git(bare_repository, "update-ref", "-d", ref)
        assert git(bare_repository, "for-each-ref", "refs/interlock/history").count("\n") == 1


class TestFirstSeen:
    """No store clock: a taker counts what it has seen itself."""

    LEASE_S = 900.0

    def lanes(
        self, open_lanes: Open, tmp_path: Path, clock: Clock, machine: str, boot: str = "one"
    ) -> GitLanes:
        first_seen = FirstSeen(tmp_path / f"sight-{machine}", now=clock, boot=lambda: boot)
        return open_lanes(machine, first_seen=first_seen)

    def test_processes_that_each_look_briefly_share_what_they_saw(
        self, open_lanes: Open, tmp_path: Path, bare_repository: Path
    ) -> None:
        clock = Clock()
        held(open_lanes("holder"))
        for _ in range(10):
            assert self.lanes(open_lanes, tmp_path, clock, "taker").lanes()[0].holder is not None
            clock.advance(98)
        assert acquire(self.lanes(open_lanes, tmp_path, clock, "taker"), "heir") is None
        clock.advance(12)
        assert acquire(self.lanes(open_lanes, tmp_path, clock, "newcomer"), "heir") is None
        lease = acquire(self.lanes(open_lanes, tmp_path, clock, "taker"), "heir")
        assert lease is not None
        assert lease.fence == 2

    @pytest.mark.parametrize("trouble", ["reboot", "clock went back", "record damaged", "renewed"])
    def test_a_taker_that_cannot_trust_its_record_waits_a_full_lease_again(
        self, open_lanes: Open, tmp_path: Path, trouble: str, bare_repository: Path
    ) -> None:
        clock = Clock()
        holder = open_lanes("holder", now=clock)
        lease = held(holder)
        self.lanes(open_lanes, tmp_path, clock, "taker").lanes()
        boot = "one"
        if trouble == "reboot":
            clock.advance(2 * self.LEASE_S)
            boot = "two"
        elif trouble == "clock went back":
            clock.advance(-10)
            self.lanes(open_lanes, tmp_path, clock, "taker").lanes()
            clock.advance(self.LEASE_S + 5)
        elif trouble == "record damaged":
            (record,) = (tmp_path / "sight-taker").glob("*.json")
            record.write_text("{")
            clock.advance(2 * self.LEASE_S)
        else:
            clock.advance(2 * self.LEASE_S)
            assert holder.renew([Report(run=lease.run)])[0].status == "running"
        assert acquire(self.lanes(open_lanes, tmp_path, clock, "taker", boot), "heir") is None
        clock.advance(1.1 * self.LEASE_S)
        assert acquire(self.lanes(open_lanes, tmp_path, clock, "taker", boot), "heir") is not None

    def test_a_workflow_run_whose_attempt_has_ended_is_taken_over_at_once(self, open_lanes: Open) -> None:
        mine = ActionsRun("acme/app", 4711, 2)
        held(open_lanes("holder", actions=mine))
        asked: list[ActionsRun] = []

        def ended(run: ActionsRun) -> bool:
            asked.append(run)
            return run == mine

        assert acquire(open_lanes("other", has_ended=lambda run: run.attempt == 1), "heir") is None
        assert acquire(open_lanes("taker", has_ended=ended), "heir") is not None
        assert set(asked) == {mine}

    def test_a_waiting_item_that_nobody_claims_in_time_ends(
        self, open_lanes: Open, tmp_path: Path, bare_repository: Path
    ) -> None:
        clock = Clock()
        lanes = self.lanes(open_lanes, tmp_path, clock, "here")
        lease = held(lanes)
        dead = lanes.add([NewItem(title="dead", lane=LANE, agent="cto", claim_within_s=60.0)])[0].arrival
        lanes.done([Report(run=lease.run)])
        heir = lanes.add([NewItem(title="heir", lane=LANE, agent="heir")])[0].arrival
        clock.advance(65)
        assert lanes.next("heir", item=heir) == []
        clock.advance(2)
        assert len(lanes.next("heir", item=heir)) == 1
        with pytest.raises(ItemEnded) as ended:
            lanes.next("cto", item=dead)
        assert ended.value.reason == "unclaimed"

    def test_a_lease_is_never_shorter_than_the_shortest_allowed(self, open_lanes: Open) -> None:
        lease = held(open_lanes(), lease_s=1.0)
        assert (lease.lease_s, lease.renew_within_s) == (900, 300)

    def test_an_early_renewal_makes_no_commit(self, open_lanes: Open, bare_repository: Path) -> None:
        clock = Clock()
        lanes = open_lanes(now=clock)
        lease = held(lanes)
        for _ in range(3):
            clock.advance(60)
            view = lanes.renew([Report(run=lease.run)])[0]
            assert (view.status, view.expires_at) == ("running", lease.expires_at)
        assert len(chain(bare_repository, OWNER)) == 2
        clock.advance(120)
        assert lanes.renew([Report(run=lease.run)])[0].expires_at == clock.in_s(900)
        assert len(chain(bare_repository, OWNER)) == 3
        clock.advance(-7_200)  # set back: whoever is unsure writes
        lanes.renew([Report(run=lease.run)])
        assert len(chain(bare_repository, OWNER)) == 4


class TestRefusals:
    def test_a_push_that_a_server_hook_declines_is_not_retried(
        self, open_lanes: Open, bare_repository: Path
    ) -> None:
        write_hook(bare_repository, "pre-receive", "#!/bin/sh\necho refs are guarded >&2\nexit 1\n")
        with pytest.raises(PushFailed, match="refused the push") as refused:
            open_lanes(pause=pytest.fail).add([NewItem(title="work", lane=LANE)])
        assert "refs/interlock/" in refused.value.hint

    @pytest.mark.parametrize(
        ("setting", "value", "hint"),
        [
            ("receive.advertiseAtomic", "false", "supports git push --atomic"),
            ("receive.hideRefs", "refs/interlock", "Let the server show refs/interlock"),
        ],
    )
    def test_a_server_that_forbids_the_push_gives_a_hint_and_is_not_retried(
        self, open_lanes: Open, bare_repository: Path, setting: str, value: str, hint: str
    ) -> None:
        git(bare_repository, "config", setting, value)
        with pytest.raises(PushFailed) as refused:
            open_lanes(pause=pytest.fail).add([NewItem(title="work", lane=LANE)])
        assert hint in refused.value.hint
        assert "interlock" not in git(bare_repository, "for-each-ref")

    def test_a_server_that_always_dies_is_tried_five_times(
        self, open_lanes: Open, bare_repository: Path
    ) -> None:
        write_hook(bare_repository, "pre-receive", '#!/bin/sh\nkill -9 "$PPID"\n')
        pauses: list[float] = []
        with pytest.raises(RemoteUnavailable, match="failed 5 times"):
            open_lanes(pause=pauses.append).add([NewItem(title="work", lane=LANE)])
        assert len(pauses) == 4
        assert all(BACK_OFF_MIN_S <= pause <= BACK_OFF_MAX_S for pause in pauses)

    def test_the_back_off_grows_with_lost_races_but_not_for_a_holder(self) -> None:
        assert all(0.2 <= back_off_s(0) <= 0.8 and 0.2 <= back_off_s(5) <= 0.8 for _ in range(200))
        assert all(0.4 <= back_off_s(6) <= 1.6 and 3.2 <= back_off_s(100) <= 12.8 for _ in range(200))

    def test_a_remote_that_is_not_there_is_named_without_its_password(self, tmp_path: Path) -> None:
        lanes = GitLanes("http://ann:secret@127.0.0.1:9/app.git", tmp_path)
        with pytest.raises(InterlockError) as refused:
            lanes.lanes()
        assert "secret" not in str(refused.value)

    @pytest.mark.parametrize(
        ("fields", "kind"),
        [
            ({}, InvalidInput),
            ({"lane": "../../etc/passwd"}, InvalidInput),
            ({"lane": "a..b"}, InvalidInput),
            ({"lane": LANE, "message": "x" * (1 << 20 | 1)}, TooLarge),
        ],
        ids=["no lane", "a path", "no ref", "too much"],
    )
    def test_bad_input_is_refused_before_anything_is_made(
        self, open_lanes: Open, bare_repository: Path, fields: dict[str, Any], kind: type[InterlockError]
    ) -> None:
        with pytest.raises(kind):
            open_lanes().add([NewItem(title="work", **fields)])
        assert "interlock" not in git(bare_repository, "for-each-ref")

    def test_numbers_that_belong_to_nothing_here_are_not_found(self, open_lanes: Open) -> None:
        lanes = open_lanes()
        lease = held(lanes)
        for call in (
            lambda: lanes.next("coder", item=1),
            lambda: lanes.next("coder", item=lease.item.id + 1),
            lambda: lanes.msg(1, "hello"),
        ):
            with pytest.raises(NotFound):
                call()

    def test_a_value_of_the_wrong_type_is_refused_in_words(self, open_lanes: Open) -> None:
        lanes = open_lanes()
        run = held(lanes).run
        calls: list[tuple[Any, Callable[[Any], object]]] = [
            (int | None, lambda v: lanes.next("coder", item=v)),
            (int, lambda v: lanes.next("coder", limit=v)),
            (float, lambda v: lanes.next("coder", wait_s=v)),
            (int, lambda v: lanes.msg(v, "hello")),
            (str, lambda v: lanes.msg(1, v)),
            (Sender, lambda v: lanes.msg(1, "hello", sender=v)),
            (int, lambda v: lanes.cancel(v, why="stuck")),
            (bool, lambda v: lanes.cancel(1, why="stuck", force=v)),
            (str, lambda v: lanes.lanes(prefix=v)),
            (int, lambda v: lanes.lanes(limit=v)),
            (NewItem, lambda v: lanes.add([v])),
            (Report, lambda v: lanes.done([v])),
            (int, lambda v: lanes.inbox(run, seen=v)),
            (str, lanes.inbox),
        ]
        for hint, call in calls:
            for value in WRONG:
                if not fits(value, hint):
                    with pytest.raises(InvalidInput):
                        call(value)
        assert lanes.done([Report(run=run)])[0].status == "succeeded"

    def test_a_zombie_cannot_push_from_its_stale_cache(self, open_lanes: Open, bare_repository: Path) -> None:
        """A push that is pinned to what its own cache says, not to what the remote has, would win here."""
        one, two = open_lanes("one"), open_lanes("two")
        lease = held(one)
        stale = one.new_owner_commit(lease.run)
        two.cancel(lease.item.id, why="stuck", force=True)
        assert GitRepository(one.objects.parent).push(bare_repository.as_uri(), [stale]) is not None
        assert chain(bare_repository, OWNER)[-1]["run"] is None
