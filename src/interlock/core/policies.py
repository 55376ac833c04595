"""The policy of an arrival without one: that of its type, of the longest prefix of its lane, or of its
project."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.core.model import CheckedItem, Policy
from interlock.core.record import Record, replace

_NONE: Mapping[str, Policy] = {}


class Policies(Record):
    """Default policies. If none matches, an arrival keeps its policy."""

    types: Mapping[str, Policy] = _NONE
    #: By prefix of a lane's name.
    lanes: Mapping[str, Policy] = _NONE
    projects: Mapping[str, Policy] = _NONE

    def applied(self, new: CheckedItem) -> CheckedItem:
        """The arrival with its default policy, if the caller named none."""
        chosen = self._chosen(new) if new.policy_open else None
        return new if chosen is None else replace(new, policy=chosen)

    def _chosen(self, new: CheckedItem) -> Policy | None:
        if (of_type := self.types.get(new.type)) is not None:
            return of_type
        fitting = [prefix for prefix in self.lanes if new.lane is not None and new.lane.startswith(prefix)]
        if fitting:
            return self.lanes[max(fitting, key=len)]
        return self.projects.get(new.project)


NO_POLICIES = Policies()
