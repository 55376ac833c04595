"""The policy of an arrival whose caller names none: of its type, of the longest prefix of its lane, of its
project."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.core.model import NewItem, Policy
from interlock.core.record import Record, replace

_NONE: Mapping[str, Policy] = {}


class Policies(Record):
    """Default policies. Without one that fits, an arrival keeps the policy that it came with."""

    types: Mapping[str, Policy] = _NONE
    #: By prefix of a lane's name.
    lanes: Mapping[str, Policy] = _NONE
    projects: Mapping[str, Policy] = _NONE

    def applied(self, new: NewItem) -> NewItem:
        """The arrival with its policy, if its caller left that open."""
        chosen = self._chosen(new) if new.policy_open else None
        return new if chosen is None else replace(new, policy=chosen)

    def _chosen(self, new: NewItem) -> Policy | None:
        if (of_type := self.types.get(new.type)) is not None:
            return of_type
        fitting = [prefix for prefix in self.lanes if new.lane is not None and new.lane.startswith(prefix)]
        if fitting:
            return self.lanes[max(fitting, key=len)]
        return self.projects.get(new.project)


NO_POLICIES = Policies()
