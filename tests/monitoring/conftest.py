"""A server on a fresh SQLite file, as in tests/http."""

from tests.http.conftest import one_server, serving

__all__ = ["one_server", "serving"]
