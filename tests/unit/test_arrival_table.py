"""Arrival, row by row: policy x owner x kinship x mode, with everything that must come of it.

The owner was told "old" and the newcomer brings "new". *kin* is an owner of the same agent key and the same
policy; *stranger* is any other, and each such row is tried with another agent, with another policy, with both
and with nobody in particular. To `coalesce` the policy of the owner is all one: *named* is an owner of the
same agent key, *foreign* any other. `any` holds for all alike.

Owners: `pending` not started; `running`; `stopping` running under a cancel request; `expired` past its lease
with attempts left; `spent` past its lease on the last attempt; `revoked` past the grace of a cancel request;
`parked` waiting out a back-off as the owner (`retry_lane=keep`); `observed` running from before the lane was
enforced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from interlock.core.commands import Arrival
from interlock.core.model import ItemId, Mode, Policy, RetryLane
from tests.unit.world import LANE, World

ENFORCED = """
policy    owner    who      | verdict     reason                    | owner       newcomer  | owner has  newcomer has | events
queue     none     -        | admitted    lane_free                 | -           pending   | -          new          | item.added
queue     pending  any      | queued      lane_queued               | pending     deferred  | old        new          | item.added
queue     running  any      | queued      lane_queued               | in_progress deferred  | old        new          | item.added
queue     stopping any      | queued      lane_queued               | in_progress deferred  | old        new          | item.added
queue     expired  any      | queued      lane_queued               | pending     deferred  | old        new          | run.lost item.added
queue     spent    any      | admitted    lane_free                 | failed      pending   | old        new          | run.lost item.added
queue     revoked  any      | admitted    lane_free                 | cancelled   pending   | old        new          | run.cancelled item.cancelled item.added
queue     parked   any      | queued      lane_queued               | pending     deferred  | old        new          | item.added
queue     observed any      | queued      lane_queued               | in_progress deferred  | old        new          | item.added

coalesce  none     -        | admitted    lane_free                 | -           pending   | -          new          | item.added
coalesce  pending  named    | coalesced   issue_execution_same_name | pending     coalesced | old+new    -            | item.coalesced
coalesce  running  named    | coalesced   issue_execution_same_name | in_progress coalesced | old+new    -            | item.coalesced
coalesce  stopping named    | coalesced   issue_execution_same_name | in_progress coalesced | old+new    -            | item.coalesced
coalesce  expired  named    | coalesced   issue_execution_same_name | pending     coalesced | old+new    -            | run.lost item.coalesced
coalesce  spent    named    | admitted    lane_free                 | failed      pending   | old        new          | run.lost item.added
coalesce  revoked  named    | admitted    lane_free                 | cancelled   pending   | old        new          | run.cancelled item.cancelled item.added
coalesce  parked   named    | coalesced   issue_execution_same_name | pending     coalesced | old+new    -            | item.coalesced item.reentered
coalesce  observed any      | queued      issue_execution_deferred  | in_progress deferred  | old        new          | item.added
coalesce  pending  foreign  | queued      issue_execution_deferred  | pending     deferred  | old        new          | item.added
coalesce  running  foreign  | queued      issue_execution_deferred  | in_progress deferred  | old        new          | item.added
coalesce  stopping foreign  | queued      issue_execution_deferred  | in_progress deferred  | old        new          | item.added
coalesce  expired  foreign  | queued      issue_execution_deferred  | pending     deferred  | old        new          | run.lost item.added
coalesce  spent    foreign  | admitted    lane_free                 | failed      pending   | old        new          | run.lost item.added
coalesce  revoked  foreign  | admitted    lane_free                 | cancelled   pending   | old        new          | run.cancelled item.cancelled item.added
coalesce  parked   foreign  | queued      issue_execution_deferred  | pending     deferred  | old        new          | item.added

