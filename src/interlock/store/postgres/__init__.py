"""The store for several machines: PostgreSQL through psycopg and a pool."""
