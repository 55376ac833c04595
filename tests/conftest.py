"""What every test can use. The fixtures are described where they are defined."""

import pytest

from tests import postgres_fixtures, temporary_files
from tests.postgres_fixtures import (
    pg_database16,
    pg_database18,
    pg_empty16,
    pg_empty18,
    postgres16,
    postgres18,
    pytest_configure_node,
    pytest_unconfigure,
    start_postgres,
)

__all__ = [
    "pg_database16",
    "pg_database18",
    "pg_empty16",
    "pg_empty18",
    "postgres16",
    "postgres18",
    "pytest_configure_node",
    "pytest_unconfigure",
    "start_postgres",
]


def pytest_configure(config: pytest.Config) -> None:
    temporary_files.choose()
    postgres_fixtures.pytest_configure(config)