supersede none     -        | admitted    lane_free                 | -           pending   | -          new          | item.added
supersede pending  kin      | superseding lane_free                 | superseded  pending   | -          old+new      | item.superseded item.added
supersede running  kin      | superseding lane_queued               | in_progress deferred  | old        new          | cancel.requested item.added
supersede stopping kin      | superseding lane_queued               | in_progress deferred  | old        new          | item.added
supersede expired  kin      | superseding lane_free                 | superseded  pending   | -          old+new      | run.lost item.superseded item.added
supersede spent    kin      | admitted    lane_free                 | failed      pending   | old        new          | run.lost item.added
supersede revoked  kin      | admitted    lane_free                 | cancelled   pending   | old        new          | run.cancelled item.cancelled item.added
supersede parked   kin      | superseding lane_free                 | superseded  pending   | -          old+new      | item.superseded item.added
supersede observed any      | queued      lane_queued               | in_progress deferred  | old        new          | item.added
supersede pending  stranger | queued      lane_queued               | pending     deferred  | old        new          | item.added
supersede running  stranger | queued      lane_queued               | in_progress deferred  | old        new          | item.added
supersede stopping stranger | queued      lane_queued               | in_progress deferred  | old        new          | item.added
supersede expired  stranger | queued      lane_queued               | pending     deferred  | old        new          | run.lost item.added
supersede spent    stranger | admitted    lane_free                 | failed      pending   | old        new          | run.lost item.added
supersede revoked  stranger | admitted    lane_free                 | cancelled   pending   | old        new          | run.cancelled item.cancelled item.added
supersede parked   stranger | queued      lane_queued               | pending     deferred  | old        new          | item.added

latest    none     -        | admitted    lane_free                 | -           pending   | -          new          | item.added
latest    pending  kin      | superseding lane_free                 | superseded  pending   | -          old+new      | item.superseded item.added
latest    running  kin      | queued      lane_queued               | in_progress deferred  | old        new          | item.added
latest    stopping kin      | queued      lane_queued               | in_progress deferred  | old        new          | item.added
latest    expired  kin      | superseding lane_free                 | superseded  pending   | -          old+new      | run.lost item.superseded item.added
latest    spent    kin      | admitted    lane_free                 | failed      pending   | old        new          | run.lost item.added
latest    revoked  kin      | admitted    lane_free                 | cancelled   pending   | old        new          | run.cancelled item.cancelled item.added
latest    parked   kin      | superseding lane_free                 | superseded  pending   | -          old+new      | item.superseded item.added
latest    observed any      | queued      lane_queued               | in_progress deferred  | old        new          | item.added
latest    pending  stranger | queued      lane_queued               | pending     deferred  | old        new          | item.added
latest    running  stranger | queued      lane_queued               | in_progress deferred  | old        new          | item.added
latest    stopping stranger | queued      lane_queued               | in_progress deferred  | old        new          | item.added
latest    expired  stranger | queued      lane_queued               | pending     deferred  | old        new          | run.lost item.added
latest    spent    stranger | admitted    lane_free                 | failed      pending   | old        new          | run.lost item.added
latest    revoked  stranger | admitted    lane_free                 | cancelled   pending   | old        new          | run.cancelled item.cancelled item.added
latest    parked   stranger | queued      lane_queued               | pending     deferred  | old        new          | item.added

