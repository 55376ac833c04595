"""The store for many machines: PostgreSQL through psycopg and a pool."""
