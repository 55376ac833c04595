"""A local service of which a test overrides operations."""

from __future__ import annotations

import copy

from interlock.service.local import LocalService
from interlock.store.port import Store


class OverriddenService(LocalService):
    """Operations are values of the instance; those that a subclass defines are removed, so that it counts."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        #: The service as it would be.
        self.plain: LocalService = copy.copy(self)
        for name in vars(type(self)).keys() & vars(self).keys():
            delattr(self, name)