reject    none     -        | admitted    lane_free                 | -           pending   | -          new          | item.added
reject    pending  any      | rejected    lane_held                 | pending     -         | old        -            | item.rejected
reject    running  any      | rejected    lane_held                 | in_progress -         | old        -            | item.rejected
reject    stopping any      | rejected    lane_held                 | in_progress -         | old        -            | item.rejected
reject    expired  any      | rejected    lane_held                 | pending     -         | old        -            | run.lost item.rejected
reject    spent    any      | admitted    lane_free                 | failed      pending   | old        new          | run.lost item.added
reject    revoked  any      | admitted    lane_free                 | cancelled   pending   | old        new          | run.cancelled item.cancelled item.added
reject    parked   any      | rejected    lane_held                 | pending     -         | old        -            | item.rejected
reject    observed any      | rejected    lane_held                 | in_progress -         | old        -            | item.rejected
"""  # noqa: E501

OBSERVED = """
policy    owner    who      | verdict     reason                    | owner       newcomer  | owner has  newcomer has | events
queue     none     -        | observed    would_be_admitted         | -           pending   | -          new          | item.observed
queue     pending  any      | observed    would_be_queued           | pending     pending   | old        new          | item.observed
queue     running  any      | observed    would_be_queued           | in_progress pending   | old        new          | item.observed
queue     observed any      | observed    would_be_queued           | in_progress pending   | old        new          | item.observed
coalesce  none     -        | observed    would_be_admitted         | -           pending   | -          new          | item.observed
coalesce  pending  named    | observed    would_be_coalesced        | pending     pending   | old        new          | item.observed
coalesce  running  named    | observed    would_be_coalesced        | in_progress pending   | old        new          | item.observed
coalesce  observed named    | observed    would_be_coalesced        | in_progress pending   | old        new          | item.observed
coalesce  running  foreign  | observed    would_be_queued           | in_progress pending   | old        new          | item.observed
coalesce  observed foreign  | observed    would_be_queued           | in_progress pending   | old        new          | item.observed
supersede none     -        | observed    would_be_admitted         | -           pending   | -          new          | item.observed
supersede pending  kin      | observed    would_be_superseding      | pending     pending   | old        new          | item.observed
supersede running  kin      | observed    would_be_superseding      | in_progress pending   | old        new          | item.observed
supersede observed kin      | observed    would_be_superseding      | in_progress pending   | old        new          | item.observed
supersede observed stranger | observed    would_be_queued           | in_progress pending   | old        new          | item.observed
latest    none     -        | observed    would_be_admitted         | -           pending   | -          new          | item.observed
latest    pending  kin      | observed    would_be_superseding      | pending     pending   | old        new          | item.observed
latest    running  stranger | observed    would_be_queued           | in_progress pending   | old        new          | item.observed
reject    none     -        | observed    would_be_admitted         | -           pending   | -          new          | item.observed
reject    pending  any      | observed    would_be_rejected         | pending     pending   | old        new          | item.observed
reject    running  any      | observed    would_be_rejected         | in_progress pending   | old        new          | item.observed
reject    observed any      | observed    would_be_rejected         | in_progress pending   | old        new          | item.observed
"""  # noqa: E501


@dataclass(frozen=True)
class Row:
    policy: Policy
    owner: str
    who: str
    verdict: str
    reason: str
    owner_after: str
    newcomer_after: str
    owner_has: str
    newcomer_has: str
    events: list[str]


@dataclass(frozen=True)
class Kinship:
    """How the owner's agent and policy relate to the newcomer's."""

    owner_agent: str
    agent: str
    other_policy: bool = False

    @property
    def same_agent(self) -> bool:
        return self.owner_agent.strip().lower() == self.agent.strip().lower()

    def owner_policy(self, policy: Policy) -> Policy:
        if not self.other_policy:
            return policy
        return Policy.QUEUE if policy is not Policy.QUEUE else Policy.SUPERSEDE


#: Names are compared trimmed and in lower case; having no agent is one name like any other.
KIN = {
    "same name": Kinship("coder", "coder"),
    "same name written otherwise": Kinship("Coder", "  CODER\t"),
    "no agent both": Kinship("", "  "),
}
STRANGERS = {
    "other agent": Kinship("planner", "coder"),
    "other policy": Kinship("coder", "coder", other_policy=True),
    "other agent and policy": Kinship("planner", "coder", other_policy=True),
    "owner has no agent": Kinship("", "coder"),
    "newcomer has no agent": Kinship("coder", ""),
}
WHO = {
    "-": {"": Kinship("coder", "coder")},
    "kin": KIN,
    "stranger": STRANGERS,
    "any": KIN | STRANGERS,
    "named": KIN | {"other policy": STRANGERS["other policy"]},
    "foreign": {name: who for name, who in STRANGERS.items() if name != "other policy"},
}


def rows(table: str) -> list[object]:
    """Each line once for every kinship it stands for."""
    cases: list[object] = []
    for line in table.strip().splitlines()[1:]:
        if not line.strip():
            continue
        policy, owner, who, verdict, reason, owner_after, newcomer_after, owner_has, newcomer_has, *events = [
            word for word in line.split() if word != "|"
        ]
        row = Row(
            Policy(policy),
            owner,
            who,
            verdict,
            reason,
            owner_after,
            newcomer_after,
            owner_has,
            newcomer_has,
            events,
        )
        for name, kinship in WHO[who].items():
            # Behind an item for the same agent it just waits its turn.
            same = row.reason == "issue_execution_deferred" and kinship.same_agent
            meant = replace(row, reason="lane_queued") if same else row
            cases.append(pytest.param(meant, kinship, id=f"{policy}, owner {owner}, {name}".rstrip(", ")))
    return cases


def put_owner(world: World, state: str, policy: Policy, agent: str) -> ItemId | None:
    """An owner of the lane, in the state that a row names, that was told "old"."""
    if state == "none":
        return None
    if state == "observed":
        world.set_mode(Mode.OBSERVE)
    owner = world.put(
        "owner",
        agent=agent,
        policy=policy,
        message="old",
        max_attempts=1 if state == "spent" else 3,
        retry_lane=RetryLane.KEEP if state == "parked" else RetryLane.YIELD,
    )
    world.set_mode(Mode.ENFORCE)
    if state == "pending":
        return owner
    world.start(owner, agent.strip().lower() or "anyone")
    if state in ("stopping", "revoked"):
        world.cancel(owner)
    if state == "parked":
        world.fail(owner)
    if state in ("expired", "spent"):
        world.pass_s(world.timing.lease_s)
    if state == "revoked":
        world.pass_s(world.timing.cancel_grace_s)
    return owner


def meet(row: Row, kinship: Kinship, mode: Mode) -> tuple[World, ItemId | None, Arrival, list[str]]:
    """Let the newcomer of a row arrive; the world after it, and the events it caused."""
    world = World()
    owner = put_owner(world, row.owner, kinship.owner_policy(row.policy), kinship.owner_agent)
    world.set_mode(mode)
    before = len(world.events)
    arrival = world.add("newcomer", agent=kinship.agent, policy=row.policy, message="new")
    return world, owner, arrival, world.kinds()[before:]


def told(text: str) -> list[str]:
    return [] if text == "-" else text.split("+")


def check(row: Row, world: World, owner: ItemId | None, arrival: Arrival, events: list[str]) -> None:
    assert (arrival.verdict, arrival.reason) == (row.verdict, row.reason)
    assert events == row.events
    if owner is not None:
        assert world.status(owner) == row.owner_after
        assert world.texts(owner) == told(row.owner_has)
    if row.newcomer_after == "-":
        assert arrival.item is None
        assert arrival.arrived is None
    else:
        assert arrival.arrived is not None
        assert world.status(arrival.arrived) == row.newcomer_after
        assert world.texts(arrival.arrived) == told(row.newcomer_has)


@pytest.mark.parametrize(("row", "kinship"), rows(ENFORCED))
def test_an_arrival_on_an_enforced_lane(row: Row, kinship: Kinship) -> None:
    world, owner, arrival, events = meet(row, kinship, Mode.ENFORCE)
    check(row, world, owner, arrival, events)

    if arrival.verdict == "coalesced":
        assert arrival.item == owner
        assert world.items[arrival.arrived or ItemId(0)].state.absorbed_by == owner
    elif arrival.verdict != "rejected":
        assert arrival.item == arrival.arrived
    holds_on = row.owner_after in ("pending", "in_progress")
    assert (arrival.holder.id if arrival.holder else None) == (owner if holds_on else None)
    assert arrival.position == (1 if row.newcomer_after == "deferred" else None)


@pytest.mark.parametrize(("row", "kinship"), rows(OBSERVED))
def test_an_arrival_on_an_observed_lane_is_held_back_by_nothing(row: Row, kinship: Kinship) -> None:
    world, owner, arrival, events = meet(row, kinship, Mode.OBSERVE)
    check(row, world, owner, arrival, events)

    spec = world.items[arrival.arrived or ItemId(0)].spec
    assert (spec.lane, spec.observed_lane) == (None, LANE)
    assert (arrival.holder.id if arrival.holder else None) == owner


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize(
    "owner_state", ["none", "pending", "running", "stopping", "expired", "parked", "observed"]
)
def test_an_arrival_where_lanes_are_off_knows_no_lane_and_touches_no_owner(
    policy: Policy, owner_state: str
) -> None:
    world = World()
    owner = put_owner(world, owner_state, policy, "coder")
    before = world.items.get(owner) if owner else None
    world.set_mode(Mode.OFF)

    arrival = world.add("newcomer", agent="coder", policy=policy)

    assert (arrival.verdict, arrival.reason, arrival.holder) == ("admitted", "no_lane", None)
    spec = world.items[arrival.arrived or ItemId(0)].spec
    assert (spec.lane, spec.observed_lane) == (None, None)
    assert world.status(spec.id) == "pending"
    assert (world.items.get(owner) if owner else None) == before


@pytest.mark.parametrize("policy", Policy)
def test_an_arrival_without_a_lane_is_admitted_whatever_its_policy(policy: Policy) -> None:
    world = World()
    world.put_running("owner", lane=None, agent="coder", policy=policy)
    arrival = world.add("newcomer", lane=None, agent="coder", policy=policy)
    assert (arrival.verdict, arrival.reason) == ("admitted", "no_lane")


def test_the_table_names_every_policy_and_every_owner() -> None:
    named = {tuple(line.split()[:2]) for line in ENFORCED.strip().splitlines()[1:] if line.strip()}
    owners = ["none", "pending", "running", "stopping", "expired", "spent", "revoked", "parked", "observed"]
    assert named == {(p.value, o) for p in Policy for o in owners}
