"""What every test can use. The fixtures are described where they are defined."""

from tests.postgres_fixtures import (
    pg_database16,
    pg_database18,
    pg_empty16,
    pg_empty18,
    postgres16,
    postgres18,
    pytest_configure,
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
    "pytest_configure",
    "pytest_configure_node",
    "pytest_unconfigure",
    "start_postgres",
]
